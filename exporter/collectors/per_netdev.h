// SPDX-License-Identifier: Apache-2.0
//
// Base of collectors that read the network devices of an object one by one. On a live kernel a device whose link is
// down is left alone as long as its link does not move: its firmware has little to say then, and some drivers write a
// kernel log line for each question. Its last parts are repeated with their age; what they hold can hardly change
// meanwhile.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "exporter/collectors/collector.h"

namespace roce {

class PerNetdevCollector : public Collector {
 public:
  using Collector::Collector;
  Result<void> collect(Output& out) final;

 protected:
  // Reads one network device into `part`, and what is to be left out first at a series limit into `rest`. While its
  // link is down: every ten minutes. An error of kind kNotRecorded is told only when no network device of the object
  // has anything.
  virtual Result<void> collect_netdev(const InventoryNetdev& netdev, Part& part, Part& rest) = 0;
  // For collectors that have a state to tell: reads what is of interest just while the link is down, every minute then.
  // `quiet`: it has been down since the last read, so that only what changes while it is down need be asked for.
  virtual bool has_state() const { return false; }
  virtual Result<void> collect_state(const InventoryNetdev& netdev, bool quiet, Part& part);
  // What is said of the object as a whole, after its network devices.
  virtual void conclude(Part& part);

  // Remembers which questions a network device cannot answer, so that they are not repeated at each scrape.
  class Refusals {
   public:
    // The remembered error of that question, while it is remembered.
    std::optional<Error> refused(const std::string& netdev, std::string_view question) const;
    // Tells what became of a question.
    void note(const std::string& netdev, std::string_view question, const Error* error);

   private:
    struct Refusal {
      Error error;
      Part::Clock::time_point until;
    };
    std::map<std::pair<std::string, std::string>, Refusal> refusals_;
  };

 private:
  struct Last {
    std::string link;  // what the network device said of its link at that time
    std::shared_ptr<const Part> state;
    std::shared_ptr<const Part> part;
    std::shared_ptr<const Part> rest;
  };

  bool is_down(const InventoryNetdev& netdev) const;
  std::string link_signature(const InventoryNetdev& netdev) const;

  std::map<std::string, Last> down_;  // by port and name
};

}  // namespace roce
