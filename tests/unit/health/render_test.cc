// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporter/health/check.h"
#include "exporter/health/checks_reference.h"

namespace roce {
namespace {

using testing::HasSubstr;
using testing::Not;

Verdict sample() {
  Verdict v;
  v.devices = 2;
  v.sources = {{"rdma_port", "mlx5_0", true, "", ""}, {"pcie", "mlx5_1", false, "timeout", "no answer"}};
  v.findings = {
      {"max-read-request", "drift", Status::kWarning, "mlx5_1", "small pieces", "MaxReadReq 128", "512", "", "raise it",
       "doc#a"},
      {"pause-storm", "fault", Status::kCritical, "mlx5_0/1 priority 3", "PFC stops a priority most of the time",
       std::string(
           "paused 98 % of the time | in a text that is quite long so that it does not fit into one line of eighty"),
       "below 50 %", "2026-11-29T22:10:00Z", "find who pauses", "doc#b"}};
  v.waived = {{"rate", "mlx5_1/1", "spare", "2026-12-31"}};
  for (int i = 0; i < 20; ++i) v.not_judged.push_back({"ecn", "mlx5_0", "the page does not tell"});
  conclude(v);
  return v;
}

TEST(RenderTest, TextFitsATerminalAndTellsEverything) {
  const std::string text = render_verdict_text(sample(), {"a note"});
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 80U) << text.substr(begin, end - begin);
  EXPECT_THAT(text, testing::StartsWith("CRITICAL: 2 findings on 2 RDMA devices, 1 source read, 1 failing\nnote: a "
                                        "note\n\nCRITICAL pause-storm on mlx5_0/1 priority 3\n"));
  for (const char* part : {"found:", "expected: below 50 %", "since:    2026-11-29T22:10:00Z",
                           "next:     find who pauses", "more:     doc#b (roce_exporter checks-reference)",
                           "rate on mlx5_1/1 until 2026-12-31: spare", "ecn on mlx5_0", "and 8 more"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(RenderTest, AHostWithoutRdmaIsNotCalledFit) {
  Verdict v;
  EXPECT_EQ(render_verdict_text(v, {}), "OK: no RDMA device here; declare those that should be here in a profile\n");
  v.sources = {{"inventory", "", false, "denied", ""}};
  conclude(v);
  EXPECT_EQ(render_verdict_text(v, {}), "UNKNOWN: no finding on 0 RDMA devices, 0 sources read, 1 failing\n");
}

TEST(RenderTest, WhatARecordingDoesNotHoldHasNotFailed) {
  Verdict v = sample();
  v.sources.push_back({"dcb", "eth0", false, "not_recorded", ""});
  EXPECT_THAT(render_verdict_text(v, {}),
              HasSubstr("2 RDMA devices, 1 source read, 1 failing, 1 not in the recording\n"));
  EXPECT_THAT(render_verdict_nagios(v), HasSubstr(" failing_sources=1 "));
}

TEST(RenderTest, ForeignBytesDoNotMoveTheCursor) {
  Verdict v = sample();
  v.findings[0].object = v.findings[0].finding_class = v.findings[0].id = "evil\x1b[2J\nname\ttab";
  for (const std::string& text :
       {render_verdict_text(v, {}), render_verdict_nagios(v), render_verdict_npd(v), render_verdict_tsv(v)}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find("\nname"), std::string::npos);
  }
}

TEST(RenderTest, ForeignCharactersDoNotChangeWhatIsSeen) {
  // Controls above ASCII, as text and as bytes; marks that turn the order of letters; what cannot be seen.
  for (const std::string bad :
       {"\xc2\x9b", "\xc2\x80", "\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9", "\xe2\x80\x8b", "\xe2\x80\x8f",
        "\xe2\x80\xa8", "\xef\xbb\xbf", "\xd8\x9c", "\xf3\xa0\x81\x81"}) {
    Verdict v = sample();
    for (Finding& f : v.findings) f.object = f.finding_class = f.id = f.found = "x" + bad + "y";
    for (const std::string& text :
         {render_verdict_text(v, {}), render_verdict_nagios(v), render_verdict_npd(v), render_verdict_tsv(v)}) {
      EXPECT_EQ(text.find(bad), std::string::npos) << testing::PrintToString(bad) << " in " << text;
      EXPECT_THAT(text, HasSubstr("x y"));
    }
  }
  Verdict v = sample();
  v.findings[0].object = "eth\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0";
  EXPECT_THAT(render_verdict_tsv(v), HasSubstr("\t" + v.findings[0].object + "\t")) << "letters stay";
}

TEST(RenderTest, NagiosIsOneLineWithData) {
  const std::string line = render_verdict_nagios(sample());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line,
              testing::StartsWith("ROCE CRITICAL - pause-storm mlx5_0/1 priority 3: paused 98 % of the time / in"));
  EXPECT_THAT(
      line,
      HasSubstr(
          "; and 1 more | findings=2 critical=1 warning=1 unknown=0 failing_sources=1 not_judged=20 rdma_devices=2\n"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 1);
  EXPECT_THAT(render_verdict_nagios(Verdict()),
              testing::StartsWith(
                  "ROCE OK - no RDMA device here; declare those that should be here in a profile | findings=0 "));
}

TEST(RenderTest, NpdIsShort) {
  const std::string line = render_verdict_npd(sample());
  EXPECT_LE(line.size(), 81U);
  EXPECT_THAT(line, testing::StartsWith("pause-storm mlx5_0/1 priority 3: paused"));
  EXPECT_EQ(render_verdict_npd(Verdict()), "ok: no finding\n");
  Verdict v = sample();
  v.findings[0].found = std::string(60, 'x') + "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4";
  EXPECT_EQ(render_verdict_npd(v).find("\xc3."), std::string::npos);
}

TEST(RenderTest, ExitCodesAreThoseOfTheContract) {
  Verdict v;
  for (const auto& [status, code, npd] : {std::tuple(Status::kOk, 0, 0), std::tuple(Status::kWarning, 1, 0),
                                          std::tuple(Status::kCritical, 2, 1), std::tuple(Status::kUnknown, 3, 2)}) {
    v.status = status;
    for (const char* format : {"text", "json", "nagios", "tsv"}) EXPECT_EQ(exit_code(v, format), code);
    EXPECT_EQ(exit_code(v, "npd"), npd);
  }
}

TEST(FilterTest, ByDeviceCheckAndClass) {
  Verdict v = sample();
  apply_filter(v, {{"mlx5_1"}, {}, {}});
  ASSERT_EQ(v.findings.size(), 1U);
  EXPECT_EQ(v.findings[0].id, "max-read-request");
  EXPECT_EQ(v.sources.size(), 1U);
  v = sample();
  apply_filter(v, {{}, {"pause-storm"}, {}});
  EXPECT_EQ(v.findings.size(), 1U);
  EXPECT_TRUE(v.not_judged.empty());
  v = sample();
  apply_filter(v, {{}, {}, {"drift"}});
  ASSERT_EQ(v.findings.size(), 1U);
  EXPECT_EQ(v.status, Status::kWarning);
  v = sample();
  v.findings[0].object = "nvme0 (mlx5_7/1)";
  apply_filter(v, {{"mlx5_7"}, {}, {}});
  EXPECT_EQ(v.findings.size(), 1U);
}

Finding failing_source(const std::string& object, Status severity) {
  return {"source-failing", "unknown", severity, object, "", "timeout", "", "", "", ""};
}

TEST(FilterTest, WhatKeepsAVerdictFromBeingGivenStays) {
  // Without the state of the port nothing is known of it, whatever else is asked for.
  Verdict state = sample();
  state.findings = {failing_source("rdma_port/mlx5_0", Status::kUnknown)};
  for (const VerdictFilter& filter : {VerdictFilter{{}, {"port-down"}, {}}, VerdictFilter{{}, {}, {"fault"}},
                                      VerdictFilter{{"mlx5_0"}, {"max-read-request"}, {"drift"}}}) {
    Verdict v = state;
    apply_filter(v, filter);
    EXPECT_EQ(v.status, Status::kUnknown);
    EXPECT_EQ(exit_code(v, "text"), 3);
  }
  Verdict other = state;
  other.sources.push_back({"rdma_port", "mlx5_1", true, "", ""});
  apply_filter(other, {{"mlx5_1"}, {"port-down"}, {}});
  EXPECT_EQ(other.status, Status::kOk);

  // The list of devices is no device's own.
  Verdict list = sample();
  list.findings = {failing_source("inventory", Status::kUnknown)};
  apply_filter(list, {{"mlx5_0"}, {"port-down"}, {}});
  EXPECT_EQ(list.status, Status::kUnknown);

  // A source that only some checks read: unknown for those, of no interest for others.
  for (const auto& [check, status] :
       {std::pair("pcie-degraded", Status::kUnknown), std::pair("port-down", Status::kOk)}) {
    ASSERT_NE(find_check(check), nullptr) << check;
    Verdict v = sample();
    v.findings = {failing_source("pcie/mlx5_1", Status::kWarning)};
    apply_filter(v, {{}, {check}, {}});
    EXPECT_EQ(v.status, status) << check;
  }

  // A declared device that is missing, by any of its names.
  Verdict missing = sample();
  missing.names = {"mlx5_0"};
  missing.declared = {"0000:3b:00.0", "mlx5_0", "mlx5_7"};
  missing.findings = {{"device-missing", "fault", Status::kCritical, "0000:3b:00.0", "", "", "", "", "", ""}};
  for (const auto& [device, status] :
       {std::pair("mlx5_7", Status::kCritical), std::pair("0000:3b:00.0", Status::kCritical),
        std::pair("mlx5_0", Status::kOk)}) {
    Verdict v = missing;
    apply_filter(v, {{device}, {"port-down"}, {"drift"}});
    EXPECT_EQ(v.status, status) << device;
  }
}

TEST(FilterTest, ADeviceThatNobodyKnowsIsNamed) {
  Verdict v = sample();
  v.names = {"eth0", "mlx5_0"};
  v.declared = {"0000:3b:00.0"};
  v.findings[0].object = "nvme0 (mlx5_7/1)";
  for (const char* known : {"eth0", "mlx5_0", "0000:3b:00.0", "nvme0", "mlx5_7"})
    EXPECT_FALSE(unknown_device(v, {{known}, {}, {}})) << known;
  EXPECT_EQ(unknown_device(v, {{"mlx5_0", "mlx5_O"}, {}, {}}), "mlx5_O");
  EXPECT_FALSE(unknown_device(v, {}));
}

TEST(JsonTest, GoesThereAndBack) {
  Verdict before = sample();
  before.names = {"mlx5_0"};
  before.declared = {"0000:3b:00.0"};
  const auto after = verdict_from_json(to_json(before, true));
  ASSERT_TRUE(after);
  EXPECT_EQ(to_json(*after, true), to_json(before, true));
  EXPECT_EQ(after->names, before.names);
  EXPECT_EQ(to_json(before, false).find("mlx5_0"), std::string::npos);
  for (const char* text :
       {"", "x", "[]", "{}", R"({"status":"fine","findings":[],"sources":[]})", R"({"status":"ok"})"})
    EXPECT_FALSE(verdict_from_json(text)) << text;
  EXPECT_TRUE(verdict_from_json(R"({"status":"ok","findings":[1,"a",{}],"sources":3})"));
}

TEST(ReferenceTest, EveryRunbookThatAFindingNamesIsThere) {
  const std::string text = checks_reference_markdown();
  for (const Check& check : all_checks()) {
    EXPECT_THAT(text, HasSubstr("\n## " + std::string(check.id) + "\n"));
    EXPECT_THAT(text, HasSubstr("(#" + std::string(check.id) + ")"));
  }
  for (const Folklore& f : all_folklore()) EXPECT_THAT(text, HasSubstr("| " + std::string(f.claim).substr(0, 10)));
}

}  // namespace
}  // namespace roce
