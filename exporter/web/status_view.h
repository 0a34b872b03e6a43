// SPDX-License-Identifier: Apache-2.0
//
// A page and its verdict as the status page shows them: links, the cards that they sit on, the storage that uses them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/health/page_view.h"
#include "exporter/health/verdict.h"

namespace roce {

struct LinkView {
  std::string device;
  std::string port;
  std::string netdev;
  std::string driver;
  std::string state = "unknown";  // in words
  std::string reason;             // why it is down, where something tells
  std::optional<bool> up;         // false also where the device is lost, whatever its driver says
  double rate = 0;                // bytes per second
  double mtu = 0;
  bool function = false;          // a virtual function or a representor: one of many
  std::optional<Status> trouble;  // worst finding about it
  std::size_t card = 0;           // in StatusView::cards

  std::string name() const { return device + "/" + port; }
};

struct CardView {
  std::string slot;  // PCI address without the function; the device's name where there is none
  std::string numa;  // node, empty where the platform tells none
  std::string pcie;  // what its link lacks, empty where nothing
  std::optional<Status> trouble;
};

// A storage session: an NVMe-oF controller, an NFS mount, an iSER session.
struct SessionView {
  std::string kind;
  std::string name;
  std::string target;  // subsystem, export, iSCSI name
  std::string peer;    // address, or the name where only that is known
  std::string state;   // in words; empty where the kernel tells none
  bool good = true;
  std::string netdev;               // that it runs over
  std::optional<std::size_t> link;  // in StatusView::links
  std::optional<Status> trouble;
};

struct StatusView {
  std::vector<CardView> cards;        // by NUMA node, then slot
  std::vector<LinkView> links;        // by device and port
  std::vector<SessionView> sessions;  // by link

  StatusView(const PageView& page, const Verdict& verdict);
};

// Of a finding's object the worst severity among those about one of `names`.
std::optional<Status> trouble_of(const Verdict& verdict, const std::vector<std::string_view>& names);

}  // namespace roce
