// SPDX-License-Identifier: Apache-2.0
#include "probes/config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "exporter/config/foreign_file.h"

namespace roce::probe {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

tl::expected<Options, std::string> read(std::string_view text, const Options& options = {}) {
  return apply_config_text(text, "p.yml", options);
}

TEST(ProberConfig, AnEmptyFileLeavesTheDefaults) {
  const auto options = read("");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->listen_addresses, std::vector<std::string>{":14792"});
  EXPECT_EQ(options->engine.classes.size(), 2u);
  EXPECT_EQ(options->engine.budget, 16);
  EXPECT_TRUE(options->modules.contains("echo"));
  EXPECT_FALSE(options->responds());
}

TEST(ProberConfig, EveryPartIsTaken) {
  const auto options = read(R"(
web: {listen_addresses: ["127.0.0.1:1"], enable_lifecycle: true}
log: {level: debug}
node_name: node1
devices: [mlx5_0, mlx5_1]
rails: {mlx5_0: a, mlx5_1: b}
classes:
  - {name: storage, dscp: 24, sl: 3}
probes: {interval: 2s, deadline: 250ms, read_interval: off, budget: 32.5, labels: 4, size: 256, spin: off}
responder: {enabled: on, allowed: [10.0.0.0/8, "fd00::/8"], source_rate: 20}
exchange: {port: 9999}
graph: {seed: x, degree: 6, full_mesh: 10, max_peers: 12, storage: false}
peers:
  file_sd: [/etc/p/*.json]
  static:
    - node2
    - {node: node3, target: "10.0.0.3:1234", device: mlx5_0, rail: a, address: 192.0.2.3}
  dns:
    - {name: _roce._tcp.example.org}
    - {name: probers.example.org, type: A, port: 7000, refresh: 10s}
modules:
  long: {kind: echo, count: 50, gap: 10ms, qos: storage, size: 1024}
)");
  ASSERT_TRUE(options) << options.error();
  EXPECT_EQ(options->engine.interval, std::chrono::seconds(2));
  EXPECT_EQ(options->engine.read_interval.count(), 0);
  EXPECT_EQ(options->engine.spin.count(), 0);
  EXPECT_EQ(options->engine.budget, 32.5);
  ASSERT_EQ(options->engine.allowed.size(), 2u);
  EXPECT_EQ(options->engine.allowed[0].bits, 104);
  EXPECT_EQ(options->rails.at("mlx5_1"), "b");
  ASSERT_EQ(options->static_peers.size(), 2u);
  EXPECT_EQ(options->static_peers[0].url, "https://node2:9999");
  EXPECT_EQ(options->static_peers[1].url, "https://10.0.0.3:1234");
  EXPECT_EQ(options->static_peers[1].addresses, std::vector<std::string>{"192.0.2.3"});
  ASSERT_EQ(options->dns.size(), 2u);
  EXPECT_EQ(options->dns[1].port, 7000);
  EXPECT_EQ(options->modules.at("long").burst.count, 50u);
  EXPECT_TRUE(options->responds());
}

TEST(ProberConfig, WhatTheExporterTakesForOursIsOurs) {
  for (const std::string key : {"probes", "responder", "keys_file", "exchange", "graph", "peers", "rails", "modules"}) {
    EXPECT_TRUE(config::foreign_file(key)) << key;
    const auto options = read((key + ": [[]]\n").c_str());
    ASSERT_FALSE(options);
    EXPECT_THAT(options.error(), testing::Not(testing::HasSubstr("unknown key"))) << key;
  }
  EXPECT_FALSE(config::foreign_file("web"));
}

struct Bad {
  const char* text;
  const char* problem;
};
class BadProberConfig : public testing::TestWithParam<Bad> {};
TEST_P(BadProberConfig, IsOneLineThatNamesLineAndKey) {
  const auto options = read(GetParam().text);
  ASSERT_FALSE(options);
  EXPECT_THAT(options.error(), StartsWith(std::string("p.yml:") + GetParam().problem));
  EXPECT_EQ(options.error().find('\n'), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(
    All, BadProberConfig,
    testing::Values(
        Bad{"no_such_key: 1\n", "1: key `no_such_key`: found an unknown key (with `1`), allowed web,"},
        Bad{"keys: [{id: 1, secret_file: a}]\n",
            "1: key `keys`: found a keys file, which is checked through the configuration of roce_prober that names it "
            "in keys_file, allowed a configuration file"},
        Bad{"probes: {intervall: 1s}\n", "1: key `probes.intervall`: found an unknown key (with `1s`), allowed"},
        Bad{"log:\n  level: debug\n  level: info\n",
            "3: key `log.level`: found it again (first in line 2), allowed each key once"},
        Bad{"probes: {interval: 5ms}\n", "1: key `probes.interval`: found `5ms`, allowed a duration from 100ms to 1m"},
        Bad{"probes: {budget: 201}\n", "1: key `probes.budget`: found `201`, allowed a number above 0, at most 200"},
        Bad{"graph: {degree: 7}\n", "1: key `graph.degree`: found `7`, allowed an even number from 4 to 32"},
        Bad{"graph: {max_peers: 65}\n", "1: key `graph.max_peers`: found `65`, allowed a whole number from 1 to 64"},
        Bad{"classes: [{dscp: 1}]\n", "1: key `classes`: found a class without a name"},
        Bad{"classes: [{name: a, dscp: 64}]\n",
            "1: key `classes.dscp`: found `64`, allowed a whole number from 0 to 63"},
        Bad{"peers:\n  static:\n    - node2\n    - {node: node2}\n",
            "4: key `peers.static`: found `node2` again (first in line 3)"},
        Bad{"peers: {static: [\"a b\"]}\n", "1: key `peers.static`: found `a b`, allowed HOST or HOST:PORT"},
        Bad{"peers: {dns: [{name: x, port: 1}]}\n", "1: key `peers.dns`: found a port beside type SRV"},
        Bad{"peers: {file_sd: [a.yml]}\n",
            "1: key `peers.file_sd`: found `a.yml`, allowed a path that ends with .json"},
        Bad{"modules: {m: {qos: gold}}\n", "1: key `modules.m.qos`: found `gold`, allowed the name of a class"},
        Bad{"modules: {m: {count: 101}}\n",
            "1: key `modules.m.count`: found `101`, allowed a whole number from 1 to 100"},
        Bad{"modules:\n  m: {size: 64}\n",
            "2: key `modules.m.size`: found `64`, allowed 128 to 4096 bytes where the kind is echo"},
        Bad{"responder: {allowed: [10.0.0.0/33]}\n", "1: key `responder.allowed`: found `10.0.0.0/33`"},
        Bad{"exchange: {cert_file: /etc/passwd}\n", "1: key `exchange`: found one of cert_file and key_file"},
        Bad{"[section]\nx = 1\n", "1: found INI or TOML text"}));

TEST(ProberConfig, FlagsWinOverTheFile) {
  Options options;
  options.engine.budget = 4;
  options.set_by_flag = {"probe.budget"};
  const auto read_options = read("probes: {budget: 8, labels: 2}\n", options);
  ASSERT_TRUE(read_options);
  EXPECT_EQ(read_options->engine.budget, 4);
  EXPECT_EQ(read_options->engine.labels, 2u);
}

TEST(ProberFlags, PingTakesItsOwn) {
  const char* argv[] = {"roce_prober",     "ping",      "node2", "--count=7",
                        "--max-loss=0.1%", "--max-p99", "50us",  "--kind=read"};
  const auto options = parse_command_line(8, argv);
  ASSERT_TRUE(options) << options.error().err;
  EXPECT_EQ(options->command, Options::Command::kPing);
  EXPECT_EQ(options->ping.count, 7u);
  EXPECT_DOUBLE_EQ(*options->ping.max_loss, 0.001);
  EXPECT_EQ(*options->ping.max_p99, std::chrono::microseconds(50));
  EXPECT_EQ(options->ping.kind, BurstSpec::Kind::kRead);
}

TEST(ProberFlags, ReadsMayBeShort) {
  const char* argv[] = {"roce_prober", "ping", "node2", "--size=8", "--kind=read"};
  EXPECT_TRUE(parse_command_line(5, argv));
  EXPECT_TRUE(read("modules: {m: {size: 8, kind: read}}\n"));
}

TEST(ProberFlags, RefusalsAreOneLineWithCode2) {
  const auto refusal = [](std::vector<const char*> argv) {
    argv.insert(argv.begin(), "roce_prober");
    const auto options = parse_command_line(static_cast<int>(argv.size()), argv.data());
    EXPECT_FALSE(options);
    EXPECT_EQ(options.error().code, 2);
    return options.error().err;
  };
  EXPECT_EQ(refusal({"ping"}), "roce_prober: ping: found no target, allowed ping TARGET\n");
  EXPECT_EQ(refusal({"--count=3"}), "roce_prober: found `--count` outside its command, allowed ping --count\n");
  EXPECT_THAT(refusal({"ping", "a", "--count=0"}),
              HasSubstr("--count: found `0`, allowed a whole number from 1 to 1000"));
  EXPECT_THAT(refusal({"ping", "a", "--count=1001"}), HasSubstr("--count: found `1001`, allowed"));
  EXPECT_EQ(refusal({"ping", "a", "--size=127"}),
            "roce_prober: --size: found `127`, allowed 128 to 4096 bytes where the kind is echo\n");
  EXPECT_THAT(refusal({"--config.file=/no/such"}), HasSubstr("/no/such: found no way to read it"));
}

TEST(ProberConfig, PrefixesAreMaskedAndMapped) {
  const auto v4 = parse_prefix("10.1.2.3/8");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->bits, 104);
  EXPECT_EQ(v4->gid.raw[10], 0xFF);
  EXPECT_EQ(v4->gid.raw[12], 10);
  EXPECT_EQ(v4->gid.raw[13], 0);
  EXPECT_EQ(parse_prefix("fd00::1")->bits, 128);
  for (const char* bad : {"", "10.0.0.0/", "10.0.0.0/-1", "x", "::/129", "10.0.0.0/8x"})
    EXPECT_FALSE(parse_prefix(bad)) << bad;
}

TEST(ProberConfig, TimesAreUtc) {
  using namespace std::chrono;
  EXPECT_EQ(parse_time("2027-06-30")->time_since_epoch(), sys_days(2027y / 6 / 30).time_since_epoch());
  EXPECT_EQ(*parse_time("2027-06-30T01:02:03Z") - *parse_time("2027-06-30"), hours(1) + minutes(2) + seconds(3));
  // What the clock cannot count is never, or long ago.
  EXPECT_EQ(parse_time("9999-12-31"), system_clock::time_point::max());
  EXPECT_EQ(parse_time("2262-04-12T00:00:00Z"), system_clock::time_point::max());
  EXPECT_LT(parse_time("2262-04-11"), system_clock::time_point::max());
  EXPECT_EQ(parse_time("0001-01-01T00:00:00Z"), system_clock::time_point::min());
  for (const char* bad :
       {"", "2027-02-30", "2027-06-30T01:02:03", "2027-06-30 01:02:03Z", "20270630", "2027-06-30T24:00:00Z"})
    EXPECT_FALSE(parse_time(bad)) << bad;
}

class KeysFile : public testing::Test {
 protected:
  KeysFile()
      : dir_(std::filesystem::path(testing::TempDir()) /
             testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(dir_);
  }
  ~KeysFile() override { std::filesystem::remove_all(dir_); }
  void write(const char* name, const std::string& text, mode_t mode = 0600) {
    std::ofstream(dir_ / name) << text;
    ::chmod((dir_ / name).c_str(), mode);
  }
  tl::expected<std::vector<Key>, std::string> keys(const std::string& text) {
    write("keys.yml", text);
    return read_keys_file((dir_ / "keys.yml").string());
  }
  std::filesystem::path dir_;
};

TEST_F(KeysFile, TwoKeysWithTheirSecrets) {
  write("one", "0123456789abcdef\n");
  write("two", "fedcba9876543210ffff", 0640);
  const auto found = keys(
      "keys:\n- {id: 1, secret_file: one, not_after: 2027-01-01}\n- {id: 2, secret_file: two, not_after: "
      "2028-01-01}\n");
  ASSERT_TRUE(found) << found.error();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].secret.size(), 16u);
  EXPECT_EQ((*found)[1].id, 2);
}

TEST_F(KeysFile, AKeyMayHoldForEver) {
  write("one", "0123456789abcdef\n");
  EXPECT_FALSE(all_expired({}));
  EXPECT_TRUE(all_expired(keys("keys:\n- {id: 1, secret_file: one, not_after: 2020-01-01}\n").value()));
  const auto found = keys("keys:\n- {id: 1, secret_file: one, not_after: 9999-12-31}\n");
  EXPECT_FALSE(all_expired(found.value()));
  ASSERT_TRUE(found) << found.error();
  EXPECT_GT((*found)[0].not_after, std::chrono::system_clock::now() + std::chrono::hours(24 * 365 * 100));
}

TEST_F(KeysFile, ExpiredKeysFailTheCheckOfTheConfiguration) {
  write("one", "0123456789abcdef\n");
  write("prober.yml", "keys_file: " + (dir_ / "keys.yml").string() + "\n");
  const auto check = [&](const std::string& list) {
    write("keys.yml", list);
    return check_config((dir_ / "prober.yml").string());
  };
  const std::string over = "keys:\n- {id: 1, secret_file: one, not_after: 2020-01-01}\n";
  const Exit bad = check(over);
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("keys.yml: not_after of every key is over"));
  const Exit good = check(over + "- {id: 2, secret_file: one, not_after: 9999-12-31}\n");
  EXPECT_EQ(good.code, 0) << good.err;
}

TEST_F(KeysFile, ASecretThatOthersReadIsRefused) {
  write("one", "0123456789abcdef", 0644);
  const auto found = keys("keys:\n- {id: 1, secret_file: one, not_after: 2027-01-01}\n");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error(), HasSubstr("keys.yml:2: key `keys.secret_file`: found "));
  EXPECT_THAT(found.error(), HasSubstr("(mode 0644)"));
}

TEST_F(KeysFile, WhatIsNotCompleteIsRefused) {
  write("one", "0123456789abcdef");
  write("short", "secret");
  for (const auto& [text, problem] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "found no keys"},
           {"keys: []\n", "allowed a list of one or two keys"},
           {"keys:\n- {id: 1, secret_file: one}\n", "a key that is not complete"},
           {"keys:\n- {id: 256, secret_file: one, not_after: 2027-01-01}\n", "whole number from 0 to 255"},
           {"keys:\n- {id: 1, secret_file: short, not_after: 2027-01-01}\n", "(6 bytes)"},
           {"keys:\n- {id: 1, secret_file: none, not_after: 2027-01-01}\n", "No such file"},
           {"keys:\n- {id: 1, secret_fil: x}\n", "did you mean `secret_file`?"},
           {"keys:\n- {id: 1, secret_file: one, not_after: 2027-01-01}\n- {id: 1, secret_file: one, not_after: "
            "2027-01-01}\n",
            "each id once"}}) {
    const auto found = keys(text);
    ASSERT_FALSE(found) << text;
    EXPECT_THAT(found.error(), HasSubstr(problem));
  }
}

}  // namespace
}  // namespace roce::probe
