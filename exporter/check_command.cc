// SPDX-License-Identifier: Apache-2.0
#include "exporter/check_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "exporter/base/control_socket.h"
#include "exporter/config/text.h"
#include "exporter/daemon.h"
#include "exporter/health/profile_init.h"
#include "exporter/health/render.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::chrono::milliseconds kBudget{9500};
constexpr int kMistake = 3;

std::string host_name() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string();
}

[[noreturn]] void refuse(std::string_view line, int code) {
  fmt::print(stderr, "roce_exporter: {}\n", line);
  leave(code);
}

[[noreturn]] void finish(const std::string& text, int code, int when_not_written) {
  std::fwrite(text.data(), 1, text.size(), stdout);  // an error is asked for below
  std::fflush(stdout);
  if (std::ferror(stdout) != 0) refuse("cannot write to stdout", when_not_written);
  leave(code);
}

// What a collector warns of is in the verdict.
void quiet(const Options& options) {
  if (options.log_level == Options().log_level) log::set_level(log::Level::kError);
}

bool given(const Options& options, std::string_view flag) {
  return std::find(options.set_by_flag.begin(), options.set_by_flag.end(), flag) != options.set_by_flag.end();
}

// Why the running exporter would answer another question than the one asked; empty where it would not.
std::string_view why_not_daemon(const Options& options) {
  if (options.check_without_daemon) return "--no-daemon";
  if (options.check_advice) return "--advice";
  for (const std::string_view flag : {"path.sysfs", "path.procfs", "path.rootfs", "replay", "demo", "profile.file"})
    if (given(options, flag)) return flag;
  if (options.control_socket.empty()) return "control.socket is off";
  return {};
}

// The running exporter's verdict. One that has only just begun has no earlier page yet: it is asked again after the
// window.
Result<Verdict> ask_daemon(const Options& options) {
  for (int attempt = 0;; ++attempt) {
    ROCE_TRY(const std::string text, ask_control(options.control_socket, "check", kBudget + std::chrono::seconds(1)));
    auto verdict = verdict_from_json(text);
    if (!verdict) return fail(ErrorKind::kMalformed, options.control_socket);
    if (verdict->second_sample || attempt > 0) return std::move(*verdict);
    std::this_thread::sleep_for(options.check_window);
  }
}

struct Sampled {
  bool live = false;  // of this host
  Page page;
  Verdict verdict;
};

// Reads this host twice. A recording does not change: it is read once, and movement stays open.
Result<Sampled> sample(const Options& options, std::shared_ptr<const Profile> profile, bool advice) {
  ROCE_TRY(auto host, open_host(options));
  const bool live = host->live;
  EngineConfig config = engine_config(options);
  config.sampler_interval = {};
  config.slow_period = options.check_window;
  // The program ends by leave(): a thread may hang in the kernel.
  auto* engine = new Engine(std::move(host), std::move(config));
  Health health(usable_state_directory(options), SinceStore::Mode::kReadOnly);
  health.set_profile(std::move(profile));
  Sampled out;
  out.live = live;
  out.page = engine->collect(kBudget);
  out.verdict = health.judge(out.page, advice);
  if (!options.recorded()) {
    std::this_thread::sleep_for(options.check_window);
    out.page = engine->collect(kBudget);
    out.verdict = health.judge(out.page, advice);
  }
  return out;
}

std::string render(const Verdict& verdict, const Options& options, const std::vector<std::string>& notes) {
  const std::string& format = options.check_format;
  if (format == "json") return to_json(verdict, true);
  if (format == "nagios") return render_verdict_nagios(verdict);
  if (format == "npd") return render_verdict_npd(verdict);
  if (format == "tsv") return render_verdict_tsv(verdict);
  return render_verdict_text(verdict, notes);
}

}  // namespace

tl::expected<std::shared_ptr<const Profile>, std::string> load_profile(const Options& options) {
  if (options.profile_file.empty()) return std::shared_ptr<const Profile>();
  auto profile = read_profile(options.profile_file);
  if (!profile) return tl::unexpected(std::move(profile.error()));
  return std::make_shared<const Profile>(for_host(*profile, host_name()));
}

std::string usable_state_directory(const Options& options) {
  // A recording is of another host or of another time than what is kept here.
  if (options.recorded()) return {};
  return ::access(options.state_dir.c_str(), W_OK | X_OK) == 0 ? options.state_dir : std::string();
}

void check_once(const Options& options) {
  quiet(options);
  // Without a profile to judge by, and without knowing what was meant, there is no verdict.
  auto profile = load_profile(options);
  if (!profile) refuse(profile.error(), kMistake);
  const std::vector<std::string> ids = check_ids();
  for (const std::string& id : options.check_only)
    if (std::find(ids.begin(), ids.end(), id) == ids.end())
      refuse("--only: " +
                 config::Problem{config::ticked(id), "the ids that checks-reference lists", config::nearest(id, ids)}
                     .text(),
             kMistake);

  std::vector<std::string> notes;
  std::optional<Verdict> verdict;
  if (why_not_daemon(options).empty()) {
    if (auto answer = ask_daemon(options))
      verdict = std::move(*answer);
    else
      notes.push_back(fmt::format("no running exporter answers on {} ({}); this host was read twice instead",
                                  options.control_socket, to_string(answer.error().kind)));
  }
  if (!verdict) {
    auto sampled = sample(options, *profile, options.check_advice);
    if (!sampled) refuse(sampled.error().message(), kMistake);
    verdict = std::move(sampled->verdict);
  }
  if (!verdict->second_sample)
    notes.emplace_back(options.recorded() ? "a recording holds one reading: how counters move is not judged"
                                          : "counters could not be compared with an earlier reading");
  const VerdictFilter filter{options.check_devices, options.check_only, options.check_classes};
  if (const auto device = unknown_device(*verdict, filter))
    refuse("--device: " + config::Problem{config::ticked(*device), "a device of this host or of the profile",
                                          config::nearest(*device, verdict->names)}
                              .text(),
           kMistake);
  apply_filter(*verdict, filter);
  finish(render(*verdict, options, notes), exit_code(*verdict, options.check_format), kMistake);
}

void profile_init(const Options& options) {
  quiet(options);
  auto sampled = sample(options, nullptr, true);
  if (!sampled) refuse(sampled.error().message(), 2);
  std::string name = sampled->live             ? host_name()
                     : !options.demo.empty()   ? "the recording of the demonstration"
                     : !options.replay.empty() ? "the recording " + options.replay
                                               : "the tree " + options.sysfs;
  // It stands in a comment.
  std::replace_if(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  const WrittenProfile written = write_profile(sampled->page, sampled->verdict, name);
  if (written.suspicious > 0)
    fmt::print(stderr, "roce_exporter: {} values failed a check and stand commented out\n", written.suspicious);
  finish(written.text, written.suspicious > 0 ? 1 : 0, 2);
}

}  // namespace roce
