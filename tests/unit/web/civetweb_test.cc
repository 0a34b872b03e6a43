// SPDX-License-Identifier: Apache-2.0
//
// Faults of the HTTP library that the programs link, whether their handlers reach them or not: a build with another
// CivetWeb fails here, at the latest under AddressSanitizer.
#include <civetweb.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/unit/web/http_client.h"

namespace roce::web {
namespace {

// A server of the library alone: /form reads forms, every other path is its own business.
class CivetWebTest : public testing::Test {
 protected:
  void SetUp() override {
    mg_init_library(MG_FEATURES_DEFAULT);
    const char* settings[] = {"listening_ports",    "127.0.0.1:0", "num_threads", "4",
                              "request_timeout_ms", "2000",        nullptr};
    const mg_callbacks callbacks{};
    context_ = mg_start(&callbacks, nullptr, settings);
    ASSERT_NE(context_, nullptr);
    mg_set_request_handler(context_, "/form", read_form, nullptr);
    mg_server_port port{};
    ASSERT_EQ(mg_get_server_ports(context_, 1, &port), 1);
    port_ = port.port;
  }
  void TearDown() override {
    if (hangs_)
      std::thread([context = context_] { mg_stop(context); }).detach();  // it waits for a thread that never ends
    else
      mg_stop(context_);
  }

  static int read_form(mg_connection* connection, void*) {
    mg_form_data_handler take{};
    take.field_found = [](const char*, const char*, char*, std::size_t, void*) -> int {
      return MG_FORM_FIELD_STORAGE_GET;
    };
    take.field_get = [](const char*, const char*, std::size_t, void*) -> int { return MG_FORM_FIELD_HANDLE_GET; };
    mg_handle_form_request(connection, &take);
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    mg_write(connection, kAnswer.data(), kAnswer.size());
    return 200;
  }

  void post(const std::string& type, const std::string& body) {
    const Reply reply = fetch(port_, "POST", "/form", "Content-Type: " + type + "\r\n", body);
    hangs_ = hangs_ || reply.status == 0;
    EXPECT_EQ(reply.status, 200) << type;
  }

  mg_context* context_ = nullptr;
  int port_ = 0;
  bool hangs_ = false;
};

// CVE-2025-9648: a zero byte in a form made its reader loop for ever.
TEST_F(CivetWebTest, AZeroByteInAFormEndsItsReading) {
  using namespace std::string_literals;
  for (const std::string& body :
       {"\0"s, "a=b\0c=d&e=f"s, "a\0=b&c=d"s, "a=b&\0"s, "a=\0&c=d"s, std::string(4096, '\0')})
    post("application/x-www-form-urlencoded", body);
  for (const std::string& part : {"a\0b"s, "\0"s, std::string(3000, '\0')})
    post("multipart/form-data; boundary=xx",
         "--xx\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" + part + "\r\n--xx--\r\n");
  post("multipart/form-data; boundary=xx",
       "--xx\r\nContent-Disposition: form-data; name=\"\0\"\r\n\r\nx\r\n--xx--\r\n"s);
}

// CVE-2025-55763: the redirect of a directory's path without its slash wrote behind a buffer.
TEST_F(CivetWebTest, ALongPathWithAQueryStaysWithinItsBuffer) {
  for (const std::size_t length : {1000u, 2000u, 4000u, 8000u, 14000u})
    for (const char* query : {"?x", "?x=1&y=2", "?"})
      for (const std::string& piece : {std::string("/"), std::string("/a"), std::string("/%2e")}) {
        std::string path;
        while (path.size() < length) path += piece;
        fetch(port_, "GET", path + query);
        fetch(port_, "GET", "/" + path + query + std::string(1000, 'q'));
      }
  const Reply alive = fetch(port_, "GET", "/form");
  EXPECT_EQ(alive.status, 200);
}

}  // namespace
}  // namespace roce::web
