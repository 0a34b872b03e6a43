// SPDX-License-Identifier: Apache-2.0
//
// The parts of HTTP that need no socket: decoding, negotiation, compression. Thread-safe (no state); nothing here
// throws but std::bad_alloc. Sources: RFC 9110 (negotiation, 12.5.3), RFC 3986 (encoding).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace roce::web {

// Longest request target (path and query, as sent) and most query parameters that are taken.
constexpr std::size_t kMaxTarget = 8192;
constexpr std::size_t kMaxParameters = 512;

// Names of headers, methods of connections: ASCII only, whatever the locale says.
bool equal_ignoring_case(std::string_view a, std::string_view b);

// Undoes %XX and, in queries, '+'. Nothing where a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank);

// "a=1&b" to names and values, in order. Nothing where one is malformed or there are too many.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

// The path of a request target without its query, still encoded: also from the absolute form "http://host/path".
std::string_view path_of_target(std::string_view target);

// True when a comma-separated header value holds this token, e.g. Connection and "keep-alive".
bool has_token(std::string_view value, std::string_view token);

// True when an Accept value asks for Prometheus's delimited protobuf rather than for text (RFC 9110, 12.5.1): it names
// it, with a higher quality than what text/plain gets from its most exact range. What cannot be read asks for nothing.
bool prefers_protobuf(std::string_view accept);

// Whole gzip member of the text at level 1: pages are large and repetitive, a higher level costs three times the time
// for a tenth of the size. Nothing when zlib fails.
std::optional<std::string> gzip(std::string_view text);

// "::ffff:192.0.2.1" to "192.0.2.1": how a dual-stack socket shows an IPv4 client. Other addresses stay.
std::string_view plain_address(std::string_view address);

// 127.0.0.0/8 and ::1, in numbers.
bool is_loopback(std::string_view address);

}  // namespace roce::web
