// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/dcb_recorded.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileSize = std::size_t{1} << 20;
constexpr int kMaxDepth = 6;

constexpr std::array<std::pair<std::string_view, DcbSelector>, 6> kSelectors{{
    {"ethtype", DcbSelector::kEtherType},
    {"stream_port", DcbSelector::kStreamPort},
    {"dgram_port", DcbSelector::kDatagramPort},
    {"port", DcbSelector::kPort},
    {"dscp", DcbSelector::kDscp},
    {"pcp", DcbSelector::kPcp},
}};
constexpr std::array<std::pair<std::string_view, DcbAlgorithm>, 4> kAlgorithms{{
    {"strict", DcbAlgorithm::kStrict},
    {"cbs", DcbAlgorithm::kCreditShaper},
    {"ets", DcbAlgorithm::kEts},
    {"vendor", DcbAlgorithm::kVendor},
}};
constexpr std::array<std::pair<std::string_view, std::uint8_t>, 5> kDcbxBits{{
    {"host", kDcbxHost},
    {"lld_managed", kDcbxFirmware},
    {"cee", kDcbxCee},
    {"ieee", kDcbxIeee},
    {"static", kDcbxStatic},
}};

template <class T, std::size_t N>
std::optional<T> named(const std::array<std::pair<std::string_view, T>, N>& names, std::string_view name) {
  for (const auto& [known, value] : names)
    if (known == name) return value;
  return std::nullopt;
}

template <class T, std::size_t N>
std::string_view name_in(const std::array<std::pair<std::string_view, T>, N>& names, T value) {
  for (const auto& [name, known] : names)
    if (known == value) return name;
  return {};
}

// Versions and people differ in dashes and underscores.
std::string plain(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

template <class T>
bool read(const Json& value, T& out) {
  std::optional<std::uint64_t> number;
  if (value.is_number_unsigned()) number = value.get<std::uint64_t>();
  if (value.is_string()) number = parse_u64(value.get_ref<const std::string&>());
  if (!number || *number > std::numeric_limits<T>::max()) return false;
  out = static_cast<T>(*number);
  return true;
}

bool read(const Json& value, bool& out) {
  if (value.is_boolean()) {
    out = value.get<bool>();
    return true;
  }
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= 1) {
    out = value.get<std::uint64_t>() == 1;
    return true;
  }
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  out = text == "on" || text == "true";
  return out || text == "off" || text == "false";
}

bool read(const Json& value, DcbAlgorithm& out) {
  if (value.is_string()) {
    const auto algorithm = named(kAlgorithms, value.get_ref<const std::string&>());
    // Numbers that the tool has no name for are "???".
    out = algorithm.value_or(DcbAlgorithm::kVendor);
    return true;
  }
  std::uint8_t number = 0;
  if (!read(value, number)) return false;
  out = static_cast<DcbAlgorithm>(number);
  return true;
}

template <class T>
bool read_array(const Json& value, std::optional<PerPriority<T>>& out) {
  if (!value.is_array() || value.size() != kPriorities) return false;
  PerPriority<T> all{};
  for (std::size_t i = 0; i < kPriorities; ++i)
    if (!read(value[i], all[i])) return false;
  out = all;
  return true;
}

bool read_apps(const Json& value, DcbSelector selector, std::optional<std::vector<DcbApp>>& out) {
  if (!value.is_array()) return false;
  if (!out) out.emplace();
  for (const Json& entry : value) {
    DcbApp app;
    app.selector = selector;
    if (!entry.is_array() || entry.size() != 2 || !read(entry[1], app.priority)) return false;
    // PCP is told by names such as "3de"; this reader has no use for them.
    if (!read(entry[0], app.protocol)) {
      if (selector == DcbSelector::kPcp) continue;
      return false;
    }
    out->push_back(app);
  }
  return true;
}

bool read_default_priorities(const Json& value, std::optional<std::vector<DcbApp>>& out) {
  if (!value.is_array()) return false;
  if (!out) out.emplace();
  for (const Json& entry : value) {
    DcbApp app;
    app.selector = DcbSelector::kEtherType;
    if (!read(entry, app.priority)) return false;
    out->push_back(app);
  }
  return true;
}

bool read_trust(const Json& value, std::optional<std::vector<DcbSelector>>& out) {
  if (!value.is_array()) return false;
  out.emplace();
  for (const Json& entry : value) {
    if (!entry.is_string()) return false;
    const auto selector = named(kSelectors, plain(entry.get_ref<const std::string&>()));
    if (selector) out->push_back(*selector);
  }
  return true;
}

template <class T>
T& made(std::optional<T>& part) {
  return part ? *part : part.emplace();
}

bool read_enabled(const Json& value, DcbPfc& pfc) {
  std::optional<PerPriority<bool>> all;
  if (!read_array(value, all)) return false;
  pfc.enabled = 0;
  for (std::size_t i = 0; i < kPriorities; ++i)
    if ((*all)[i]) pfc.enabled = static_cast<std::uint8_t>(pfc.enabled | 1U << i);
  return true;
}

// False for a member that is known and has not its form.
bool read_member(const std::string& name, const Json& value, DcbState& state) {
  if (name == "prio_pfc") return read_enabled(value, made(state.pfc));
  if (name == "pfc_cap") return read(value, made(made(state.pfc).capable));
  if (name == "delay") return read(value, made(made(state.pfc).delay));
  if (name == "requests") return read_array(value, made(state.pfc).sent);
  if (name == "indications") return read_array(value, made(state.pfc).received);
  if (name == "willing") return read(value, made(made(state.ets).willing));
  if (name == "tc_bw") return read_array(value, made(state.ets).bandwidth);
  if (name == "tc_tsa") return read_array(value, made(state.ets).algorithm);
  if (name == "prio_tc") return read_array(value, made(state.ets).traffic_class);
  if (name == "tc_maxrate") return read_array(value, state.max_rate);
  if (name == "prio_buffer") return read_array(value, made(state.buffers).of_priority);
  if (name == "buffer_size") return read_array(value, made(state.buffers).size);
  if (name == "total_size") return read(value, made(made(state.buffers).total));
  if (name == "default_prio") return read_default_priorities(value, state.apps);
  if (name == "order") return read_trust(value, state.trust);
  if (name.ends_with("_prio")) {
    const auto selector = named(kSelectors, std::string_view(name).substr(0, name.size() - 5));
    return !selector || read_apps(value, *selector, state.apps);
  }
  if (const auto bit = named(kDcbxBits, name); bit && !value.is_structured()) {
    bool set = false;
    if (!read(value, set)) return false;
    std::uint8_t& dcbx = made(state.dcbx);
    if (set) dcbx = static_cast<std::uint8_t>(dcbx | *bit);
  }
  return true;
}

bool read_value(const Json& value, int depth, DcbState& state) {
  if (depth == 0) return true;
  if (value.is_array())
    return std::all_of(value.begin(), value.end(),
                       [&](const Json& element) { return read_value(element, depth - 1, state); });
  if (!value.is_object()) return true;
  for (const auto& [key, member] : value.items()) {
    const std::string name = plain(key);
    // A section that came out empty was read all the same: no flag is set, the table has no entry.
    const bool section = member.is_object() || (member.is_array() && !member.empty() && member.front().is_object());
    if (section && name == "dcbx") made(state.dcbx);
    if (section && name == "app") made(state.apps);
    if (!(section ? read_value(member, depth - 1, state) : read_member(name, member, state))) return false;
  }
  return true;
}

// The length of the JSON value that begins the text: up to the bracket that closes it.
std::size_t first_value(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth <= 0) return i + 1;
  }
  return text.size();
}

class RecordedDcb final : public DcbSource {
 public:
  explicit RecordedDcb(std::string dir) : dir_(std::move(dir)) {}

  Result<DcbState> state(const std::string& netdev) override {
    const std::string path = dir_ + "/netdev/" + netdev + "/dcb.json";
    if (netdev.empty() || netdev.find('/') != std::string::npos) return fail(ErrorKind::kNotRecorded, path);
    const auto text = read_file(path, kMaxFileSize);
    if (!text && text.error().kind == ErrorKind::kAbsent) return fail(ErrorKind::kNotRecorded, path);
    if (!text) return tl::unexpected(text.error());
    auto state = parse_dcb_json(*text);
    if (!state) state.error().object = path;
    return state;
  }

 private:
  const std::string dir_;
};

}  // namespace

std::string_view dcb_name(DcbSelector selector) { return name_in(kSelectors, selector); }
std::string_view dcb_name(DcbAlgorithm algorithm) { return name_in(kAlgorithms, algorithm); }

Result<DcbState> parse_dcb_json(std::string_view text) {
  DcbState state;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    const std::size_t size = first_value(text);
    const Json value = Json::parse(text.substr(0, size), nullptr, false);
    text.remove_prefix(size);
    if (value.is_discarded() || !value.is_structured() || !read_value(value, kMaxDepth, state))
      return fail(ErrorKind::kMalformed, "dcb.json");
  }
  return state;
}

std::unique_ptr<DcbSource> open_dcb_recording(std::string dir) { return std::make_unique<RecordedDcb>(std::move(dir)); }

}  // namespace roce
