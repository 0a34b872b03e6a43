// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/health.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "exporter/catalog/catalog.h"
#include "exporter/health/expectations.h"

namespace roce {
namespace {

// Moves what a waiver covers out of the findings; tells of waivers that have ended.
void apply_waivers(Verdict& verdict, const Profile& profile, std::int64_t now) {
  std::vector<Finding> kept;
  for (Finding& finding : verdict.findings) {
    const Waiver* holds = nullptr;
    const Waiver* ended = nullptr;
    for (const Waiver& waiver : profile.waivers)
      if (waiver.covers(finding.id, finding.object)) (waiver_holds(waiver, now) ? holds : ended) = &waiver;
    if (holds != nullptr) {
      verdict.waived.push_back({finding.id, finding.object, holds->reason, holds->until});
      continue;
    }
    if (ended != nullptr) finding.found += " (a waiver ended on " + ended->until + ": " + ended->reason + ")";
    kept.push_back(std::move(finding));
  }
  verdict.findings = std::move(kept);
}

// The kinds of findings that can be, so that each has a series also with 0.
struct Kind {
  std::string_view finding_class;
  Status severity;
};
constexpr Kind kKinds[] = {{"fault", Status::kWarning},   {"fault", Status::kCritical},
                           {"drift", Status::kWarning},   {"capacity", Status::kWarning},
                           {"unknown", Status::kWarning}, {"unknown", Status::kUnknown}};

}  // namespace

Health::Health(const std::string& state_directory, SinceStore::Mode mode)
    : history_(watched_families()), since_(state_directory, mode) {
  history_.remember_active(since_.active_ports());
}

void Health::set_profile(std::shared_ptr<const Profile> profile) {
  const std::lock_guard lock(mutex_);
  profile_ = std::move(profile);
  last_.reset();
}

std::shared_ptr<const Verdict> Health::judge_locked(const Page& page, const PageView& view, bool advice,
                                                    Clock::time_point now) {
  history_.record(view, now);
  auto out = std::make_shared<Verdict>();
  Verdict& verdict = *out;
  verdict = roce::judge(view, page.sources, page.devices, &history_, profile_.get(), advice);
  const auto unix_time = static_cast<std::int64_t>(std::time(nullptr));
  if (profile_) apply_waivers(verdict, *profile_, unix_time);
  conclude(verdict);
  since_.stamp(verdict, unix_time, history_.active_ports());
  if (!advice) {
    last_ = out;
    judged_ = now;
  }
  return out;
}

Verdict Health::judge(const Page& page, bool advice, Clock::time_point now) {
  const auto batches = page.batches();
  const PageView view(batches);
  const std::lock_guard lock(mutex_);
  return *judge_locked(page, view, advice, now);
}

std::shared_ptr<const Verdict> Health::recent(std::chrono::milliseconds age, Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  if (now - judged_ > age) return nullptr;
  return last_;
}

void Health::add_metrics(const Page& page, SampleBatch& out) {
  const auto batches = page.batches();
  const PageView view(batches);
  const std::lock_guard lock(mutex_);
  const auto verdict = judge_locked(page, view, false, Clock::now());
  for (const Kind& kind : kKinds) {
    const auto n = std::count_if(verdict->findings.begin(), verdict->findings.end(), [&](const Finding& f) {
      return f.finding_class == kind.finding_class && f.severity == kind.severity;
    });
    out.add(metric::health_findings, {kind.finding_class, to_string(kind.severity)}, static_cast<std::uint64_t>(n));
  }
  Verdict ignored;
  ignored.devices = page.devices;
  const CheckContext context(view, &history_, profile_.get(), verdict->sources, ignored);
  for (const Series& info : view.of(metric::device_info)) {
    const std::string role = context.role_of(info.label("device"));
    out.add(metric::device_role_info, {info.label("device"), role.empty() ? "undeclared" : std::string_view(role)}, 1);
  }
  if (!profile_) return;
  const auto unix_time = static_cast<std::int64_t>(std::time(nullptr));
  std::size_t n = 0;
  for (const Expectation& e : compare(context, *profile_)) {
    if (++n > kMaxExpectations) {
      ++dropped_;
      continue;
    }
    const auto waiver = std::find_if(profile_->waivers.begin(), profile_->waivers.end(), [&](const Waiver& w) {
      return w.covers(e.check, e.object) && waiver_holds(w, unix_time);
    });
    // A waived expectation is nobody's alarm: it has its end instead.
    if (waiver != profile_->waivers.end())
      out.add(metric::expectation_waived_until, {e.check, e.object}, waiver_end(*waiver));
    else if (e.met)
      out.add(metric::expectation_met, {e.check, e.object}, *e.met);
    if (e.value) out.add(metric::expected_value, {e.check, e.object}, *e.value);
  }
  out.add(metric::series_dropped, {"profile"}, dropped_);
}

}  // namespace roce
