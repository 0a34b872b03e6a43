// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <regex>
#include <set>

#include "exporter/web/answers.h"
#include "exporter/web/html.h"
#include "exporter/web/status_assets.h"
#include "exporter/web/topology.h"
#include "tests/unit/health/bench.h"

namespace roce {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const char* const kHostile[] = {"<script>alert(1)</script>", "\" onload=\"x", "' onload='x", "</title><b>", "&amp;<",
                                "</svg><img src=x>",         "{}{0}%s",       "\x01\x1b[2J"};

class StatusPageTest : public testing::Test {
 protected:
  void finding(const std::string& id, Status severity, const std::string& object) {
    Finding f;
    f.id = id;
    f.finding_class = "fault";
    f.severity = severity;
    f.object = object;
    f.summary = "summary of " + id;
    f.found = "found " + id;
    f.expected = "expected";
    f.next_step = "next step";
    f.runbook = "checks.md#" + id;
    verdict_.findings.push_back(std::move(f));
    conclude(verdict_);
  }

  void line(const std::string& text) { add_line(batch_, text); }
  void link(const std::string& device, int state = 4, const std::string& pci = "") {
    const std::string labels = "{device=\"" + device + "\",port=\"1\"";
    line("roce_port_state" + labels + "} " + std::to_string(state));
    line("roce_port_rate_bytes_per_second" + labels + "} 12500000000");
    line("roce_port_info" + labels + ",netdev=\"eth_" + device + "\"} 1");
    line("roce_device_info{device=\"" + device + "\",driver=\"mlx5\",pci_address=\"" + pci + "\"} 1");
  }
  void nvme(const std::string& name, const std::string& state, const std::string& device,
            const std::string& peer = "192.0.2.9") {
    line("roce_nvme_controller_info{controller=\"" + name +
         "\",transport=\"rdma\",nqn=\"nqn.2024-01.example:a\",traddr=\"" + peer + "\"} 1");
    for (const std::string known : {"live", "connecting"})
      line("roce_nvme_controller_state{controller=\"" + name + "\",transport=\"rdma\",state=\"" + known + "\"} " +
           (known == state ? "1" : "0"));
    line("roce_nvme_controller_link_info{controller=\"" + name + "\",device=\"" + device +
         "\",port=\"1\",netdev=\"eth0\",found_by=\"route\"} 1");
  }

  std::string page(bool details = true) {
    const SampleBatch* const batches[] = {&batch_};
    return render_status_page({.batches = batches,
                               .verdict = verdict_,
                               .ring = ring_,
                               .now = now_,
                               .collected = now_ - std::chrono::seconds(7),
                               .wall_clock = 1700000007,
                               .telemetry_path = "/metrics",
                               .host_name = host_name_,
                               .recording = recording_,
                               .details = details});
  }

  SampleBatch batch_;
  Verdict verdict_;
  StatusRing ring_;
  StatusRing::Clock::time_point now_{std::chrono::hours(2)};
  std::string host_name_;
  std::string recording_;
};

// Every tag that is opened is closed in order, every attribute is quoted, every id is there once, and what refers to
// one finds it.
void expect_well_formed(std::string html) {
  for (const std::string_view asset : {kStatusStyle, kStatusScript}) html.replace(html.find(asset), asset.size(), "");
  static const std::set<std::string> kVoid = {"meta", "link", "br", "img", "wbr"};
  std::vector<std::string> open;
  std::multiset<std::string> ids;
  std::set<std::string> referred;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    std::string tag = html.substr(at + 1, end - at - 1);
    if (tag == "!DOCTYPE html") continue;
    if (tag.starts_with("/")) {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ(open.back(), tag.substr(1)) << html.substr(at > 200 ? at - 200 : 0, 260);
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with("/");
    if (closed) tag.pop_back();
    static const std::regex kTag(R"re(([a-zA-Z][a-zA-Z0-9]*)((?:\s+[a-zA-Z-]+(?:="[^"<>]*")?)*)\s*)re");
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(tag, parts, kTag)) << tag;
    const std::string attributes = parts[2];
    static const std::regex kAttribute(R"re(([a-zA-Z-]+)="([^"]*)")re");
    for (std::sregex_iterator a(attributes.begin(), attributes.end(), kAttribute), none; a != none; ++a) {
      const std::string name = (*a)[1];
      EXPECT_FALSE(name.starts_with("on") || name == "style") << "the policy forbids " << tag;
      if (name == "id") ids.insert((*a)[2]);
      if (name == "aria-labelledby") referred.insert((*a)[2]);
    }
    if (!closed && !kVoid.contains(parts[1])) open.push_back(parts[1]);
  }
  EXPECT_TRUE(open.empty());
  for (const std::string& id : ids) EXPECT_EQ(ids.count(id), 1U) << id;
  for (const std::string& id : referred) EXPECT_TRUE(ids.contains(id)) << id;
}

TEST(HtmlTest, EscapesText) {
  EXPECT_EQ(html_escape("<b a=\"1\">&'"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
  EXPECT_EQ(html_escape(std::string("a\0b\x1b", 4)),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
  EXPECT_EQ(html_name("<i>"), "<bdi>&lt;i&gt;</bdi>");
}

TEST(HtmlTest, ShortensByCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abcde…");
  EXPECT_EQ(shortened("äöüäöü", 6), "äöüäöü");
  EXPECT_EQ(shortened("äöüäöüx", 6), "äöüäö…");
  EXPECT_EQ(shortened("", 6), "");
}

TEST_F(StatusPageTest, HostileNamesAreTextEverywhere) {
  for (const std::string hostile : kHostile) {
    batch_ = {};
    verdict_ = {};
    verdict_.sources = {{hostile, hostile, false, hostile, hostile}, {"rdma_port", "x", true, "", ""}};
    verdict_.waived = {{hostile, hostile, hostile, hostile}};
    verdict_.not_judged = {{hostile, hostile, hostile}};
    verdict_.devices = 1;
    finding(hostile, Status::kCritical, hostile);
    Finding& f = verdict_.findings.front();
    f.summary = f.found = f.expected = f.since = f.next_step = f.runbook = f.finding_class = hostile;
    batch_.add(metric::port_state, {hostile, hostile}, 1);
    batch_.add(metric::port_info, {hostile, hostile, hostile, hostile, hostile}, 1);
    batch_.add(metric::netdev_link_reason, {hostile, hostile, hostile, hostile, hostile}, 1);
    const std::string_view h = hostile;
    batch_.add(metric::device_info, std::vector<std::string_view>(12, h), 1);
    batch_.add(metric::nvme_controller_info, {h, h, "rdma", h, h, h, h, h, h, h, h, h, h, h}, 1);
    batch_.add(metric::nvme_controller_link_info, {h, h, h, h, h}, 1);
    batch_.add(metric::nvme_controller_state, {h, h, h, h}, 1);
    batch_.add(metric::nfs_mount_info, std::vector<std::string_view>(7, h), 1);
    batch_.add(metric::iser_session_info, std::vector<std::string_view>(5, h), 1);
    host_name_ = recording_ = hostile;
    ASSERT_EQ(batch_.malformed(), 0U);
    for (const bool details : {true, false}) {
      const std::string html = page(details);
      expect_well_formed(html);
      if (hostile.find('<') != std::string::npos) {
        EXPECT_THAT(html, Not(HasSubstr(hostile)));
      }
      EXPECT_EQ(html.find('\x1b'), std::string::npos);
    }
  }
}

TEST_F(StatusPageTest, AFaultIsTheFirstThingSaid) {
  link("mlx5_0");
  link("mlx5_1", 1);
  finding("gid-missing", Status::kWarning, "mlx5_0/1");
  finding("port-down", Status::kCritical, "mlx5_1/1");
  host_name_ = "node1";
  const std::string html = page();
  EXPECT_THAT(html, HasSubstr("<title>CRITICAL node1: RDMA links</title>"));
  EXPECT_THAT(html, HasSubstr("class=\"verdict critical\""));
  EXPECT_THAT(html, HasSubstr("<strong>mlx5_1/1: summary of port-down</strong>"));
  EXPECT_THAT(html, HasSubstr("1 critical, 1 warning"));
  const std::size_t verdict = html.find("id=\"verdict\"");
  const std::size_t findings = html.find("id=\"findings\"");
  EXPECT_LT(html.find("<main>"), verdict);
  EXPECT_LT(verdict, findings);
  EXPECT_LT(findings, html.find("id=\"links\""));
  EXPECT_LT(html.find("summary of port-down", findings), html.find("summary of gid-missing", findings));
  EXPECT_THAT(html,
              HasSubstr("<tr role=\"row\" class=\"critical\"><th role=\"rowheader\" scope=\"row\"><bdi>mlx5_1/1"));
}

TEST_F(StatusPageTest, TheVerdictNamesOthersThatAreAsBad) {
  finding("port-down", Status::kCritical, "mlx5_1/1");
  finding("pause-storm", Status::kCritical, "mlx5_2/1 priority 3");
  finding("gid-missing", Status::kWarning, "mlx5_0/1");
  const std::string html = page();
  EXPECT_THAT(html, HasSubstr("<strong>mlx5_1/1: summary of port-down</strong>"
                              "<strong>mlx5_2/1 priority 3: summary of pause-storm</strong><p>Findings"));
}

TEST_F(StatusPageTest, WhatIsWellIsSaidSoAndDownWithoutAFindingIsNoAlarm) {
  link("mlx5_0", 1);
  verdict_.devices = 1;
  const std::string html = page();
  EXPECT_THAT(html, HasSubstr("class=\"verdict ok\""));
  EXPECT_THAT(html, HasSubstr("No findings"));
  EXPECT_THAT(html, HasSubstr("<span class=\"soft\">down</span>"));
  EXPECT_THAT(html, HasSubstr("id=\"findings\" data-part aria-labelledby=\"findings-title\" hidden"));
}

TEST_F(StatusPageTest, FindingsOfOneCheckStandTogether) {
  for (int i = 0; i < 60; ++i) finding("port-down", Status::kCritical, "mlx5_" + std::to_string(i) + "/1");
  const std::string html = page();
  EXPECT_EQ(html.find("<h3>"), html.rfind("<h3>"));
  EXPECT_THAT(html, HasSubstr("× 60"));
  EXPECT_THAT(html, HasSubstr("<summary>56 more</summary>"));
  EXPECT_THAT(html, HasSubstr("and 59 more like it"));
}

TEST_F(StatusPageTest, ReadsWellAloud) {
  link("mlx5_0", 4, "0000:17:00.0");
  nvme("nvme0", "live", "mlx5_0");
  const std::string html = page();
  expect_well_formed(html);
  EXPECT_THAT(html, HasSubstr("<html lang=\"en\">"));
  EXPECT_THAT(html, HasSubstr("role=\"status\""));
  EXPECT_THAT(html, HasSubstr("class=\"skip\" href=\"#verdict\""));
  EXPECT_THAT(html, HasSubstr("<nav aria-label="));
  // Every picture is decoration beside text that says the same.
  for (std::size_t at = html.find("<svg"); at != std::string::npos; at = html.find("<svg", at + 1))
    EXPECT_THAT(html.substr(at, html.find('>', at) - at), HasSubstr("aria-hidden=\"true\""));
  // Every cell of a table that becomes cards names its column, and keeps its role.
  for (std::size_t at = html.find("<td role=\"cell\""); at != std::string::npos;
       at = html.find("<td role=\"cell\"", at + 1))
    EXPECT_THAT(html.substr(at, html.find('>', at) - at), HasSubstr("data-label=\""));
}

TEST_F(StatusPageTest, ChartsShowTheRing) {
  link("mlx5_0");
  for (int i = 0; i < 5; ++i) {
    SampleBatch batch;
    batch.add(metric::port_receive_bytes, {"mlx5_0", "1"}, static_cast<std::uint64_t>(i) * 15 * 125000000);
    batch.add(metric::receive_out_of_sequence, {"mlx5_0", "1"}, i * 30);
    const SampleBatch* const batches[] = {&batch};
    ring_.record(batches, now_ - std::chrono::seconds(60 - i * 15));
  }
  const std::string html = page();
  expect_well_formed(html);
  EXPECT_THAT(html, HasSubstr("1.0 Gb/s<span class=\"soft\">15 min peak 1.0 Gb/s</span>"));
  EXPECT_THAT(html, HasSubstr("2.0 /s"));
  EXPECT_THAT(html, HasSubstr("class=\"spark alarm\""));
  EXPECT_THAT(html, HasSubstr("d=\"M114.0 2.0L116.0 2.0L118.0 2.0L120.0 2.0\""));
}

TEST_F(StatusPageTest, ManyFunctionsAreFoldedAwayButNotOnesWithAFault) {
  link("mlx5_0", 4, "0000:17:00.0");
  for (int i = 1; i <= 512; ++i) {
    const std::string name = "mlx5_" + std::to_string(i);
    link(name, i == 300 ? 1 : 4, "0000:17:" + std::to_string(i) + ".1");
    line("roce_device_virtual_function_info{device=\"" + name + "\",physical_device=\"mlx5_0\",index=\"1\"} 1");
  }
  finding("port-down", Status::kCritical, "mlx5_300/1");
  const std::string html = page();
  expect_well_formed(html);
  EXPECT_THAT(html, HasSubstr("511 more links"));
  EXPECT_THAT(html, HasSubstr("scope=\"row\"><bdi>mlx5_300/1</bdi>"));
  EXPECT_LT(html.size(), 200000U);
}

TEST_F(StatusPageTest, WithoutDetailsNothingOfTheHostIsNamed) {
  link("mlx5_0");
  nvme("nvme0", "connecting", "mlx5_0");
  verdict_.sources = {{"rdma_port", "mlx5_0", false, "io", "/sys/secret"}};
  finding("port-down", Status::kCritical, "mlx5_0/1");
  host_name_ = "node1";
  recording_ = "A recording: /home/alice";
  const std::string html = page(false);
  expect_well_formed(html);
  EXPECT_THAT(html, HasSubstr("port-down"));
  for (const char* word : {"mlx5", "nvme0", "node1", "secret", "alice", "192.0.2", "eth"})
    EXPECT_THAT(html, Not(HasSubstr(word))) << word;
}

TEST_F(StatusPageTest, TellsAgeAndTime) {
  EXPECT_THAT(page(),
              HasSubstr("Read 7 s ago (<time datetime=\"2023-11-14T22:13:20Z\">2023-11-14 22:13:20 UTC</time>)"));
}

TEST_F(StatusPageTest, FindingsTellSinceWhenInTheSameForm) {
  finding("port-down", Status::kCritical, "mlx5_1/1");
  for (const auto& [since, text] :
       {std::pair("2023-11-14T22:12:00Z",
                  "<time datetime=\"2023-11-14T22:12:00Z\">2023-11-14 22:12:00 UTC</time> (87 s ago)"),
        std::pair("2023-11-14T21:12:00Z", "21:12:00 UTC</time> (61 min ago)"),
        std::pair("2023-11-14T12:12:00Z", "12:12:00 UTC</time> (10 h ago)"),
        std::pair("2023-11-10T12:12:00Z", "12:12:00 UTC</time> (4 days ago)"),
        std::pair("2023-11-14T22:12:00Zx", "since 2023-11-14T22:12:00Zx<")}) {
    verdict_.findings.front().since = since;
    EXPECT_THAT(page(), HasSubstr(text));
  }
}

TEST_F(StatusPageTest, WithoutAnRdmaDeviceNothingIsPraised) {
  verdict_.sources = {{"inventory", "", true, "", ""}};
  const std::string html = page();
  expect_well_formed(html);
  EXPECT_THAT(html, AllOf(HasSubstr("class=\"verdict idle\""), HasSubstr("<strong>No RDMA device here</strong>"),
                          Not(HasSubstr("No findings"))));
}

TEST_F(StatusPageTest, ALostDeviceIsNotActive) {
  link("mlx5_0");
  line("roce_pcie_device_lost{device=\"mlx5_0\"} 1");
  verdict_.devices = 1;
  verdict_.sources = {{"rdma_port", "mlx5_0", true, "", ""},
                      {"pcie", "mlx5_0", false, "lost", "mlx5_0: all ones: lost"}};
  finding("device-lost", Status::kCritical, "mlx5_0");
  const std::string html = page();
  EXPECT_THAT(html,
              HasSubstr("<span class=\"bad\">device lost</span><span class=\"soft\">active when it was lost</span>"));
  EXPECT_THAT(html, HasSubstr("1 RDMA device, 1 source read, 1 failing"));
  EXPECT_THAT(html, HasSubstr("lost: mlx5_0: all ones</li>"));
}

TEST_F(StatusPageTest, OneSeverityHasOneColour) {
  link("mlx5_0");
  nvme("nvme0", "connecting", "mlx5_0");
  finding("nvme-path-lost", Status::kWarning, "nvme0 (mlx5_0/1)");
  EXPECT_THAT(page(), AllOf(HasSubstr("<span class=\"warn\">connecting</span> <span class=\"badge warning\">"),
                            Not(HasSubstr("class=\"bad\""))));
}

TEST_F(StatusPageTest, ANameBreaksBeforeItsDistinguishingPart) {
  EXPECT_EQ(html_long_name("nqn.2024-05.a<b:pool-b"),
            "<bdi>nqn.<wbr>2024-05.<wbr>a&lt;b:<wbr><span class=\"whole\">pool-b</span></bdi>");
  EXPECT_EQ(html_long_name("192.0.2.9"), "<bdi><span class=\"whole\">192.0.2.9</span></bdi>");
  EXPECT_EQ(html_long_name("a:"), "<bdi>a:<wbr><span class=\"whole\"></span></bdi>");
  link("mlx5_0");
  nvme("nvme0", "live", "mlx5_0");
  expect_well_formed(page());
}

TEST_F(StatusPageTest, PolicyAllowsExactlyTheStyleAndTheScriptOfThePage) {
  const web::Response response = web::html_response(page(), kStatusStyle, kStatusScript);
  std::string policy;
  for (const auto& [name, value] : response.headers)
    if (name == "Content-Security-Policy") policy = value;
  EXPECT_THAT(policy, AllOf(HasSubstr("default-src 'none'"), HasSubstr("connect-src 'self'"),
                            HasSubstr("frame-ancestors 'none'"), HasSubstr("base-uri 'none'"),
                            HasSubstr("form-action 'none'")));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  for (const auto& [tag, source] : {std::pair("style", "style-src"), std::pair("script", "script-src")}) {
    const std::string open = "<" + std::string(tag) + ">";
    const std::size_t begin = response.body.find(open) + open.size();
    const std::string text = response.body.substr(begin, response.body.find("</" + std::string(tag) + ">") - begin);
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
    unsigned char base64[64] = {};
    EVP_EncodeBlock(base64, digest, sizeof digest);
    EXPECT_THAT(policy, HasSubstr(std::string(source) + " 'sha256-" + reinterpret_cast<char*>(base64) + "'")) << tag;
    EXPECT_EQ(response.body.find(open, begin), std::string::npos) << "only one " << tag;
  }
  for (const auto& [name, value] : web::html_response("", kStatusStyle).headers)
    if (name == "Content-Security-Policy") {
      EXPECT_THAT(value, Not(HasSubstr("script-src")));
    }
}

TEST_F(StatusPageTest, NothingIsLoadedFromElsewhere) {
  link("mlx5_0");
  const std::string html = page();
  for (const char* word : {"http://", "https://", "//", "url(", "@import", "src=", "<link"}) {
    std::string rest = html;
    rest.replace(rest.find(kStatusScript), kStatusScript.size(), "");  // comments begin with two slashes
    EXPECT_THAT(rest, Not(HasSubstr(word))) << word;
  }
}

class TopologyTest : public StatusPageTest {
 protected:
  std::string draw(TopologyLimits limits = {}) {
    const SampleBatch* const batches[] = {&batch_};
    return topology_html(StatusView(PageView(batches), verdict_), limits);
  }
  static std::size_t count(const std::string& text, const std::string& word) {
    std::size_t n = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  }
};

TEST_F(TopologyTest, ShowsNodeSlotPortSessionAndPeerAsPictureAndAsList) {
  link("mlx5_0", 4, "0000:17:00.0");
  link("mlx5_1", 1, "0000:17:00.1");
  link("mlx5_2", 4, "0000:a3:00.0");
  line("roce_device_numa_node{device=\"mlx5_0\"} 0");
  line("roce_device_numa_node{device=\"mlx5_1\"} 0");
  line("roce_device_numa_node{device=\"mlx5_2\"} 1");
  nvme("nvme0", "live", "mlx5_0");
  nvme("nvme1", "connecting", "mlx5_2");
  nvme("nvme2", "live", "");
  finding("port-down", Status::kCritical, "mlx5_1/1");
  const std::string html = draw();
  const std::string svg = html.substr(0, html.find("</svg>"));
  for (const char* text :
       {"NUMA node 0<", "NUMA node 1<", ">0000:17:00<", ">0000:a3:00<", ">mlx5_0/1<", ">NVMe-oF nvme1<", ">192.0.2.9<"})
    EXPECT_EQ(count(svg, text), 1U) << text;
  EXPECT_EQ(count(html, "<path class=\"edge critical\""), 1U);
  EXPECT_EQ(count(html, "<path class=\"edge warning\""), 2U) << "the session that connects, to its port and its peer";
  EXPECT_THAT(html, HasSubstr("<li class=\"critical\"><bdi>mlx5_1/1</bdi>"));
  EXPECT_THAT(html, HasSubstr("<bdi>NVMe-oF nvme1</bdi> to <bdi>192.0.2.9</bdi>, connecting"));
  EXPECT_THAT(html, HasSubstr("Over none of these ports"));
  EXPECT_LT(html.find("mlx5_1/1"), html.find("mlx5_2/1"));
}

TEST_F(TopologyTest, SessionsOfAPeerOverOneLinkAreOneBox) {
  link("mlx5_0");
  for (int i = 0; i < 16; ++i) nvme("nvme" + std::to_string(i), i < 2 ? "connecting" : "live", "mlx5_0");
  const std::string html = draw();
  EXPECT_EQ(count(html.substr(0, html.find("</svg>")), ">16 × NVMe-oF<"), 1U);
  EXPECT_THAT(html, HasSubstr("2 of 16 not live"));
}

TEST_F(TopologyTest, IsBoundedAndSaysWhatIsMissing) {
  for (int i = 0; i < 100; ++i) {
    const std::string n = std::to_string(i);
    link("mlx5_" + n);
    nvme("nvme" + n, "live", "mlx5_" + n, "192.0.2." + n);
  }
  finding("port-down", Status::kCritical, "mlx5_77/1");
  const std::string html = draw({.links = 10, .sessions = 5});
  EXPECT_THAT(html, HasSubstr("90 links, 95 storage sessions"));
  EXPECT_THAT(html, HasSubstr("mlx5_77/1"));
  EXPECT_EQ(draw({}).find("mlx5_99/1"), std::string::npos);
}

TEST_F(TopologyTest, NoLinkNoPicture) { EXPECT_EQ(draw(), ""); }

}  // namespace
}  // namespace roce
