// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/capture_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "exporter/kernel/devlink_handle.h"
#include "exporter/kernel/process.h"

namespace roce {
namespace {

// Of a recording's recording: what was no number there is none here.
std::string word_of(const NamedValue& counter) {
  return counter.malformed ? fmt::format(" {} ?", counter.name) : fmt::format(" {} {}", counter.name, counter.value);
}

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxObjects = 20000;  // of one kind on one device
constexpr std::array<std::string_view, 6> kStates = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
constexpr std::array<std::string_view, 8> kPhysicalStates = {
    "NOP", "SLEEP", "POLLING", "DISABLED", "ARMED", "LINK_UP", "LINK_ERROR_RECOVER", "PHY_TEST"};
constexpr std::array<std::pair<std::uint8_t, const char*>, 5> kDcbx{{{kDcbxHost, "host"},
                                                                     {kDcbxFirmware, "lld_managed"},
                                                                     {kDcbxCee, "cee"},
                                                                     {kDcbxIeee, "ieee"},
                                                                     {kDcbxStatic, "static"}}};

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// Of one network device, by its name in the recording, as the tool prints it.
std::string of_netdev(const std::string& netdev, Json members) {
  Json object{{"ifname", netdev}};
  object.update(members);
  return dump(Json::array({std::move(object)}));
}

template <class T>
void put(Json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

// A list with a number that has no name is left out: a part of it would say something else.
template <class Values>
std::optional<Json> names_of(const Values& values) {
  Json out = Json::array();
  for (const auto value : values) {
    if (dcb_name(value).empty()) return std::nullopt;
    out.push_back(dcb_name(value));
  }
  return out;
}

Json pfc_json(const DcbPfc& pfc) {
  Json out;
  Json enabled = Json::array();
  for (std::size_t i = 0; i < kPriorities; ++i) enabled.push_back(pfc.on(i));
  out["prio_pfc"] = std::move(enabled);
  put(out, "pfc_cap", pfc.capable);
  put(out, "delay", pfc.delay);
  put(out, "requests", pfc.sent);
  put(out, "indications", pfc.received);
  return out;
}

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff,
                     guid & 0xffff);
}

bool failed(const Error& error) { return is_failure(error.kind); }

// What the `rdma` tool would print of all devices.
class RdmaCapture {
 public:
  RdmaCapture(RdmaSource& source, const std::string& procfs, const CaptureOptions& options, Pseudonyms& names)
      : source_(source), procfs_(procfs), options_(options), names_(names) {}

  std::vector<RecordedSource> run() {
    std::vector<RecordedSource> out;
    const auto devices = source_.devices();
    if (!devices) {
      if (failed(devices.error())) out.push_back({"rdma/dev.json", tl::unexpected<Error>(devices.error())});
      return out;
    }
    for (const RdmaDevice& device : *devices)
      if (options_.device_wanted(device.name)) take(device);
    const auto add = [&out](const std::string& file, std::string text) {
      out.push_back({"rdma/" + file, std::move(text)});
    };
    add("dev.json", dump(devices_));
    if (links_known_) add("link.json", dump(links_));
    if (resources_known_) add("resource.json", dump(resources_));
    for (auto& [kind, objects] : listings_) add("resource_" + kind + ".json", dump(objects));
    for (const auto& [kind, error] : failures_)
      if (!listings_.contains(kind)) out.push_back({"rdma/resource_" + kind + ".json", tl::unexpected<Error>(error)});
    if (mr_statistics_known_) add("statistic_mr.json", dump(mr_statistics_));
    if (!statistics_.empty()) add("statistic.txt", statistics_);
    if (!optional_counters_.empty()) add("statistic_mode.txt", optional_counters_);
    if (const auto mode = source_.netns_mode())
      add("system.txt", *mode == NetnsMode::kShared ? "netns shared\n" : "netns exclusive\n");
    return out;
  }

 private:
  Json of_device(const RdmaDevice& device) {
    return {{"ifindex", device.index}, {"ifname", names_.kernel_text(device.name)}};
  }

  void take(const RdmaDevice& device) {
    Json entry = of_device(device);
    entry["node_guid"] = guid_text(names_.guid(device.node_guid));
    entry["sys_image_guid"] = guid_text(names_.guid(device.sys_image_guid));
    entry["fw"] = device.firmware;
    entry["protocol"] = device.protocol;
    devices_.push_back(std::move(entry));
    if (const auto ports = source_.ports(device)) {
      links_known_ = true;
      for (const RdmaPort& port : *ports) {
        Json link = of_device(device);
        link["port"] = port.port;
        if (port.state && *port.state < kStates.size()) link["state"] = kStates[*port.state];
        if (port.physical_state && *port.physical_state < kPhysicalStates.size())
          link["physical_state"] = kPhysicalStates[*port.physical_state];
        if (!port.netdev.empty()) link["netdev"] = names_.kernel_text(port.netdev);
        if (port.netdev_index != 0) link["netdev_index"] = port.netdev_index;
        links_.push_back(std::move(link));
        if (const auto counters = source_.port_counters(device, port.port)) {
          statistics_ += fmt::format("link {}/{}", names_.kernel_text(device.name), port.port);
          for (const NamedValue& counter : *counters) statistics_ += word_of(counter);
          statistics_ += "\n";
        }
        if (const auto counters = source_.counter_status(device, port.port))
          optional_counters_ += optional_counters_text(names_.kernel_text(device.name), port.port, *counters);
      }
    }
    if (const auto sets = source_.qp_counter_sets(device))
      for (const QpCounterSet& set : *sets) put_set(device, set);
    std::uint64_t qps = 0;
    if (const auto counts = source_.resources(device)) {
      resources_known_ = true;
      Json summary = of_device(device);
      for (const ResourceCount& count : *counts) {
        summary[count.name] = count.current;
        put(summary, (count.name + "-max").c_str(), count.limit);
        if (count.name == "qp") qps = count.current;
      }
      resources_.push_back(std::move(summary));
    }
    // Each QP of a listing can cost a firmware command.
    if (qps <= options_.qp_max) take_qps(device);
    take_others(device);
  }

  void put_owner(Json& object, const RdmaOwner& owner) {
    if (owner.kernel()) object["comm"] = "[" + owner.name + "]";
    if (!owner.pid) return;
    object["pid"] = *owner.pid;
    const std::string comm = owner.name.empty() ? read_comm(procfs_, *owner.pid) : owner.name;
    if (!comm.empty()) object["comm"] = names_.process(comm);
  }

  void put_set(const RdmaDevice& device, const QpCounterSet& set) {
    statistics_ += fmt::format("link {}/{} cntn {}", names_.kernel_text(device.name), set.port, set.id);
    if (set.pid) statistics_ += fmt::format(" pid {}", *set.pid);
    if (set.qp_type) statistics_ += fmt::format(" qp-type {}", rdma_qp_type_name(*set.qp_type));
    for (const NamedValue& counter : set.counters) statistics_ += word_of(counter);
    statistics_ += fmt::format(" LQPN: <{}>\n", fmt::join(set.qpns, ","));
  }

  template <class T, class Describe>
  void listing(const char* kind, const RdmaDevice& device, const Result<RdmaListing<T>>& found, Describe describe) {
    if (!found || found->broken) {
      const Error& error = found ? *found->broken : found.error();
      if (failed(error)) failures_.try_emplace(kind, error);
      return;
    }
    Json& all = listings_.try_emplace(kind, Json::array()).first->second;
    for (std::size_t i = 0; i < found->objects.size() && i < kMaxObjects; ++i) {
      Json entry = of_device(device);
      describe(found->objects[i], entry);
      put_owner(entry, found->objects[i].owner);
      all.push_back(std::move(entry));
    }
  }

  void take_qps(const RdmaDevice& device) {
    listing("qp", device, source_.qps(device), [](const RdmaQp& qp, Json& entry) {
      if (qp.port != 0) entry["port"] = qp.port;
      entry["lqpn"] = qp.number;
      entry["type"] = rdma_qp_type_name(qp.type);
      entry["state"] = rdma_qp_state_name(qp.state);
    });
  }

  void take_others(const RdmaDevice& device) {
    const auto address = [this](const RdmaAddress& a) {
      return fmt::format("{}:{}", names_.address_or_host(a.ip), a.port);
    };
    listing("cm_id", device, source_.cm_ids(device), [&](const RdmaCmId& id, Json& entry) {
      if (id.port != 0) entry["port"] = id.port;
      entry["cm-idn"] = id.id;
      if (id.qpn) entry["lqpn"] = *id.qpn;
      entry["state"] = rdma_cm_state_name(id.state);
      if (!id.source.ip.empty()) entry["src-addr"] = address(id.source);
      if (!id.destination.ip.empty()) entry["dst-addr"] = address(id.destination);
    });
    listing("cq", device, source_.cqs(device), [](const RdmaCq& cq, Json& entry) { entry["cqn"] = cq.id; });
    listing("mr", device, source_.mrs(device), [](const RdmaMr& mr, Json& entry) {
      entry["mrn"] = mr.id;
      entry["mrlen"] = mr.length;
    });
    listing("ctx", device, source_.contexts(device),
            [](const RdmaVerbsContext& context, Json& entry) { entry["ctxn"] = context.id; });
    if (const auto statistics = source_.mr_statistics(device); statistics && !statistics->broken) {
      mr_statistics_known_ = true;
      for (const RdmaMrStatistic& mr : statistics->objects) {
        Json entry = of_device(device);
        entry["mrn"] = mr.id;
        for (const NamedValue& counter : mr.counters)
          if (!counter.malformed) entry[counter.name] = counter.value;
        mr_statistics_.push_back(std::move(entry));
      }
    }
  }

  RdmaSource& source_;
  const std::string& procfs_;
  const CaptureOptions& options_;
  Pseudonyms& names_;
  Json devices_ = Json::array();
  Json links_ = Json::array();
  Json resources_ = Json::array();
  Json mr_statistics_ = Json::array();
  std::map<std::string, Json> listings_;
  std::map<std::string, Error> failures_;  // of listings
  std::string statistics_;
  std::string optional_counters_;
  bool links_known_ = false;
  bool resources_known_ = false;
  bool mr_statistics_known_ = false;
};

}  // namespace

std::string ethtool_statistics_text(const std::vector<NamedValue>& values) {
  std::string out = "NIC statistics:\n";
  for (const NamedValue& value : values) out += fmt::format("     {}: {}\n", value.name, value.value);
  return out;
}

std::string ethtool_link_json(const std::string& netdev, const EthtoolLink& link) {
  Json out = Json::object();
  put(out, "link-detected", link.detected);
  put(out, "sqi", link.quality);
  put(out, "sqi-max", link.quality_max);
  if (!link.reason.empty()) {
    out["link-state"] = Json::array({link.reason});
    if (!link.detail.empty()) out["link-state"].push_back(link.detail);
  }
  put(out, "link-down-events", link.down_events);
  return of_netdev(netdev, std::move(out));
}

std::string ethtool_pause_json(const std::string& netdev, const EthtoolPause& pause) {
  Json out = Json::object();
  put(out, "autonegotiate", pause.autonegotiate);
  put(out, "rx", pause.receive);
  put(out, "tx", pause.transmit);
  Json statistics;
  put(statistics, "rx_pause_frames", pause.receive_frames);
  put(statistics, "tx_pause_frames", pause.transmit_frames);
  if (!statistics.empty()) out["statistics"] = std::move(statistics);
  return of_netdev(netdev, std::move(out));
}

std::string ethtool_fec_json(const std::string& netdev, const EthtoolFec& fec) {
  Json out{{"config", fec.configured}, {"active", fec.active}};
  Json statistics;
  const auto total = [&](const char* key, const std::optional<std::uint64_t>& value) {
    if (value) statistics[key] = Json{{"total", *value}};
  };
  total("corrected_blocks", fec.corrected_blocks);
  total("uncorrectable_blocks", fec.uncorrectable_blocks);
  total("corrected_bits", fec.corrected_bits);
  if (!statistics.empty()) out["statistics"] = std::move(statistics);
  return of_netdev(netdev, std::move(out));
}

std::string ethtool_standard_statistics_json(const std::string& netdev, const std::vector<NamedValue>& values) {
  Json out = Json::object();
  for (const NamedValue& value : values) {
    const std::size_t slash = value.name.find('/');
    if (slash != std::string::npos) out[value.name.substr(0, slash)][value.name.substr(slash + 1)] = value.value;
  }
  return of_netdev(netdev, std::move(out));
}

std::string dcb_json(const DcbState& state) {
  Json out = Json::object();
  if (state.pfc) out["pfc"] = pfc_json(*state.pfc);
  if (state.ets) {
    Json ets = Json::object();
    put(ets, "willing", state.ets->willing);
    put(ets, "tc_bw", state.ets->bandwidth);
    put(ets, "prio_tc", state.ets->traffic_class);
    if (state.ets->algorithm) put(ets, "tc_tsa", names_of(*state.ets->algorithm));
    if (!ets.empty()) out["ets"] = std::move(ets);
  }
  if (state.max_rate) out["maxrate"] = Json{{"tc_maxrate", *state.max_rate}};
  if (state.buffers) {
    Json buffers = Json::object();
    put(buffers, "prio_buffer", state.buffers->of_priority);
    put(buffers, "buffer_size", state.buffers->size);
    put(buffers, "total_size", state.buffers->total);
    if (!buffers.empty()) out["buffer"] = std::move(buffers);
  }
  if (state.apps) {
    Json apps = Json::object();
    for (const DcbApp& app : *state.apps) {
      if (app.selector == DcbSelector::kEtherType && app.protocol == 0)
        apps["default_prio"].push_back(app.priority);
      else if (!dcb_name(app.selector).empty())
        apps[std::string(dcb_name(app.selector)) + "_prio"].push_back(Json::array({app.protocol, app.priority}));
    }
    out["app"] = std::move(apps);
  }
  if (state.trust) {
    if (auto order = names_of(*state.trust)) out["apptrust"] = Json{{"order", std::move(*order)}};
  }
  if (state.dcbx) {
    Json dcbx = Json::object();
    for (const auto& [bit, name] : kDcbx)
      if ((*state.dcbx & bit) != 0) dcbx[name] = true;
    out["dcbx"] = std::move(dcbx);
  }
  return dump(out);
}

std::string devlink_health_json(const std::vector<HealthReporter>& reporters) {
  Json health = Json::object();
  for (const HealthReporter& reporter : reporters) {
    std::string handle = reporter.device.bus + "/" + reporter.device.name;
    if (reporter.port) handle += fmt::format("/{}", *reporter.port);
    health[handle].push_back(Json{{"reporter", reporter.name},
                                  {"state", reporter.in_error ? "error" : "healthy"},
                                  {"error", reporter.errors},
                                  {"recover", reporter.recoveries}});
  }
  return dump(Json{{"health", std::move(health)}});
}

std::string optional_counters_text(const std::string& device, std::uint32_t port,
                                   const std::vector<CounterStatus>& counters) {
  std::vector<std::string_view> supported;
  std::vector<std::string_view> enabled;
  for (const CounterStatus& counter : counters) {
    if (!counter.optional) continue;
    supported.push_back(counter.name);
    if (counter.enabled) enabled.push_back(counter.name);
  }
  std::string out;
  if (!supported.empty())
    out += fmt::format("link {}/{} supported optional-counters {}\n", device, port, fmt::join(supported, ","));
  if (!enabled.empty()) out += fmt::format("link {}/{} optional-counters {}\n", device, port, fmt::join(enabled, ","));
  return out;
}

namespace {

// Of all devices; nothing where no devlink was asked.
std::optional<RecordedSource> devlink_source(const Host& host, const DeviceList& objects, Pseudonyms& names) {
  if (!host.devlink) return std::nullopt;
  bool known = false;
  std::optional<Error> error;
  std::vector<HealthReporter> all;
  std::set<std::pair<std::string, std::string>> asked;
  for (const auto& object : objects) {
    if (object->kind != ObjectKind::kRdma || object->pci_address.empty()) continue;
    const DevlinkHandle handle = devlink_handle(object->parent, object->pci_address);
    // RDMA devices of one function share its devlink.
    if (!asked.emplace(handle.bus, handle.name).second) continue;
    auto reporters = host.devlink->health_reporters(handle);
    if (!reporters && failed(reporters.error())) error = reporters.error();
    known = known || reporters || reporters.error().kind != ErrorKind::kNotRecorded;
    if (!reporters) continue;
    for (HealthReporter& reporter : *reporters) {
      reporter.device.name = names.kernel_text(reporter.device.name);
      all.push_back(std::move(reporter));
    }
  }
  if (!known) return std::nullopt;
  RecordedSource out{"rdma/devlink_health.json", devlink_health_json(all)};
  if (error && all.empty()) out.text = tl::unexpected<Error>(*error);
  return out;
}

}  // namespace

std::vector<RecordedSource> recorded_sources(const Host& host, const DeviceList& objects, const CaptureOptions& options,
                                             Pseudonyms& names) {
  std::vector<RecordedSource> out;
  const auto add = [&out](std::string path, const auto& found, auto text) {
    if (found)
      out.push_back({std::move(path), text(*found)});
    else if (failed(found.error()))
      out.push_back({std::move(path), tl::unexpected<Error>(found.error())});
  };
  std::set<std::string> netdevs;
  for (const auto& object : objects)
    for (const InventoryNetdev& netdev : object->netdevs) netdevs.insert(netdev.name);
  for (const std::string& netdev : netdevs) {
    // One whose name was not recorded stands in the folder itself.
    const std::string folder = netdev.empty() ? "" : "netdev/" + netdev + "/";
    const std::string name = names.kernel_text(netdev);
    if (host.ethtool) {
      add(folder + "ethtool_S.txt", host.ethtool->statistics(netdev), ethtool_statistics_text);
      add(folder + "driver", host.ethtool->driver(netdev), [](const std::string& driver) { return driver + "\n"; });
      add(folder + "link.json", host.ethtool->link(netdev, true),
          [&](const EthtoolLink& link) { return ethtool_link_json(name, link); });
      add(folder + "pause.json", host.ethtool->pause(netdev),
          [&](const EthtoolPause& pause) { return ethtool_pause_json(name, pause); });
      add(folder + "fec.json", host.ethtool->fec(netdev),
          [&](const EthtoolFec& fec) { return ethtool_fec_json(name, fec); });
      add(folder + "stats.json", host.ethtool->standard_statistics(netdev),
          [&](const std::vector<NamedValue>& values) { return ethtool_standard_statistics_json(name, values); });
    }
    if (host.dcb && !netdev.empty()) {
      auto state = host.dcb->state(netdev);
      // As `dcb -j` prints it.
      if (!state && (state.error().kind == ErrorKind::kUnsupported || state.error().kind == ErrorKind::kAbsent))
        state = DcbState{};
      add(folder + "dcb.json", state, dcb_json);
    }
  }
  if (host.rdma) {
    auto rdma = RdmaCapture(*host.rdma, host.procfs, options, names).run();
    std::move(rdma.begin(), rdma.end(), std::back_inserter(out));
  }
  if (auto devlink = devlink_source(host, objects, names)) out.push_back(std::move(*devlink));
  return out;
}

}  // namespace roce
