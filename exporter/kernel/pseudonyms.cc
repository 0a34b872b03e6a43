// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/pseudonyms.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/base/random.h"

namespace roce {
namespace {

constexpr std::string_view kMadeNqn = "nqn.2014.08.org.nvmexpress:";

// Parts of paths of cgroups that systemd, the kernel and orchestrators make on every host.
constexpr std::array<std::string_view, 18> kCgroups = {"-.slice",
                                                       "besteffort",
                                                       "burstable",
                                                       "guaranteed",
                                                       "hugetlb",
                                                       "init.scope",
                                                       "kubepods",
                                                       "kubepods-besteffort.slice",
                                                       "kubepods-burstable.slice",
                                                       "kubepods.slice",
                                                       "machine.slice",
                                                       "rdma",
                                                       "slurm",
                                                       "slurmstepd.scope",
                                                       "system",
                                                       "system.slice",
                                                       "unified",
                                                       "user.slice"};
constexpr std::array<std::string_view, 5> kPods = {"", "kubepods-", "kubepods-besteffort-", "kubepods-burstable-",
                                                   "kubepods-guaranteed-"};
constexpr std::array<std::string_view, 6> kRuntimes = {"",        "cri-containerd-", "crio-", "crio-conmon-",
                                                       "docker-", "libpod-"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& all, std::string_view text) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

bool is_cgroup_file(std::string_view name) {
  if (name == "rdma.current" || name == "rdma.max") return true;
  if (!name.starts_with("hugetlb.")) return false;
  const std::string_view what = name.substr(name.rfind('.') + 1);
  return what == "current" || what == "max" || what == "events" || what == "failcnt" || what == "limit_in_bytes" ||
         what == "usage_in_bytes";
}

// "job_1234", "step_0": numbers, and the steps that every job has.
bool is_job(std::string_view part, std::string_view kind) {
  if (!part.starts_with(kind)) return false;
  const std::string_view which = part.substr(kind.size());
  return which == "batch" || which == "extern" || which == "interactive" || parse_u64(which).has_value();
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; }
bool ends_name(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == ',' || c == ';' || c == '"' || c == '\'' || c == ')' || c == ']' ||
         c == '}' || c == '\0';
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

// How long the NQN, iSCSI name or other name of storage is that the text begins with; 0 where it begins with none.
std::size_t qualified_size(std::string_view text) {
  const std::string kind = lower(text.substr(0, 4));
  if (kind != "nqn." && kind != "iqn." && kind != "eui." && kind != "naa.") return 0;
  // The kernel makes one of a serial number and a model, each with its blanks, for a controller that has none.
  if (lower(text.substr(0, kMadeNqn.size())) == kMadeNqn) return std::min(text.find_first_of("\n\""), text.size());
  std::size_t size = 0;
  while (size < text.size() && !ends_name(text[size])) ++size;
  return size;
}

// Whether the text is groups of hexadecimal digits of these sizes with `separator` between.
bool is_groups(std::string_view text, char separator, std::initializer_list<std::size_t> sizes) {
  bool first = true;
  for (const std::size_t size : sizes) {
    if (!std::exchange(first, false)) {
      if (text.empty() || text.front() != separator) return false;
      text.remove_prefix(1);
    }
    if (text.size() < size || !std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size), is_hex))
      return false;
    text.remove_prefix(size);
  }
  return text.empty();
}

// How many hexadecimal digits of two the text is with colons between; 0 where it is something else.
std::size_t count_pairs(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (i % 3 == 2 ? text[i] != ':' : !is_hex(text[i])) return 0;
  return text.size() % 3 == 2 ? text.size() / 3 + 1 : 0;
}

std::size_t leading_digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_hex) - text.begin());
}

// Whether digits without separators are a MAC address or a GUID. A number in decimal has no letter, and a small one,
// or a mask, begins with zeros.
bool is_identifier(std::string_view digits, bool prefixed) {
  if ((digits.size() != 12 && digits.size() != 16) || digits.starts_with("000000")) return false;
  if (leading_digits(digits) != digits.size()) return false;
  return prefixed || std::any_of(digits.begin(), digits.end(), [](char c) { return c > '9'; });
}

// How long the part of a device's name is that stands before its MAC address or GUID, as udev makes such names; 0
// where the text begins with no such name.
std::size_t device_prefix_size(std::string_view text) {
  for (const std::string_view prefix : {"enx", "ibx", "slx", "wlx", "wwx", "rocex", "iwx", "opax"}) {
    if (!text.starts_with(prefix)) continue;
    const std::size_t size = leading_digits(text.substr(prefix.size()));
    return size == 12 || size == 16 ? prefix.size() : 0;
  }
  return 0;
}

template <std::size_t N>
bool parse_address(std::string_view text, std::array<std::uint8_t, N>& out) {
  if (text.empty() || text.size() > 64) return false;
  return inet_pton(N == 4 ? AF_INET : AF_INET6, std::string(text).c_str(), out.data()) == 1;
}

std::string to_text(const std::array<std::uint8_t, 4>& a) { return fmt::format("{}.{}.{}.{}", a[0], a[1], a[2], a[3]); }

// "5.8-" before "1.0.1.1" tells a version.
bool ends_in_version(std::string_view before) {
  if (before.empty() || (before.back() != '-' && before.back() != '_')) return false;
  before.remove_suffix(1);
  before.remove_prefix(before.find_last_not_of("0123456789.") + 1);
  std::array<std::uint8_t, 4> address{};
  return before.find('.') != std::string_view::npos && !parse_address(before, address);
}

// In the long form where the original was, as in a GID.
std::string to_text(const std::array<std::uint8_t, 16>& a, bool whole) {
  if (!whole) {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, a.data(), text, sizeof text);
    return text;
  }
  std::string out;
  for (std::size_t i = 0; i < a.size(); i += 2) out += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", a[i], a[i + 1]);
  return out;
}

}  // namespace

void Pseudonyms::add_host_name(std::string_view name) {
  const std::string whole = lower(trim(name));
  // The name without its domain stands for the same host.
  const std::string first = whole.substr(0, whole.find('.'));
  if (whole.size() < 3 || first == "localhost" || whole == "(none)") return;
  const std::string stand_in = numbered("host", first);
  for (const std::string& each : {whole, first}) {
    known_.insert_or_assign("host " + each, stand_in);
    // Digits alone are numbers wherever they stand.
    if (each.size() >= 3 && each.find_first_not_of("0123456789") != std::string::npos &&
        std::find(host_names_.begin(), host_names_.end(), each) == host_names_.end())
      host_names_.push_back(each);
  }
  // Longer ones first, so that none is replaced within another.
  std::sort(host_names_.begin(), host_names_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string Pseudonyms::numbered(std::string_view kind, std::string_view value) {
  const std::string key = fmt::format("{} {}", kind, value);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  std::string stand_in = fmt::format("{}-{}", kind, ++counts_[std::string(kind)]);
  known_.emplace(key, stand_in);
  return stand_in;
}

std::string Pseudonyms::host(std::string_view value) {
  std::string whole = lower(trim(value));
  if (whole.empty()) return {};
  const std::string first = whole.substr(0, whole.find('.'));
  if (std::find(host_names_.begin(), host_names_.end(), first) != host_names_.end()) whole = first;
  return numbered("host", whole);
}

std::string Pseudonyms::serial(std::string_view value) {
  return trim(value).empty() ? "" : numbered("serial", trim(value));
}

std::string Pseudonyms::path(std::string_view value) {
  return value.empty() || value == "/" ? std::string(value) : "/" + numbered("path", value);
}

std::string Pseudonyms::process(std::string_view comm) {
  return trim(comm).empty() ? "" : numbered("process", trim(comm));
}

std::string Pseudonyms::cgroup(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::size_t size = std::min(path.find('/'), path.size());
    out += cgroup_part(path.substr(0, size));
    path.remove_prefix(size);
    if (path.empty()) break;
    out += '/';
    path.remove_prefix(1);
  }
  return out;
}

std::string Pseudonyms::cgroup_part(std::string_view part) {
  if (part.empty() || part == "." || part == ".." || is_one_of(kCgroups, part) || is_cgroup_file(part) ||
      is_job(part, "job_") || is_job(part, "step_"))
    return std::string(part);
  std::string_view stem = part;
  std::string_view kind;
  for (const std::string_view suffix : {".service", ".slice", ".scope"})
    if (part.ends_with(suffix)) {
      stem.remove_suffix(suffix.size());
      kind = part.substr(stem.size());
    }
  // kubepods-burstable-podUID.slice, podUID; systemd has "_" where the API has "-".
  if (const std::size_t pod = stem.rfind("pod"); pod != std::string_view::npos) {
    std::string uid = lower(stem.substr(pod + 3));
    std::replace(uid.begin(), uid.end(), '_', '-');
    if (is_groups(uid, '-', {8, 4, 4, 4, 12}) && is_one_of(kPods, stem.substr(0, pod))) {
      std::string stand_in = kernel_text(uid);
      if (stem.find('_') != std::string_view::npos) std::replace(stand_in.begin(), stand_in.end(), '-', '_');
      return fmt::format("{}{}{}", stem.substr(0, pod + 3), stand_in, kind);
    }
  }
  // cri-containerd-ID.scope, or the bare ID
  const std::size_t id = stem.rfind('-') + 1;
  if (stem.size() - id == 64 && is_one_of(kRuntimes, stem.substr(0, id)) && leading_digits(stem.substr(id)) == 64) {
    const std::string number = numbered("container", stem.substr(id));
    return fmt::format("{}{:0>64}{}", stem.substr(0, id), number.substr(number.find('-') + 1), kind);
  }
  return numbered("cgroup", stem) + std::string(kind);
}

std::string Pseudonyms::address_or_host(std::string_view value) {
  value = trim(value);
  if (value.empty()) return {};
  std::array<std::uint8_t, 4> v4{};
  std::array<std::uint8_t, 16> v6{};
  if (parse_address(value, v4)) return to_text(network(v4));
  // "fe80::1%eth0": the interface stays.
  const std::size_t zone = std::min(value.find('%'), value.size());
  if (parse_address(value.substr(0, zone), v6)) return to_text(network(v6), false) + std::string(value.substr(zone));
  if (value.starts_with("nn-") || value.starts_with("0x")) return serial(value);  // Fibre Channel
  return host(value);
}

std::uint64_t Pseudonyms::guid(std::uint64_t value) {
  if (value == 0) return 0;
  const auto [at, fresh] = guids_.emplace(value, 0);
  // Of the kind that is nobody's: locally administered.
  if (fresh) at->second = 0x0200'00ff'fe00'0000U + guids_.size();
  return at->second;
}

// Whether the bit is turned, the same for all addresses with the same bits before it.
bool Pseudonyms::flip(std::string_view family, const std::uint8_t* bytes, unsigned bit) {
  std::string key(family);
  key += static_cast<char>(bit);
  key.append(reinterpret_cast<const char*>(bytes), bit / 8);
  if (bit % 8 != 0) key += static_cast<char>(bytes[bit / 8] >> (8 - bit % 8));
  const auto found = flips_.find(key);
  if (found != flips_.end()) return found->second;
  return flips_.emplace(std::move(key), (random_number<std::uint8_t>() & 1U) != 0).first->second;
}

namespace {

template <std::size_t N>
void mask(std::array<std::uint8_t, N>& address, unsigned length) {
  for (unsigned bit = length; bit < N * 8; ++bit)
    address[bit / 8] = static_cast<std::uint8_t>(address[bit / 8] & ~(0x80U >> bit % 8));
}

// How many of the first bits tell what kind of address it is; nothing for one of the internet.
std::optional<unsigned> kind_bits(const std::array<std::uint8_t, 4>& a) {
  if (a[0] == 10) return 8;
  if (a[0] == 100 && (a[1] & 0xc0U) == 64) return 10;  // behind a carrier's NAT
  if (a[0] == 172 && (a[1] & 0xf0U) == 16) return 12;
  if ((a[0] == 192 && a[1] == 168) || (a[0] == 169 && a[1] == 254)) return 16;
  if ((a[0] & 0xf0U) == 0xe0) return 4;  // multicast
  return std::nullopt;
}

std::optional<unsigned> kind_bits(const std::array<std::uint8_t, 16>& a) {
  if ((a[0] & 0xfeU) == 0xfc) return 8;                   // unique local
  if (a[0] == 0xff) return 16;                            // multicast
  if (a[0] == 0xfe && (a[1] & 0xc0U) == 0x80) return 64;  // link-local
  if (a[0] == 0xfe && (a[1] & 0xc0U) == 0xc0) return 10;  // site-local, as subnets of InfiniBand have it
  return std::nullopt;
}

std::uint32_t place_of(std::uint32_t value, std::vector<std::uint32_t>& seen) {
  const auto found = std::find(seen.begin(), seen.end(), value);
  const auto place = static_cast<std::uint32_t>(found - seen.begin());
  if (found == seen.end()) seen.push_back(value);
  return place;
}

}  // namespace

std::array<std::uint8_t, 4> Pseudonyms::network(std::array<std::uint8_t, 4> address, unsigned length) {
  length = std::min(length, 32U);
  mask(address, length);
  if (address[0] == 0 || address[0] == 127 || address[0] == 255) return address;
  const std::array<std::uint8_t, 4> original = address;
  const auto kind = kind_bits(original);
  // 255 is not among them: it begins the address of broadcasts.
  if (!kind) address[0] = static_cast<std::uint8_t>(240 + place_of(original[0], first_bits4_) % 15);
  for (unsigned bit = kind.value_or(8); bit < length; ++bit)
    if (flip("4", original.data(), bit))
      address[bit / 8] = static_cast<std::uint8_t>(address[bit / 8] ^ 0x80U >> bit % 8);
  mask(address, length);
  return address;
}

std::array<std::uint8_t, 16> Pseudonyms::network(std::array<std::uint8_t, 16> address, unsigned length) {
  length = std::min(length, 128U);
  mask(address, length);
  static constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), address.begin())) {
    const auto v4 = network(std::array<std::uint8_t, 4>{address[12], address[13], address[14], address[15]},
                            length > 96 ? length - 96 : 0);
    std::copy(v4.begin(), v4.end(), address.begin() + 12);
    return address;
  }
  if (std::all_of(address.begin(), address.begin() + 15, [](std::uint8_t b) { return b == 0; }))
    return address;  // ::, ::1
  const std::array<std::uint8_t, 16> original = address;
  const auto kind = kind_bits(original);
  if (!kind) {
    std::uint32_t first = 0;
    for (std::size_t i = 0; i < 4; ++i) first = first << 8U | original[i];
    first = 0x3fff'0000U + (place_of(first, first_bits6_) + 1) % 4096;
    for (std::size_t i = 0; i < 4; ++i) address[i] = static_cast<std::uint8_t>(first >> (24 - 8 * i));
  }
  for (unsigned bit = kind.value_or(32); bit < length; ++bit)
    if (flip("6", original.data(), bit))
      address[bit / 8] = static_cast<std::uint8_t>(address[bit / 8] ^ 0x80U >> bit % 8);
  mask(address, length);
  return address;
}

std::string Pseudonyms::mac(std::string_view value) {
  std::string digits = lower(value);
  std::erase_if(digits, [](char c) { return !is_hex(c); });
  if (digits == "000000000000" || digits == "ffffffffffff") return std::string(value);
  const std::string key = "mac " + digits;
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const std::uint64_t n = ++counts_["mac"];
  return known_.emplace(key, fmt::format("02:00:00:{:02x}:{:02x}:{:02x}", n >> 16 & 0xff, n >> 8 & 0xff, n & 0xff))
      .first->second;
}

std::string Pseudonyms::digits(std::string_view value) {
  if (value.size() == 16) {
    const std::uint64_t number = parse_hex(value).value_or(0);
    return number == ~std::uint64_t{0} ? std::string(value) : fmt::format("{:016x}", guid(number));
  }
  std::string out = mac(value);
  std::erase(out, ':');
  return out;
}

std::string Pseudonyms::hardware_address(std::string_view pairs) {
  std::string bytes(pairs);
  std::erase(bytes, ':');
  std::string out;
  if (bytes.size() == 16) {
    out = digits(bytes);
  } else if (bytes.size() == 40) {
    // IPoIB: flags, number of a QP, GID.
    std::array<std::uint8_t, 16> gid{};
    for (std::size_t i = 0; i < gid.size(); ++i)
      gid[i] = static_cast<std::uint8_t>(parse_hex(std::string_view(bytes).substr(8 + 2 * i, 2)).value_or(0));
    out = bytes.substr(0, 8);
    for (const std::uint8_t byte : network(gid)) out += fmt::format("{:02x}", byte);
  } else {
    const std::string stand_in = numbered("hardware", lower(bytes));
    out = fmt::format("02{:0{}x}", std::stoull(stand_in.substr(stand_in.find('-') + 1)), bytes.size() - 2);
  }
  for (std::size_t at = out.size() - 2; at > 0; at -= 2) out.insert(at, 1, ':');
  return out;
}

std::string Pseudonyms::name(std::string_view value) {
  value = trim(value);
  if (value.empty()) return {};
  if (value == "nqn.2014-08.org.nvmexpress.discovery") return std::string(value);
  const std::string number = numbered("name", value);
  const std::string kind = lower(value.substr(0, 4));
  if (kind == "nqn." || kind == "iqn.") return kind + "2024-01.com.example:" + number;
  return number;
}

std::string Pseudonyms::with_host_names(std::string text) {
  for (const std::string& name : host_names_) {
    const std::string stand_in = numbered("host", name);
    // "node17_pool" names a host, "storage_pool" need not.
    const bool loose = name.size() >= 4 && name.find_first_of("0123456789") != std::string::npos;
    const auto goes_on = [loose](char c) { return loose ? is_letter_or_digit(c) : is_word(c); };
    std::string folded = lower(text);
    for (std::size_t at = folded.find(name); at != std::string::npos; at = folded.find(name, at)) {
      std::size_t end = at + name.size();
      if ((at > 0 && goes_on(text[at - 1])) || (end < text.size() && goes_on(text[end]))) {
        at = end;
        continue;
      }
      // Its domain goes with it.
      while (end + 1 < text.size() && text[end] == '.' && is_word(text[end + 1]))
        for (++end; end < text.size() && is_word(text[end]);) ++end;
      text.replace(at, end - at, stand_in);
      folded.replace(at, end - at, stand_in);
      at += stand_in.size();
    }
  }
  return text;
}

std::string Pseudonyms::text(std::string_view text) { return with_host_names(kernel_text(text)); }

std::string Pseudonyms::kernel_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (i > 0 && is_letter_or_digit(text[i - 1])) {
      out += text[i++];
      continue;
    }
    // "10.1.1.1-10.1.1.9" is two addresses, "my-traddr=" another word.
    const bool within = i > 0 && is_word(text[i - 1]);
    if (const std::size_t size = within ? 0 : qualified_size(rest); size != 0) {
      out += name(rest.substr(0, size));
      i += size;
      continue;
    }
    // "traddr=storage.example": a name may stand for an address.
    bool taken = false;
    for (const std::string_view key : {"traddr=", "host_traddr=", "src_addr="}) {
      if (within || !rest.starts_with(key)) continue;
      std::size_t size = key.size();
      while (size < rest.size() && !ends_name(rest[size])) ++size;
      out += key;
      out += address_or_host(rest.substr(key.size(), size - key.size()));
      i += size;
      taken = true;
      break;
    }
    if (taken) continue;
    if (rest.size() >= 36 && is_groups(rest.substr(0, 36), '-', {8, 4, 4, 4, 12}) &&
        (rest.size() == 36 || !is_letter_or_digit(rest[36]))) {
      const std::string stand_in = numbered("uuid", lower(rest.substr(0, 36)));
      out += fmt::format("00000000-0000-4000-8000-{:012x}", std::stoull(stand_in.substr(5)));
      i += 36;
      continue;
    }
    if (!within && is_groups(rest.substr(0, 17), '-', {2, 2, 2, 2, 2, 2}) &&
        (rest.size() == 17 || !is_word(rest[17]))) {
      out += mac(rest.substr(0, 17));
      i += 17;
      continue;
    }
    if (rest.starts_with("0x") || rest.starts_with("0X")) {
      const std::size_t count = leading_digits(rest.substr(2));
      const bool ends = rest.size() == count + 2 || !is_letter_or_digit(rest[count + 2]);
      if (ends && is_identifier(rest.substr(2, count), true)) {
        out += rest.substr(0, 2);
        out += digits(rest.substr(2, count));
        i += count + 2;
        continue;
      }
    }
    const std::size_t prefix = device_prefix_size(rest);
    const std::string_view bare = rest.substr(prefix, leading_digits(rest.substr(prefix)));
    const std::size_t after = prefix + bare.size();
    if (prefix != 0 || (is_identifier(bare, false) && (after == rest.size() || !is_letter_or_digit(rest[after])))) {
      out += rest.substr(0, prefix);
      out += digits(bare);
      i += after;
      continue;
    }
    std::size_t size = 0;
    while (size < rest.size() && (is_hex(rest[size]) || rest[size] == ':' || rest[size] == '.')) ++size;
    // What ends in another word is none.
    if (size == 0 || (size < rest.size() && is_letter_or_digit(rest[size]))) {
      do out += text[i++];
      while (i < text.size() && is_letter_or_digit(text[i - 1]) && is_letter_or_digit(text[i]));
      continue;
    }
    std::string_view run = rest.substr(0, size);
    while (run.size() > 1 && (run.back() == '.' || (run.back() == ':' && !run.ends_with("::")))) run.remove_suffix(1);
    std::array<std::uint8_t, 4> v4{};
    std::array<std::uint8_t, 16> v6{};
    const std::size_t colon = run.find(':');
    if (is_groups(run, ':', {2, 2, 2, 2, 2, 2}) || is_groups(run, '.', {4, 4, 4})) {
      out += mac(run);
    } else if (count_pairs(run) >= 8) {
      out += hardware_address(run);
    } else if (is_groups(run, ':', {4, 4, 4, 4})) {
      std::string digits(run);
      std::erase(digits, ':');
      const std::uint64_t value = guid(parse_hex(digits).value_or(0));
      out += fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", value >> 48, value >> 32 & 0xffff, value >> 16 & 0xffff,
                         value & 0xffff);
    } else if (ends_in_version(text.substr(0, i))) {
      out += run;
    } else if (parse_address(run, v4)) {
      out += to_text(network(v4));
    } else if (colon != std::string_view::npos && parse_address(run.substr(0, colon), v4)) {
      out += to_text(network(v4));
      out += run.substr(colon);
    } else if (std::count(run.begin(), run.end(), ':') >= 2 && parse_address(run, v6)) {
      out += to_text(network(v6), run.size() == 39);
    } else {
      // "face:10.1.1.1": what stands behind the colon may be an address by itself.
      if (colon != std::string_view::npos && run.find('.') != std::string_view::npos) run = run.substr(0, colon + 1);
      out += run;
    }
    i += run.size();
  }
  return out;
}

}  // namespace roce
