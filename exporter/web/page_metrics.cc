// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/page_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "exporter/base/parse.h"
#include "exporter/base/version.h"
#include "exporter/catalog/catalog.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

// Fields of /proc/self/stat behind the command, which may hold blanks and brackets: index 0 is the state.
std::vector<std::string_view> stat_fields(std::string_view text) {
  std::vector<std::string_view> fields;
  const auto end_of_command = text.rfind(')');
  if (end_of_command == std::string_view::npos) return fields;
  text.remove_prefix(end_of_command + 1);
  while (!(text = trim(text)).empty()) {
    const auto end = text.find(' ');
    fields.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  }
  return fields;
}

// Unix time at which the machine started, by /proc/stat.
std::optional<std::uint64_t> boot_time() {
  const auto text = read_file("/proc/stat", std::size_t{4} << 20U);
  if (!text) return std::nullopt;
  const auto at = text->find("\nbtime ");
  if (at == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(*text).substr(at + 7);
  return parse_u64(rest.substr(0, rest.find('\n')));
}

}  // namespace

void add_web_metrics(const web::GuardCounters& web, SampleBatch& out) {
  if (!web.configured) return;
  out.add(metric::web_config_last_reload_successful, {}, web.last_load_good.load());
  out.add(metric::web_config_last_reload_success_timestamp, {}, web.last_good_load.load());
  if (const double expires = web.certificate_expires; expires != 0)
    out.add(metric::web_certificate_not_after, {}, expires);
  out.add(metric::web_password_checks, {}, web.password_checks.load());
  out.add(metric::web_requests_refused, {"unauthorized"}, web.unauthorized.load());
  out.add(metric::web_requests_refused, {"rate"}, web.limited.load());
}

void add_own_metrics(const OwnMetrics& own, std::uint64_t collections, SampleBatch& out) {
  out.add(metric::exporter_build_info, {kVersion, kRevision, kCompiler}, 1);
  out.add(metric::exporter_scrapes, {}, own.scrapes.Value());
  out.add(metric::exporter_scrapes_rejected, {}, own.scrapes_rejected.Value());
  out.add(metric::exporter_scrape_budget_exceeded, {}, own.budget_exceeded.Value());
  out.add(metric::exporter_collections, {}, collections);
  out.add(metric::config_last_reload_successful, {}, own.reload_successful.Value());
  out.add(metric::config_last_reload_success_timestamp, {}, own.reload_timestamp.Value());
  add_web_metrics(own.web, out);
}

void add_process_metrics(SampleBatch& out) {
  static const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  static const auto page_size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  static const auto boot = boot_time();
  if (const auto text = read_file("/proc/self/stat")) {
    const auto fields = stat_fields(*text);
    const auto number = [&](std::size_t i) -> std::uint64_t {
      return i < fields.size() ? parse_u64(fields[i]).value_or(0) : 0;
    };
    // proc(5): utime 14, stime 15, num_threads 20, starttime 22, vsize 23, rss 24; the state is field 3.
    if (fields.size() > 21) {
      out.add(metric::process_cpu, {}, static_cast<double>(number(11) + number(12)) / ticks);
      out.add(metric::process_threads, {}, number(17));
      if (boot)
        out.add(metric::process_start_time, {}, static_cast<double>(*boot) + static_cast<double>(number(19)) / ticks);
      out.add(metric::process_virtual_memory, {}, number(20));
      out.add(metric::process_resident_memory, {}, number(21) * page_size);
    }
  }
  if (const auto fds = list_directory("/proc/self/fd"))
    out.add(metric::process_open_fds, {}, static_cast<std::uint64_t>(fds->empty() ? 0 : fds->size() - 1));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    out.add(metric::process_max_fds, {}, static_cast<std::uint64_t>(limit.rlim_cur));
}

}  // namespace roce
