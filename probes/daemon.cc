// SPDX-License-Identifier: Apache-2.0
#include "probes/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <mutex>

#include "exporter/base/log.h"
#include "exporter/base/version.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/privileges.h"
#include "exporter/web/server.h"
#include "probes/peers/local.h"
#include "probes/verbs/verbs.h"
#include "probes/web/control.h"
#include "probes/web/routes.h"

namespace roce::probe {
namespace {

constexpr std::chrono::milliseconds kStopGrace{5000};
constexpr std::chrono::seconds kTick{1};
constexpr std::chrono::minutes kSaveInterval{5};
constexpr rlim_t kNeededMemlock = rlim_t{16} << 20U;
constexpr std::size_t kMostBaselines = std::size_t{4} << 20U;

double unix_time() { return static_cast<double>(std::time(nullptr)); }

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

// systemd names the unit's directory.
std::string state_directory(const Options& options) {
  if (!options.state_dir.empty()) return options.state_dir;
  const char* given = std::getenv("STATE_DIRECTORY");  // NOLINT: before any thread
  const std::string directories = given != nullptr ? given : "";
  return directories.substr(0, directories.find(':'));
}

std::vector<LocalPort> local_ports(const Options& options, const std::vector<std::string>& devices) {
  std::vector<LocalPort> ports;
  for (const std::string& device : devices) {
    const auto rail = options.rails.find(device);
    ports.push_back({device, rail == options.rails.end() ? "" : rail->second, subnets_of(options.sysfs, device)});
  }
  return ports;
}

std::vector<LocalDevice> local_devices(const std::vector<LocalPort>& ports) {
  std::vector<LocalDevice> devices;
  for (const LocalPort& port : ports) devices.push_back({port.device, 1, port.rail});
  return devices;
}

// The queues of RDMA devices are locked memory. The soft limit is the program's own to raise. Empty, or why it makes no
// sense to start: a container has its limit from whoever starts containers, and says so rather than fail device by
// device.
std::string check_memlock() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return {};
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 && getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return {};
  }
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kNeededMemlock || has_capability(CAP_IPC_LOCK)) return {};
  const std::string found = fmt::format("{} KiB", limit.rlim_cur / 1024);
  const std::string wanted = fmt::format("{} KiB", kNeededMemlock / 1024);
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr)  // NOLINT: before any thread
    return fmt::format(
        "the limit of locked memory is {}, {} are needed: it comes from the container runtime. Set "
        "LimitMEMLOCK=infinity for its service on the node (systemctl edit containerd, crio or docker), restart that "
        "service, then this pod",
        found, wanted);
  log::warn("the limit of locked memory may be too low for the queues of RDMA devices",
            {{"RLIMIT_MEMLOCK", found},
             {"wanted", wanted},
             {"raise_by", "LimitMEMLOCK=16M in the unit, or ulimit -l 16384"}});
  return {};
}

// A worker may hang in the kernel for good; ordinary exit would run destructors under its feet.
[[noreturn]] void leave(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

// One running prober: what the signal loop and the routes share.
class Daemon {
 public:
  Daemon(Options options, ReadOptions read_options)
      : options_(std::make_shared<const Options>(std::move(options))),
        read_options_(std::move(read_options)),
        verbs_(system_verbs()) {
    own_.reload_timestamp.Set(unix_time());
  }

  void use_keys(const Options& options) {
    if (all_expired(options.keys))
      log::warn("not_after of every key is over: nothing is probed or answered", {{"file", options.keys_file}});
    engine_->set_keys(options.keys);
  }

  Result<void> start() {
    const auto options = this->options();
    EngineSettings settings = engine_settings(*options);
    devices_ = settings.devices;
    node_ = settings.node;
    const auto ports = local_ports(*options, devices_);
    source_.configure(options->exchange, ports);
    ROCE_TRY(engine_, start_engine(*verbs_, settings, source_));
    state_dir_ = state_directory(*options);
    if (const std::string kept = load_baselines(state_dir_); !kept.empty()) engine_->restore_baselines(kept);
    use_keys(*options);
    adhoc_ = std::make_unique<AdhocProbes>(*engine_);
    discovery_ = std::make_unique<Discovery>(node_, options->sysfs, source_,
                                             [this](const std::vector<Peer>& peers) { take_peers(peers); });
    discovery_->configure(*options, local_devices(ports), ports);

    context_.engine = engine_.get();
    context_.own = &own_;
    context_.source = &source_;
    context_.rotating = &rotating_;
    context_.adhoc = adhoc_.get();
    context_.discovery = [this] { return discovery_->state(); };
    context_.options = [this] { return this->options(); };
    context_.reload = [this](std::string& why) { return reload(why); };
    context_.telemetry_path = options->telemetry_path;
    context_.max_requests = options->max_requests;
    context_.lifecycle = options->enable_lifecycle;
    context_.node = node_;
    return {};
  }

  std::shared_ptr<const Options> options() const {
    const std::lock_guard lock(options_mutex_);
    return options_;
  }
  RouteContext& context() { return context_; }
  OwnMetrics& own() { return own_; }
  const std::vector<std::string>& devices() const { return devices_; }

  bool reload(std::string& why) {
    const std::lock_guard lock(reload_mutex_);
    auto fresh = read_options_();
    if (!fresh) {
      why = fresh.error();
      own_.reload_successful.Set(0);
      log::error("configuration not reloaded, the old one stays", {{"err", why}});
      return false;
    }
    const auto before = options();
    warn_of_restart(*fresh, *before);
    log::set_level(fresh->log_level);
    log::set_format(fresh->log_format);
    EngineSettings settings = engine_settings(*fresh);
    settings.node = node_;
    settings.devices = devices_;
    const auto ports = local_ports(*fresh, devices_);
    source_.configure(fresh->exchange, ports);
    use_keys(*fresh);
    engine_->set_settings(settings);
    discovery_->configure(*fresh, local_devices(ports), ports);
    {
      const std::lock_guard options_lock(options_mutex_);
      options_ = std::make_shared<const Options>(std::move(*fresh));
    }
    own_.reload_successful.Set(1);
    own_.reload_timestamp.Set(unix_time());
    log::info("configuration reloaded", {{"file", options()->config_file}});
    return true;
  }

  void save() const { save_baselines(state_dir_, engine_->save_baselines()); }

 private:
  void take_peers(const std::vector<Peer>& peers) {
    rotating_.change(*engine_, peers);
    log::info("peers chosen", {{"peers", peers.size()}});
  }

  static void warn_of_restart(const Options& fresh, const Options& before) {
    if (fresh.listen_addresses != before.listen_addresses || fresh.telemetry_path != before.telemetry_path ||
        fresh.max_requests != before.max_requests || fresh.enable_lifecycle != before.enable_lifecycle ||
        fresh.web_config_file != before.web_config_file || fresh.control_socket != before.control_socket ||
        fresh.engine.devices != before.engine.devices || fresh.engine.payload != before.engine.payload ||
        fresh.exchange.listen_addresses != before.exchange.listen_addresses ||
        fresh.exchange.web_config_file != before.exchange.web_config_file || fresh.engine.node != before.engine.node ||
        fresh.state_dir != before.state_dir)
      log::warn("changes of web settings, devices, size and names take effect after a restart");
  }

  mutable std::mutex options_mutex_;
  std::shared_ptr<const Options> options_;
  ReadOptions read_options_;
  std::unique_ptr<Verbs> verbs_;
  HttpsSource source_;
  std::unique_ptr<Engine> engine_;
  RotatingTotals rotating_;
  std::unique_ptr<AdhocProbes> adhoc_;
  OwnMetrics own_;
  RouteContext context_;
  std::string node_;
  std::vector<std::string> devices_;
  std::string state_dir_;
  std::mutex reload_mutex_;
  std::unique_ptr<Discovery> discovery_;  // its thread uses what stands above
};

}  // namespace

EngineSettings engine_settings(const Options& options) {
  EngineSettings settings = options.engine;
  if (settings.node.empty()) settings.node = host_name();
  settings.devices = choose_devices(options.sysfs, settings.devices);
  settings.responder = options.responds();
  if (settings.responder && settings.allowed.empty())
    for (const std::string& device : settings.devices) {
      const auto subnets = subnets_of(options.sysfs, device);
      settings.allowed.insert(settings.allowed.end(), subnets.begin(), subnets.end());
    }
  return settings;
}

std::string load_baselines(const std::string& directory) {
  if (directory.empty()) return {};
  auto text = read_file(directory + "/baselines", kMostBaselines);
  if (text) return std::move(*text);
  if (text.error().kind != ErrorKind::kAbsent)
    log::warn("baselines are learnt anew", {{"err", text.error().message()}});
  return {};
}

void save_baselines(const std::string& directory, const std::string& text) {
  if (directory.empty()) return;
  const std::string file = directory + "/baselines";
  const std::string fresh = file + ".new";
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  int err = fd < 0 ? errno : 0;
  for (std::string_view rest = text; fd >= 0 && err == 0 && !rest.empty();) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0)
      err = errno;
    else
      rest.remove_prefix(static_cast<std::size_t>(n));
  }
  if (fd >= 0 && ::fsync(fd) != 0 && err == 0) err = errno;
  if (fd >= 0 && ::close(fd) != 0 && err == 0) err = errno;
  // The old file stays until the new one is whole.
  if (err == 0 && std::rename(fresh.c_str(), file.c_str()) != 0) err = errno;
  if (err != 0) log::warn("baselines are not kept", {{"err", Error{kind_of_errno(err), err, file}.message()}});
}

int serve(const Options& options, const ReadOptions& read_options) {
  // Blocked before any thread starts, so that only the loop below takes them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT: a client that goes away is no reason to end

  if (const std::string why = check_memlock(); !why.empty()) {
    std::fprintf(stderr, "roce_prober: %s\n", why.c_str());
    leave(2);
  }
  Daemon daemon(options, read_options);
  if (const auto started = daemon.start(); !started) {
    std::fprintf(stderr, "roce_prober: %s\n", started.error().message().c_str());
    leave(2);
  }
  if (daemon.devices().empty())
    log::warn("this host shows no RDMA device; name those to wait for with `devices` in the configuration");

  web::ServerOptions server_options;
  server_options.listen_addresses = options.listen_addresses;
  server_options.config_file = options.web_config_file;
  server_options.threads = std::max(options.max_requests, 8) + 8;
  server_options.counters = &daemon.own().web;
  auto server = web::Server::start(server_options, prober_routes(daemon.context()));
  if (!server) {
    std::fprintf(stderr, "roce_prober: cannot serve: %s\n", server.error().message().c_str());
    leave(2);
  }
  std::unique_ptr<web::Server> exchange;
  if (!options.exchange.listen_addresses.empty()) {
    web::ServerOptions exchange_options;
    exchange_options.listen_addresses = options.exchange.listen_addresses;
    exchange_options.config_file = options.exchange.web_config_file;
    exchange_options.max_connections = 32;
    auto started = web::Server::start(exchange_options, exchange_routes(daemon.context()));
    if (!started) {
      std::fprintf(stderr, "roce_prober: cannot serve the exchange: %s\n", started.error().message().c_str());
      leave(2);
    }
    exchange = std::move(*started);
  }
  std::unique_ptr<ControlServer> control;
  if (!options.control_socket.empty()) {
    auto opened =
        open_control(options.control_socket, {{"/-/release", {"POST"}, [&daemon](const web::Request& request) {
                                                 return answer_release(daemon.context(), request);
                                               }}});
    if (!opened) {
      std::fprintf(stderr, "roce_prober: control socket: %s\n", opened.error().message().c_str());
      leave(2);
    }
    control = std::move(*opened);
  }

  for (const std::string& url : (*server)->urls())
    log::info("serving", {{"url", url + options.telemetry_path}, {"version", kVersion}});
  sd_notify(0, "READY=1");
  std::uint64_t watchdog = 0;
  const bool watched = sd_watchdog_enabled(0, &watchdog) > 0;
  auto saved = std::chrono::steady_clock::now();
  for (;;) {
    const timespec tick{kTick.count(), 0};
    const int signal = sigtimedwait(&signals, nullptr, &tick);
    if (watched) sd_notify(0, "WATCHDOG=1");
    if (std::chrono::steady_clock::now() - saved >= kSaveInterval) {
      saved = std::chrono::steady_clock::now();
      daemon.save();
    }
    if (signal < 0) continue;
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
  control.reset();
  if (exchange) exchange->stop(kStopGrace);
  (*server)->stop(kStopGrace);
  daemon.save();
  leave(0);
}

}  // namespace roce::probe
