// SPDX-License-Identifier: Apache-2.0
//
// The small texts of sysfs. Whatever comes in, a number that is taken is the number that stands there, and nothing else
// is taken for one.
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/base/parse.h"
#include "exporter/collectors/rdma_gid.h"
#include "tests/fuzz/require.h"

namespace {}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view trimmed = roce::trim(text);
  require(trimmed.size() <= text.size());
  require(roce::trim(trimmed) == trimmed);

  if (const auto number = roce::parse_u64(text)) {
    // The same digits, leading zeros aside.
    std::string_view digits = trimmed;
    require(!digits.empty());
    while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
    require(std::to_string(*number) == digits);
    require(roce::parse_leading_number(text) == *number);
  }
  if (const auto number = roce::parse_i64(text)) {
    require(!trimmed.empty() &&
            (trimmed.front() == '-' || std::isdigit(static_cast<unsigned char>(trimmed.front())) != 0));
    if (*number >= 0 && trimmed.front() != '-') require(roce::parse_u64(text) == static_cast<std::uint64_t>(*number));
  }
  if (const auto number = roce::parse_leading_number(text))
    require(roce::parse_u64(std::to_string(*number)) == *number);
  if (const auto number = roce::parse_hex(text))
    require(roce::parse_hex("0x" + std::string(trimmed)) == *number || trimmed.size() > 2);
  if (const auto rate = roce::parse_rate(text)) require(std::isfinite(*rate) && *rate >= 0);
  const std::string_view after = roce::text_after_colon(text);
  require(after.empty() || (after.data() >= text.data() && after.data() + after.size() <= text.data() + text.size()));
  if (const auto gid = roce::parse_gid(text)) {
    (void)roce::gid_scope(*gid);
    require(trimmed.find(':') != std::string_view::npos);
  }
  return 0;
}
