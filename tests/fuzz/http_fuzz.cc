// SPDX-License-Identifier: Apache-2.0
//
// What a client may write into a request: targets, queries, header values. Whatever comes in, decoding loses nothing
// and a refusal of gzip holds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/web/http.h"
#include "exporter/web/server.h"
#include "tests/fuzz/require.h"

namespace {

std::string percent_encode(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roce::web;
  const std::string text(reinterpret_cast<const char*>(data), size);

  require(percent_decode(percent_encode(text), false) == text);
  for (const bool plus_is_blank : {false, true}) {
    const auto decoded = percent_decode(text, plus_is_blank);
    require(!decoded || decoded->size() <= text.size());
    require(decoded || text.find('%') != std::string::npos);
  }

  const std::string_view path = path_of_target(text);
  require(path.find('?') == std::string_view::npos);
  require(path.size() <= text.size() || path == "/");

  if (const auto parameters = parse_query(text)) {
    require(parameters->size() <= kMaxParameters);
    std::string again;
    for (const auto& [name, value] : *parameters) again += percent_encode(name) + "=" + percent_encode(value) + "&";
    require(parse_query(again) == parameters);
  }

  require(!accepts_gzip(text + ",gzip;q=0"));
  require(accepts_gzip(text + ",") == accepts_gzip(text));
  require(has_token(text + ",close", "Close"));
  require(plain_address(text).size() <= text.size());
  require(is_loopback(text) == is_loopback(plain_address(text)));
  return 0;
}
