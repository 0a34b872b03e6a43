// SPDX-License-Identifier: Apache-2.0
//
// The one table of built-in checks. To add a check: a function in exporter/health/checks/ and a row in checks.cc; the
// row serves `check`, /health, the status page, packaging/docs/checks.md and the keys of waivers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/health/page_view.h"
#include "exporter/health/profile.h"
#include "exporter/health/verdict.h"

namespace roce {

class CheckContext;

struct Check {
  std::string_view id;
  std::string_view finding_class;  // fault, drift, capacity, unknown
  Status severity;                 // usual one; a check may raise it where it says so. kInfo: advice, on request only
  std::string_view summary;        // what is wrong, one line
  std::string_view expected;
  std::string_view next_step;
  std::string_view explanation;  // for the user: why it matters, when it misleads
  std::string_view source;       // where the knowledge comes from
  std::string_view reads;        // families of the page, by name, separated by blanks
  std::string_view moves;        // those of them whose values over time count, all or NAME{label=value}
  std::string_view profile_key;  // key of a device's or the host's profile that a finding throws doubt on
  void (*judge)(CheckContext&);  // null: judged elsewhere (sources, the profile)
};

std::span<const Check> all_checks();
const Check* find_check(std::string_view id);
std::vector<std::string> check_ids();
// The collectors whose families a check reads.
std::set<std::string_view> collectors_of(const Check& check);
// Families that any check needs over time.
std::vector<History::Watched> watched_families();

// A claim of tuning guides that is wrong, half true or not what it seems.
struct Folklore {
  std::string_view claim;
  std::string_view verdict;
  std::string_view why;
  std::string_view checkable;  // what this program shows instead
};
std::span<const Folklore> all_folklore();

// What a check works on. Not thread-safe.
class CheckContext {
 public:
  // Findings go into the verdict; `sources` stay as they are meanwhile.
  CheckContext(const PageView& page, const History* history, const Profile* profile, const SourceStates& sources,
               Verdict& verdict);

  const PageView& page() const { return page_; }
  const Profile* profile() const { return profile_; }
  std::span<const Series> of(const MetricDesc& metric) const { return page_.of(metric); }

  // Makes this the check that report() speaks for.
  void select(const Check& check) { check_ = &check; }
  // Runs one check, or says why it cannot be judged.
  void run(const Check& check);

  // A finding of the running check, to be changed until the next one. Beyond 200 of a check they are told together, as
  // "others", by finish().
  Finding& report(std::string object, std::string found);
  void finish();

  // Growth in the last `span`; nothing, and a note that it was not judged, where there is no earlier page.
  std::optional<History::Growth> growth(const Series& series, std::chrono::seconds span);
  // Least value over the last pages; likewise.
  std::optional<double> least(const Series& series, std::chrono::seconds span);
  bool second_sample() const { return second_sample_; }

  // Declared role of a device; empty where none is declared.
  std::string role_of(std::string_view device) const;
  // Network device of a port; empty where the page does not tell.
  std::string_view netdev_of(const Series& port) const;
  // Whether the page shows storage sessions over the port.
  bool carries_sessions(const Series& port) const;
  // Whether the port of that state was ever up, as far as the page, earlier ones and the kernel's counts tell.
  bool had_link(const Series& state) const;
  // Whether that port should be up: it is declared, or, where nothing is declared of its device's ports, it was up.
  bool expects_port(const Series& state) const;
  // Whether the page tells the device's ports, each with its state.
  bool tells_ports(std::string_view device) const;
  // Declared values of a device, if any.
  const DeviceExpectation* expected(std::string_view device) const;
  bool is_representor(const Series& series) const;
  // Whether all that the collector was asked for was read: what its families do not show is not there.
  bool told_by(std::string_view collector) const;
  // Whether the page may leave out RDMA devices of this host: they could not be listed, or described.
  bool hides_devices() const;
  // Whether the running check has a finding on this object already.
  bool reported(std::string_view object) const;

 private:
  const PageView& page_;
  const History* history_;
  const Profile* profile_;
  Verdict& verdict_;
  std::vector<const SourceState*> not_ok_;  // few, where a host has thousands of sources
  const Check* check_ = nullptr;
  bool second_sample_ = true;
  bool noted_ = false;             // of the running check
  std::vector<Finding> overflow_;  // beyond those that a check may have
  std::map<std::string, DeviceExpectation, std::less<>> declared_;
};

// ---- for the functions of checks ----

// device/port, the netdev where there is no RDMA device, with what else tells the series apart: "mlx5_0/1 priority 3".
std::string object_of(const Series& series);

// device/port alone, the netdev where there is no RDMA device.
std::string port_of(const Series& series);

// The priority of a DSCP on the port that these entries (roce_dscp_entries, not 0) are of.
double priority_of_dscp(const CheckContext& context, const Series& entries, unsigned dscp);

// What a movement must reach to count.
struct Movement {
  double count = 1;       // events in the time
  double per_second = 0;  // and of them a second
  std::chrono::seconds span{60};
  std::string_view part{};  // of the object, where the family is about one: "transmit"
};
// What a finding on the part of a series names.
std::string part_of(const Series& series, std::string_view part);
// Reports each series of the family that moved enough and that `wanted` lets through: "12 in the last 60 s".
void report_moving(CheckContext& context, const MetricDesc& metric, const Movement& movement, std::string_view what,
                   const std::function<bool(const Series&)>& wanted = {});
// "in the last 60 s"
std::string in_last(double seconds);
// A quantity with at most three significant digits; a rate with its unit.
std::string short_number(double value);
std::string percent(double ratio);
std::string bytes_text(double bytes);
std::string seconds_text(double seconds);  // "10 s", "for ever" for +Inf

// Judges a page: every check of the table, the sources, and the profile's expectations.
// `advice` adds the checks that only advise.
Verdict judge(const Page& page, const History* history = nullptr, const Profile* profile = nullptr,
              bool advice = false);
// The same for a view of any samples; `sources` and `devices` are the verdict's.
Verdict judge(const PageView& view, SourceStates sources, std::size_t devices, const History* history,
              const Profile* profile, bool advice);

}  // namespace roce
