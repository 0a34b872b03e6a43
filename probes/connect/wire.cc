// SPDX-License-Identifier: Apache-2.0
#include "probes/connect/wire.h"

#include <openssl/sha.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>

namespace roce::probe {

bool send_command(int socket, char command, int fd) {
  iovec part{&command, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

bool receive_command(int socket, char& command, int& fd) {
  iovec part{&command, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n = 0;
  do n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n != 1) return false;
  fd = -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return true;
}

void put_keys(WorkerSetup& setup, std::span<const Key> keys) {
  setup.key_count = 0;
  for (const Key& key : keys.first(std::min(keys.size(), std::size(setup.keys)))) {
    WorkerSetup::Secret& to = setup.keys[setup.key_count++];
    to.id = key.id;
    if (key.secret.size() <= sizeof to.secret) {
      to.bytes = static_cast<std::uint8_t>(key.secret.size());
      std::copy(key.secret.begin(), key.secret.end(), to.secret);
    } else {
      to.bytes = SHA256_DIGEST_LENGTH;
      SHA256(key.secret.data(), key.secret.size(), to.secret);
    }
    to.not_after = std::chrono::duration_cast<std::chrono::seconds>(key.not_after.time_since_epoch()).count();
  }
}

std::vector<Key> keys_of(const WorkerSetup& setup) {
  // Dates beyond what the clock counts are "never".
  const std::int64_t most =
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::time_point::max()).time_since_epoch().count();
  std::vector<Key> keys;
  for (std::size_t i = 0; i < std::min<std::size_t>(setup.key_count, std::size(setup.keys)); ++i) {
    const WorkerSetup::Secret& from = setup.keys[i];
    Key key;
    key.id = from.id;
    key.secret.assign(from.secret, from.secret + std::min<std::size_t>(from.bytes, sizeof from.secret));
    key.not_after =
        std::chrono::system_clock::time_point(std::chrono::seconds(std::clamp(from.not_after, -most, most)));
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace roce::probe
