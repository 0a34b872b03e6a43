// SPDX-License-Identifier: Apache-2.0
#include "exporter/daemon.h"

#include <linux/capability.h>
#include <linux/magic.h>
#include <malloc.h>
#include <pthread.h>
#include <re2/re2.h>
#include <sys/statfs.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <optional>
#include <thread>

#include "exporter/base/control_socket.h"
#include "exporter/base/version.h"
#include "exporter/check_command.h"
#include "exporter/demo.h"
#include "exporter/kernel/dcb_netlink.h"
#include "exporter/kernel/dcb_recorded.h"
#include "exporter/kernel/devlink_recorded.h"
#include "exporter/kernel/ethtool_live.h"
#include "exporter/kernel/ethtool_recorded.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/netdev_counters.h"
#include "exporter/kernel/pci.h"
#include "exporter/kernel/privileges.h"
#include "exporter/kernel/rdma_netlink.h"
#include "exporter/kernel/rdma_recorded.h"
#include "exporter/kernel/recording.h"
#include "exporter/kernel/uevents.h"
#include "exporter/web/routes.h"

namespace roce {
namespace {

constexpr std::chrono::milliseconds kStopGrace{10000};
constexpr std::chrono::milliseconds kPrintBudget{9500};
constexpr std::chrono::milliseconds kFreshVerdict{5000};
constexpr std::uint64_t kWatchdogShare = 3;  // of the service manager's limit passes between two signs of life

// True for a mounted sysfs, wherever it is mounted: reading it can reach a driver.
bool is_sysfs(const std::string& path) {
  struct statfs status{};
  return statfs(path.c_str(), &status) == 0 && status.f_type == SYSFS_MAGIC;
}

std::function<bool(std::string_view)> name_filter(const DeviceFilter& filter) {
  const auto compile = [](const std::string& pattern) {
    return pattern.empty() ? nullptr : std::make_shared<const re2::RE2>(pattern);
  };
  return [include = compile(filter.include), exclude = compile(filter.exclude)](std::string_view name) {
    const re2::StringPiece piece(name.data(), name.size());
    return (!include || re2::RE2::PartialMatch(piece, *include)) &&
           (!exclude || !re2::RE2::PartialMatch(piece, *exclude));
  };
}

double unix_time() { return static_cast<double>(std::time(nullptr)); }

// One running exporter: what the signal loop and the routes share.
class Daemon {
 public:
  Daemon(Options options, ReadOptions read_options, std::shared_ptr<const Host> host,
         std::shared_ptr<const Profile> profile, SinceStore::Mode mode)
      : options_(std::move(options)),
        read_options_(std::move(read_options)),
        engine_(std::move(host), engine_config(options_)),
        health_(usable_state_directory(options_), mode) {
    health_.set_profile(std::move(profile));
    context_.health = &health_;
    own_.reload_timestamp.Set(unix_time());
    context_.engine = &engine_;
    context_.own = &own_;
    context_.telemetry_path = options_.telemetry_path;
    if (!options_.demo.empty())
      context_.recording = demo_notice(options_.demo);
    else if (options_.recorded())
      context_.recording = "A recording, not this host: " + options_.replay;
    context_.max_requests = options_.max_requests;
    context_.lifecycle = options_.enable_lifecycle;
    context_.reload = [this](std::string& why) { return reload(why); };
  }

  RouteContext& context() { return context_; }
  Engine& engine() { return engine_; }

  // Answers one request of the control socket.
  tl::expected<std::string, std::string> control(std::string_view verb, std::string_view argument) {
    if (verb != "check" || !argument.empty()) return tl::unexpected(std::string("no such request; there is: check"));
    // A verdict without a look back is made anew: by now there may be one.
    if (const auto verdict = health_.recent(kFreshVerdict); verdict && verdict->second_sample)
      return to_json(*verdict, true);
    return to_json(health_.judge(engine_.collect(kPrintBudget)), true);
  }

  bool reload(std::string& why) {
    const std::lock_guard lock(reload_mutex_);
    auto fresh = read_options_();
    if (!fresh) {
      why = fresh.error();
      own_.reload_successful.Set(0);
      log::error("configuration not reloaded, the old one stays", {{"err", why}});
      return false;
    }
    auto profile = load_profile(*fresh);
    if (!profile) {
      why = profile.error();
      own_.reload_successful.Set(0);
      log::error("profile not reloaded, the old one stays, and so does the configuration", {{"err", why}});
      return false;
    }
    warn_of_restart(*fresh);
    health_.set_profile(std::move(*profile));
    log::set_level(fresh->log_level);
    log::set_format(fresh->log_format);
    engine_.configure(engine_config(*fresh));
    options_ = std::move(*fresh);
    own_.reload_successful.Set(1);
    own_.reload_timestamp.Set(unix_time());
    log::info("configuration reloaded", {{"file", options_.config_file}});
    return true;
  }

 private:
  void warn_of_restart(const Options& fresh) const {
    if (fresh.listen_addresses != options_.listen_addresses || fresh.telemetry_path != options_.telemetry_path ||
        fresh.max_requests != options_.max_requests || fresh.enable_lifecycle != options_.enable_lifecycle ||
        fresh.web_config_file != options_.web_config_file || fresh.sysfs != options_.sysfs ||
        fresh.procfs != options_.procfs || fresh.state_dir != options_.state_dir ||
        fresh.control_socket != options_.control_socket)
      log::warn("changes of web, path, state and socket settings take effect after a restart");
  }

  Options options_;
  ReadOptions read_options_;
  Engine engine_;
  Health health_;
  OwnMetrics own_;
  RouteContext context_;
  std::mutex reload_mutex_;
};

// Without a socket `check` reads the host by itself, so that no socket is no reason not to serve.
std::unique_ptr<ControlServer> open_control(const Options& options, Daemon& daemon) {
  if (options.control_socket.empty()) return nullptr;
  auto server = ControlServer::start(
      options.control_socket,
      [&daemon](std::string_view verb, std::string_view argument) { return daemon.control(verb, argument); });
  if (server) return std::move(*server);
  log::info("no control socket; check reads the host by itself",
            {{"path", options.control_socket}, {"err", server.error().message()}});
  return nullptr;
}

// The name of the host that is read, for people; a recording may not tell one.
std::string host_name(const Options& options, const Host& host) {
  if (options.hide_identity) return {};
  return read_attribute(host.procfs + "/sys/kernel/hostname").value_or("");
}

// What --replay or --demo reads, unpacked or not, for as long as the program runs.
std::optional<Recording>& kept_recording() {
  static std::optional<Recording> recording;
  return recording;
}

void say_what_is_read(const Options& options, const Host& host) {
  if (!exists(host.rdma_class()) && !options.recorded())
    log::info("this host shows no RDMA devices; everything else is served", {{"path", host.rdma_class()}});
}

// Names of netdev/, and "" where a lone file at the root belongs to the only network device but sysfs names none.
std::vector<std::string> recorded_netdevs(const Host& host, const std::string& root) {
  if (auto names = list_directory(root + "/netdev"); names && !names->empty()) return *names;
  if (!exists(root + "/ethtool_S.txt")) return {};
  if (const auto names = list_directory(host.net_class()))
    for (const std::string& name : *names)
      if (name != "lo") return {};
  // A recording of nothing but counters may name it there.
  for (const NetdevCounters& counters : parse_proc_net_dev(read_file(host.procfs + "/net/dev").value_or("")))
    if (counters.name != "lo") return {};
  return {""};
}

// A unit may grant CAP_SYS_ADMIN for these files alone: they are opened, then it is given up. Root stays root.
std::shared_ptr<const PciConfigFiles> open_pci_config(const Host& host,
                                                      const std::function<bool(std::string_view)>& wanted) {
  if (geteuid() == 0 || !has_capability(CAP_SYS_ADMIN)) return nullptr;
  auto files = std::make_shared<PciConfigFiles>();
  if (const auto names = list_directory(host.rdma_class()))
    for (const std::string& name : *names)
      if (wanted(name))
        if (const auto path = find_pci_path(host, host.rdma_class() + "/" + name + "/device", ""))
          for (const PciFunction& hop : path->hops) files->add(hop);
  if (const auto dropped = drop_capability(CAP_SYS_ADMIN); !dropped)
    log::warn("CAP_SYS_ADMIN stays in effect", {{"err", dropped.error().message()}});
  else
    log::info("PCI configuration opened, CAP_SYS_ADMIN given up", {{"functions", files->size()}});
  return files;
}

// The next of `signals`. Where the service manager watches, it hears meanwhile that this loop goes round and that the
// engine's lock is free; a collector that hangs in the kernel is no reason to be restarted.
int next_signal(const sigset_t& signals, const Engine& engine) {
  std::uint64_t limit = 0;
  int signal = 0;
  if (sd_watchdog_enabled(0, &limit) <= 0) {
    sigwait(&signals, &signal);
    return signal;
  }
  const std::uint64_t pause = std::max<std::uint64_t>(limit / kWatchdogShare, 1000);
  const timespec tick{static_cast<time_t>(pause / 1'000'000), static_cast<long>(pause % 1'000'000 * 1000)};
  do {
    (void)engine.collections();
    sd_notify(0, "WATCHDOG=1");
    signal = sigtimedwait(&signals, nullptr, &tick);
  } while (signal < 0);
  return signal;
}

}  // namespace

void leave(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  // _exit() runs no destructor.
  kept_recording().reset();
  _exit(code);
}

std::vector<CollectorChoice> collector_choices() {
  std::vector<CollectorChoice> choices;
  for (const CollectorEntry& entry : collector_registry())
    choices.push_back({entry.name, entry.by_default, entry.help});
  return choices;
}

Result<std::shared_ptr<const Host>> open_host(const Options& options) {
  auto host = std::make_shared<Host>();
  if (options.recorded()) {
    ROCE_TRY(Recording recording, options.demo.empty()
                                      ? Recording::open(options.replay)
                                      : Recording::unpack(demo_recording(options.demo), "the demonstration"));
    const std::string root = recording.folder();
    kept_recording() = std::move(recording);
    ROCE_TRY_VOID(list_directory(root));
    host->sysfs = root + "/sys";
    host->procfs = root + "/proc";
    host->configfs_mount = root + "/configfs";
    host->debugfs_mount = root + "/debugfs";
    host->rootfs = root + "/root";
    host->live = false;
    host->recorded_netdevs = recorded_netdevs(*host, root);
    ROCE_TRY(host->rdma, open_rdma_recording(root));
    ROCE_TRY(host->ethtool, open_ethtool_recording(root));
    host->devlink = open_devlink_recording(root);
    host->dcb = open_dcb_recording(root);
    return host;
  }
  host->sysfs = options.sysfs;
  while (host->sysfs.size() > 1 && host->sysfs.back() == '/') host->sysfs.pop_back();
  host->rootfs = options.rootfs;
  ROCE_TRY_VOID(list_directory(host->sysfs));
  host->live = is_sysfs(host->sysfs);
  // A procfs that was not named would tell of this host, not of a made tree.
  host->procfs = !options.procfs.empty() ? options.procfs : host->live ? "/proc" : host->sysfs + "/no-procfs";
  // A tree elsewhere is read alone: netlink would tell of this kernel, not of that tree.
  if (host->sysfs == "/sys" && host->live) {
    host->rdma = open_rdma_netlink(host->sysfs, host->calls);
    host->routes = open_route_netlink(host->calls);
    host->devlink = open_devlink_netlink(host->calls);
    host->pci_config = open_pci_config(*host, name_filter(options.rdma_devices));
    host->kernel_log = "/dev/kmsg";
    host->ethtool = open_ethtool(host->calls);
    host->dcb = open_dcb_netlink(host->calls);
  }
  return host;
}

EngineConfig engine_config(const Options& options) {
  EngineConfig config;
  config.enabled = [chosen = options.collectors,
                    off = options.disable_default_collectors](const CollectorEntry& entry) {
    const auto decision = chosen.find(std::string(entry.name));
    if (decision != chosen.end()) return decision->second;
    return entry.by_default && !off;
  };
  config.device_wanted = name_filter(options.rdma_devices);
  config.netdev_wanted = name_filter(options.netdevs);
  config.settings.compat_node_infiniband = options.compat_node_infiniband;
  config.settings.hide_identity = options.hide_identity;
  config.settings.qp_max = options.qp_max;
  config.sampler_interval = options.sampler_interval;
  config.settings.ethtool_raw = options.ethtool_raw;
  config.settings.ethtool_per_queue = options.ethtool_per_queue;
  for (const CollectorEntry& entry : collector_registry())
    if (entry.name == "ethtool") config.settings.ethtool = config.enabled(entry);
  return config;
}

int print_once(const Options& options) {
  auto host = open_host(options);
  if (!host) {
    std::fprintf(stderr, "roce_exporter: %s\n", host.error().message().c_str());
    return 2;
  }
  auto profile = load_profile(options);
  if (!profile) {
    std::fprintf(stderr, "roce_exporter: %s\n", profile.error().c_str());
    return 2;
  }
  Daemon daemon(options, nullptr, std::move(*host), std::move(*profile), SinceStore::Mode::kReadOnly);
  const std::string text = metrics_text(daemon.context(), kPrintBudget, {});
  std::fwrite(text.data(), 1, text.size(), stdout);  // an error is asked for below
  std::fflush(stdout);
  if (std::ferror(stdout) != 0) {
    // A reader that has seen enough, as head(1), needs no word.
    if (errno != EPIPE) std::fprintf(stderr, "roce_exporter: cannot write the page to stdout\n");
    leave(2);
  }
  leave(0);
}

int serve(const Options& options, const ReadOptions& read_options) {
  // What a scrape takes in large pieces goes back to the system after it. Left alone, glibc raises this limit with the
  // first of them and keeps all that follow.
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  // Blocked before any thread starts, so that only the loop below takes them.
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT: a client that goes away is no reason to end

  auto host = open_host(options);
  if (!host) {
    std::fprintf(stderr, "roce_exporter: %s\n", host.error().message().c_str());
    return 2;
  }
  say_what_is_read(options, **host);
  const bool live = (*host)->live;
  const auto nvme_events = (*host)->nvme_events;
  std::string name = host_name(options, **host);
  auto profile = load_profile(options);
  if (!profile) {
    std::fprintf(stderr, "roce_exporter: %s\n", profile.error().c_str());
    return 2;
  }
  Daemon daemon(options, read_options, std::move(*host), std::move(*profile), SinceStore::Mode::kReadWrite);
  daemon.context().host_name = std::move(name);

  web::ServerOptions server_options;
  server_options.listen_addresses = options.listen_addresses;
  server_options.config_file = options.web_config_file;
  server_options.counters = &daemon.context().own->web;
  // Every allowed request may wait for a collection; a few more threads answer that there are too many.
  server_options.threads = std::max(options.max_requests, 8) + 8;
  auto server = web::Server::start(server_options, exporter_routes(daemon.context()));
  if (!server) {
    std::fprintf(stderr, "roce_exporter: cannot serve: %s\n", server.error().message().c_str());
    leave(2);
  }

  std::unique_ptr<UeventMonitor> monitor;
  if (live) {
    auto started = UeventMonitor::start([&daemon, nvme = nvme_events](const Uevent& event) {
      nvme->record(event);
      const bool netdev = event.subsystem == "net" && event.devpath.find("/virtual/") == std::string::npos;
      if (netdev || event.subsystem == "infiniband" || event.action == "overrun") daemon.engine().devices_changed();
    });
    if (started)
      monitor = std::move(*started);
    else
      log::debug("no uevents; devices are listed at each scrape anyway", {{"err", started.error().message()}});
  }

  const auto control = open_control(options, daemon);
  std::unique_ptr<MovingRecording> moving;
  if (!options.demo.empty()) {
    auto started = MovingRecording::start(kept_recording()->folder());
    if (started)
      moving = std::move(*started);
    else if (started.error().kind != ErrorKind::kAbsent)
      log::warn("the demonstration stands still", {{"err", started.error().message()}});
  }

  for (const std::string& url : (*server)->urls())
    log::info("serving", {{"url", url + options.telemetry_path}, {"version", kVersion}});
  sd_notify(0, "READY=1");

  for (;;) {
    const int signal = next_signal(signals, daemon.engine());
    if (signal != SIGHUP) {
      log::info("stopping", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
      break;
    }
    sd_notify(0, "RELOADING=1");
    std::string why;
    daemon.reload(why);
    sd_notify(0, "READY=1");
  }
  sd_notify(0, "STOPPING=1");
  (*server)->stop(kStopGrace);
  monitor.reset();
  moving.reset();
  // Its destructor would wait for an answer that may hang.
  if (control) ::unlink(options.control_socket.c_str());
  leave(0);
}

}  // namespace roce
