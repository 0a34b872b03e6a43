// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/ethtool.h"

#include <array>

namespace roce {
namespace {

constexpr std::string_view kOther = "other";

struct State {
  std::string_view name;
  std::string_view tool;                      // as the tool prints it, in the form of plain()
  std::array<std::string_view, 7> details{};  // substates from 1 on
};

// In the order of the kernel's numbers. A detail's name is the tool's text in the form of plain().
constexpr std::array<State, 11> kStates{{
    {"autoneg",
     "autoneg",
     {"no_partner_detected", "ack_not_received", "next_page_exchange_failed", "no_partner_detected_during_force_mode",
      "fec_mismatch_during_override", "no_hcd"}},
    {"link_training_failure",
     "link_training_failure",
     {"kr_frame_lock_not_acquired", "kr_link_inhibit_timeout", "kr_link_partner_did_not_set_receiver_ready",
      "remote_side_is_not_ready_yet"}},
    {"link_logical_mismatch",
     "logical_mismatch",
     {"pcs_did_not_acquire_block_lock", "pcs_did_not_acquire_am_lock", "pcs_did_not_get_align_status",
      "fc_fec_is_not_locked", "rs_fec_is_not_locked"}},
    {"bad_signal_integrity",
     "bad_signal_integrity",
     {"large_number_of_physical_errors", "unsupported_rate", "serdes_reference_clock_lost", "serdes_alos"}},
    {"no_cable", "no_cable"},
    {"cable_issue", "cable_issue", {"unsupported_cable", "cable_test_failure"}},
    {"eeprom_issue", "eeprom_issue"},
    {"calibration_failure", "calibration_failure"},
    {"power_budget_exceeded", "power_budget_exceeded"},
    {"overheat", "overheat"},
    {"module", "module", {"cmis_module_is_not_in_moduleready_state"}},
}};

// Lower case, everything but letters and digits as single underscores.
std::string plain(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (word)
      out += c;
    else if (!out.empty() && out.back() != '_')
      out += '_';
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

}  // namespace

std::string_view link_reason(std::uint32_t state) { return state < kStates.size() ? kStates[state].name : kOther; }

std::string_view link_detail(std::uint32_t state, std::uint32_t substate) {
  if (state >= kStates.size() || substate == 0) return kOther;
  const auto& details = kStates[state].details;
  if (substate > details.size() || details[substate - 1].empty()) return kOther;
  return details[substate - 1];
}

std::string_view link_reason(std::string_view text) {
  const std::string word = plain(text);
  for (const State& state : kStates)
    if (word == state.tool || word == state.name) return state.name;
  return kOther;
}

std::string_view link_detail(std::string_view text) {
  const std::string word = plain(text);
  for (const State& state : kStates)
    for (const std::string_view detail : state.details)
      if (!detail.empty() && detail == word) return detail;
  return kOther;
}

std::string_view fec_mode(std::string_view text) {
  const std::string word = plain(text);
  if (word == "none" || word == "off") return "none";
  for (const std::string_view mode : {"rs", "baser", "llrs", "auto"})
    if (word == mode) return mode;
  return kOther;
}

}  // namespace roce
