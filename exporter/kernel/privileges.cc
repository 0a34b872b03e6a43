// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace roce {
namespace {

using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

bool get_sets(Sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return syscall(SYS_capget, &header, sets.data()) == 0;
}

}  // namespace

bool has_capability(unsigned capability) {
  Sets sets{};
  if (capability >= 64 || !get_sets(sets)) return false;
  return (sets[capability / 32].effective >> (capability % 32) & 1U) != 0;
}

Result<void> drop_capability(unsigned capability) {
  Sets sets{};
  if (capability >= 64) return fail_errno(EINVAL, "capability");
  if (!get_sets(sets)) return fail_errno(errno, "capget");
  // Of the ambient set it goes with the others. The bounding set needs a capability of its own to be changed, and
  // without it nothing can be gained from there but by a program of root's.
  auto& word = sets[capability / 32];
  const std::uint32_t keep = ~(std::uint32_t{1} << (capability % 32));
  word.effective &= keep;
  word.permitted &= keep;
  word.inheritable &= keep;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  if (syscall(SYS_capset, &header, sets.data()) != 0) return fail_errno(errno, "capset");
  return {};
}

}  // namespace roce
