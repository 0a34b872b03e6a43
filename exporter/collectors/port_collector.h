// SPDX-License-Identifier: Apache-2.0
//
// Base of collectors that read port by port. Some drivers write a kernel log line for each query of a port that is
// down, so on a live kernel each collector asks a down port once a minute or less, and at once when its
// netdev's link moves; in between its last part is repeated with its age.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "exporter/collectors/collector.h"

namespace roce {

class PortCollector : public Collector {
 public:
  using Collector::Collector;
  Result<void> collect(Output& out) final;

 protected:
  // Reads one port into `part`.
  virtual Result<void> collect_port(const InventoryPort& port, Part& part) = 0;
  // True where the values of a port cannot move while it is down: they are read once then, and again when its link
  // moves.
  virtual bool rests_while_down() const { return false; }
  // Reads what belongs to the device as a whole; called once a run, before the ports.
  virtual Result<void> collect_device(Part& part);

  std::string port_path(const InventoryPort& port) const { return device().path + "/ports/" + port.text; }

 private:
  struct Last {
    std::shared_ptr<const Part> part;
    std::string link;  // what the netdev said of its link at that time
  };

  bool is_down(const InventoryPort& port) const;
  std::string link_signature(const InventoryPort& port) const;

  std::map<unsigned, Last> down_;  // ports that were down when last read
};

}  // namespace roce
