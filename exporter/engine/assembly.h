// SPDX-License-Identifier: Apache-2.0
//
// How the last runs of all collectors become a page: limits of series, sums over collectors, what the engine says of
// itself.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/engine/series_limits.h"
#include "exporter/engine/state.h"

namespace roce {

// The holder of the state's mutex makes one, adds the units object by object, and takes the page.
class Engine::Assembly {
 public:
  // `oldest`: when a run must have ended to count as of this collection.
  Assembly(State& state, std::size_t units, Clock::time_point oldest);
  void add(const Unit& unit);
  // `whole`: of all collectors.
  Page finish(bool in_time, bool whole);

 private:
  // A part among those that share limits: of one RDMA device, or of the host and all network devices without one.
  struct Share {
    const Unit* unit;
    std::shared_ptr<const Part> part;
    std::size_t place;  // among the others
  };
  void say(const Unit& unit, bool ok, std::string_view reason, std::string detail, double took);
  void tell_age(const Unit& unit, Clock::duration age);
  void end_shares();
  void end_device();
  void warn_of_limit(const Unit& unit);
  void tell_inventory();
  SeriesLimits limits(bool of_rdma_device) const;

  State& state_;
  const Clock::time_point now_;
  const Clock::time_point oldest_;
  bool detailed_;  // each device's collectors have series of their own
  Page page_;
  std::shared_ptr<SampleBatch> own_ = std::make_shared<SampleBatch>();
  std::map<std::string_view, double> healthy_;        // collector -> seconds of all runs, where not detailed
  std::map<std::string_view, Clock::duration> ages_;  // collector -> greatest age, likewise
  std::vector<Share> shares_;                         // of the objects with the label that is being added
  const Unit* last_ = nullptr;                        // that was added
  std::map<std::string, std::array<std::uint32_t, kCounterStates>, std::less<>> counters_;  // by port, of that label
};

}  // namespace roce
