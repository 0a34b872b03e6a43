// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/answers.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace roce::web {
namespace {

constexpr std::chrono::milliseconds kTravel{500};
constexpr std::chrono::milliseconds kLeastBudget{100};

// How a policy names inline text: by its digest.
std::string policy_source(std::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  unsigned char base64[4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1];
  EVP_EncodeBlock(base64, digest, sizeof digest);
  return fmt::format("'sha256-{}'", reinterpret_cast<const char*>(base64));
}

}  // namespace

Response text_response(int status, std::string body) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

Response html_response(std::string body, std::string_view style, std::string_view script) {
  Response response;
  response.content_type = "text/html; charset=utf-8";
  response.compress = true;
  std::string policy = fmt::format("default-src 'none'; style-src {}", policy_source(style));
  if (!script.empty()) policy += fmt::format("; script-src {}; connect-src 'self'", policy_source(script));
  policy += "; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
  response.headers.emplace_back("Content-Security-Policy", std::move(policy));
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cache-Control", "no-store");
  response.body = std::move(body);
  return response;
}

std::chrono::milliseconds scrape_budget(std::string_view header, std::chrono::milliseconds otherwise) {
  double announced = 0;
  const auto [end, ec] = std::from_chars(header.data(), header.data() + header.size(), announced);
  if (ec != std::errc{} || end != header.data() + header.size() || !(announced > 0) || announced > 3600)
    return otherwise;
  return std::max(std::chrono::milliseconds(static_cast<std::int64_t>(announced * 1000)) - kTravel, kLeastBudget);
}

Response answer_reload(bool lifecycle, const std::function<bool(std::string&)>& reload) {
  if (!lifecycle) return text_response(403, "Lifecycle API is not enabled (--web.enable-lifecycle).\n");
  std::string why;
  if (reload(why)) return text_response(200, "Configuration reloaded.\n");
  return text_response(500, fmt::format("The configuration stays as it was: {}\n", why));
}

bool shows_identities(const Request& request) { return request.from_loopback || request.authenticated(); }

Response too_many_requests(int most) {
  Response response =
      text_response(503, fmt::format("Limit of concurrent requests reached ({}), try again later.\n", most));
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace roce::web
