// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "exporter/config/options.h"
#include "exporter/config/setting.h"

namespace roce {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<CollectorChoice> kCollectors{{"device", true, "Devices."}, {"qp", false, "Queue pairs."}};

tl::expected<Options, std::string> apply(std::string_view text, const std::vector<std::string>& set_by_flag = {}) {
  return apply_config_text(text, "c.yml", Options(), set_by_flag, kCollectors);
}

std::string read_whole(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(ConfigFile, SetsEveryKey) {
  const auto options = apply(R"(web:
  listen_addresses:
    - ":1"
    - '[::1]:2'
    - 127.0.0.1:3
  telemetry_path: /m
  config_file: /etc/passwd
  max_requests: 3
  enable_lifecycle: true
path: {sysfs: /tmp, procfs: /proc, rootfs: /tmp}
collectors:
  disable_defaults: true
  device: false
  qp: true
rdma:
  device_include: 'mlx5_\d+'
  device_exclude: mlx5_7
netdev: {device_include: "eth.*", device_exclude: ''}
qp: {max: 0}
health: {profile_file: /etc/passwd, state_dir: /tmp, control_socket: /run/x.sock}
compat: {node_infiniband: true}
hide_identity: true
log: {level: debug, format: json}
)");
  ASSERT_TRUE(options.has_value()) << options.error();
  EXPECT_THAT(options->listen_addresses, ElementsAre(":1", "[::1]:2", "127.0.0.1:3"));
  EXPECT_EQ(options->telemetry_path, "/m");
  EXPECT_EQ(options->web_config_file, "/etc/passwd");
  EXPECT_EQ(options->max_requests, 3);
  EXPECT_TRUE(options->enable_lifecycle);
  EXPECT_EQ(options->sysfs, "/tmp");
  EXPECT_EQ(options->procfs, "/proc");
  EXPECT_EQ(options->rootfs, "/tmp");
  EXPECT_TRUE(options->disable_default_collectors);
  EXPECT_EQ(options->collectors, (std::map<std::string, bool>{{"device", false}, {"qp", true}}));
  EXPECT_EQ(options->rdma_devices.include, "mlx5_\\d+");
  EXPECT_EQ(options->rdma_devices.exclude, "mlx5_7");
  EXPECT_EQ(options->netdevs.include, "eth.*");
  EXPECT_EQ(options->qp_max, 0u);
  EXPECT_EQ(options->profile_file, "/etc/passwd");
  EXPECT_EQ(options->state_dir, "/tmp");
  EXPECT_EQ(options->control_socket, "/run/x.sock");
  EXPECT_TRUE(options->compat_node_infiniband);
  EXPECT_TRUE(options->hide_identity);
  EXPECT_EQ(options->log_level, log::Level::kDebug);
  EXPECT_EQ(options->log_format, log::Format::kJson);
}

TEST(ConfigFile, SayingNothingKeepsTheDefaults) {
  for (const std::string_view text :
       {"", "\n", "# only a comment\n", "---\n", "---\n...\n", "{}", "null", "\xEF\xBB\xBF# with a mark\n",
        "web:\npath:\nlog: # all commented out\n", "\t# a tab before a comment\n", "log: {level: info}\r\n"}) {
    const auto options = apply(text);
    ASSERT_TRUE(options.has_value()) << options.error();
    EXPECT_EQ(options->max_requests, 40) << text;
    EXPECT_THAT(options->listen_addresses, ElementsAre(":14791")) << text;
  }
}

TEST(ConfigFile, LeavesWhatFlagsHaveSet) {
  Options flags;
  flags.listen_addresses = {":9"};
  flags.collectors["qp"] = false;
  flags.qp_max = 9;
  const auto options =
      apply_config_text("web: {listen_addresses: [':1'], max_requests: 1}\ncollectors: {qp: true}\nqp: {max: 1}\n",
                        "c.yml", flags, {"web.listen-address", "collector.qp"}, kCollectors);
  ASSERT_TRUE(options.has_value()) << options.error();
  EXPECT_THAT(options->listen_addresses, ElementsAre(":9"));
  EXPECT_EQ(options->max_requests, 1);
  EXPECT_FALSE(options->collectors.at("qp"));
  EXPECT_EQ(options->qp_max, 1u);
}

struct Bad {
  std::string name;
  std::string text;
  std::string message;  // after "c.yml:"
};

class BadConfigFile : public testing::TestWithParam<Bad> {};

TEST_P(BadConfigFile, IsOneLineThatNamesTheLineAndTheKey) {
  const auto options = apply(GetParam().text);
  ASSERT_FALSE(options.has_value());
  EXPECT_EQ(options.error(), "c.yml:" + GetParam().message);
}

const std::string kTop =
    ", allowed web, path, collectors, rdma, netdev, ethtool, qp, sampler, health, compat, hide_identity or log";
const std::string kWeb = ", allowed listen_addresses, telemetry_path, config_file, max_requests or enable_lifecycle";
const std::string kRegexp = ", allowed a regular expression in RE2 syntax";

INSTANTIATE_TEST_SUITE_P(
    All, BadConfigFile,
    testing::Values(
        Bad{"UnknownKey", "log:\n  level: info\nno_such_key: 1\n",
            "3: key `no_such_key`: found an unknown key (with `1`)" + kTop},
        Bad{"MisspeltSection", "colectors: {qp: true}\n",
            "1: key `colectors`: found an unknown key (with `qp: true`)" + kTop + "; did you mean `collectors`?"},
        Bad{"MisspeltKey", "web:\n  telemtry_path: /x\n",
            "2: key `web.telemtry_path`: found an unknown key (with `/x`)" + kWeb + "; did you mean `telemetry_path`?"},
        Bad{"MisspeltCollector", "collectors:\n  devise: true\n",
            "2: key `collectors.devise`: found an unknown key (with `true`), allowed disable_defaults, device or qp; "
            "did you mean `device`?"},
        Bad{"KeyInTheWrongPlace", "max_requests: 4\n",
            "1: key `max_requests`: found an unknown key (with `4`)" + kTop +
                "; did you mean `web: {max_requests: ...}`?"},
        Bad{"KeyWithItsSection", "web.max_requests: 4\n",
            "1: key `web.max_requests`: found an unknown key (with `4`)" + kTop +
                "; did you mean `web: {max_requests: ...}`?"},
        Bad{"KeySpelledAsTheFlag", "collector.rdma.device-include: x\n",
            "1: key `collector.rdma.device-include`: found an unknown key (with `x`)" + kTop +
                "; did you mean `rdma: {device_include: ...}`?"},
        Bad{"AllUnknownKeysAreNamed",
            "alerts:\n  threshold_type: velocty\ncolector.ethtool:\n  enabled: true\nlog: {levle: info}\n",
            "1: key `alerts`: found an unknown key (with `threshold_type: velocty`)" + kTop +
                "; and 2 more: line 3: key `colector.ethtool`: found an unknown key (with `enabled: true`); line 5: "
                "key `log.levle`: found an unknown key (with `info`) (did you mean `level`?)"},
        Bad{"OfTheProber", "log: {level: info}\ndevices: [mlx5_0]\npeers: {static: [a]}\nprobes: {interval: 1s}\n",
            "3: key `peers`: found a configuration of roce_prober, allowed one of roce_exporter; did you mean "
            "`roce_prober check-config`?"},
        Bad{"KeysFile", "keys: [{id: 1, secret_file: a, not_after: 2027-06-30T00:00:00Z}]\n",
            "1: key `keys`: found a keys file, which is checked through the configuration of roce_prober that names it "
            "in keys_file, allowed a configuration file"},
        Bad{"RepeatedKey", "qp: {max: 1}\nlog: {level: info}\nqp: {max: 2}\n",
            "3: key `qp`: found it again (first in line 1), allowed each key once"},
        Bad{"RepeatedInnerKey", "log:\n  level: info\n  level: info\n",
            "3: key `log.level`: found it again (first in line 2), allowed each key once"},
        Bad{"ListForText", "log: {level: [info]}\n", "1: key `log.level`: found a list, allowed text"},
        Bad{"MappingForNumber", "web:\n  max_requests: {a: 1}\n",
            "2: key `web.max_requests`: found a mapping, allowed a whole number"},
        Bad{"TextForNumber", "web: {max_requests: \"5\"}\n",
            "1: key `web.max_requests`: found `\"5\"`, allowed a whole number"},
        Bad{"WordForNumber", "qp: {max: many}\n",
            "1: key `qp.max`: found `many`, allowed a whole number from 0 (never) to 10000000"},
        Bad{"NumberOutOfRange", "web: {max_requests: 10001}\n",
            "1: key `web.max_requests`: found `10001`, allowed a whole number from 0 (no limit) to 10000"},
        Bad{"NegativeNumber", "qp: {max: -1}\n",
            "1: key `qp.max`: found `-1`, allowed a whole number from 0 (never) to 10000000"},
        Bad{"YesForTrue", "hide_identity: yes\n", "1: key `hide_identity`: found `yes`, allowed true or false"},
        Bad{"QuotedSwitch", "hide_identity: 'true'\n",
            "1: key `hide_identity`: found `\"true\"`, allowed true or false"},
        Bad{"NumberForCollector", "collectors: {qp: 1}\n", "1: key `collectors.qp`: found `1`, allowed true or false"},
        Bad{"NothingForSwitch", "hide_identity:\n", "1: key `hide_identity`: found nothing, allowed true or false"},
        Bad{"TextForList", "web: {listen_addresses: ':1'}\n",
            "1: key `web.listen_addresses`: found `\":1\"`, allowed a list of [HOST]:PORT"},
        Bad{"EmptyList", "web: {listen_addresses: []}\n",
            "1: key `web.listen_addresses`: found an empty list, allowed a list of [HOST]:PORT"},
        Bad{"ListInList", "web:\n  listen_addresses:\n    - ':1'\n    - [':2']\n",
            "4: key `web.listen_addresses`: found a list, allowed [HOST]:PORT"},
        Bad{"RepeatedAddress", "web:\n  listen_addresses:\n    - ':1'\n    - ':1'\n",
            "4: key `web.listen_addresses`: found `:1` twice, allowed each address once"},
        Bad{"TextForSection", "log: debug\n", "1: key `log`: found `debug`, allowed a mapping with level or format"},
        Bad{"BadRegexp", "rdma:\n  device_exclude: 'a['\n",
            "2: key `rdma.device_exclude`: found `a[` (missing ]: [)" + kRegexp},
        Bad{"BadEnum", "log: {format: jsn}\n",
            "1: key `log.format`: found `jsn`, allowed logfmt or json; did you mean `json`?"},
        Bad{"NoSuchDirectory", "path: {sysfs: /no/such}\n",
            "1: key `path.sysfs`: found `/no/such` (No such file or directory), allowed an existing directory that can "
            "be read"},
        Bad{"PathWithNul", "path: {procfs: \"/pr\\0oc\"}\n",
            "1: key `path.procfs`: found `/pr\\x00oc` (Invalid argument), allowed an existing directory that can be "
            "read"},
        Bad{"NotAMapping", "- a\n- b\n", "1: found a list, allowed a mapping of settings"},
        Bad{"OneWord", "\nhello\n", "2: found `hello`, allowed a mapping of settings"},
        Bad{"ListAsKey", "? [a]\n: b\n", "1: found a list as a key" + kTop},
        Bad{"UnclosedList", "web: [\n",
            "2: found a syntax error (flow sequence without a closing bracket), allowed YAML"},
        Bad{"UnclosedQuote", "log: {level: \"info\n",
            "1: found a syntax error (double-quoted scalar without closing quote), allowed YAML"},
        Bad{"BadIndentation", "log:\n   level: info\n  format: json\n",
            "3: found a syntax error (invalid indentation in mapping), allowed YAML"},
        Bad{"BadEscape", "rdma: {device_include: \"a\\d\"}\n",
            "1: found a syntax error (invalid escape 'd' in double-quoted string), allowed YAML"},
        Bad{"TabIndentation", "log:\n\tlevel: info\n", "2: found a tab in the indentation, allowed blanks"},
        Bad{"NotUtf8", "# fine\nlog: {level: caf\xE9}\n", "2: found the byte 0xe9, allowed UTF-8"},
        Bad{"Utf16", std::string("\xFF\xFEl\0o\0g\0", 8), "1: found UTF-16 text, allowed UTF-8"},
        Bad{"ControlByte", std::string("log:\n  level: in\0fo\n", 19), "2: found the control byte 0x00, allowed text"},
        Bad{"Alias", "rdma: {device_include: &x a}\nnetdev: {device_include: *x}\n",
            "1: found the anchor `&x`, allowed values written out"},
        Bad{"AliasBomb", "a: *lol\n", "1: found the alias `*lol`, allowed values written out"},
        Bad{"Tag", "log: {level: !!str info}\n",
            "1: found the tag `tag:yaml.org,2002:str`, allowed values without one"},
        Bad{"SecondDocument", "log: {level: info}\n---\nlog: {level: warn}\n",
            "2: found a second document, allowed one"},
        Bad{"Deep", std::string(5000, '[') + "\n", "1: found more than 16 levels of nesting, allowed fewer"},
        Bad{"IniFile", "# old\n[alerts]\nthreshold_type = \"velocty\"\n[colector.ethtool]\nenabled = true\n",
            "2: found INI or TOML text (`[alerts]`, `threshold_type = \"velocty\"`, `[colector.ethtool]`, `enabled = "
            "true`), allowed YAML such as `log: {level: info}`"},
        Bad{"KeyWithControls", "\"a\\n\\e[31m\": 1\n",
            "1: key `a\\n\\x1b[31m`: found an unknown key (with `1`)" + kTop}),
    [](const testing::TestParamInfo<Bad>& bad) { return bad.param.name; });

TEST(ConfigFile, HundredsOfProblemsStayOneReadableLine) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const auto options = apply(text);
  ASSERT_FALSE(options.has_value());
  EXPECT_THAT(options.error(), HasSubstr("; and 499 more: line 2: key `key1`: found"));
  EXPECT_LT(options.error().size(), 4000u);
  EXPECT_EQ(options.error().find('\n'), std::string::npos);
}

TEST(ConfigFile, ManySmallValuesAreRefused) {
  std::string text = "web: {listen_addresses: [";
  for (int i = 0; i < 30000; ++i) text += "a,";
  const auto options = apply(text + "]}\n");
  ASSERT_FALSE(options.has_value());
  EXPECT_EQ(options.error(), "c.yml:1: found too many values, allowed 20000");
}

TEST(ConfigFile, FilesThatCannotBeReadAreNamed) {
  char folder[] = "/tmp/roce-config-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string big = std::string(folder) + "/big.yml";
  std::ofstream(big) << std::string((1 << 20) + 1, '#');
  const std::string limit = std::string(folder) + "/limit.yml";
  std::ofstream(limit) << std::string(1 << 20, '#');
  const std::string pipe = std::string(folder) + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto error = [](const std::string& file) {
    const auto options = apply_config_file(file, Options(), {}, kCollectors);
    return options ? std::string("good") : options.error();
  };
  EXPECT_EQ(error("/no/such.yml"),
            "/no/such.yml: found no way to read it (No such file or directory), allowed a YAML file");
  EXPECT_EQ(error("/etc"), "/etc: found a directory, allowed a YAML file");
  EXPECT_EQ(error(pipe), pipe + ": found no regular file, allowed a YAML file");
  EXPECT_EQ(error(big), big + ": found more than 1 MiB, allowed at most that");
  EXPECT_EQ(error(limit), "good");
  EXPECT_EQ(error("a\nb"), "a\\nb: found no way to read it (No such file or directory), allowed a YAML file");
  std::filesystem::remove_all(folder);
}

TEST(Settings, HaveNamesOfTheirOwn) {
  std::set<std::string_view> flags;
  std::set<std::string_view> keys;
  for (const config::Setting& setting : config::settings()) {
    EXPECT_TRUE(flags.insert(setting.flag).second) << setting.flag;
    if (!setting.key.empty()) {
      EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    }
    EXPECT_EQ(setting.kind == config::Kind::kSwitch, setting.value.empty()) << setting.flag;
    EXPECT_EQ(setting.kind == config::Kind::kList, setting.clear != nullptr) << setting.flag;
  }
}

TEST(ShippedExample, IsGoodAsItIsAndWithEverySettingUncommented) {
  const std::vector<CollectorChoice> collectors{{"rdma_device", true, ""},
                                                {"rdma_port", true, ""},
                                                {"hw_counters", true, ""},
                                                {"port_counters", true, ""},
                                                {"rdma_resources", true, ""},
                                                {"rdma_gid", true, ""},
                                                {"ethtool", true, ""},
                                                {"link", true, ""},
                                                {"cm_messages", true, ""},
                                                {"qp_counters", false, ""},
                                                {"nvme", true, ""},
                                                {"nfs_rdma", true, ""},
                                                {"iser", true, ""},
                                                {"nvmet", true, ""},
                                                {"gds", true, ""},
                                                {"storage_modules", true, ""},
                                                {"pcie", true, ""},
                                                {"hwmon", true, ""},
                                                {"devlink", true, ""},
                                                {"interrupts", true, ""},
                                                {"host_path", true, ""},
                                                {"cpu_power", true, ""},
                                                {"kernel_settings", true, ""},
                                                {"kernel_log", false, ""},
                                                {"netdev", true, ""},
                                                {"bond", true, ""},
                                                {"dcb", true, ""},
                                                {"congestion_control", true, ""},
                                                {"sriov", true, ""},
                                                {"qp", true, ""},
                                                {"rdma_owners", true, ""},
                                                {"odp", true, ""},
                                                {"hugepages", true, ""},
                                                {"processes", true, ""},
                                                {"sysv_shm", true, ""},
                                                {"cgroups", true, ""},
                                                {"process_cgroups", false, ""}};
  const std::string example = read_whole(ROCE_SOURCE_DIR "/packaging/config/roce_exporter.yml");
  const auto as_shipped = apply_config_text(example, "example", Options(), {}, collectors);
  ASSERT_TRUE(as_shipped.has_value()) << as_shipped.error();
  EXPECT_TRUE(as_shipped->collectors.empty());

  std::string uncommented;
  for (std::size_t i = 0; i < example.size(); ++i) {
    const bool setting = example[i] == '#' && i + 1 < example.size() && example[i + 1] != ' ' && example[i + 1] != '\n';
    // "#  - x" continues the list above it.
    const bool item = example.compare(i, 4, "#  -") == 0;
    if (!setting && !item) uncommented += example[i];
  }
  const std::string web = "/etc/roce_exporter/web.yml";
  uncommented.replace(uncommented.find(web), web.size(), "/etc/passwd");  // has to exist
  const std::string profile = "/etc/roce_exporter/profile.yml";
  uncommented.replace(uncommented.find(profile), profile.size(), "/etc/passwd");
  const auto options = apply_config_text(uncommented, "example", Options(), {}, collectors);
  ASSERT_TRUE(options.has_value()) << options.error();
  EXPECT_EQ(options->collectors.size(), collectors.size());
  for (const CollectorChoice& collector : collectors) {
    EXPECT_EQ(options->collectors.at(std::string(collector.name)), collector.by_default) << collector.name;
  }
  for (const config::Setting& setting : config::settings()) {
    if (setting.key.empty()) continue;
    const std::string_view name =
        setting.key.substr(setting.key.find('.') == std::string_view::npos ? 0 : setting.key.find('.') + 1);
    EXPECT_THAT(uncommented, HasSubstr(std::string(name) + ":")) << setting.key;
    // What is given as a default is the default.
    if (name.find("device_") == std::string_view::npos && name != "config_file" && name != "profile_file") {
      EXPECT_EQ(setting.get(*options), setting.get(Options())) << setting.key;
    }
  }
}

}  // namespace
}  // namespace roce
