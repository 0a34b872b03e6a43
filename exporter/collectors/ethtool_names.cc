// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/ethtool_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

// Kernel driver, key of the RDMA counter tables, table of its network statistics.
struct Driver {
  std::string_view kernel;
  std::string_view rdma;
  std::string_view table;
};
constexpr std::array<Driver, 6> kDrivers{{
    {"mlx5_core", "mlx5", "mlx5-ethtool"},
    {"bnxt_en", "bnxt_re", "bnxt_en-ethtool"},
    {"ice", "irdma", "ice-ethtool"},
    {"i40e", "", "i40e-ethtool"},
    {"hns3", "hns", "hns3-ethtool"},
    {"ena", "", "ena-ethtool"},
}};

std::string_view table_of_kernel_driver(std::string_view driver) {
  // Functions on the auxiliary bus carry the part's name behind a dot: mlx5_core.sf.
  driver = driver.substr(0, driver.find('.'));
  for (const Driver& known : kDrivers)
    if (known.kernel == driver) return known.table;
  return {};
}

std::string_view table_of_names(const std::vector<NamedValue>& statistics) {
  std::string_view best;
  std::size_t most = 1;
  for (const Driver& known : kDrivers) {
    const auto knows = [&](const NamedValue& s) {
      return find_counter(known.table, Interface::kEthtool, s.name) != nullptr;
    };
    const auto count = static_cast<std::size_t>(std::count_if(statistics.begin(), statistics.end(), knows));
    if (count > most) {
      most = count;
      best = known.table;
    }
  }
  return best;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool equal_letters(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(),
                    [](char x, char y) { return std::tolower(static_cast<unsigned char>(x)) == y; });
}

constexpr std::array<std::string_view, 20> kQueueWords{"rxq", "txq",     "queue", "q",    "ring", "rxring", "txring",
                                                       "ch",  "channel", "cpu",   "rx",   "tx",   "txrx",   "rxtx",
                                                       "rq",  "sq",      "cq",    "rvec", "pair", "napi"};

std::string_view digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(at, end - at);
}

// "rx_64_bytes" and "rx_65_to_127_bytes" count frames by size, "rx_3_bytes" is a queue's.
bool is_frame_size(std::string_view digits, std::string_view rest) {
  if (parse_u64(digits).value_or(64) >= 64) return true;
  return rest.starts_with("_to_") || (rest.size() > 1 && rest[0] == '_' && is_digit(rest[1]));
}

}  // namespace

EthtoolTable ethtool_table(const Host& host, const InventoryDevice& device, const InventoryNetdev& netdev) {
  if (!netdev.driver.empty()) return {std::string(table_of_kernel_driver(netdev.driver)), true};
  if (!host.ethtool) return {};
  if (const auto driver = host.ethtool->driver(netdev.name); driver && !driver->empty())
    return {std::string(table_of_kernel_driver(*driver)), true};
  if (host.live) return {};
  if (!netdev.device.empty())
    for (const Driver& known : kDrivers)
      if (!known.rdma.empty() && known.rdma == device.driver) return {std::string(known.table), false};
  const auto statistics = host.ethtool->statistics(netdev.name);
  return {statistics ? std::string(table_of_names(*statistics)) : std::string(), false};
}

bool is_queue_statistic(std::string_view name) {
  // "0: rcv_pkts"
  if (const auto digits = digits_at(name, 0); !digits.empty() && name.substr(digits.size()).starts_with(':'))
    return true;
  for (std::size_t at = name.find('['); at != std::string_view::npos; at = name.find('[', at + 1)) {
    const auto digits = digits_at(name, at + 1);
    if (!digits.empty() && name.substr(at + 1 + digits.size()).starts_with(']')) return true;
  }
  for (std::size_t at = 0; at < name.size();) {
    if (!is_letter(name[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < name.size() && is_letter(name[end])) ++end;
    const std::string_view word = name.substr(at, end - at);
    at = end;
    if (std::none_of(kQueueWords.begin(), kQueueWords.end(), [&](auto known) { return equal_letters(word, known); }))
      continue;
    if (const auto digits = digits_at(name, end); !digits.empty()) {
      const char next = end + digits.size() < name.size() ? name[end + digits.size()] : '_';
      if (!is_letter(next)) return true;
      continue;
    }
    if (end >= name.size() || std::string_view("_-# ").find(name[end]) == std::string_view::npos) continue;
    const auto digits = digits_at(name, end + 1);
    if (digits.empty()) continue;
    const std::string_view rest = name.substr(end + 1 + digits.size());
    const bool direction = word.size() == 2 && equal_letters(word.substr(1), "x");
    if (direction && name[end] == '_' && is_frame_size(digits, rest)) continue;
    if (rest.empty() || !is_letter(rest[0])) return true;
  }
  return false;
}

}  // namespace roce
