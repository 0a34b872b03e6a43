// SPDX-License-Identifier: Apache-2.0
//
// Answers that the routes of both programs give alike. Thread-safe (no state but the caller's).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "exporter/web/server.h"

namespace roce::web {

Response text_response(int status, std::string body);

// A page for people. Its policy lets it load nothing but answers of this server, and allows exactly this style and this
// script, as they stand in the page between their tags; an empty script allows none.
Response html_response(std::string body, std::string_view style, std::string_view script = {});

// What Prometheus announces less half a second to travel, at least 0.1 s; `otherwise` where it announces nothing that
// is a time (0 to 3600 s).
std::chrono::milliseconds scrape_budget(std::string_view timeout_header, std::chrono::milliseconds otherwise);

// POST /-/reload: `reload` is called only with the lifecycle on; false means that its text says why not.
Response answer_reload(bool lifecycle, const std::function<bool(std::string&)>& reload);

// Identities are for this host, and for whom a web configuration let in by a certificate or a password.
bool shows_identities(const Request& request);

// The answer to a request too many; counted by the caller.
Response too_many_requests(int most);

// Counts a request for as long as it lasts.
class RequestSlot {
 public:
  explicit RequestSlot(std::atomic<int>& count) : count_(count), number_(count.fetch_add(1) + 1) {}
  ~RequestSlot() { count_.fetch_sub(1); }
  RequestSlot(const RequestSlot&) = delete;
  RequestSlot& operator=(const RequestSlot&) = delete;
  int number() const { return number_; }

 private:
  std::atomic<int>& count_;
  int number_;
};

// Runs `answer` unless more than context.max_requests are under way (0: no limit).
template <class Context, class F>
Response limited(Context& context, F answer) {
  const RequestSlot slot(context.requests);
  if (context.max_requests > 0 && slot.number() > context.max_requests) {
    context.own->scrapes_rejected.Increment();
    return too_many_requests(context.max_requests);
  }
  return answer();
}

}  // namespace roce::web
