// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "exporter/catalog/catalog.h"
#include "exporter/health/check.h"
#include "exporter/health/checks/checks.h"

namespace roce::checks {
namespace {

using std::chrono::seconds;

}  // namespace

void retransmissions(CheckContext& context) {
  const Movement enough{5, 0.1, seconds(60)};
  const auto untold = [&](const Series& s) { return !context.reported(object_of(s)); };
  // What the peer's receiver lacks is another check.
  report_moving(context, metric::retransmit_triggers, enough, "reasons to send again",
                [](const Series& s) { return s.label("reason") != "rnr_nak"; });
  report_moving(context, metric::retransmitted_packets, enough, "packets sent again", untold);
  report_moving(context, metric::receive_out_of_sequence, enough, "packets out of sequence", untold);
  // Soft-RoCE tells its timeouts under the driver's own spelling only.
  report_moving(context, metric::driver_counter, enough, "retries begun",
                [&](const Series& s) { return s.label("counter") == "completer_retry_err" && untold(s); });
}

void retries_exceeded(CheckContext& context) {
  report_moving(context, metric::retries_exceeded, {1, 0, seconds(60)}, "requests given up");
}

void receiver_not_ready(CheckContext& context) {
  report_moving(context, metric::receiver_not_ready, {1, 0.1, seconds(60)}, "packets found no posted receive");
}

void access_errors(CheckContext& context) {
  report_moving(context, metric::operation_errors, {1, 0, seconds(60)}, "operations refused", [](const Series& s) {
    const std::string_view reason = s.label("reason");
    return reason.find("access") != std::string_view::npos || reason.find("protection") != std::string_view::npos ||
           reason == "remote_invalid_request";
  });
}

void icrc_errors(CheckContext& context) {
  report_moving(context, metric::receive_icrc_errors, {1, 0, seconds(60)}, "packets with a wrong checksum");
}

void connection_retries(CheckContext& context) {
  report_moving(context, metric::cm_retries, {3, 0, seconds(60)}, "connection requests without an answer",
                [](const Series& s) { return s.label("type") == "req"; });
}

// QPs pass through ERR when a connection ends; only those count that stay there.
void qp_error(CheckContext& context) {
  for (const Series& s : context.of(metric::owner_qps)) {
    const std::string_view state = s.label("state");
    if (s.value() == 0 || (state != "ERR" && state != "SQE")) continue;
    const auto least = context.least(s, seconds(90));
    if (!least || *least == 0) continue;
    context.report(object_of(s), fmt::format("{} QPs in state {}", short_number(*least), state));
  }
}

void resource_limit(CheckContext& context) {
  for (const Series& limit : context.of(metric::rdma_resource_limit)) {
    const Series* used = context.page().find(
        metric::rdma_resources, {{"device", limit.label("device")}, {"resource", limit.label("resource")}});
    if (used == nullptr || limit.value() <= 0 || used->value() < 0.9 * limit.value()) continue;
    context.report(object_of(limit),
                   fmt::format("{} of {} in use", short_number(used->value()), short_number(limit.value())));
  }
}

void rate_limit_drops(CheckContext& context) {
  report_moving(context, metric::port_rate_limit_drops, {1, 0.1, seconds(60)}, "packets dropped at the limit");
  report_moving(context, metric::instance_limit_exceeded, {1, 0.1, seconds(60)}, "packets over the limit");
}

}  // namespace roce::checks
