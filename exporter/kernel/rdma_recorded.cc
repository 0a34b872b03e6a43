// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma_recorded.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

using Json = nlohmann::ordered_json;  // counters stay in the order of the driver

constexpr std::size_t kMaxFileSize = std::size_t{64} << 20;
constexpr std::uint32_t kMax32 = std::numeric_limits<std::uint32_t>::max();

constexpr std::array<std::string_view, 6> kStates = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
// Empty: numbers without a name.
constexpr std::array<std::string_view, 12> kPhysicalStates = {
    "NOP",      "SLEEP", "POLLING",     "DISABLED", "ARMED",   "LINK_UP", "LINK_ERROR_RECOVER",
    "PHY_TEST", "",      "OPA_OFFLINE", "",         "OPA_TEST"};
constexpr std::array<std::string_view, 11> kQpTypes = {
    "SMI", "GSI", "RC", "UC", "UD", "RAW_IPV6", "RAW_ETHERTYPE", "", "RAW_PACKET", "XRC_INI", "XRC_TGT"};
constexpr std::uint32_t kUnknown = 0xfffffffe;  // no number of the kernel's

template <std::size_t N>
std::optional<std::uint32_t> number_of(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (name.empty() || found == names.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - names.begin());
}

std::optional<std::uint32_t> narrow(std::optional<std::uint64_t> value) {
  if (!value || *value > kMax32) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

// "0200:00ff:fe00:0028"
std::uint64_t parse_guid(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ':') digits += c;
  }
  return parse_hex(digits).value_or(0);
}

// "mlx5_0/1"; without a number behind the slash ("-" or none) the port is 0.
std::pair<std::string_view, std::uint32_t> split_link(std::string_view text) {
  const auto slash = text.rfind('/');
  if (slash == std::string_view::npos) return {text, 0};
  return {text.substr(0, slash), narrow(parse_u64(text.substr(slash + 1))).value_or(0)};
}

void keep_first(std::vector<NamedValue>& counters) {
  std::unordered_set<std::string> seen;
  std::erase_if(counters, [&](const NamedValue& counter) { return !seen.insert(counter.name).second; });
}

// Puts records of one port together, so that a port has one list.
void settle(RecordedStatistics& statistics) {
  std::vector<RecordedStatistics::Port> merged;
  std::map<std::pair<std::string, std::uint32_t>, std::size_t> places;
  for (auto& port : statistics.ports) {
    const auto [place, is_new] = places.emplace(std::pair(port.device, port.port), merged.size());
    if (is_new) {
      merged.push_back(std::move(port));
    } else {
      auto& counters = merged[place->second].counters;
      std::move(port.counters.begin(), port.counters.end(), std::back_inserter(counters));
    }
  }
  statistics.ports = std::move(merged);
  for (auto& port : statistics.ports) keep_first(port.counters);
  for (auto& set : statistics.sets) keep_first(set.set.counters);
}

using Words = std::vector<std::string_view>;

Words words(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  Words all;
  for (;;) {
    const auto begin = text.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return all;
    text.remove_prefix(begin);
    const auto size = std::min(text.find_first_of(kBlank), text.size());
    all.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
}

// "<178,179>", possibly cut by blanks.
void read_qpns(std::string_view text, std::vector<std::uint32_t>& out) {
  while (!text.empty()) {
    const auto size = std::min(text.find_first_of("<,>"), text.size());
    if (const auto qpn = narrow(parse_u64(text.substr(0, size)))) out.push_back(*qpn);
    text.remove_prefix(std::min(size + 1, text.size()));
  }
}

// No counter is called by a number.
bool begins_name(std::string_view word) {
  return !word.empty() && (word[0] == '_' || std::isalpha(static_cast<unsigned char>(word[0])) != 0);
}

// A counter's name as drivers make them (tx_bytes, ip4InOctets), where a value should be. What stands for a value that
// is none ("nan", "N/A") is no such word.
bool looks_like_name(std::string_view word) {
  if (!begins_name(word)) return false;
  bool joined = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto letter = static_cast<unsigned char>(word[i]);
    if (std::isalnum(letter) == 0 && letter != '_') return false;
    joined = joined || letter == '_' ||
             (i > 0 && std::isupper(letter) != 0 && std::islower(static_cast<unsigned char>(word[i - 1])) != 0);
  }
  return joined;
}

Result<void> add_record(std::string_view link, const Words& rest, RecordedStatistics& out) {
  const auto [device, port] = split_link(link);
  if (device.empty()) return fail(ErrorKind::kMalformed, "rdma statistic: no device");
  const bool is_set = std::find(rest.begin(), rest.end(), "cntn") != rest.end();
  std::vector<NamedValue> counters;
  QpCounterSet set;
  for (std::size_t i = 0; i < rest.size();) {
    const std::string_view name = rest[i];
    const std::string_view value = i + 1 < rest.size() ? rest[i + 1] : std::string_view();
    if (is_set && name == "LQPN:") {
      for (++i; i < rest.size(); ++i) read_qpns(rest[i], set.qpns);
      break;
    }
    const auto number = parse_u64(value);
    if (is_set && name == "qp-type") {
      set.qp_type = number_of(kQpTypes, value);
      i += 2;
    } else if (is_set && name == "comm") {
      i += 2;
    } else if (is_set && (name == "cntn" || name == "pid")) {
      if (!narrow(number)) return fail(ErrorKind::kMalformed, "rdma statistic: " + std::string(link));
      (name == "cntn" ? set.id : set.pid.emplace()) = *narrow(number);
      i += 2;
    } else if (!begins_name(name)) {
      ++i;  // what is left of a value that was none
    } else if (number) {
      counters.push_back({std::string(name), *number});
      i += 2;
    } else if (is_set) {
      ++i;  // the rest of a process name with blanks
    } else {
      // One that lost its value is lost alone: the next word is its value misspelt, unless it is a name, for its form
      // or for the value behind it.
      const bool next_is_name = value.empty() || looks_like_name(value) ||
                                (begins_name(value) && i + 2 < rest.size() && parse_u64(rest[i + 2]));
      counters.push_back({std::string(name), 0, true});
      i += next_is_name ? 1 : 2;
    }
  }
  if (is_set) {
    set.port = port;
    set.counters = std::move(counters);
    out.sets.push_back({std::string(device), std::move(set)});
  } else if (port != 0) {
    out.ports.push_back({std::string(device), port, std::move(counters)});
  }
  return {};
}

// JSON values without exceptions: nothing when the key is missing or of another type.
std::optional<std::uint64_t> number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}
std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return found->get_ref<const std::string&>();
}

// All objects of the document: tool versions differ in how many arrays they put around them.
void collect_objects(const Json& value, int depth, std::vector<const Json*>& out) {
  if (value.is_object()) out.push_back(&value);
  if (!value.is_array() || depth == 0) return;
  for (const Json& element : value) collect_objects(element, depth - 1, out);
}

struct Document {
  Json json;
  std::vector<const Json*> objects() const {
    std::vector<const Json*> all;
    collect_objects(json, 3, all);
    return all;
  }
};

Result<Document> parse_document(std::string_view text, const std::string& what) {
  Document document;
  // A tool without anything to show may print nothing at all.
  if (trim(text).empty()) return document;
  document.json = Json::parse(text, nullptr, false);
  if (document.json.is_discarded() || !(document.json.is_array() || document.json.is_object()))
    return fail(ErrorKind::kMalformed, what);
  return document;
}

// Device and port of an object: "ifname":"mlx5_0" with "port":1, in old versions "ifname":"mlx5_0/1".
std::pair<std::string, std::uint32_t> link_of(const Json& object) {
  const std::string name = text_at(object, "ifname");
  const auto [device, port_in_name] = split_link(name);
  return {std::string(device), narrow(number_at(object, "port")).value_or(port_in_name)};
}

bool is_counter_key(std::string_view key) {
  constexpr std::array<std::string_view, 8> kOthers = {"ifindex", "ifname", "port", "cntn",
                                                       "qp-type", "pid",    "comm", "lqpn"};
  return std::find(kOthers.begin(), kOthers.end(), key) == kOthers.end();
}

struct Named {
  std::string name;
  std::optional<std::uint32_t> index;
};

std::vector<ResourceCount> read_counts(const Json& object) {
  std::vector<ResourceCount> counts;
  constexpr std::string_view kLimit = "-max";
  for (const auto& [key, value] : object.items()) {
    if (key == "ifindex" || key == "ifname" || key.ends_with(kLimit) || !value.is_number_unsigned()) continue;
    auto limit = number_at(object, (key + std::string(kLimit)).c_str());
    if (limit == 0U) limit.reset();
    counts.push_back({key, value.get<std::uint64_t>(), limit});
  }
  return counts;
}

RdmaPort read_port(const Json& object, std::uint32_t number) {
  RdmaPort port;
  port.port = number;
  port.state = number_of(kStates, text_at(object, "state"));
  port.physical_state = number_of(kPhysicalStates, text_at(object, "physical_state"));
  port.netdev = text_at(object, "netdev");
  port.netdev_index = narrow(number_at(object, "netdev_index")).value_or(0);
  return port;
}

RdmaDevice read_device(const Json& object) {
  RdmaDevice device;
  device.name = text_at(object, "ifname");
  device.firmware = text_at(object, "fw");
  device.protocol = text_at(object, "protocol");
  device.node_guid = parse_guid(text_at(object, "node_guid"));
  device.sys_image_guid = parse_guid(text_at(object, "sys_image_guid"));
  return device;
}

// Number of a name that the tool printed, found through the function that names numbers.
std::uint32_t number_by_name(std::string_view name, std::string_view (*name_of)(std::uint32_t)) {
  for (std::uint32_t number = 0; number < 256; ++number) {
    if (name_of(number) == name && name != "UNKNOWN") return number;
  }
  return kUnknown;
}

RdmaOwner read_owner(const Json& object) {
  RdmaOwner owner;
  owner.pid = narrow(number_at(object, "pid"));
  if (owner.pid == 0U) owner.pid.reset();
  owner.name = text_at(object, "comm");
  if (owner.name.size() > 2 && owner.name.front() == '[' && owner.name.back() == ']')
    owner.name = owner.name.substr(1, owner.name.size() - 2);
  return owner;
}

std::uint32_t number_or_zero(const Json& object, const char* key) { return narrow(number_at(object, key)).value_or(0); }

// "192.0.2.1:4420", "fd00::1:4420": the port is behind the last colon.
RdmaAddress read_address(const Json& object, const char* key) {
  const std::string text = text_at(object, key);
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  const auto port = parse_u64(std::string_view(text).substr(colon + 1));
  if (!port || *port > 65535) return {};
  return {text.substr(0, colon), static_cast<std::uint16_t>(*port)};
}

RdmaQp read_qp(const Json& object) {
  RdmaQp qp;
  qp.port = link_of(object).second;
  qp.number = number_or_zero(object, "lqpn");
  qp.type = number_by_name(text_at(object, "type"), &rdma_qp_type_name);
  qp.state = number_by_name(text_at(object, "state"), &rdma_qp_state_name);
  qp.owner = read_owner(object);
  return qp;
}

RdmaCmId read_cm_id(const Json& object) {
  RdmaCmId id;
  id.id = number_or_zero(object, "cm-idn");
  id.port = link_of(object).second;
  id.qpn = narrow(number_at(object, "lqpn"));
  if (id.qpn == 0U) id.qpn.reset();
  id.state = number_by_name(text_at(object, "state"), &rdma_cm_state_name);
  id.source = read_address(object, "src-addr");
  id.destination = read_address(object, "dst-addr");
  id.owner = read_owner(object);
  return id;
}

enum class RecordedKind { kSummary, kQp, kCmId, kCq, kMr, kContext, kOther };

// Which kind of object the tool printed: its keys tell, in this order, since some kinds name another object too.
RecordedKind object_kind(const Json& object) {
  const auto has = [&object](const char* key) { return object.contains(key); };
  if (has("cm-idn") || has("ps") || has("src-addr")) return RecordedKind::kCmId;
  if (has("srqn")) return RecordedKind::kOther;
  if (has("lqpn")) return RecordedKind::kQp;
  if (has("mrn") || has("mrlen")) return RecordedKind::kMr;
  if (has("cqn") || has("cqe")) return RecordedKind::kCq;
  if (has("pdn")) return RecordedKind::kOther;
  if (has("ctxn")) return RecordedKind::kContext;
  return RecordedKind::kSummary;
}

Result<NetnsMode> netns_of(std::string_view mode, const std::string& what) {
  if (mode == "shared") return NetnsMode::kShared;
  if (mode == "exclusive") return NetnsMode::kExclusive;
  return fail(ErrorKind::kMalformed, what);
}

// The first of the files that is there: its path and content.
struct Found {
  std::string path;
  std::string text;
  // Not by the file's name: versions of the tool answer -j with text where they know no JSON.
  bool json() const {
    const std::string_view content = trim(text);
    return content.starts_with('[') || content.starts_with('{');
  }
};
Result<Found> read_first(const std::string& dir, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    Found found;
    found.path = dir + "/" + name;
    auto text = read_file(found.path, kMaxFileSize);
    if (!text && text.error().kind == ErrorKind::kAbsent) continue;
    if (!text) return tl::unexpected<Error>(std::move(text).error());
    found.text = std::move(*text);
    return found;
  }
  return fail(ErrorKind::kNotRecorded, dir + "/" + *names.begin());
}

class RecordedRdma final : public RdmaSource {
 public:
  explicit RecordedRdma(const std::string& dir) {
    read_devices(dir);
    read_links(dir);
    read_resources(dir);
    for (const char* kind : {"qp", "cm_id", "cq", "mr", "ctx"}) read_listing(dir, kind);
    read_mr_statistics(dir);
    read_statistics(dir);
    read_optional_counters(dir);
    netns_ = read_netns(dir);
    note_class(dir);
    settle_devices();
  }

  Result<std::vector<RdmaDevice>> devices() override { return devices_; }

  Result<std::vector<RdmaPort>> ports(const RdmaDevice& device) override {
    if (!links_ && links_.error().kind != ErrorKind::kNotRecorded) return tl::unexpected<Error>(links_.error());
    std::vector<RdmaPort> all;
    if (links_) {
      for (const auto& [name, port] : *links_) {
        if (name == device.name) all.push_back(port);
      }
    }
    if (statistics_) {
      for (const auto& recorded : statistics_->ports) {
        if (recorded.device != device.name) continue;
        if (std::any_of(all.begin(), all.end(), [&](const RdmaPort& p) { return p.port == recorded.port; })) continue;
        all.emplace_back().port = recorded.port;
      }
    }
    if (all.empty() && !links_) return tl::unexpected<Error>(links_.error());
    return all;
  }

  Result<std::vector<NamedValue>> port_counters(const RdmaDevice& device, std::uint32_t port) override {
    if (!statistics_) return tl::unexpected<Error>(statistics_.error());
    for (const auto& recorded : statistics_->ports) {
      if (recorded.device == device.name && recorded.port == port) return recorded.counters;
    }
    // The tool leaves out the ports whose driver has no counters.
    return fail(ErrorKind::kUnsupported, "rdma statistic " + device.name + "/" + std::to_string(port));
  }

  Result<std::vector<CounterStatus>> counter_status(const RdmaDevice& device, std::uint32_t port) override {
    if (!optional_counters_) return tl::unexpected<Error>(optional_counters_.error());
    const auto found = optional_counters_->find({device.name, port});
    return found == optional_counters_->end() ? std::vector<CounterStatus>{} : found->second;
  }

  Result<std::vector<ResourceCount>> resources(const RdmaDevice& device) override {
    if (!resources_) return tl::unexpected<Error>(resources_.error());
    for (const auto& [name, counts] : *resources_) {
      if (name == device.name) return counts;
    }
    return fail(ErrorKind::kUnsupported, "rdma resource " + device.name);
  }

  Result<std::vector<QpCounterSet>> qp_counter_sets(const RdmaDevice& device) override {
    if (!statistics_) return tl::unexpected<Error>(statistics_.error());
    std::vector<QpCounterSet> all;
    for (const auto& [name, set] : statistics_->sets) {
      if (name == device.name) all.push_back(set);
    }
    // `rdma statistic show` says nothing about sets; only `rdma statistic qp show` does.
    if (statistics_->sets.empty()) return fail(ErrorKind::kNotRecorded, "rdma statistic qp " + device.name);
    return all;
  }

  Result<NetnsMode> netns_mode() override { return netns_; }

  Result<RdmaListing<RdmaQp>> qps(const RdmaDevice& device) override { return listing(qps_, device); }
  Result<RdmaListing<RdmaCmId>> cm_ids(const RdmaDevice& device) override { return listing(cm_ids_, device); }
  Result<RdmaListing<RdmaCq>> cqs(const RdmaDevice& device) override { return listing(cqs_, device); }
  Result<RdmaListing<RdmaMr>> mrs(const RdmaDevice& device) override { return listing(mrs_, device); }
  Result<RdmaListing<RdmaVerbsContext>> contexts(const RdmaDevice& device) override {
    return listing(contexts_, device);
  }
  Result<RdmaListing<RdmaMrStatistic>> mr_statistics(const RdmaDevice& device) override {
    return listing(mr_statistics_, device);
  }

 private:
  // The objects of one kind of all devices.
  template <class T>
  struct Objects {
    explicit Objects(std::string kind_name) : kind(std::move(kind_name)) {}

    std::string kind;
    std::optional<Error> error = Error{ErrorKind::kNotRecorded, 0, {}};
    std::vector<std::pair<std::string, T>> all;

    void add(const std::string& device, T object) {
      error.reset();
      all.emplace_back(device, std::move(object));
    }
  };

  template <class T>
  static Result<RdmaListing<T>> listing(const Objects<T>& objects, const RdmaDevice& device) {
    if (objects.error)
      return fail(objects.error->kind, device.name + ": " + objects.kind + " " + objects.error->object);
    RdmaListing<T> listing;
    for (const auto& [name, object] : objects.all) {
      if (name == device.name) listing.objects.push_back(object);
    }
    return listing;
  }

  void add_object(const Json& object, RecordedKind kind) {
    const std::string device = link_of(object).first;
    switch (kind) {
      case RecordedKind::kQp:
        return qps_.add(device, read_qp(object));
      case RecordedKind::kCmId:
        return cm_ids_.add(device, read_cm_id(object));
      case RecordedKind::kCq:
        return cqs_.add(device, {number_or_zero(object, "cqn"), read_owner(object)});
      case RecordedKind::kMr:
        return mrs_.add(device,
                        {number_or_zero(object, "mrn"), number_at(object, "mrlen").value_or(0), read_owner(object)});
      case RecordedKind::kContext:
        return contexts_.add(device, {number_or_zero(object, "ctxn"), read_owner(object)});
      case RecordedKind::kSummary:
      case RecordedKind::kOther:
        break;
    }
  }

  // What a file of one kind says, even if it is that there are none.
  void read_listing(const std::string& dir, const std::string& kind) {
    const auto read = read_objects(dir, ("rdma/resource_" + kind + ".json").c_str(), [&](const Json& object) {
      const std::string device = link_of(object).first;
      if (device.empty()) return false;
      note(device, object);
      add_object(object, object_kind(object));
      return true;
    });
    if (!read && read.error().kind == ErrorKind::kNotRecorded) return;
    const std::optional<Error> error = read ? std::nullopt : std::optional(read.error());
    if (kind == "qp") qps_.error = error;
    if (kind == "cm_id") cm_ids_.error = error;
    if (kind == "cq") cqs_.error = error;
    if (kind == "mr") mrs_.error = error;
    if (kind == "ctx") contexts_.error = error;
  }

  void read_mr_statistics(const std::string& dir) {
    const auto read = read_objects(dir, "rdma/statistic_mr.json", [&](const Json& object) {
      const std::string device = link_of(object).first;
      if (device.empty()) return false;
      note(device, object);
      RdmaMrStatistic mr{number_or_zero(object, "mrn"), {}};
      for (const auto& [key, value] : object.items()) {
        if (is_counter_key(key) && key != "mrn" && value.is_number_unsigned())
          mr.counters.push_back({key, value.get<std::uint64_t>()});
      }
      mr_statistics_.add(device, std::move(mr));
      return true;
    });
    if (read) mr_statistics_.error.reset();
    if (!read && read.error().kind != ErrorKind::kNotRecorded) mr_statistics_.error = read.error();
  }

  template <class T>
  using Recorded = Result<std::vector<std::pair<std::string, T>>>;

  // Gives `each` the objects of a JSON file.
  template <class Each>
  static Result<void> read_objects(const std::string& dir, const char* file, Each each) {
    ROCE_TRY(const Found found, read_first(dir, {file}));
    ROCE_TRY(const Document document, parse_document(found.text, found.path));
    for (const Json* object : document.objects()) {
      if (!each(*object)) return fail(ErrorKind::kMalformed, found.path);
    }
    return {};
  }

  void read_devices(const std::string& dir) {
    std::vector<RdmaDevice> all;
    const auto read = read_objects(dir, "rdma/dev.json", [&](const Json& object) {
      RdmaDevice device = read_device(object);
      if (device.name.empty()) return false;
      note(device.name, object);
      all.push_back(std::move(device));
      return true;
    });
    devices_ = read ? Result<std::vector<RdmaDevice>>(std::move(all)) : tl::unexpected<Error>(read.error());
  }

  void read_links(const std::string& dir) {
    std::vector<std::pair<std::string, RdmaPort>> all;
    const auto read = read_objects(dir, "rdma/link.json", [&](const Json& object) {
      const auto [device, port] = link_of(object);
      if (device.empty() || port == 0) return false;
      note(device, object);
      all.emplace_back(device, read_port(object, port));
      return true;
    });
    links_ = read ? Recorded<RdmaPort>(std::move(all)) : tl::unexpected<Error>(read.error());
  }

  void read_resources(const std::string& dir) {
    std::vector<std::pair<std::string, std::vector<ResourceCount>>> all;
    const auto read = read_objects(dir, "rdma/resource.json", [&](const Json& object) {
      const std::string device = link_of(object).first;
      if (device.empty()) return false;
      note(device, object);
      const RecordedKind kind = object_kind(object);
      if (kind == RecordedKind::kSummary)
        all.emplace_back(device, read_counts(object));
      else
        add_object(object, kind);
      return true;
    });
    resources_ = read ? Recorded<std::vector<ResourceCount>>(std::move(all)) : tl::unexpected<Error>(read.error());
  }

  void read_statistics(const std::string& dir) {
    const auto found = read_first(dir, {"rdma/statistic.txt", "rdma/statistic.json", "rdma_statistic.txt"});
    if (!found) {
      statistics_ = tl::unexpected<Error>(found.error());
      return;
    }
    statistics_ = found->json() ? parse_rdma_statistic_json(found->text) : parse_rdma_statistic_text(found->text);
    if (!statistics_) {
      statistics_.error().object = found->path + ": " + statistics_.error().object;
      return;
    }
    for (const auto& port : statistics_->ports) note(port.device);
    for (const auto& set : statistics_->sets) note(set.device);
  }

  void read_optional_counters(const std::string& dir) {
    const auto found = read_first(dir, {"rdma/statistic_mode.txt"});
    optional_counters_ = found ? parse_rdma_statistic_mode(found->text) : tl::unexpected<Error>(found.error());
  }

  static Result<NetnsMode> read_netns(const std::string& dir) {
    ROCE_TRY(const Found found, read_first(dir, {"rdma/system.txt", "rdma/system.json", "rdma_system.txt"}));
    if (found.json()) {
      ROCE_TRY(const Document document, parse_document(found.text, found.path));
      for (const Json* object : document.objects()) {
        if (const std::string mode = text_at(*object, "netns"); !mode.empty()) return netns_of(mode, found.path);
      }
    } else {
      const Words all = words(found.text);
      for (std::size_t i = 0; i + 1 < all.size(); ++i) {
        if (all[i] == "netns") return netns_of(all[i + 1], found.path);
      }
    }
    return fail(ErrorKind::kUnsupported, found.path);
  }

  // Remembers a device that a file names, in the order of appearance, and its index where the file holds one.
  void note(const std::string& name, const Json& object = Json()) {
    const auto index = object.is_object() ? narrow(number_at(object, "ifindex")) : std::nullopt;
    const auto known = std::find_if(names_.begin(), names_.end(), [&](const Named& n) { return n.name == name; });
    if (known == names_.end()) {
      names_.push_back({name, index});
    } else if (!known->index) {
      known->index = index;
    }
  }

  // Where any of the files is there, all devices of the class directory are asked for by them, so that what cannot be
  // read is told of each.
  void note_class(const std::string& dir) {
    const auto there = [](const std::optional<Error>& error) {
      return !error || error->kind != ErrorKind::kNotRecorded;
    };
    const auto read = [&](const auto& result) { return result.has_value() || there(result.error()); };
    if (!read(devices_) && !read(links_) && !read(resources_) && !read(statistics_) && !there(qps_.error) &&
        !there(cm_ids_.error) && !there(cqs_.error) && !there(mrs_.error) && !there(contexts_.error) &&
        !there(mr_statistics_.error))
      return;
    for (const std::string& name : list_directory(dir + "/sys/class/infiniband").value_or(std::vector<std::string>{}))
      note(name);
  }

  // One device a name, from all files; those without an index get numbers that are free.
  void settle_devices() {
    if (!devices_ && devices_.error().kind != ErrorKind::kNotRecorded) return;
    if (!devices_ && names_.empty()) {
      // A recording of statistics alone that cannot be read hides its devices: that is no host without any.
      if (!statistics_ && statistics_.error().kind != ErrorKind::kNotRecorded)
        devices_ = tl::unexpected<Error>(statistics_.error());
      return;
    }
    std::uint32_t next = 0;
    for (const Named& named : names_) next = std::max(next, named.index.value_or(0) + 1);
    std::vector<RdmaDevice> all;
    for (const Named& named : names_) {
      RdmaDevice device;
      if (devices_) {
        for (const RdmaDevice& recorded : *devices_) {
          if (recorded.name == named.name) device = recorded;
        }
      }
      device.name = named.name;
      device.index = named.index ? *named.index : next++;
      if (const auto known_ports = ports(device)) {
        for (const RdmaPort& port : *known_ports) device.port_count = std::max(device.port_count, port.port);
      }
      all.push_back(std::move(device));
    }
    devices_ = std::move(all);
  }

  std::vector<Named> names_;
  Result<std::vector<RdmaDevice>> devices_;
  Recorded<RdmaPort> links_;
  Recorded<std::vector<ResourceCount>> resources_;
  Objects<RdmaQp> qps_{"qp"};
  Objects<RdmaCmId> cm_ids_{"cm_id"};
  Objects<RdmaCq> cqs_{"cq"};
  Objects<RdmaMr> mrs_{"mr"};
  Objects<RdmaVerbsContext> contexts_{"ctx"};
  Objects<RdmaMrStatistic> mr_statistics_{"mr statistic"};
  Result<RecordedStatistics> statistics_;
  Result<RecordedOptionalCounters> optional_counters_;
  Result<NetnsMode> netns_ = NetnsMode::kShared;
};

}  // namespace

Result<RecordedStatistics> parse_rdma_statistic_text(std::string_view text) {
  RecordedStatistics statistics;
  std::string_view link;
  Words rest;
  while (!text.empty()) {
    const auto size = std::min(text.find('\n'), text.size());
    const Words line = words(text.substr(0, size));
    text.remove_prefix(std::min(size + 1, text.size()));
    auto word = line.begin();
    if (line.size() >= 2 && line[0] == "link" && line[1].find('/') != std::string_view::npos) {
      if (!link.empty()) ROCE_TRY_VOID(add_record(link, rest, statistics));
      link = line[1];
      rest.clear();
      word += 2;
    } else if (link.empty() && !line.empty()) {
      return fail(ErrorKind::kMalformed, "rdma statistic: text before the first link");
    }
    rest.insert(rest.end(), word, line.end());
  }
  if (!link.empty()) ROCE_TRY_VOID(add_record(link, rest, statistics));
  settle(statistics);
  return statistics;
}

Result<RecordedStatistics> parse_rdma_statistic_json(std::string_view text) {
  ROCE_TRY(const Document document, parse_document(text, "rdma statistic"));
  RecordedStatistics statistics;
  for (const Json* object : document.objects()) {
    const auto [device, port] = link_of(*object);
    if (device.empty()) return fail(ErrorKind::kMalformed, "rdma statistic: no device");
    std::vector<NamedValue> counters;
    for (const auto& [key, value] : object->items()) {
      if (is_counter_key(key) && value.is_number_unsigned())
        counters.push_back({key, value.get<std::uint64_t>()});
      else if (is_counter_key(key) && (value.is_number() || value.is_null()) && !object->contains("cntn"))
        counters.push_back({key, 0, true});
    }
    if (!object->contains("cntn")) {
      if (port != 0) statistics.ports.push_back({device, port, std::move(counters)});
      continue;
    }
    const auto id = narrow(number_at(*object, "cntn"));
    if (!id) return fail(ErrorKind::kMalformed, "rdma statistic: cntn of " + device);
    QpCounterSet set;
    set.port = port;
    set.id = *id;
    set.pid = narrow(number_at(*object, "pid"));
    set.qp_type = number_of(kQpTypes, text_at(*object, "qp-type"));
    set.counters = std::move(counters);
    if (const auto qpns = object->find("lqpn"); qpns != object->end() && qpns->is_array()) {
      for (const Json& qpn : *qpns) {
        if (!qpn.is_number_unsigned()) continue;
        if (const auto number = narrow(qpn.get<std::uint64_t>())) set.qpns.push_back(*number);
      }
    }
    statistics.sets.push_back({device, std::move(set)});
  }
  settle(statistics);
  return statistics;
}

Result<RecordedOptionalCounters> parse_rdma_statistic_mode(std::string_view text) {
  RecordedOptionalCounters all;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (trim(line).empty()) continue;
    const bool is_link = take_word(line) == "link";
    const auto [device, port] = split_link(take_word(line));
    std::string_view word = take_word(line);
    const bool supported = word == "supported";
    if (supported) word = take_word(line);
    if (!is_link || device.empty() || port == 0 || word != "optional-counters")
      return fail(ErrorKind::kMalformed, "rdma statistic mode");
    std::vector<CounterStatus>& counters = all[{std::string(device), port}];
    for (std::string_view rest = take_word(line); !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      const auto known = std::find_if(counters.begin(), counters.end(), [&](const auto& c) { return c.name == name; });
      if (known == counters.end())
        counters.push_back({std::string(name), static_cast<std::uint32_t>(counters.size()), true, !supported});
      else
        known->enabled = known->enabled || !supported;
    }
  }
  return all;
}

Result<std::unique_ptr<RdmaSource>> open_rdma_recording(const std::string& dir) {
  ROCE_TRY_VOID(list_directory(dir));
  return std::make_unique<RecordedRdma>(dir);
}

}  // namespace roce
