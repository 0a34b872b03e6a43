// SPDX-License-Identifier: Apache-2.0
#include "probes/connect/worker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "exporter/base/random.h"
#include "probes/connect/agent.h"
#include "probes/connect/wire.h"
#include "probes/schedule/schedule.h"

namespace roce::probe {
namespace {

constexpr std::size_t kPassive = 16;  // connections that others made, at once
constexpr std::uint64_t kPassiveTime = 5'000'000'000;
constexpr double kTakenPerSecond = 10;

std::uint64_t now_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

bool mapped(const Gid& gid) {
  return std::all_of(gid.raw.begin(), gid.raw.begin() + 10, [](auto b) { return b == 0; }) && gid.raw[10] == 0xff &&
         gid.raw[11] == 0xff;
}

sockaddr_storage address_of(const Gid& gid, std::uint16_t port) {
  sockaddr_storage out{};
  if (mapped(gid)) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, gid.raw.data() + 12, 4);
    std::memcpy(&out, &in, sizeof in);
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    std::memcpy(&in.sin6_addr, gid.raw.data(), 16);
    std::memcpy(&out, &in, sizeof in);
  }
  return out;
}

Gid gid_of(const sockaddr* address) {
  Gid out;
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    out.raw[10] = out.raw[11] = 0xff;
    std::memcpy(out.raw.data() + 12, &in.sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    std::memcpy(out.raw.data(), &in.sin6_addr, 16);
  }
  return out;
}

void destroy(rdma_cm_id* id) {
  if (id == nullptr) return;
  if (id->qp != nullptr) rdma_destroy_qp(id);
  (void)rdma_destroy_id(id);
}

bool create_queue(rdma_cm_id* id) {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = init.cap.max_recv_wr = 1;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  return rdma_create_qp(id, nullptr, &init) == 0;
}

rdma_conn_param parameters() {
  rdma_conn_param out{};
  out.responder_resources = out.initiator_depth = 1;
  out.retry_count = 6;  // 7 means "for ever" to some devices
  out.rnr_retry_count = 6;
  return out;
}

class Worker {
 public:
  explicit Worker(int socket) : socket_(socket) {}

  void run() {
    WorkerSetup setup{};
    if (recv(socket_, &setup, sizeof setup, 0) != sizeof setup) return;
    epoch_ = setup.epoch;
    keys_ = keys_of(setup);
    WorkerPorts ports{};
    // Without an address of its own there is nothing to call from, and to ask would load the RDMA core.
    if (setup.listener_count > 0) channel_ = rdma_create_event_channel();
    if (channel_ != nullptr) {
      (void)fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
      for (std::uint32_t i = 0; i < std::min<std::size_t>(setup.listener_count, kMaxListeners); ++i)
        ports.port[i] = listen_on(setup.listen_on[i]);
    }
    if (send(socket_, &ports, sizeof ports, MSG_NOSIGNAL) != sizeof ports) return;
    for (;;) {
      pollfd fds[2] = {{socket_, POLLIN, 0}, {channel_ != nullptr ? channel_->fd : -1, POLLIN, 0}};
      (void)poll(fds, 2, dialling_ != nullptr ? 20 : 1000);
      if (fds[1].revents != 0) take_events();
      if (dialling_ != nullptr && now_ns() >= deadline_) finish(Failure::kTimeout);
      drop_old();
      if (fds[0].revents == 0) continue;
      WorkerRequest request{};
      if (recv(socket_, &request, sizeof request, 0) != sizeof request) return;
      dial(request);
    }
  }

 private:
  std::uint16_t listen_on(const Gid& gid) {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) return 0;
    sockaddr_storage address = address_of(gid, 0);
    if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0 || rdma_listen(id, 8) != 0) {
      (void)rdma_destroy_id(id);
      return 0;
    }
    return ntohs(rdma_get_src_port(id));
  }

  void dial(const WorkerRequest& request) {
    request_ = request;
    begun_ = now_ns();
    deadline_ = begun_ + std::uint64_t{request.deadline_ms} * 1'000'000;
    if (channel_ == nullptr || keys_.empty() || rdma_create_id(channel_, &dialling_, nullptr, RDMA_PS_TCP) != 0) {
      dialling_ = nullptr;
      return finish(Failure::kSendError);
    }
    sockaddr_storage from = address_of(request.from, 0), to = address_of(request.to, request.port);
    if (rdma_resolve_addr(dialling_, reinterpret_cast<sockaddr*>(&from), reinterpret_cast<sockaddr*>(&to),
                          static_cast<int>(request.deadline_ms)) != 0)
      finish(Failure::kUnresolved);
  }

  void finish(Failure failure) { answer({0, static_cast<std::uint8_t>(failure), 0}); }
  void answer(const WorkerAnswer& with) {
    if (dialling_ != nullptr) {
      (void)rdma_disconnect(dialling_);
      destroy(std::exchange(dialling_, nullptr));
    }
    (void)send(socket_, &with, sizeof with, MSG_NOSIGNAL);
  }

  void proceed(const rdma_cm_event_type type) {
    switch (type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(dialling_, static_cast<int>(request_.deadline_ms)) != 0) finish(Failure::kUnresolved);
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        const auto number = random_number<std::uint64_t>();
        const auto now = std::chrono::system_clock::now();
        const auto key = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return now <= k.not_after; });
        if (key == keys_.end() || !create_queue(dialling_)) return finish(Failure::kSendError);
        const auto greeting = make_greeting(*key, number, request_.epoch, request_.from, request_.to);
        rdma_conn_param how = parameters();
        how.private_data = greeting.data();
        how.private_data_len = static_cast<std::uint8_t>(greeting.size());
        if (rdma_connect(dialling_, &how) != 0) finish(Failure::kSendError);
        break;
      }
      case RDMA_CM_EVENT_ESTABLISHED:
        answer({1, 0, now_ns() - begun_});
        break;
      case RDMA_CM_EVENT_ADDR_ERROR:
      case RDMA_CM_EVENT_ROUTE_ERROR:
        finish(Failure::kUnresolved);
        break;
      case RDMA_CM_EVENT_REJECTED:
        finish(Failure::kRemoteAccess);
        break;
      case RDMA_CM_EVENT_UNREACHABLE:
        finish(Failure::kTimeout);
        break;
      default:
        finish(Failure::kQpError);
        break;
    }
  }

  // Whoever cannot greet is turned away; nothing is made for him.
  void requested(rdma_cm_id* id, const std::vector<std::uint8_t>& greeting) {
    const Gid from = gid_of(rdma_get_peer_addr(id)), to = gid_of(rdma_get_local_addr(id));
    rdma_conn_param how = parameters();
    if (passive_.size() >= kPassive || !bucket_.take(now_ns()) ||
        !greeting_good(greeting, keys_, epoch_, from, to, std::chrono::system_clock::now()) || !create_queue(id) ||
        rdma_accept(id, &how) != 0) {
      (void)rdma_reject(id, nullptr, 0);
      destroy(id);
      return;
    }
    passive_.push_back({id, now_ns()});
  }

  void take_events() {
    rdma_cm_event* event = nullptr;
    while (channel_ != nullptr && rdma_get_cm_event(channel_, &event) == 0) {
      rdma_cm_id* const id = event->id;
      const rdma_cm_event_type type = event->event;
      std::vector<std::uint8_t> greeting;
      if (type == RDMA_CM_EVENT_CONNECT_REQUEST && event->param.conn.private_data != nullptr) {
        const auto* bytes = static_cast<const std::uint8_t*>(event->param.conn.private_data);
        greeting.assign(bytes, bytes + event->param.conn.private_data_len);
      }
      // Before the id may be destroyed, which waits for its events.
      (void)rdma_ack_cm_event(event);
      if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        requested(id, greeting);
      } else if (id == dialling_) {
        proceed(type);
      } else if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_CONNECT_ERROR ||
                 type == RDMA_CM_EVENT_UNREACHABLE || type == RDMA_CM_EVENT_REJECTED) {
        drop(id);
      } else if (type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        _exit(0);  // with all that holds the device
      }
    }
  }

  void drop(const rdma_cm_id* id) {
    const auto found = std::find_if(passive_.begin(), passive_.end(), [&](const Passive& p) { return p.id == id; });
    if (found == passive_.end()) return;
    (void)rdma_disconnect(found->id);
    destroy(found->id);
    passive_.erase(found);
  }

  void drop_old() {
    const std::uint64_t now = now_ns();
    while (!passive_.empty() && now - passive_.front().since > kPassiveTime) drop(passive_.front().id);
  }

  struct Passive {
    rdma_cm_id* id = nullptr;
    std::uint64_t since = 0;
  };
  const int socket_;
  rdma_event_channel* channel_ = nullptr;
  std::vector<Key> keys_;
  std::uint32_t epoch_ = 0;
  std::vector<Passive> passive_;
  TokenBucket bucket_{kTakenPerSecond, kTakenPerSecond, now_ns()};
  rdma_cm_id* dialling_ = nullptr;
  WorkerRequest request_{};
  std::uint64_t begun_ = 0, deadline_ = 0;
};

}  // namespace

void run_connect_worker(int socket) {
  const auto worker = std::make_unique<Worker>(socket);
  worker->run();
}

}  // namespace roce::probe
