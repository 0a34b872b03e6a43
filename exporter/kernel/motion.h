// SPDX-License-Identifier: Apache-2.0
//
// Makes an unpacked recording move: writes its counters anew as time goes by, as its file `motion.tsv` says. Each line
// is one of
//   PATH[#NAME]  PER_SECOND  SWING  PERIOD  PHASE   a counter, the one of that name in the output of `ethtool -S`, or
//                                                   where NAME is a number that word of the file, 1 being the first;
//                                                   its speed swings by that share (0 to 1) in so many seconds
//   PATH         =TEXT       PERIOD FROM    TO      a state that is TEXT from and to these seconds of each period
// with tabs between. The recording must be one's own copy.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"

namespace roce {

// Not thread-safe.
class Motion {
 public:
  // Reads `folder`/motion.tsv and what its lines name. kAbsent: nothing in the recording moves.
  static Result<Motion> open(const std::string& folder);

  // Writes what the files hold so long after the recording.
  Result<void> show(std::chrono::duration<double> since);

  std::size_t size() const { return counters_.size() + states_.size(); }

 private:
  struct Counter {
    std::string file;
    std::string name;  // empty: the file is the counter
    std::uint64_t start = 0;
    double per_second = 0;
    double swing = 0;
    double period = 1;
    double phase = 0;
  };
  struct State {
    std::string file;
    std::string usual;
    std::string other;
    double period = 1;
    double from = 0;
    double to = 0;
  };

  explicit Motion(std::string folder) : folder_(std::move(folder)) {}
  Result<void> add(std::string_view line);
  Result<void> write(const std::string& file, const std::string& text) const;

  std::string folder_;
  std::vector<Counter> counters_;
  std::vector<State> states_;
  std::map<std::string, std::string> texts_;  // of files with several counters, as recorded
};

// How far a counter has come after `seconds`: its speed over time, summed up. Never steps back.
double moved_by(double per_second, double swing, double period, double phase, double seconds);

}  // namespace roce
