// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/http.h"

#include <arpa/inet.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "exporter/web/server.h"

namespace roce::web {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string_view trim_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Cuts the text at the first separator: returns what stands before it, leaves what stands behind.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return part;
}

// A quality in thousandths: "0", "1", "0.5", "1.000"; nothing for any other spelling.
std::optional<int> parse_quality(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  int quality = text[0] == '1' ? 1000 : 0;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  int weight = 100;
  for (const char c : text.substr(std::min<std::size_t>(2, text.size()))) {
    if (c < '0' || c > '9') return std::nullopt;
    quality += (c - '0') * weight;
    weight /= 10;
  }
  return quality <= 1000 ? std::optional(quality) : std::nullopt;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i] == '+' && plus_is_blank ? ' ' : text[i];
    }
  }
  return out;
}

std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!query.empty()) {
    std::string_view value = take_until(query, '&');
    if (value.empty()) continue;
    const std::string_view name = take_until(value, '=');
    auto decoded_name = percent_decode(name, true);
    auto decoded_value = percent_decode(value, true);
    if (!decoded_name || !decoded_value || parameters.size() == kMaxParameters) return std::nullopt;
    parameters.emplace_back(std::move(*decoded_name), std::move(*decoded_value));
  }
  return parameters;
}

std::string_view path_of_target(std::string_view target) {
  target = target.substr(0, target.find('?'));
  const std::size_t authority = target.find("://");
  if (target.empty() || target[0] == '/' || authority == std::string_view::npos) return target;
  const std::size_t path = target.find('/', authority + 3);
  return path == std::string_view::npos ? std::string_view("/") : target.substr(path);
}

bool has_token(std::string_view value, std::string_view token) {
  while (!value.empty())
    if (equal_ignoring_case(trim_blanks(take_until(value, ',')), token)) return true;
  return false;
}

bool accepts_gzip(std::string_view accept_encoding) {
  std::optional<int> for_gzip;
  std::optional<int> for_identity;
  std::optional<int> for_others;
  while (!accept_encoding.empty()) {
    std::string_view parameters = take_until(accept_encoding, ',');
    const std::string_view coding = trim_blanks(take_until(parameters, ';'));
    int quality = 1000;
    while (!parameters.empty()) {
      std::string_view value = take_until(parameters, ';');
      const std::string_view name = trim_blanks(take_until(value, '='));
      // What cannot be read as a quality asks for nothing: the plain page is always right.
      if (equal_ignoring_case(name, "q")) quality = parse_quality(trim_blanks(value)).value_or(0);
    }
    // Of contradicting entries the more careful one counts.
    const auto note = [quality](std::optional<int>& of) { of = std::min(of.value_or(1000), quality); };
    if (equal_ignoring_case(coding, "gzip") || equal_ignoring_case(coding, "x-gzip"))
      note(for_gzip);
    else if (equal_ignoring_case(coding, "identity"))
      note(for_identity);
    else if (coding == "*")
      note(for_others);
  }
  const int gzip_quality = for_gzip.value_or(for_others.value_or(0));
  return gzip_quality > 0 && gzip_quality >= for_identity.value_or(0);
}

bool prefers_protobuf(std::string_view accept) {
  int for_protobuf = 0;
  int for_text = 0;
  int exactness = 0;  // of the range that said it: */*, text/*, text/plain, text/plain with its version
  while (!accept.empty()) {
    std::string_view parameters = take_until(accept, ',');
    const std::string_view range = trim_blanks(take_until(parameters, ';'));
    int quality = 1000;
    bool metric_family = false, delimited = false, other = false, versioned = false;
    while (!parameters.empty()) {
      std::string_view value = take_until(parameters, ';');
      const std::string_view name = trim_blanks(take_until(value, '='));
      value = trim_blanks(value);
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
      if (equal_ignoring_case(name, "q"))
        quality = parse_quality(value).value_or(0);
      else if (equal_ignoring_case(name, "proto"))
        metric_family = value == "io.prometheus.client.MetricFamily";
      else if (equal_ignoring_case(name, "encoding"))
        delimited = equal_ignoring_case(value, "delimited");
      else if (equal_ignoring_case(name, "version"))
        versioned = value == "0.0.4", other = other || !versioned;
      else if (!name.empty() && !equal_ignoring_case(name, "charset") && !equal_ignoring_case(name, "escaping"))
        other = true;
    }
    if (equal_ignoring_case(range, "application/vnd.google.protobuf")) {
      if (metric_family && delimited) for_protobuf = std::max(for_protobuf, quality);
      continue;
    }
    const int exact = equal_ignoring_case(range, "text/plain") ? (versioned ? 4 : 3)
                      : equal_ignoring_case(range, "text/*")   ? 2
                      : range == "*/*"                         ? 1
                                                               : 0;
    if (exact == 0 || (other && exact >= 3) || exact < exactness) continue;
    for_text = exact == exactness ? std::max(for_text, quality) : quality;
    exactness = exact;
  }
  return for_protobuf > for_text;
}

std::optional<std::string> gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;  // 16 asks zlib for the gzip header and trailer
  if (text.size() > std::numeric_limits<uInt>::max() ||
      deflateInit2(&stream, 1, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return std::nullopt;
  std::optional<std::string> out;
  try {
    out.emplace(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  } catch (...) {
    deflateEnd(&stream);
    throw;
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out->data());
  stream.avail_out = static_cast<uInt>(std::min<std::size_t>(out->size(), std::numeric_limits<uInt>::max()));
  if (deflate(&stream, Z_FINISH) == Z_STREAM_END)
    out->resize(stream.total_out);
  else
    out.reset();
  deflateEnd(&stream);
  return out;
}

std::string_view plain_address(std::string_view address) {
  constexpr std::string_view kMapped = "::ffff:";
  if (address.size() <= kMapped.size() || !equal_ignoring_case(address.substr(0, kMapped.size()), kMapped))
    return address;
  const std::string_view rest = address.substr(kMapped.size());
  in_addr v4{};
  return inet_pton(AF_INET, std::string(rest).c_str(), &v4) == 1 ? rest : address;
}

bool is_loopback(std::string_view address) {
  const std::string plain(plain_address(address));
  in_addr v4{};
  if (inet_pton(AF_INET, plain.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  return plain == "::1";
}

}  // namespace roce::web
