// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/pseudonyms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace roce {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

using V4 = std::array<std::uint8_t, 4>;

unsigned common_bits(const V4& a, const V4& b) {
  for (unsigned i = 0; i < 32; ++i)
    if (((a[i / 8] ^ b[i / 8]) & 0x80U >> i % 8) != 0) return i;
  return 32;
}

TEST(PseudonymsTest, PathsOfCgroupsKeepTheirForm) {
  Pseudonyms names;
  const auto changed = [&names](const std::string& path) { return names.cgroup(path); };
  EXPECT_EQ(changed("/"), "/");
  EXPECT_EQ(changed("/system.slice/acme.service"), "/system.slice/cgroup-1.service");
  EXPECT_EQ(changed("/system.slice/acme.service/rdma.max"), "/system.slice/cgroup-1.service/rdma.max");
  EXPECT_EQ(changed("/user.slice/user-1001.slice"), "/user.slice/cgroup-2.slice");
  EXPECT_EQ(changed("/../payroll"), "/../cgroup-3");
  EXPECT_EQ(changed("/slurm/uid_1001/job_77/step_0"), "/slurm/cgroup-4/job_77/step_0");
  const std::string id(64, 'a');
  const std::string made = std::string(63, '0') + "1";
  const std::string pod = "0d7e1c2a-1111-2222-3333-444455556666";
  const std::string api = changed("/kubepods/burstable/pod" + pod + "/" + id);
  EXPECT_EQ(api, "/kubepods/burstable/pod00000000-0000-4000-8000-000000000001/" + made);
  const std::string systemd = changed(
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0d7e1c2a_1111_2222_3333_444455556666.slice/"
      "cri-containerd-" +
      id + ".scope");
  EXPECT_EQ(systemd,
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod00000000_0000_4000_8000_000000000001.slice/"
            "cri-containerd-" +
                made + ".scope");
}

TEST(PseudonymsTest, AddressesKeepTheNetworksThatTheyShare) {
  Pseudonyms names;
  const std::vector<V4> originals = {{192, 0, 2, 9},   {192, 0, 2, 10}, {192, 0, 2, 200}, {192, 0, 3, 9},
                                     {192, 200, 0, 1}, {10, 1, 2, 3},   {10, 1, 2, 4},    {172, 16, 5, 5},
                                     {172, 17, 5, 5},  {203, 0, 2, 9},  {203, 0, 2, 10}};
  for (const V4& a : originals)
    for (const V4& b : originals) {
      const unsigned common = common_bits(a, b);
      const unsigned now = common_bits(names.network(a), names.network(b));
      if (common >= 8) {
        EXPECT_EQ(now, common);
      } else {
        EXPECT_LT(now, 8U);
      }
    }
  EXPECT_EQ(names.network(V4{192, 0, 2, 9}), names.network(V4{192, 0, 2, 9}));
  // A network of a table of routes holds the same hosts as before.
  V4 network = names.network(V4{192, 0, 2, 0}, 24);
  EXPECT_EQ(network[3], 0);
  EXPECT_EQ(common_bits(network, names.network(V4{192, 0, 2, 9})) >= 24, true);
  for (const V4 special : {V4{0, 0, 0, 0}, V4{127, 0, 0, 1}, V4{255, 255, 255, 255}})
    EXPECT_EQ(names.network(special), special);
}

TEST(PseudonymsTest, AddressesKeepTheirKindAlone) {
  Pseudonyms names;
  const auto first = [&names](const V4& address) { return unsigned{names.network(address)[0]}; };
  EXPECT_EQ(first({198, 51, 100, 7}), 240U);
  EXPECT_EQ(first({8, 8, 8, 8}), 241U);
  EXPECT_EQ(first({198, 52, 100, 7}), 240U);
  EXPECT_EQ(first({172, 32, 0, 1}), 242U);
  EXPECT_EQ(first({192, 169, 0, 1}), 243U);
  EXPECT_EQ(first({10, 8, 8, 8}), 10U);
  EXPECT_EQ(first({224, 0, 0, 5}) & 0xf0U, 224U);
  const auto begins = [&names](const V4& address, const V4& with, unsigned bits) {
    return common_bits(names.network(address), with) >= bits;
  };
  EXPECT_TRUE(begins({172, 31, 200, 1}, {172, 16, 0, 0}, 12));
  EXPECT_TRUE(begins({192, 168, 77, 1}, {192, 168, 0, 0}, 16));
  EXPECT_TRUE(begins({169, 254, 77, 1}, {169, 254, 0, 0}, 16));
  EXPECT_TRUE(begins({100, 100, 1, 1}, {100, 64, 0, 0}, 10));
  for (const char* address : {"2600:1f18:1:2::3", "2a00:1450:4001:82a::200e", "64:ff9b::1"})
    EXPECT_THAT(names.text(address), MatchesRegex("3fff:[1-9][0-9]*:.*")) << address;
  EXPECT_THAT(names.text("fd12:3456:789a::1"), MatchesRegex("fd.*"));
  EXPECT_THAT(names.text("fe80::a0b:cff:fe0d:e0f"), MatchesRegex("fe80::.*"));
  EXPECT_THAT(names.text("ff02::1"), MatchesRegex("ff02:.*"));
  EXPECT_EQ(names.text("::1"), "::1");
  // Of wide networks no more than their bits.
  EXPECT_EQ(names.network(V4{128, 0, 0, 0}, 1), (V4{128, 0, 0, 0}));
  std::array<std::uint8_t, 16> wide{0x20};
  EXPECT_EQ(names.network(wide, 3), wide);
}

TEST(PseudonymsTest, Ipv6AddressesKeepTheNetworksThatTheyShare) {
  Pseudonyms names;
  using V6 = std::array<std::uint8_t, 16>;
  const V6 host = {0x26, 0, 0x1f, 0x18, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9};
  V6 neighbour = host;
  neighbour[15] = 8;
  V6 elsewhere = host;
  elsewhere[7] = 3;
  const V6 network = names.network(host, 64);
  const auto within = [&network](const V6& a) { return std::equal(a.begin(), a.begin() + 8, network.begin()); };
  EXPECT_TRUE(within(names.network(host)) && within(names.network(neighbour)));
  EXPECT_FALSE(within(names.network(elsewhere)));
  EXPECT_NE(names.network(host), names.network(neighbour));
  V6 other = host;
  other[3] = 0x19;
  EXPECT_NE(names.network(other, 32), names.network(host, 32)) << "of another provider";
}

TEST(PseudonymsTest, AddressesAreChanged) {
  int same = 0;
  for (int i = 0; i < 20; ++i) {
    Pseudonyms names;
    same += names.network(V4{192, 0, 2, 9}) == V4{192, 0, 2, 9} ? 1 : 0;
  }
  EXPECT_LE(same, 2) << "one in 2^24 by chance";
}

TEST(PseudonymsTest, TheAddressInAGidIsTheAddress) {
  Pseudonyms names;
  const std::string v4 = names.text("192.0.2.9");
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  ASSERT_EQ(std::sscanf(v4.c_str(), "%u.%u.%u.%u", &a, &b, &c, &d), 4);
  char gid[64];
  std::snprintf(gid, sizeof gid, "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", a, b, c, d);
  EXPECT_EQ(names.text("0000:0000:0000:0000:0000:ffff:c000:0209\n"), std::string(gid) + "\n");
  EXPECT_EQ(names.text("0000:0000:0000:0000:0000:0000:0000:0000"), "0000:0000:0000:0000:0000:0000:0000:0000");
  EXPECT_THAT(names.text("fe80:0000:0000:0000:0a0b:0cff:fe0d:0e0f"),
              MatchesRegex("fe80:0000:0000:0000(:[0-9a-f]{4}){4}"));
}

TEST(PseudonymsTest, TextKeepsEverythingElse) {
  Pseudonyms names;
  for (const std::string same : {"4: ACTIVE\n", "200 Gb/sec (4X HDR)", "0000:17:00.0", "28.40.1000",
                                 "PCI_SLOT_NAME=0000:3b:00.1", "x: 12:30:05", "mlx5_comp0@pci:0000:3b:00.0", "deadbeef",
                                 "1.2", "::", "fast_io_fail_tmo: off", "00:1f.2", "", "1 2 3 4 5 6", "cpu  1 2 3\n\n"})
    EXPECT_EQ(names.text(same), same);
}

TEST(PseudonymsTest, NamesAreReplacedWhereverTheyStand) {
  Pseudonyms names;
  names.add_host_name("gpu17.rack4.example.org\n");
  const std::string text =
      "traddr=192.0.2.9,trsvcid=4420,host_traddr=192.0.2.7 nqn.2024-01.org.acme:pool iqn.2005-03.org.acme:d "
      "0c:42:a1:12:34:56 0c42:a103:0012:3456 0a0b0c0d-1234-4abc-8def-0123456789ab gpu17 gpu17.rack4.example.org "
      "2001:db8:7::9 traddr=stor9.acme,x 192.0.2.9:4420";
  const std::string once = names.text(text);
  for (const char* secret :
       {"192.0.2.9", "192.0.2.7", "acme", "0c:42", "a103", "0a0b0c0d", "gpu17", "rack4", "db8:7", "stor9"})
    EXPECT_THAT(once, Not(HasSubstr(secret)));
  EXPECT_THAT(once, HasSubstr(",trsvcid=4420,host_traddr="));
  EXPECT_EQ(names.text(text), once);
  EXPECT_EQ(names.host("gpu17"), names.host("gpu17.rack4.example.org"));
  EXPECT_EQ(names.text("gpu171 my-gpu17x"), "gpu171 my-gpu17x") << "parts of other words";
  const std::string address = names.text("192.0.2.9");
  EXPECT_THAT(once, HasSubstr("traddr=" + address + ","));
  EXPECT_TRUE(once.ends_with(address + ":4420"));
}

TEST(PseudonymsTest, QualifiedNamesInEverySpelling) {
  Pseudonyms names;
  const std::string made = "nqn.2014.08.org.nvmexpress:13441344        17431A1B2C3D    Micron_9300";
  for (const std::string& text :
       {made, "subsystem " + made + "\nlive\n", std::string("nqn.2024-01.org.acme:a/customer"),
        std::string("NQN.2024-01.org.acme:a"), std::string("IQN.2005-03.org.acme:disk/customer")})
    for (const char* secret : {"13441344", "17431A1B2C3D", "Micron", "acme", "customer"})
      EXPECT_THAT(names.text(text), Not(HasSubstr(secret))) << text;
  EXPECT_TRUE(names.text(made + "\nlive\n").ends_with("\nlive\n"));
}

TEST(PseudonymsTest, HostNamesInEverySpelling) {
  Pseudonyms names;
  names.add_host_name("gpu17");
  const std::string stand_in = names.text("gpu17");
  EXPECT_EQ(names.text("gpu17.corp.acme.example, up"), stand_in + ", up");
  EXPECT_EQ(names.text("GPU17"), stand_in);
  EXPECT_EQ(names.text("at Gpu17.Corp.Acme.example."), "at " + stand_in + ".");
  EXPECT_EQ(names.address_or_host("GPU17.corp.acme.example"), stand_in);
  EXPECT_EQ(names.host("GPU17"), stand_in);
  EXPECT_EQ(names.text("gpu17_pool GPU17-nvme vol@gpu17 x-gpu17_y"),
            stand_in + "_pool " + stand_in + "-nvme vol@" + stand_in + " x-" + stand_in + "_y");
  Pseudonyms words;
  for (const std::string name : {"pool", "gp1"}) words.add_host_name(name);
  EXPECT_EQ(words.text("my-pool pool_2 gp1-x"), "my-pool pool_2 gp1-x") << "words like any other";
  Pseudonyms loopback;
  loopback.add_host_name("localhost.localdomain");
  EXPECT_EQ(loopback.text("localhost"), "localhost");
}

TEST(PseudonymsTest, MacAddressesInEverySpelling) {
  Pseudonyms names;
  const std::string mac = names.text("0c:42:a1:12:34:56");
  EXPECT_EQ(names.text("0C:42:A1:12:34:56"), mac);
  EXPECT_EQ(names.text("0c42.a112.3456 x"), mac + " x");
  EXPECT_EQ(names.text("0c-42-a1-12-34-56,"), mac + ",");
  EXPECT_EQ(names.text("ff:ff:ff:ff:ff:ff 00-00-00-00-00-00"), "ff:ff:ff:ff:ff:ff 00-00-00-00-00-00");
}

TEST(PseudonymsTest, LongHardwareAddresses) {
  Pseudonyms names;
  // Of IPoIB: the GID at its end is the one that other files tell.
  const std::string gid = names.text("fe80:0000:0000:0000:e41d:2d03:00ab:cdef");
  std::string pairs = "80:00:02:08";
  for (std::size_t i = 0; i < gid.size(); i += 5) pairs += ":" + gid.substr(i, 2) + ":" + gid.substr(i + 2, 2);
  EXPECT_EQ(names.text("Permanent HW addr: 80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:ab:cd:ef\n"),
            "Permanent HW addr: " + pairs + "\n");
  EXPECT_NE(gid, "fe80:0000:0000:0000:e41d:2d03:00ab:cdef");
  const std::string guid = names.text("e41d:2d03:00ab:cdef");
  std::string of_guid;
  for (std::size_t i = 0; i < guid.size(); i += 5)
    of_guid += (i == 0 ? "" : ":") + guid.substr(i, 2) + ":" + guid.substr(i + 2, 2);
  EXPECT_EQ(names.text("x e4:1d:2d:03:00:ab:cd:ef"), "x " + of_guid);
  const std::string ten = names.text("e4:1d:2d:03:00:ab:cd:ef:01:02");
  EXPECT_THAT(ten, MatchesRegex("02(:[0-9a-f]{2}){9}"));
  EXPECT_THAT(ten, Not(HasSubstr("1d:2d")));
  EXPECT_EQ(names.text("E4:1D:2D:03:00:AB:CD:EF:01:02"), ten);
  EXPECT_NE(names.text("e4:1d:2d:03:00:ab:cd:ef:01:03"), ten);
}

TEST(PseudonymsTest, AddressesNextToDashes) {
  Pseudonyms names;
  const std::string first = names.text("10.1.1.1");
  const std::string last = names.text("10.1.1.9");
  EXPECT_EQ(names.text("10.1.1.1-10.1.1.9"), first + "-" + last);
  EXPECT_EQ(names.text("10.1.1.1_x eth0_10.1.1.9 -10.1.1.1"), first + "_x eth0_" + last + " -" + first);
  EXPECT_EQ(names.text("x_0c:42:a1:12:34:56-y"), "x_" + names.text("0c:42:a1:12:34:56") + "-y");
  EXPECT_EQ(names.text("face:10.1.1.1 a:b:10.1.1.9:4420"), "face:" + first + " a:b:" + last + ":4420");
  for (const std::string same :
       {"OFED-5.8-1.0.1.1", "v5.15.0.101-generic", "28.40.1000-x", "pci-0000:3b:00.1-x", "my-traddr=x", "a_b-c"})
    EXPECT_EQ(names.text(same), same);
}

TEST(PseudonymsTest, IdentifiersWithoutSeparators) {
  Pseudonyms names;
  const auto plain = [&names](const std::string& text) {
    std::string out = names.text(text);
    std::erase(out, ':');
    return out;
  };
  const std::string guid = plain("e41d:2d03:00ab:cdef");
  const std::string mac = plain("0c:42:a1:12:34:56");
  EXPECT_EQ(names.text("0xe41d2d0300abcdef\n"), "0x" + guid + "\n");
  EXPECT_EQ(names.text("e41d2d0300abcdef E41D2D0300ABCDEF, x_e41d2d0300abcdef"), guid + " " + guid + ", x_" + guid);
  EXPECT_EQ(names.text("mac=0c42a1123456: 0X0C42A1123456"), "mac=" + mac + ": 0X" + mac);
  EXPECT_EQ(names.text("0x5065990310123456"), "0x" + plain("5065:9903:1012:3456")) << "digits alone";
  EXPECT_EQ(names.kernel_text("enx0c42a1123456 br-0c42a1123456"), "enx" + mac + " br-" + mac);
  EXPECT_EQ(names.text("br-0c42a1123456: 1 br-0c42a1123456.100"), "br-" + mac + ": 1 br-" + mac + ".100");
  EXPECT_EQ(names.text("000D3AF9-F7F7-000D-3AF9-F7F7000D3AF9"), names.text("000d3af9-f7f7-000d-3af9-f7f7000d3af9"));
  EXPECT_EQ(names.text("lower_enx0c42a1123456\nenx0c42a1123456.100"), "lower_enx" + mac + "\nenx" + mac + ".100");
  EXPECT_EQ(names.text("\"rocexe41d2d0300abcdef\" ibxe41d2d0300abcdef/1"), "\"rocex" + guid + "\" ibx" + guid + "/1");
  for (const std::string same :
       {"123456789012 1234567890123456", "0x0000000000000000 0xffffffffffffffff 0x00000000000000ff", "ffffffffffff",
        "0c42a11234567", "x0c42a1123456", "0c42a1123456x", "enx0c42a11234567", "enx0c42", "tenx0c42a1123456",
        "0x15b3 0x1003", "00000000 0000000a 00000b3c"})
    EXPECT_EQ(names.text(same), same);
}

TEST(PseudonymsTest, HostNamesAreNotWordsOfTheKernel) {
  Pseudonyms names;
  for (const std::string name : {"1000", "active", "rdma"}) names.add_host_name(name);
  EXPECT_EQ(names.kernel_text("4: ACTIVE 1000 rdma"), "4: ACTIVE 1000 rdma");
  EXPECT_THAT(names.text("4: ACTIVE 1000"), MatchesRegex("4: host-[0-9]+ 1000"));
  EXPECT_THAT(names.host("1000"), MatchesRegex("host-[0-9]+"));
  EXPECT_NE(names.kernel_text("192.0.2.9 e41d:2d03:00ab:cdef"), "192.0.2.9 e41d:2d03:00ab:cdef");
}

TEST(PseudonymsTest, WholeValues) {
  Pseudonyms names;
  EXPECT_EQ(names.serial(""), "");
  EXPECT_EQ(names.serial("S5XX123\n"), names.serial("S5XX123"));
  EXPECT_NE(names.serial("S5XX123"), names.serial("S5XX124"));
  EXPECT_EQ(names.address_or_host("192.0.2.9"), names.text("192.0.2.9"));
  EXPECT_THAT(names.address_or_host("fe80::1%eth0"), MatchesRegex("fe80::.*%eth0"));
  EXPECT_THAT(names.address_or_host("stor9.acme"), MatchesRegex("host-[0-9]+"));
  EXPECT_EQ(names.path("/"), "/");
  EXPECT_EQ(names.path("/home/alice"), names.path("/home/alice"));
  EXPECT_THAT(names.path("/home/alice"), Not(HasSubstr("alice")));
  EXPECT_EQ(names.guid(0), 0U);
  EXPECT_EQ(names.guid(77), names.guid(77));
  EXPECT_NE(names.guid(77), names.guid(78));
}

TEST(PseudonymsTest, DifferentNamesStayDifferent) {
  Pseudonyms names;
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) {
    EXPECT_TRUE(seen.insert(names.text("10.7.0." + std::to_string(i % 256) + (i < 256 ? "" : ":1"))).second ||
                i >= 256);
    EXPECT_TRUE(seen.insert(names.text("nqn.2024-01.org.acme:" + std::to_string(i))).second);
  }
}

}  // namespace
}  // namespace roce
