// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::HasSubstr;
using testing::Not;
using web::Request;
using web::Response;

class RoutesTest : public testing::Test {
 protected:
  RoutesTest() : engine_(tree_.host(), config()) {
    tree_.add_port("mlx5_0");
    context_.engine = &engine_;
    context_.own = &own_;
  }

  static EngineConfig config() {
    EngineConfig c;
    c.enabled = [](const CollectorEntry& entry) { return entry.by_default; };
    c.device_wanted = c.netdev_wanted = [](std::string_view) { return true; };
    return c;
  }

  Response ask(const std::string& path, Request request = {}) {
    for (const web::Route& route : exporter_routes(context_))
      if (route.path == path) return route.handler(request);
    ADD_FAILURE() << "no route " << path;
    return {};
  }

  TempTree tree_;
  Engine engine_;
  OwnMetrics own_;
  RouteContext context_;
};

TEST_F(RoutesTest, MetricsHaveTheExactContentType) {
  const Response response = ask("/metrics");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(response.body, HasSubstr("roce_port_state{device=\"mlx5_0\",port=\"1\"} 4\n"));
  EXPECT_THAT(response.body, HasSubstr("roce_exporter_build_info{"));
  EXPECT_THAT(response.body, HasSubstr("process_resident_memory_bytes "));
}

TEST_F(RoutesTest, CollectFiltersByCollector) {
  Request request;
  request.query = {{"collect[]", "rdma_port"}};
  EXPECT_THAT(ask("/metrics", request).body, Not(HasSubstr("roce_device_info{")));
  request.query = {{"collect[]", "no_such"}};
  const Response refused = ask("/metrics", request);
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("rdma_port"));
}

TEST_F(RoutesTest, TooManyRequestsAreTurnedAwayAndCounted) {
  context_.max_requests = 3;
  context_.requests = 3;
  const Response response = ask("/metrics");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(own_.scrapes_rejected.Value(), 1);
  EXPECT_EQ(context_.requests, 3);
  context_.requests = 2;
  EXPECT_EQ(ask("/metrics").status, 200);
  EXPECT_EQ(context_.requests, 2);
}

TEST_F(RoutesTest, ReloadNeedsTheLifecycleFlagAndTellsWhyItFails) {
  int calls = 0;
  context_.reload = [&](std::string& why) {
    ++calls;
    why = "x.yml:3: key `a`";
    return false;
  };
  EXPECT_EQ(ask("/-/reload").status, 403);
  EXPECT_EQ(calls, 0);
  context_.lifecycle = true;
  const Response response = ask("/-/reload");
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, HasSubstr("x.yml:3: key `a`"));
  EXPECT_EQ(calls, 1);
}

TEST_F(RoutesTest, IdentitiesGoToLoopbackAndToWhomTheServerKnows) {
  Request near;
  near.from_loopback = true;
  Request far;
  far.tls = true;
  Request user = far;
  user.user = "alice";
  Request certified = far;
  certified.client_certificate = true;
  for (const Request& known : {user, certified}) EXPECT_THAT(ask("/health", known).body, HasSubstr("mlx5_0"));
  EXPECT_THAT(ask("/health", near).body, HasSubstr("mlx5_0"));
  EXPECT_THAT(ask("/health", far).body, Not(HasSubstr("mlx5_0")));
  EXPECT_THAT(ask("/", near).body, HasSubstr("mlx5_0/1"));
  EXPECT_THAT(ask("/", far).body, Not(HasSubstr("mlx5_0")));
}

TEST_F(RoutesTest, TellsOfTheWebConfigurationWhereThereIsOne) {
  EXPECT_THAT(ask("/metrics").body, Not(HasSubstr("roce_web_")));
  own_.web.configured = true;
  own_.web.limited = 3;
  own_.web.last_load_good = false;
  const std::string page = ask("/metrics").body;
  EXPECT_THAT(page, HasSubstr("roce_web_config_last_reload_successful 0\n"));
  EXPECT_THAT(page, HasSubstr("roce_web_requests_refused_total{reason=\"rate\"} 3\n"));
  EXPECT_THAT(page, Not(HasSubstr("roce_web_certificate"))) << "no TLS";
  own_.web.certificate_expires = 2e9;
  EXPECT_THAT(ask("/metrics").body, HasSubstr("roce_web_certificate_not_after_timestamp_seconds 2000000000\n"));
}

TEST(BudgetTest, IsThePrometheusTimeoutLessTheWayBack) {
  EXPECT_EQ(scrape_budget("10").count(), 9500);
  EXPECT_EQ(scrape_budget("2.5").count(), 2000);
  EXPECT_EQ(scrape_budget("0.2").count(), 100);
  for (const char* odd : {"", "x", "-1", "0", "nan", "inf", "1e9", "10 "})
    EXPECT_EQ(scrape_budget(odd).count(), 9500) << odd;
}

TEST_F(RoutesTest, TheStatusPageShowsWhatScrapesCollect) {
  Request near;
  near.from_loopback = true;
  ask("/metrics");
  const auto before = engine_.collections();
  // Another state, which a collection would see.
  tree_.add_port("mlx5_0", 1, "1: DOWN");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_THAT(ask("/", near).body, HasSubstr("<span class=\"good\">active</span>"));
  EXPECT_EQ(engine_.collections(), before) << "a page costs no collection while scrapes come";
  ask("/metrics");
  EXPECT_THAT(ask("/", near).body, HasSubstr(">down</span>"));
}

TEST_F(RoutesTest, APageOfSingleCollectorsIsNotTheHost) {
  Request request;
  request.query = {{"collect[]", "netdev"}};
  ask("/metrics", request);
  Request near;
  near.from_loopback = true;
  EXPECT_THAT(ask("/", near).body, HasSubstr("mlx5_0/1"));
}

}  // namespace
}  // namespace roce
