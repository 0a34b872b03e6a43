// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "exporter/config/options.h"
#include "exporter/config/setting.h"

namespace roce {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::vector<CollectorChoice> kCollectors{
    {"device", true, "RDMA devices: firmware, node GUID, NUMA node, PCI function and everything else that names one."},
    {"qp", false, "Queue pairs."},
    {"gid", true, "health of GID tables"}};

tl::expected<Options, Exit> parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"roce_exporter"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data(), kCollectors);
}

Options good(const std::vector<std::string>& arguments) {
  auto options = parse(arguments);
  if (!options) {
    ADD_FAILURE() << options.error().err;
    return {};
  }
  return *options;
}

class Scratch {
 public:
  Scratch() {
    char name[] = "/tmp/roce-config-XXXXXX";
    if (mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp");
    path = name;
  }
  ~Scratch() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name, std::ios::binary) << text;
    return path + "/" + name;
  }
  std::string path;
};

TEST(CommandLine, DefaultsAreThoseOfTheOptions) {
  const Options options = good({});
  EXPECT_EQ(options.command, Options::Command::kServe);
  EXPECT_THAT(options.listen_addresses, ElementsAre(":14791"));
  EXPECT_EQ(options.telemetry_path, "/metrics");
  EXPECT_EQ(options.max_requests, 40);
  EXPECT_FALSE(options.enable_lifecycle);
  EXPECT_EQ(options.qp_max, 2000u);
  EXPECT_TRUE(options.collectors.empty());
  EXPECT_TRUE(options.set_by_flag.empty());
}

TEST(CommandLine, EveryFlagArrives) {
  const Scratch scratch;
  const std::string web = scratch.file("web.yml", "");
  const Options options = good({"--web.listen-address=:1",
                                "--web.listen-address",
                                "[::1]:2",
                                "--web.listen-address=127.0.0.1:3",
                                "--web.listen-address=localhost:0",
                                "--web.telemetry-path=/m",
                                "--web.config.file=" + web,
                                "--web.max-requests=0",
                                "--web.enable-lifecycle",
                                "--path.sysfs=" + scratch.path,
                                "--path.procfs",
                                scratch.path,
                                "--path.rootfs=" + scratch.path,
                                "--no-collector.device",
                                "--collector.qp",
                                "--collector.disable-defaults",
                                "--collector.rdma.device-include=mlx5_[0-9]+",
                                "--collector.rdma.device-exclude=[a]",
                                "--collector.netdev.device-include",
                                "-x|eth.*",
                                "--collector.netdev.device-exclude=",
                                "--collector.ethtool.raw",
                                "--collector.ethtool.per-queue=true",
                                "--collector.qp.max=5",
                                "--sampler.interval=250ms",
                                "--compat.node-infiniband",
                                "--hide-identity",
                                "--log.level=debug",
                                "--log.format",
                                "json"});
  EXPECT_THAT(options.listen_addresses, ElementsAre(":1", "[::1]:2", "127.0.0.1:3", "localhost:0"));
  EXPECT_EQ(options.telemetry_path, "/m");
  EXPECT_EQ(options.web_config_file, web);
  EXPECT_EQ(options.max_requests, 0);
  EXPECT_TRUE(options.enable_lifecycle);
  EXPECT_EQ(options.sysfs, scratch.path);
  EXPECT_EQ(options.procfs, scratch.path);
  EXPECT_EQ(options.rootfs, scratch.path);
  EXPECT_EQ(options.collectors, (std::map<std::string, bool>{{"device", false}, {"qp", true}}));
  EXPECT_TRUE(options.disable_default_collectors);
  EXPECT_EQ(options.rdma_devices.include, "mlx5_[0-9]+");
  EXPECT_EQ(options.rdma_devices.exclude, "[a]");
  EXPECT_EQ(options.netdevs.include, "-x|eth.*");
  EXPECT_EQ(options.netdevs.exclude, "");
  EXPECT_TRUE(options.ethtool_raw);
  EXPECT_TRUE(options.ethtool_per_queue);
  EXPECT_EQ(options.qp_max, 5u);
  EXPECT_EQ(options.sampler_interval, std::chrono::milliseconds(250));
  EXPECT_TRUE(options.compat_node_infiniband);
  EXPECT_TRUE(options.hide_identity);
  EXPECT_EQ(options.log_level, log::Level::kDebug);
  EXPECT_EQ(options.log_format, log::Format::kJson);
  EXPECT_THAT(options.set_by_flag, testing::IsSupersetOf({"web.listen-address", "collector.device", "log.format",
                                                          "collector.netdev.device-exclude"}));
  EXPECT_EQ(good({"--replay=" + scratch.path}).replay, scratch.path);
  EXPECT_EQ(good({"--replay", web}).replay, web);
  EXPECT_TRUE(good({"--demo"}).recorded());
  EXPECT_EQ(good({"--demo"}).demo, "lab");
  EXPECT_EQ(good({"--demo=made-up"}).demo, "made-up");
  EXPECT_FALSE(good({"--no-demo"}).recorded());
  EXPECT_FALSE(good({}).recorded());
  const Options capture = good({"capture", "/tmp/x.tar", "--path.sysfs=/tmp"});
  EXPECT_EQ(capture.command, Options::Command::kCapture);
  EXPECT_EQ(capture.capture_target, "/tmp/x.tar");
}

TEST(CommandLine, SwitchesTakeTheirThreeForms) {
  for (const auto& [argument, expected] :
       std::vector<std::pair<std::string, bool>>{{"--collector.qp", true},
                                                 {"--collector.qp=true", true},
                                                 {"--no-collector.qp", false},
                                                 {"--collector.qp=false", false},
                                                 {"--no-collector.qp=false", true},
                                                 {"--no-collector.qp=true", false}}) {
    EXPECT_EQ(good({argument}).collectors, (std::map<std::string, bool>{{"qp", expected}})) << argument;
  }
  EXPECT_FALSE(good({"--no-web.enable-lifecycle"}).enable_lifecycle);
  EXPECT_THAT(good({"--no-web.enable-lifecycle"}).set_by_flag, ElementsAre("web.enable-lifecycle"));
}

TEST(CommandLine, CommandsTakeFlagsBeforeAndAfter) {
  const Options before = good({"--log.level", "warn", "print"});
  EXPECT_EQ(before.command, Options::Command::kPrint);
  EXPECT_EQ(before.log_level, log::Level::kWarn);
  const Options after = good({"print", "--log.level=warn", "--no-collector.gid"});
  EXPECT_EQ(after.command, Options::Command::kPrint);
  EXPECT_EQ(after.log_level, log::Level::kWarn);
  EXPECT_EQ(after.collectors.size(), 1u);
  const Options check = good({"check-config", "--log.level", "warn", "some.yml"});
  EXPECT_EQ(check.command, Options::Command::kCheckConfig);
  EXPECT_EQ(check.check_config_target, "some.yml");
  const Options reference = good({"--hide-identity", "metrics-reference", "--format", "json"});
  EXPECT_EQ(reference.command, Options::Command::kMetricsReference);
  EXPECT_EQ(reference.reference_format, "json");
  EXPECT_EQ(good({"metrics-reference"}).reference_format, "markdown");
}

TEST(CommandLine, PathsMayBeTheDefaultsOfAHostWithoutThem) {
  // The default is not opened: a host without RDMA has to start.
  EXPECT_EQ(good({"--path.sysfs=/sys", "--path.procfs=/proc", "--path.rootfs=/"}).sysfs, "/sys");
}

struct Bad {
  std::vector<std::string> arguments;
  std::string line;  // without "roce_exporter: " and the line end
};

class BadCommandLine : public testing::TestWithParam<Bad> {};

TEST_P(BadCommandLine, IsOneClearLineAndExitTwo) {
  const auto options = parse(GetParam().arguments);
  ASSERT_FALSE(options.has_value());
  EXPECT_EQ(options.error().code, 2);
  EXPECT_EQ(options.error().out, "");
  EXPECT_EQ(options.error().err, "roce_exporter: " + GetParam().line + "\n");
}

const std::string kListed = ", allowed the flags that --help lists";
const std::string kAddress = ", allowed [HOST]:PORT with a port from 0 to 65535, IPv6 hosts in brackets";

INSTANTIATE_TEST_SUITE_P(
    All, BadCommandLine,
    testing::Values(
        Bad{{"--no-such-flag"}, "found the unknown flag `--no-such-flag`" + kListed},
        Bad{{"--web.listen-adress", ":1"},
            "found the unknown flag `--web.listen-adress`" + kListed + "; did you mean `--web.listen-address`?"},
        Bad{{"--web_listen_address=:1"},
            "found the unknown flag `--web_listen_address`" + kListed + "; did you mean `--web.listen-address`?"},
        Bad{{"-log.level=info"}, "found the unknown flag `-log.level`" + kListed + "; did you mean `--log.level`?"},
        Bad{{"--sysfs=/x"}, "found the unknown flag `--sysfs`" + kListed + "; did you mean `--path.sysfs`?"},
        Bad{{"--no-colector.qp"},
            "found the unknown flag `--no-colector.qp`" + kListed + "; did you mean `--no-collector.qp`?"},
        Bad{{"--retention.time=1s"}, "found the unknown flag `--retention.time`" + kListed},
        Bad{{"--bad\n\x1b[31m=1"}, "found the unknown flag `--bad\\n\\x1b[31m`" + kListed},
        Bad{{"--log.level", "loud"}, "--log.level: found `loud`, allowed debug, info, warn or error"},
        Bad{{"--log.level=eror"},
            "--log.level: found `eror`, allowed debug, info, warn or error; did you mean `error`?"},
        Bad{{"--log.format=xml"}, "--log.format: found `xml`, allowed logfmt or json"},
        Bad{{"--log.level"}, "--log.level: found no value, allowed --log.level=LEVEL"},
        Bad{{"--log.level", "--help"}, "--log.level: found no value before `--help`, allowed --log.level=LEVEL"},
        Bad{{"--log.level=", "print"}, "--log.level: found nothing, allowed debug, info, warn or error"},
        Bad{{"--config.file", ""}, "--config.file: found nothing, allowed a YAML file that can be read"},
        Bad{{"--log.level=info", "--log.level=info"},
            "--log.level: found 2 values (`info`, `info`), allowed the flag once"},
        Bad{{"--collector.qp", "--no-collector.qp"},
            "--collector.qp: found 2 values (`true`, `false`), allowed the flag once"},
        Bad{{"--collector.qp=yes"}, "--collector.qp: found `yes`, allowed true or false"},
        Bad{{"--collector.qp="}, "--collector.qp: found nothing, allowed true or false"},
        Bad{{"--no-hide-identity=maybe"}, "--hide-identity: found `maybe`, allowed true or false"},
        Bad{{"--web.max-requests=-1"},
            "--web.max-requests: found `-1`, allowed a whole number from 0 (no limit) to 10000"},
        Bad{{"--web.max-requests=10001"},
            "--web.max-requests: found `10001`, allowed a whole number from 0 (no limit) to 10000"},
        Bad{{"--sampler.interval=50ms"}, "--sampler.interval: found `50ms`, allowed off, or 100ms to 2s"},
        Bad{{"--sampler.interval=3s"}, "--sampler.interval: found `3s`, allowed off, or 100ms to 2s"},
        Bad{{"--sampler.interval=s"}, "--sampler.interval: found `s`, allowed off, or 100ms to 2s"},
        Bad{{"--collector.qp.max=4e3"},
            "--collector.qp.max: found `4e3`, allowed a whole number from 0 (never) to 10000000"},
        Bad{{"--collector.qp.max=99999999999999999999"},
            "--collector.qp.max: found `99999999999999999999`, allowed a whole number from 0 (never) to 10000000"},
        Bad{{"--web.listen-address=14791"}, "--web.listen-address: found `14791`" + kAddress},
        Bad{{"--web.listen-address=:65536"}, "--web.listen-address: found `:65536`" + kAddress},
        Bad{{"--web.listen-address=1.2.3:1"}, "--web.listen-address: found `1.2.3:1`" + kAddress},
        Bad{{"--web.listen-address=::1:1"}, "--web.listen-address: found `::1:1`" + kAddress},
        Bad{{"--web.listen-address=[1.2.3.4]:1"}, "--web.listen-address: found `[1.2.3.4]:1`" + kAddress},
        Bad{{"--web.listen-address=:1", "--web.listen-address=:1"},
            "--web.listen-address: found `:1` twice, allowed each address once"},
        Bad{{"--web.telemetry-path=metrics"},
            "--web.telemetry-path: found `metrics`, allowed a URL path such as /metrics: / and then letters, digits, "
            "-._~/"},
        Bad{{"--web.telemetry-path=/-/ready"},
            "--web.telemetry-path: found `/-/ready` (taken by another page), allowed a URL path such as /metrics: / "
            "and "
            "then letters, digits, -._~/"},
        Bad{{"--web.telemetry-path=/../x"},
            "--web.telemetry-path: found `/../x`, allowed a URL path such as /metrics: / and then letters, digits, "
            "-._~/"},
        Bad{{"--collector.rdma.device-include=mlx5_("},
            "--collector.rdma.device-include: found `mlx5_(` (missing ): mlx5_(), allowed a regular expression in RE2 "
            "syntax"},
        Bad{{"--collector.netdev.device-exclude=(?=x)"},
            "--collector.netdev.device-exclude: found `(?=x)` (invalid perl operator: (?=), allowed a regular "
            "expression in RE2 syntax"},
        Bad{{"--path.sysfs=/no/such/dir"},
            "--path.sysfs: found `/no/such/dir` (No such file or directory), allowed an existing directory that can be "
            "read"},
        Bad{{"--path.procfs=/etc/passwd"},
            "--path.procfs: found `/etc/passwd` (Not a directory), allowed an existing directory that can be read"},
        Bad{{"--path.rootfs="}, "--path.rootfs: found nothing, allowed an existing directory"},
        Bad{{"--web.config.file=/"}, "--web.config.file: found `/` (a directory), allowed a file that can be read"},
        Bad{{"--replay=/dev/null"},
            "--replay: found `/dev/null` (no regular file), allowed a recording: a directory or tar file that can be "
            "read"},
        Bad{{"--replay=/", "--path.sysfs=/tmp"},
            "--replay: found --path.sysfs beside it, allowed only one of the two: a recording or this host"},
        Bad{{"--demo=labs"}, "--demo: found `labs`, allowed lab, made-up or no-rdma; did you mean `lab`?"},
        Bad{{"--demo", "--replay=/"}, "--demo: found --replay beside it, allowed only one of the two"},
        Bad{{"--demo", "--path.procfs=/tmp"},
            "--demo: found --path.procfs beside it, allowed only one of the two: a recording or this host"},
        Bad{{"capture"}, "capture: found no dir|file.tar, allowed capture DIR|FILE.tar"},
        Bad{{"prnt"},
            "command: found `prnt`, allowed print, check, profile, capture, check-config, metrics-reference or "
            "checks-reference; did you mean `print`?"},
        Bad{{"serve"},
            "command: found `serve`, allowed print, check, profile, capture, check-config, metrics-reference or "
            "checks-reference"},
        Bad{{""},
            "command: found nothing, allowed print, check, profile, capture, check-config, metrics-reference or "
            "checks-reference"},
        Bad{{"print", "now"}, "found the argument `now` too many after `print`, allowed flags"},
        Bad{{"print", "check-config"}, "found the argument `check-config` too many after `print`, allowed flags"},
        Bad{{"check-config", "a", "b"}, "found the argument `b` too many after `check-config`, allowed flags"},
        Bad{{"check-config"}, "check-config: found no file, allowed check-config FILE"},
        Bad{{"metrics-reference", "--format=yaml"}, "--format: found `yaml`, allowed markdown or json"},
        Bad{{"metrics-reference", "--format"}, "--format: found no value, allowed --format=markdown|json"},
        Bad{{"--format=json", "metrics-reference"},
            "found `--format` outside its command, allowed check --format or metrics-reference --format"},
        Bad{{"print", "--window=2s"}, "found `--window` outside its command, allowed check --window"},
        Bad{{"profile"}, "profile: found no init, allowed profile init"},
        Bad{{"profile", "make"}, "profile: found `make`, allowed profile init"},
        Bad{{"--profile.file=/no/such.yml"},
            "--profile.file: found `/no/such.yml` (No such file or directory), allowed a file that can be read"},
        Bad{{"--state.dir=/no/such"},
            "--state.dir: found `/no/such` (No such file or directory), allowed an existing directory that can be "
            "read"},
        Bad{{"--control.socket=run/x"},
            "--control.socket: found `run/x`, allowed off, or an absolute path of at most 107 bytes"},
        Bad{{"--config.file=/no/such.yml"},
            "/no/such.yml: found no way to read it (No such file or directory), allowed a YAML file"}));

// 1 and 2 are verdicts there.
TEST(CommandLine, MistakesOfCheckAreThree) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"check", "--no-such-flag"},
                                             {"--log.level", "loud", "check"},
                                             {"--log.level=info", "check", "--format=xml"},
                                             {"check", "--format"},
                                             {"check", "--window=0s"},
                                             {"check", "--window=11m"},
                                             {"check", "--class=error"},
                                             {"check", "--device="},
                                             {"check", "now"},
                                             {"check", "--config.file=/no/such.yml"},
                                             {"check", "--format=text", "--format=json"}}) {
    const auto options = parse(arguments);
    ASSERT_FALSE(options.has_value()) << testing::PrintToString(arguments);
    EXPECT_EQ(options.error().code, 3) << testing::PrintToString(arguments);
    EXPECT_EQ(std::count(options.error().err.begin(), options.error().err.end(), '\n'), 1);
  }
  EXPECT_EQ(parse({"print", "--log.level", "check"}).error().code, 2);
  EXPECT_EQ(parse({"check", "--help"}).error().code, 0);
}

TEST(CommandLine, CheckTakesItsFlags) {
  const Options defaults = good({"check"});
  EXPECT_EQ(defaults.command, Options::Command::kCheck);
  EXPECT_EQ(defaults.check_format, "text");
  EXPECT_EQ(defaults.check_window, std::chrono::seconds(2));
  EXPECT_FALSE(defaults.check_without_daemon);
  const Options options = good({"check", "--format", "npd", "--device=mlx5_0", "--device", "mlx5_1", "--only=mtu",
                                "--class=fault", "--no-daemon", "--window=1500ms", "--advice", "--control.socket=off"});
  EXPECT_EQ(options.check_format, "npd");
  EXPECT_THAT(options.check_devices, ElementsAre("mlx5_0", "mlx5_1"));
  EXPECT_THAT(options.check_only, ElementsAre("mtu"));
  EXPECT_THAT(options.check_classes, ElementsAre("fault"));
  EXPECT_TRUE(options.check_without_daemon);
  EXPECT_TRUE(options.check_advice);
  EXPECT_EQ(options.check_window, std::chrono::milliseconds(1500));
  EXPECT_EQ(options.control_socket, "");
  EXPECT_EQ(good({"profile", "init"}).command, Options::Command::kProfileInit);
  EXPECT_EQ(good({"checks-reference"}).command, Options::Command::kChecksReference);
}

TEST(CommandLine, AnUnreadableTreeIsRefused) {
  const Scratch scratch;
  std::filesystem::permissions(scratch.path, std::filesystem::perms::none);
  EXPECT_EXIT(
      {
        if (geteuid() == 0 && seteuid(65534) != 0) _exit(9);  // root reads everything
        const auto options = parse({"--path.sysfs=" + scratch.path});
        if (!options) fputs(options.error().err.c_str(), stderr);
        _exit(options ? 0 : options.error().code);  // no leak check: it wants the privileges
      },
      testing::ExitedWithCode(2), "--path.sysfs: found .*Permission denied");
}

TEST(CommandLine, NoArgumentsAtAllIsServe) {
  const auto options = parse_command_line(0, nullptr, kCollectors);
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->command, Options::Command::kServe);
}

TEST(CommandLine, VersionIsAsPrometheusProgramsPrintIt) {
  const auto options = parse({"--version"});
  ASSERT_FALSE(options.has_value());
  EXPECT_EQ(options.error().code, 0);
  EXPECT_EQ(options.error().err, "");
  EXPECT_THAT(options.error().out, testing::MatchesRegex("roce_exporter, version [0-9]+\\.[0-9]+\\.[0-9]+.*\n"));
}

TEST(CommandLine, HelpListsEveryFlagWithinEightyColumns) {
  for (const std::string flag : {"--help", "-h"}) {
    const auto options = parse({"print", flag, "--no-such-flag"});
    ASSERT_FALSE(options.has_value());
    EXPECT_EQ(options.error().code, 0);
    const std::string& help = options.error().out;
    for (const config::Setting& setting : config::settings()) {
      EXPECT_THAT(help, HasSubstr("\n  --" + std::string(setting.flag) + (setting.value.empty() ? "\n" : "=")));
    }
    for (const CollectorChoice& collector : kCollectors) {
      EXPECT_THAT(help, HasSubstr("\n  --collector." + std::string(collector.name) + "\n"));
    }
    EXPECT_THAT(help, HasSubstr("Default: :14791."));
    EXPECT_THAT(help, HasSubstr("\n      Health of GID tables. Default: on.\n"));
    EXPECT_THAT(help, EndsWith("\n"));
    std::size_t begin = 0;
    for (std::size_t end; (end = help.find('\n', begin)) != std::string::npos; begin = end + 1) {
      EXPECT_LE(end - begin, 80u) << help.substr(begin, end - begin);
    }
  }
}

TEST(CommandLine, FlagsWinOverTheFile) {
  const Scratch scratch;
  const std::string file = scratch.file("c.yml",
                                        "web:\n  listen_addresses: [':1', ':2']\n  max_requests: 7\n"
                                        "collectors: {device: false, qp: true}\nlog: {level: error}\n");
  const Options options =
      good({"--config.file=" + file, "--web.listen-address=:3", "--collector.device", "--log.level=debug"});
  EXPECT_THAT(options.listen_addresses, ElementsAre(":3"));
  EXPECT_EQ(options.max_requests, 7);
  EXPECT_EQ(options.collectors, (std::map<std::string, bool>{{"device", true}, {"qp", true}}));
  EXPECT_EQ(options.log_level, log::Level::kDebug);
  EXPECT_EQ(options.config_file, file);
}

TEST(CommandLine, AFlagDoesNotHideAnErrorOfTheFile) {
  const Scratch scratch;
  const std::string file = scratch.file("c.yml", "log: {level: loud}\n");
  const auto options = parse({"print", "--config.file=" + file, "--log.level=info"});
  ASSERT_FALSE(options.has_value());
  EXPECT_EQ(options.error().code, 2);
  EXPECT_EQ(options.error().err,
            "roce_exporter: " + file + ":1: key `log.level`: found `loud`, allowed debug, info, warn or error\n");
}

TEST(CommandLine, ASecondCallReadsTheFileAgain) {
  const Scratch scratch;
  const std::string file = scratch.file("c.yml", "qp: {max: 1}\n");
  const std::vector<std::string> arguments{"--config.file=" + file, "--log.level=warn"};
  EXPECT_EQ(good(arguments).qp_max, 1u);
  scratch.file("c.yml", "log: {format: json, level: debug}\n");
  const Options again = good(arguments);
  EXPECT_EQ(again.qp_max, 2000u);  // what the file no longer says is the default again
  EXPECT_EQ(again.log_format, log::Format::kJson);
  EXPECT_EQ(again.log_level, log::Level::kWarn);
}

TEST(CommandLine, TheReferenceNeedsNoFile) {
  EXPECT_EQ(good({"metrics-reference", "--config.file=/no/such.yml"}).command, Options::Command::kMetricsReference);
}

TEST(CheckConfig, SaysOkOrWhatIsWrong) {
  const Scratch scratch;
  const std::string fine = scratch.file("fine.yml", "log: {level: warn}\n");
  const Exit ok = check_config(fine, kCollectors);
  EXPECT_EQ(ok.code, 0);
  EXPECT_EQ(ok.out, fine + ": ok\n");
  EXPECT_EQ(ok.err, "");
  const std::string wrong = scratch.file("wrong.yml", "no_such_key: 1\n");
  const Exit bad = check_config(wrong, kCollectors);
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.out, "");
  EXPECT_THAT(bad.err, StartsWith(wrong + ":1: key `no_such_key`: found an unknown key"));
  EXPECT_EQ(std::count(bad.err.begin(), bad.err.end(), '\n'), 1);
  EXPECT_THAT(bad.err, Not(HasSubstr("roce_exporter")));
}

}  // namespace
}  // namespace roce
