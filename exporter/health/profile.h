// SPDX-License-Identifier: Apache-2.0
//
// The declared profile: what an administrator says that a host should look like. Values of a device come from its role,
// then from its own entry; entries of matching host classes lie over both.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace roce {

// What is declared of a device. What is not set is not judged.
struct DeviceExpectation {
  std::string role;                          // storage, compute, management; empty: not declared
  std::optional<std::set<unsigned>> ports;   // that should be active; not set: those that were ever up
  std::optional<double> rate_gbps;           // of each port
  std::optional<unsigned> mtu;               // of the netdev, bytes
  std::optional<unsigned> path_mtu;          // RoCE, bytes
  std::optional<unsigned> pcie_lanes;        // of the device's own link
  std::optional<double> pcie_gts;            // GT/s of the device's own link
  std::optional<unsigned> max_read_request;  // bytes
  std::optional<std::set<unsigned>> pfc_priorities;
  std::map<unsigned, unsigned> dscp;  // DSCP -> priority
  std::optional<bool> ecn;            // on for the priorities that have PFC
  std::optional<std::string> firmware;
};

struct DeclaredDevice {
  std::string pci_address;  // of these two at least one is set
  std::string name;
  DeviceExpectation expected;
};

struct DeclaredHugepages {
  std::uint64_t size = 0;  // bytes
  std::uint64_t pages = 0;
  std::optional<unsigned> node;
};

struct HostExpectation {
  std::optional<double> memlock;  // bytes, +Inf for unlimited: least soft limit of processes that use RDMA
  std::vector<DeclaredHugepages> hugepages;
};

struct NvmeExpectation {  // least values of each controller over fabrics
  std::optional<unsigned> io_queues;
  std::optional<unsigned> queue_depth;
  std::optional<double> keep_alive;       // seconds, exactly
  std::optional<double> loss_timeout;     // seconds, exactly; +Inf: for ever
  std::optional<double> reconnect_delay;  // seconds, exactly
};

struct Waiver {
  std::string check;
  std::string object;  // empty: every object of the check
  std::string reason;
  std::string until;  // YYYY-MM-DD, that day (UTC) included
  bool covers(std::string_view id, std::string_view on) const {
    return check == id && (object.empty() || object == on);
  }
};

struct HostClass;

struct Profile {
  std::map<std::string, DeviceExpectation> roles;
  std::vector<DeclaredDevice> devices;
  HostExpectation host;
  NvmeExpectation nvme;
  std::vector<Waiver> waivers;
  std::vector<HostClass> classes;  // empty in what for_host() returns
};

struct HostClass {
  std::string name;
  std::string hosts;  // RE2, of the whole host name
  Profile overlay;
};

constexpr std::size_t kMaxDeclaredDevices = 1024;
constexpr unsigned kMaxPort = 255;

// Parses the text; `file` names it in messages. On failure one line, "FILE:LINE: key `x`: found ..., allowed ...",
// which also names every further problem. Throws nothing.
tl::expected<Profile, std::string> parse_profile(std::string_view text, const std::string& file);
tl::expected<Profile, std::string> read_profile(const std::string& file);

// True for text with a key at the top that only a profile has.
bool looks_like_profile(std::string_view text);
bool is_profile_file(const std::string& file);

// The profile with the overlays of the classes that this host name belongs to.
Profile for_host(const Profile& profile, const std::string& host_name);

// What is declared of a device, its role's values included. `name` and `pci_address` are what the device shows; nothing
// where the profile does not name it.
std::optional<DeviceExpectation> expectation_of(const Profile& profile, std::string_view name,
                                                std::string_view pci_address);

// True where `until` (YYYY-MM-DD) has not passed at that Unix time.
bool waiver_holds(const Waiver& waiver, std::int64_t unix_time);
// End of the day, as Unix time.
std::int64_t waiver_end(const Waiver& waiver);

}  // namespace roce
