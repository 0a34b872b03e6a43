// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/ethtool_messages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "exporter/base/parse.h"

namespace roce {
namespace {

using namespace ethtool_abi;
using Json = nlohmann::ordered_json;  // statistics stay in the order of the driver

constexpr std::size_t kAttributeHeader = 4;

// Statistics by their number in the kernel's enum. Empty: not of use here.
constexpr std::array<std::string_view, 1> kEthPhyNames{"SymbolErrorDuringCarrier"};
constexpr std::array<std::string_view, 22> kEthMacNames{"FramesTransmittedOK",
                                                        "SingleCollisionFrames",
                                                        "MultipleCollisionFrames",
                                                        "FramesReceivedOK",
                                                        "FrameCheckSequenceErrors",
                                                        "AlignmentErrors",
                                                        "OctetsTransmittedOK",
                                                        "FramesWithDeferredXmissions",
                                                        "LateCollisions",
                                                        "FramesAbortedDueToXSColls",
                                                        "FramesLostDueToIntMACXmitError",
                                                        "CarrierSenseErrors",
                                                        "OctetsReceivedOK",
                                                        "FramesLostDueToIntMACRcvError",
                                                        "MulticastFramesXmittedOK",
                                                        "BroadcastFramesXmittedOK",
                                                        "FramesWithExcessiveDeferral",
                                                        "MulticastFramesReceivedOK",
                                                        "BroadcastFramesReceivedOK",
                                                        "InRangeLengthErrors",
                                                        "OutOfRangeLengthField",
                                                        "FrameTooLongErrors"};
constexpr std::array<std::string_view, 3> kEthCtrlNames{"MACControlFramesTransmitted", "MACControlFramesReceived",
                                                        "UnsupportedOpcodesReceived"};
constexpr std::array<std::string_view, 4> kRmonNames{"etherStatsUndersizePkts", "etherStatsOversizePkts",
                                                     "etherStatsFragments", "etherStatsJabbers"};

template <std::size_t N>
std::string_view name_at(const std::array<std::string_view, N>& names, std::size_t number) {
  return number < N ? names[number] : std::string_view();
}

std::string statistic_name(std::uint64_t group, std::size_t number) {
  std::string_view prefix;
  std::string_view name;
  switch (group) {
    case kEthPhy:
      prefix = "eth-phy/";
      name = name_at(kEthPhyNames, number);
      break;
    case kEthMac:
      prefix = "eth-mac/";
      name = name_at(kEthMacNames, number);
      break;
    case kEthCtrl:
      prefix = "eth-ctrl/";
      name = name_at(kEthCtrlNames, number);
      break;
    case kRmon:
      prefix = "rmon/";
      name = name_at(kRmonNames, number);
      break;
    default:
      break;
  }
  return name.empty() ? std::string() : std::string(prefix) + std::string(name);
}

void keep_first(std::vector<NamedValue>& values) {
  std::unordered_set<std::string> seen;
  std::erase_if(values, [&](const NamedValue& value) { return !seen.insert(value.name).second; });
}

// Calls f(attribute) for each; false where a length does not add up.
bool for_each(Bytes bytes, const std::function<void(const NetlinkAttribute&)>& f) {
  AttributeReader reader(bytes);
  for (NetlinkAttribute a; reader.next(a);) f(a);
  return !reader.malformed();
}

std::optional<bool> truth(const NetlinkAttribute& a) {
  const auto number = a.number();
  return number ? std::optional(*number != 0) : std::nullopt;
}

std::optional<std::uint32_t> number32(const NetlinkAttribute& a) {
  const auto number = a.number();
  return number && *number <= 0xffffffffU ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

std::optional<std::uint64_t> first_of_array(const NetlinkAttribute& a) {
  std::uint64_t value = 0;
  if (a.payload.size() < sizeof value) return std::nullopt;
  std::memcpy(&value, a.payload.data(), sizeof value);
  return value;
}

std::string_view mode_of(std::uint32_t bit) {
  switch (bit) {
    case kModeFecNone:
      return "none";
    case kModeFecRs:
      return "rs";
    case kModeFecBaser:
      return "baser";
    case kModeFecLlrs:
      return "llrs";
    default:
      return "other";
  }
}

void add_mode(std::vector<std::string>& modes, std::string_view mode) {
  if (std::find(modes.begin(), modes.end(), mode) == modes.end()) modes.emplace_back(mode);
}

// The bits that are set: all that are listed without a mask, those with a value where there is one.
bool read_modes(Bytes bitset, std::vector<std::string>& modes) {
  bool whole = true;
  bool has_mask = true;
  const auto read_bit = [&](const NetlinkAttribute& bit) {
    if (bit.type != kBit) return;
    std::optional<std::uint32_t> index;
    std::string_view name;
    bool set = !has_mask;
    whole = for_each(bit.payload,
                     [&](const NetlinkAttribute& part) {
                       if (part.type == kBitIndex) index = number32(part);
                       if (part.type == kBitName) name = part.text();
                       if (part.type == kBitValue) set = true;
                     }) &&
            whole;
    if (set) add_mode(modes, index && mode_of(*index) != "other" ? mode_of(*index) : fec_mode(name));
  };
  const auto read_words = [&](Bytes words) {
    std::uint32_t bits = 0;
    for (std::uint32_t word = 0; word < 64 && words.size() >= sizeof bits; ++word) {
      std::memcpy(&bits, words.data(), sizeof bits);
      words = words.subspan(sizeof bits);
      for (std::uint32_t i = 0; i < 32; ++i)
        if ((bits >> i & 1U) != 0) add_mode(modes, mode_of(word * 32 + i));
    }
  };
  whole = for_each(bitset, [&](const NetlinkAttribute& a) { has_mask = has_mask && a.type != kBitsetNoMask; });
  whole = for_each(bitset,
                   [&](const NetlinkAttribute& a) {
                     if (a.type == kBitsetBits) whole = for_each(a.payload, read_bit) && whole;
                     if (a.type == kBitsetValue) read_words(a.payload);
                   }) &&
          whole;
  return whole;
}

Error malformed(std::string_view what) { return Error{ErrorKind::kMalformed, 0, std::string(what)}; }

// One object of the tool's JSON: the first of its array, or the text's own.
Result<Json> read_object(std::string_view text, std::string_view what) {
  // Nesting of hostile depth would recurse in the parser's destructor.
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > 64) return tl::unexpected(malformed(what));
  }
  Json document = Json::parse(text.begin(), text.end(), nullptr, false);
  if (document.is_array() && !document.empty()) document = Json(document.front());
  if (!document.is_object()) return tl::unexpected(malformed(what));
  return document;
}

const Json* member(const Json& object, std::initializer_list<const char*> names) {
  if (!object.is_object()) return nullptr;
  for (const char* name : names)
    if (const auto found = object.find(name); found != object.end()) return &*found;
  return nullptr;
}

std::optional<bool> bool_at(const Json& object, std::initializer_list<const char*> names) {
  const Json* value = member(object, names);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    if (text == "on" || text == "yes") return true;
    if (text == "off" || text == "no") return false;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_at(const Json& object, std::initializer_list<const char*> names) {
  const Json* value = member(object, names);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return value->get<std::uint64_t>();
}

// A number, or an object with the total over the lanes.
std::optional<std::uint64_t> total_at(const Json& object, const char* name) {
  const Json* value = member(object, {name});
  if (value != nullptr && value->is_object()) return number_at(*value, {"total"});
  return number_at(object, {name});
}

std::vector<std::string> modes_at(const Json& object, const char* name) {
  std::vector<std::string> modes;
  const Json* value = member(object, {name});
  if (value == nullptr) return modes;
  if (value->is_string()) add_mode(modes, fec_mode(value->get_ref<const std::string&>()));
  if (value->is_array())
    for (const Json& mode : *value)
      if (mode.is_string()) add_mode(modes, fec_mode(mode.get_ref<const std::string&>()));
  return modes;
}

}  // namespace

Result<EthtoolLink> parse_ethtool_link(Bytes attributes) {
  EthtoolLink link;
  std::optional<std::uint32_t> state;
  std::optional<std::uint32_t> substate;
  const bool whole = for_each(attributes, [&](const NetlinkAttribute& a) {
    switch (a.type) {
      case kLink:
        link.detected = truth(a);
        break;
      case kSqi:
        link.quality = number32(a);
        break;
      case kSqiMax:
        link.quality_max = number32(a);
        break;
      case kExtState:
        state = number32(a);
        break;
      case kExtSubstate:
        substate = number32(a);
        break;
      case kExtDownCnt:
        link.down_events = a.number();
        break;
      default:
        break;
    }
  });
  if (!whole) return tl::unexpected(malformed("link state"));
  if (state) link.reason = link_reason(*state);
  if (state && substate) link.detail = link_detail(*state, *substate);
  return link;
}

Result<EthtoolPause> parse_ethtool_pause(Bytes attributes) {
  EthtoolPause pause;
  bool nests = true;
  const bool whole = for_each(attributes, [&](const NetlinkAttribute& a) {
    switch (a.type) {
      case kPauseAutoneg:
        pause.autonegotiate = truth(a);
        break;
      case kPauseRx:
        pause.receive = truth(a);
        break;
      case kPauseTx:
        pause.transmit = truth(a);
        break;
      case kPauseStats:
        nests = for_each(a.payload,
                         [&](const NetlinkAttribute& stat) {
                           if (stat.type == kPauseStatTx) pause.transmit_frames = stat.number();
                           if (stat.type == kPauseStatRx) pause.receive_frames = stat.number();
                         }) &&
                nests;
        break;
      default:
        break;
    }
  });
  if (!whole || !nests) return tl::unexpected(malformed("pause"));
  return pause;
}

Result<EthtoolFec> parse_ethtool_fec(Bytes attributes) {
  EthtoolFec fec;
  bool nests = true;
  const bool whole = for_each(attributes, [&](const NetlinkAttribute& a) {
    switch (a.type) {
      case kFecModes:
        nests = read_modes(a.payload, fec.configured) && nests;
        break;
      case kFecAuto:
        if (truth(a).value_or(false)) add_mode(fec.configured, "auto");
        break;
      case kFecActive:
        if (const auto bit = number32(a)) add_mode(fec.active, mode_of(*bit));
        break;
      case kFecStats:
        nests = for_each(a.payload,
                         [&](const NetlinkAttribute& stat) {
                           if (stat.type == kFecStatCorrected) fec.corrected_blocks = first_of_array(stat);
                           if (stat.type == kFecStatUncorrectable) fec.uncorrectable_blocks = first_of_array(stat);
                           if (stat.type == kFecStatCorrectedBits) fec.corrected_bits = first_of_array(stat);
                         }) &&
                nests;
        break;
      default:
        break;
    }
  });
  if (!whole || !nests) return tl::unexpected(malformed("fec"));
  return fec;
}

Result<std::vector<NamedValue>> parse_ethtool_standard_statistics(Bytes attributes) {
  std::vector<NamedValue> values;
  bool nests = true;
  const bool whole = for_each(attributes, [&](const NetlinkAttribute& group) {
    if (group.type != kStatsGroup) return;
    std::optional<std::uint64_t> id;
    std::vector<std::pair<std::size_t, std::uint64_t>> stats;
    nests = for_each(group.payload,
                     [&](const NetlinkAttribute& part) {
                       if (part.type == kGroupId) id = part.number();
                       if (part.type != kGroupStat) return;
                       // The type of the one value is the statistic's number, and 0 is a number too: read by hand.
                       Bytes rest = part.payload;
                       while (rest.size() >= kAttributeHeader) {
                         std::uint16_t length = 0;
                         std::uint16_t type = 0;
                         std::memcpy(&length, rest.data(), sizeof length);
                         std::memcpy(&type, rest.data() + sizeof length, sizeof type);
                         if (length < kAttributeHeader || length > rest.size()) break;
                         std::uint64_t value = 0;
                         if (length == kAttributeHeader + sizeof value) {
                           std::memcpy(&value, rest.data() + kAttributeHeader, sizeof value);
                           stats.emplace_back(type & 0x3fffU, value);
                         }
                         rest = rest.subspan(std::min((std::size_t{length} + 3) & ~std::size_t{3}, rest.size()));
                       }
                       if (!rest.empty()) nests = false;
                     }) &&
            nests;
    if (!id) return;
    for (const auto& [number, value] : stats)
      if (std::string name = statistic_name(*id, number); !name.empty()) values.push_back({std::move(name), value});
  });
  if (!whole || !nests) return tl::unexpected(malformed("standard statistics"));
  keep_first(values);
  return values;
}

Result<std::vector<NamedValue>> parse_ethtool_statistics_text(std::string_view text) {
  std::vector<NamedValue> values;
  // What the tool says of a driver without statistics. Other texts without any are its errors.
  const bool none = trim(text) == "no stats available";
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const auto colon = line.rfind(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = trim(line.substr(0, colon));
    const auto value = parse_u64(line.substr(colon + 1));
    if (!name.empty() && value) values.push_back({std::string(name), *value});
  }
  if (!values.empty()) return values;
  return fail(none ? ErrorKind::kUnsupported : ErrorKind::kMalformed, "ethtool statistics");
}

Result<EthtoolLink> parse_ethtool_link_json(std::string_view text) {
  ROCE_TRY(const Json object, read_object(text, "ethtool link"));
  const auto narrow = [](std::optional<std::uint64_t> value) {
    return value && *value <= 0xffffffffU ? std::optional(static_cast<std::uint32_t>(*value)) : std::nullopt;
  };
  EthtoolLink link;
  link.detected = bool_at(object, {"link-detected"});
  link.quality = narrow(number_at(object, {"sqi"}));
  link.quality_max = narrow(number_at(object, {"sqi-max"}));
  link.down_events = number_at(object, {"link-down-events"});
  if (const Json* state = member(object, {"link-state"}); state != nullptr && state->is_array()) {
    std::vector<const Json*> parts;
    for (const Json& part : *state) parts.push_back(&part);
    const auto number = [](const Json& part) {
      return part.is_number_unsigned() ? std::min<std::uint64_t>(part.get<std::uint64_t>(), 0xffffU) : 0xffffU;
    };
    if (!parts.empty())
      link.reason = parts[0]->is_string() ? link_reason(std::string_view(parts[0]->get_ref<const std::string&>()))
                                          : link_reason(static_cast<std::uint32_t>(number(*parts[0])));
    if (parts.size() > 1)
      link.detail = parts[1]->is_string() ? link_detail(std::string_view(parts[1]->get_ref<const std::string&>()))
                                          : std::string_view("other");
  }
  return link;
}

Result<EthtoolPause> parse_ethtool_pause_json(std::string_view text) {
  ROCE_TRY(const Json object, read_object(text, "ethtool pause"));
  EthtoolPause pause;
  pause.autonegotiate = bool_at(object, {"autonegotiate"});
  pause.receive = bool_at(object, {"rx"});
  pause.transmit = bool_at(object, {"tx"});
  if (const Json* statistics = member(object, {"statistics"})) {
    pause.transmit_frames = number_at(*statistics, {"tx_pause_frames"});
    pause.receive_frames = number_at(*statistics, {"rx_pause_frames"});
  }
  return pause;
}

Result<EthtoolFec> parse_ethtool_fec_json(std::string_view text) {
  ROCE_TRY(const Json object, read_object(text, "ethtool fec"));
  EthtoolFec fec;
  fec.configured = modes_at(object, "config");
  fec.active = modes_at(object, "active");
  if (const Json* statistics = member(object, {"statistics"})) {
    fec.corrected_blocks = total_at(*statistics, "corrected_blocks");
    fec.uncorrectable_blocks = total_at(*statistics, "uncorrectable_blocks");
    fec.corrected_bits = total_at(*statistics, "corrected_bits");
  }
  return fec;
}

Result<std::vector<NamedValue>> parse_ethtool_standard_statistics_json(std::string_view text) {
  ROCE_TRY(const Json object, read_object(text, "ethtool standard statistics"));
  std::vector<NamedValue> values;
  for (const auto& [group, statistics] : object.items()) {
    if (!statistics.is_object()) continue;
    for (const auto& [name, value] : statistics.items())
      if (value.is_number_unsigned()) values.push_back({group + "/" + name, value.get<std::uint64_t>()});
  }
  keep_first(values);
  return values;
}

}  // namespace roce
