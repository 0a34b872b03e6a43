// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/uevents.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "exporter/kernel/nvme_events.h"

namespace roce {
namespace {

using namespace std::string_literals;
using ::testing::Contains;
using ::testing::Field;
using ::testing::Not;

TEST(Uevent, AddOfAnRdmaDevice) {
  const auto event = parse_uevent(
      "add@/devices/pci0000:00/0000:00:02.0/infiniband/mlx5_0\0ACTION=add\0"
      "DEVPATH=/devices/pci0000:00/0000:00:02.0/infiniband/mlx5_0\0SUBSYSTEM=infiniband\0NAME=mlx5_0\0SEQNUM=2411\0"s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->action, "add");
  EXPECT_EQ(event->devpath, "/devices/pci0000:00/0000:00:02.0/infiniband/mlx5_0");
  EXPECT_EQ(event->subsystem, "infiniband");
  EXPECT_EQ(event->name, "mlx5_0");
  EXPECT_EQ(event->old_name, "");
}

TEST(Uevent, RenameKeepsTheOldName) {
  const auto event = parse_uevent(
      "move@/devices/virtual/net/new0\0ACTION=move\0DEVPATH=/devices/virtual/net/new0\0SUBSYSTEM=net\0"
      "DEVPATH_OLD=/devices/virtual/net/eth0\0INTERFACE=new0\0"s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->action, "move");
  EXPECT_EQ(event->name, "new0");
  EXPECT_EQ(event->old_name, "eth0");
}

TEST(Uevent, ConnectionsOfNvmeControllersAreCounted) {
  const auto event = parse_uevent(
      "change@/devices/virtual/nvme-fabrics/ctl/nvme3\0ACTION=change\0DEVPATH=/devices/virtual/nvme-fabrics/ctl/nvme3\0"
      "SUBSYSTEM=nvme\0NVME_TRTYPE=rdma\0NVME_EVENT=connected\0"s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->nvme_event, "connected");
  NvmeEvents events;
  EXPECT_EQ(events.connections("nvme3"), 0U);
  events.record(*event);
  events.record(*event);
  events.record({"change", "/x/nvme3", "nvme", "nvme3", "", "rediscover"});
  events.record({"change", "/x/nvme3", "block", "nvme3", "", "connected"});
  EXPECT_EQ(events.connections("nvme3"), 2U);
  EXPECT_EQ(events.connections("nvme30"), 0U);
  events.record({"remove", "/x/nvme3", "nvme", "nvme3", "", ""});
  EXPECT_EQ(events.connections("nvme3"), 0U);
}

TEST(Uevent, LastVariableMayLackItsEnd) {
  const auto event = parse_uevent("remove@/a/b\0ACTION=remove\0DEVPATH=/a/b\0SUBSYSTEM=pci"s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->subsystem, "pci");
}

TEST(Uevent, EmptyVariablesAndOnesWithoutValueArePassedOver) {
  const auto event = parse_uevent("add@/a\0\0\0X\0=\0ACTION=add\0DEVPATH=/a\0SUBSYSTEM=\0"s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->subsystem, "");
}

TEST(Uevent, WhatIsNotOneIsRefused) {
  for (const std::string& message :
       {""s, "\0"s, "add@/a"s, "add@/a\0"s, "libudev\0\xfe\xed\xca\xfe\0ACTION=add\0DEVPATH=/a\0"s,
        "add@/a\0ACTION=add\0"s, "add@/a\0DEVPATH=/a\0"s, "add@/a\0ACTION=add\0DEVPATH=a\0"s,
        "ACTION=add\0DEVPATH=/a\0"s}) {
    EXPECT_FALSE(parse_uevent(message)) << message;
  }
}

class Seen {
 public:
  void add(const Uevent& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }
  bool wait_for(const std::string& action, const std::string& name) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] {
      for (const Uevent& event : events_) {
        if (event.action == action && event.name == name) return true;
      }
      return false;
    });
  }
  std::vector<Uevent> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Uevent> events_;
};

TEST(UeventMonitor, StopsAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    auto monitor = UeventMonitor::start([](const Uevent&) {});
    ASSERT_TRUE(monitor) << monitor.error().message();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// Asks the kernel to announce a device again; false without the right to.
bool announce(const std::string& device, const std::string& action) {
  const int fd = open(("/sys/class/net/" + device + "/uevent").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = write(fd, action.data(), action.size()) == static_cast<ssize_t>(action.size());
  close(fd);
  return done;
}

// Sends what looks like an event of the kernel to the kernel's group; false without the right to.
bool forge(const std::string& message) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
  if (fd < 0) return false;
  sockaddr_nl group{};
  group.nl_family = AF_NETLINK;
  group.nl_groups = 1;
  const bool done = sendto(fd, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&group),
                           sizeof group) == static_cast<ssize_t>(message.size());
  close(fd);
  return done;
}

TEST(UeventMonitor, HearsTheKernelAndNobodyElse) {
  Seen seen;
  auto monitor = UeventMonitor::start([&](const Uevent& event) { seen.add(event); });
  ASSERT_TRUE(monitor) << monitor.error().message();
  (void)forge("add@/devices/forged\0ACTION=add\0DEVPATH=/devices/forged\0SUBSYSTEM=net\0"s);
  if (announce("lo", "change")) {
    EXPECT_TRUE(seen.wait_for("change", "lo"));
    EXPECT_THAT(seen.events(), Contains(Field(&Uevent::subsystem, "net")));
  }
  monitor->reset();
  EXPECT_THAT(seen.events(), Not(Contains(Field(&Uevent::name, "forged"))));
}

TEST(UeventMonitor, LostEventsAreTold) {
  Seen seen;
  std::mutex gate;
  gate.lock();
  bool first = true;
  auto monitor = UeventMonitor::start(
      [&](const Uevent& event) {
        if (first) {
          first = false;
          const std::lock_guard wait(gate);  // events pile up behind this one
        }
        seen.add(event);
      },
      4096);
  ASSERT_TRUE(monitor);
  bool may = true;
  for (int i = 0; may && i < 50; ++i) may = announce("lo", "change");
  gate.unlock();
  if (may) {
    EXPECT_TRUE(seen.wait_for("overrun", ""));
  }
}

TEST(UeventMonitor, CallbackThatThrowsEndsNothing) {
  Seen seen;
  auto monitor = UeventMonitor::start([&](const Uevent& event) {
    seen.add(event);
    throw std::runtime_error("not handled");
  });
  ASSERT_TRUE(monitor);
  if (announce("lo", "change")) {
    EXPECT_TRUE(seen.wait_for("change", "lo"));
  }
  if (announce("lo", "add")) {
    EXPECT_TRUE(seen.wait_for("add", "lo"));
  }
}

}  // namespace
}  // namespace roce
