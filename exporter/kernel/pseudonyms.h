// SPDX-License-Identifier: Apache-2.0
//
// Stand-ins for what names a host and those it talks to. The same name gets the same stand-in as long as the object
// lives, and none can be turned back without it: names, MAC addresses and GUIDs are numbered as they come, so that
// those of two objects look alike and mean nothing to one another. IP addresses are changed bit by bit at random, so
// that two of them share their first bits, and so their networks, exactly when the originals did. Private, link-local
// and multicast ones stay such; those of the internet go to 240.0.0.0/4 and 3fff::/20, which are nobody's: their
// networks are told apart from /8 and /32 on.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace roce {

// Not thread-safe.
class Pseudonyms {
 public:
  // A name of a host: in free text each occurrence of it as a word, in any case and with any domain, is replaced from
  // now on, unless it is digits alone.
  void add_host_name(std::string_view name);

  // Free text: addresses (IPv4, IPv6, GID, MAC), GUIDs, UUIDs, NQNs, iSCSI names and known host names in it.
  std::string text(std::string_view text);
  // The same for numbers and words of the kernel, where what is spelled like a host's name is none. A name of a device
  // ("enx0c42a1123456") becomes the same whether it stands alone, in a path or among other words.
  std::string kernel_text(std::string_view text);

  // A whole value of which the reader knows what it is. Empty ones stay so.
  std::string name(
      std::string_view value);  // an NQN or iSCSI name, in whatever form, or any other name; discovery stays
  std::string address_or_host(std::string_view value);
  std::string host(std::string_view value);
  std::string serial(std::string_view value);
  std::string path(std::string_view value);  // as in an export of NFS; "/" stays
  std::string process(std::string_view comm);
  // A path of a cgroup below its mount, part by part. Parts that every host has stay, and so do numbers of jobs; what
  // tells the kind of a unit, a pod or a container goes on telling it.
  std::string cgroup(std::string_view path);
  std::uint64_t guid(std::uint64_t value);  // 0 stays

  // Of the first `length` bits; the others become 0, as in a table of routes. Addresses that mean no host (0,
  // loopback) stay, and so do the first bits that make one private, link-local or multicast.
  std::array<std::uint8_t, 4> network(std::array<std::uint8_t, 4> address, unsigned length = 32);
  std::array<std::uint8_t, 16> network(std::array<std::uint8_t, 16> address, unsigned length = 128);

 private:
  std::string cgroup_part(std::string_view part);
  std::string numbered(std::string_view kind, std::string_view value);
  std::string mac(std::string_view value);
  std::string digits(std::string_view value);            // 12 of a MAC address, 16 of a GUID
  std::string hardware_address(std::string_view pairs);  // of eight bytes or more
  bool flip(std::string_view family, const std::uint8_t* bytes, unsigned bit);
  std::string with_host_names(std::string text);

  std::map<std::string, std::string, std::less<>> known_;  // "kind value" -> stand-in
  std::map<std::string, std::uint64_t, std::less<>> counts_;
  std::map<std::string, bool, std::less<>> flips_;  // by family and the bits before
  // First bits of addresses of the internet, as they came: 8 of IPv4, 32 of IPv6.
  std::vector<std::uint32_t> first_bits4_;
  std::vector<std::uint32_t> first_bits6_;
  std::map<std::uint64_t, std::uint64_t> guids_;
  std::vector<std::string> host_names_;
};

}  // namespace roce
