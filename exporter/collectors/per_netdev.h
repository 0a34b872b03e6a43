// SPDX-License-Identifier: Apache-2.0
//
// Base of collectors that read the network devices of an object one by one. On a live kernel a device whose link is
// down is read once a minute or less, and at once when its link moves, since firmware of some devices has nothing to
// say then and the kernel logs each question; in between its last parts are repeated with their age.
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
  // Reads one network device into `part`, and what is to be left out first at a series limit into `rest`. An error of
  // kind kNotRecorded is told only when no network device of the object has anything.
  virtual Result<void> collect_netdev(const InventoryNetdev& netdev, Part& part, Part& rest) = 0;
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
    std::shared_ptr<const Part> part;
    std::shared_ptr<const Part> rest;
    std::string link;
  };

  bool is_down(const InventoryNetdev& netdev) const;
  std::string link_signature(const InventoryNetdev& netdev) const;

  std::map<std::string, Last> down_;  // by port and name
};

}  // namespace roce
