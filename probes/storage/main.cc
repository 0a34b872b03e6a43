// SPDX-License-Identifier: Apache-2.0
//
// roce_storage_probe: reads a little from named NVMe namespaces and publishes how long that took. A program of its own,
// since a read on a path that is lost may sit in the kernel for minutes.
#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/version.h"
#include "exporter/catalog/catalog.h"
#include "exporter/config/flags.h"
#include "exporter/config/help.h"
#include "exporter/config/values.h"
#include "exporter/metrics/exposition.h"
#include "exporter/web/answers.h"
#include "exporter/web/http.h"
#include "exporter/web/page_metrics.h"
#include "exporter/web/server.h"
#include "probes/catalog/catalog.h"
#include "probes/measure/histogram_sample.h"
#include "probes/storage/namespace_reader.h"

namespace roce::probe {
namespace {

using config::Flag;
using config::Kind;

constexpr std::string_view kProgram = "roce_storage_probe";
constexpr std::size_t kMostNamespaces = 16;
constexpr std::chrono::microseconds kLeastInterval = std::chrono::milliseconds(100),
                                    kMostInterval = std::chrono::minutes(1);

struct Options {
  std::vector<std::string> namespaces, listen_addresses;
  std::string web_config_file, sysfs = "/sys", dev = "/dev";
  std::chrono::microseconds interval = std::chrono::seconds(1);
};

std::vector<Flag> flags() {
  return {
      {"namespace",
       Kind::kList,
       "NAME",
       {},
       "Storage",
       "A namespace to read from: the name of its block device (nvme0n1) or its wwid, which stays when names change. "
       "Give "
       "it again for more, at most 16."},
      {"interval", Kind::kText, "DURATION", {}, "Storage", "Between two reads of a namespace, 100ms to 1m.", "1s"},
      {"web.listen-address", Kind::kList, "ADDRESS", {}, "Web", "Where to serve.", "127.0.0.1:14793"},
      {"web.config.file", Kind::kText, "FILE", {}, "Web", "TLS, client certificates and users, as for the exporter."},
      {"path.sysfs", Kind::kText, "DIR", {}, "Where to read", "Where sysfs is.", "/sys"},
      {"path.dev", Kind::kText, "DIR", {}, "Where to read", "Where the block devices are.", "/dev"},
      {"log.level", Kind::kText, "LEVEL", {}, "General", "Least level to log: debug, info, warn or error.", "info"},
  };
}

std::string help() {
  std::string out =
      "usage: roce_storage_probe --namespace=NAME [FLAGS]\n\n"
      "Reads 4 KiB from each namespace at a steady rate, one read at a time, and publishes how long the reads took. "
      "It\n"
      "opens devices for reading alone.\n";
  std::string_view group;
  const auto all = flags();
  for (const Flag& flag : all) {
    if (flag.group != group) {
      group = flag.group;
      out += fmt::format("\n{}:\n", group);
    }
    config::append_flag(out, flag);
  }
  return out + "  --version\n      Show the version.\n  -h, --help\n      Show this help.\n";
}

tl::expected<Options, Exit> options_of(std::vector<std::string> arguments) {
  auto parsed = config::parse_flags(kProgram, flags(), {}, std::move(arguments));
  if (!parsed) return tl::unexpected(std::move(parsed).error());
  if (parsed->help) return tl::unexpected(Exit{0, help(), {}});
  if (parsed->version) return tl::unexpected(Exit{0, config::version_text(kProgram), {}});
  Options out;
  const auto text = [&](std::string_view name, std::string& to) {
    if (const auto* given = parsed->find(name)) to = given->back();
  };
  if (const auto* given = parsed->find("namespace")) out.namespaces = *given;
  if (const auto* given = parsed->find("web.listen-address")) out.listen_addresses = *given;
  if (out.listen_addresses.empty()) out.listen_addresses = {"127.0.0.1:14793"};
  text("web.config.file", out.web_config_file);
  text("path.sysfs", out.sysfs);
  text("path.dev", out.dev);
  if (const auto* given = parsed->find("interval"))
    if (const auto problem = config::set_duration(given->back(), kLeastInterval, kMostInterval, {}, out.interval))
      return tl::unexpected(config::refuse(kProgram, "interval", *problem));
  if (const auto* given = parsed->find("log.level")) {
    log::Level level{};
    if (const auto problem = config::set_log_level(given->back(), level))
      return tl::unexpected(config::refuse(kProgram, "log.level", *problem));
    log::set_level(level);
  }
  for (std::string& address : std::exchange(out.listen_addresses, {}))
    if (const auto problem = config::add_listen_address(address, out.listen_addresses))
      return tl::unexpected(config::refuse(kProgram, "web.listen-address", *problem));
  if (out.namespaces.empty() || out.namespaces.size() > kMostNamespaces)
    return tl::unexpected(config::refuse(kProgram, fmt::format("--namespace: found {} of them, allowed 1 to {}",
                                                               out.namespaces.size(), kMostNamespaces)));
  if (std::find(out.namespaces.begin(), out.namespaces.end(), "") != out.namespaces.end())
    return tl::unexpected(config::refuse(kProgram, "--namespace: found nothing, allowed the name of a namespace"));
  auto sorted = out.namespaces;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    return tl::unexpected(config::refuse(
        kProgram, fmt::format("--namespace: found {} twice, allowed each once", config::ticked(*twice))));
  return out;
}

using Readers = std::vector<std::unique_ptr<NamespaceReader>>;

web::Response answer_metrics(const Readers& readers, const web::Request& request) {
  SampleBatch out;
  for (const auto& reader : readers) {
    const NamespaceReader::State state = reader->state();
    const std::string_view name = reader->wanted();
    out.add(metric::storage_info, {name, state.found.name, state.found.subsystem}, 1);
    out.add(metric::storage_read, {name}, to_histogram(state.latency));
    out.add(metric::storage_reads, {name}, state.reads);
    out.add(metric::storage_skipped, {name}, state.skipped);
    if (state.in_flight_seconds) out.add(metric::storage_in_flight, {name}, *state.in_flight_seconds);
    for (std::size_t i = 0; i < state.failures.size(); ++i)
      out.add(metric::storage_failures, {name, to_string(static_cast<ReadFailure>(i))}, state.failures[i]);
  }
  out.add(metric::storage_build_info, {kVersion, kRevision, kCompiler}, 1);
  add_process_metrics(out);
  const SampleBatch* const batches[] = {&out};
  RenderedPage page = render_page(batches, web::prefers_protobuf(request.header("Accept")));
  web::Response response;
  response.compress = true;
  response.content_type = page.content_type;
  response.body = std::move(page.body);
  return response;
}

[[noreturn]] void leave(int code) {  // a reader may hang in the kernel
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

int run(int argc, char** argv) {
  const auto options = options_of({argv + 1, argv + argc});
  if (!options) {
    std::fputs(options.error().out.c_str(), stdout);
    std::fputs(options.error().err.c_str(), stderr);
    return options.error().code;
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT: a client that goes away is no reason to end

  Readers readers;
  for (const std::string& name : options->namespaces)
    readers.push_back(std::make_unique<NamespaceReader>(name, options->sysfs, options->dev, options->interval));
  web::ServerOptions server_options;
  server_options.listen_addresses = options->listen_addresses;
  server_options.config_file = options->web_config_file;
  server_options.threads = 8;
  server_options.max_connections = 32;
  auto server = web::Server::start(
      server_options,
      {{"/metrics", {"GET"}, [&](const web::Request& request) { return answer_metrics(readers, request); }},
       {"/",
        {"GET"},
        [](const web::Request&) {
          return web::html_response(
              "<!DOCTYPE html><html lang=\"en\"><title>roce_storage_probe</title>"
              "<h1>roce_storage_probe</h1><p><a href=\"/metrics\">Metrics</a></p></html>\n",
              "", "");
        }},
       {"/-/healthy",
        {"GET"},
        [](const web::Request&) { return web::text_response(200, "roce_storage_probe is healthy.\n"); }},
       {"/-/ready", {"GET"}, [](const web::Request&) {
          return web::text_response(200, "roce_storage_probe is ready.\n");
        }}});
  if (!server) {
    std::fprintf(stderr, "roce_storage_probe: cannot serve: %s\n", server.error().message().c_str());
    return 2;
  }
  for (const auto& reader : readers) reader->start();
  for (const std::string& url : (*server)->urls())
    log::info("serving", {{"url", url + "/metrics"}, {"version", kVersion}});
  const bool service = sd_notify(0, "READY=1") > 0;
  constexpr timespec kPause{1, 0};
  while (sigtimedwait(&signals, nullptr, &kPause) < 0) {
    // The devices that a service may open are those of its start; systemd starts it anew.
    if (!service) continue;
    std::vector<NamespaceReader::State> states;
    for (const auto& reader : readers) states.push_back(reader->state());
    if (!should_start_anew(states)) continue;
    log::error("a namespace came as a device that this service may not open: it ends to be started anew");
    (*server)->stop(std::chrono::seconds(2));  // what hangs from now on keeps the process, but not its port
    leave(1);
  }
  sd_notify(0, "STOPPING=1");
  (*server)->stop(std::chrono::seconds(2));
  leave(0);
}

}  // namespace
}  // namespace roce::probe

int main(int argc, char** argv) {
  mallopt(M_ARENA_MAX, 2);
  try {
    return roce::probe::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "roce_storage_probe: %s\n", e.what());
    return 2;
  }
}
