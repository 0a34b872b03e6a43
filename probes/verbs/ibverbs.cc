// SPDX-License-Identifier: Apache-2.0
//
// The Verbs interface by libibverbs.
#include <fcntl.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "exporter/base/random.h"
#include "probes/verbs/verbs.h"

namespace roce::probe {
namespace {

constexpr std::size_t kDummyBytes = 4096;
constexpr const char* kDeviceNodes = "/dev/infiniband";
constexpr std::string_view kDevices = "/sys/class/infiniband/";

int errno_or(int fallback) { return errno != 0 ? errno : fallback; }

struct Release {
  void operator()(ibv_context* c) const { (void)ibv_close_device(c); }
  void operator()(ibv_pd* p) const { (void)ibv_dealloc_pd(p); }
  void operator()(ibv_mr* m) const { (void)ibv_dereg_mr(m); }
  void operator()(ibv_cq* c) const { (void)ibv_destroy_cq(c); }
  void operator()(ibv_qp* q) const { (void)ibv_destroy_qp(q); }
  void operator()(ibv_comp_channel* c) const { (void)ibv_destroy_comp_channel(c); }
};
template <class T>
using Handle = std::unique_ptr<T, Release>;

// Page-aligned memory that is not inherited by a child: a fork must not share what a device writes to.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_((bytes + 4095) / 4096 * 4096) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    (void)madvise(at, bytes_, MADV_DONTFORK);
    data_ = static_cast<std::uint8_t*>(at);
  }
  ~Pages() {
    if (data_ != nullptr) (void)munmap(data_, bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::uint8_t* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::uint8_t* data_ = nullptr;
};

// A registration that failed for want of lockable memory says how to get more.
tl::unexpected<Error> memory_failure(const std::string& device, std::size_t bytes, int err) {
  rlimit limit{};
  if ((err == ENOMEM || err == EAGAIN || err == EPERM) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    return fail_errno(err,
                      fmt::format("{}: cannot lock memory for {} KiB of buffers, RLIMIT_MEMLOCK is {} KiB; at "
                                  "least 16384 KiB are needed (systemd unit: LimitMEMLOCK=16M; container: --ulimit "
                                  "memlock=16777216)",
                                  device, (bytes + 1023) / 1024, limit.rlim_cur / 1024));
  return fail_errno(err, fmt::format("{}: registering {} bytes", device, bytes));
}

// As numbers: the macro around ibv_reg_mr() combines them with another enumeration, which clang refuses.
constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
constexpr int kRemoteRead = IBV_ACCESS_REMOTE_READ;

std::uint32_t random24() { return random_number<std::uint32_t>() & 0xffffff; }

int make_nonblocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return -1;
  return fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

ibv_mtu mtu_of(std::uint32_t bytes) {
  if (bytes >= 4096) return IBV_MTU_4096;
  if (bytes >= 2048) return IBV_MTU_2048;
  if (bytes >= 1024) return IBV_MTU_1024;
  if (bytes >= 512) return IBV_MTU_512;
  return IBV_MTU_256;
}
std::uint32_t bytes_of(ibv_mtu mtu) { return 128U << static_cast<unsigned>(mtu); }

class IbAddress final : public Address {
 public:
  explicit IbAddress(ibv_ah* ah) : ah_(ah) {}
  ~IbAddress() override { (void)ibv_destroy_ah(ah_); }
  IbAddress(const IbAddress&) = delete;
  IbAddress& operator=(const IbAddress&) = delete;
  ibv_ah* get() const { return ah_; }

 private:
  ibv_ah* ah_;
};

// A completion queue: extended with raw timestamps where the provider has them, else extended, else classic.
class CompletionQueue {
 public:
  Result<void> create(ibv_context* context, ibv_comp_channel* channel, unsigned entries, bool timestamps,
                      const std::string& device) {
    if (timestamps) {
      ibv_device_attr_ex attributes{};
      if (ibv_query_device_ex(context, nullptr, &attributes) == 0 && attributes.completion_timestamp_mask != 0 &&
          attributes.hca_core_clock != 0) {
        ibv_cq_init_attr_ex init{};
        init.cqe = entries;
        init.channel = channel;
        init.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
        // Any failure means "not here": the errno differs by provider.
        if (ibv_cq_ex* cq = ibv_create_cq_ex(context, &init); cq != nullptr) {
          extended_ = cq;
          cq_.reset(ibv_cq_ex_to_cq(cq));
          clock_ = {attributes.completion_timestamp_mask, attributes.hca_core_clock};
          return {};
        }
      }
    }
    errno = 0;
    cq_.reset(ibv_create_cq(context, static_cast<int>(entries), nullptr, channel, 0));
    if (!cq_) return fail_errno(errno_or(EIO), device + ": completion queue");
    return {};
  }

  int poll(std::span<Completion> out) {
    if (extended_ != nullptr) return poll_extended(out);
    std::array<ibv_wc, 16> completions{};
    const int n =
        ibv_poll_cq(cq_.get(), static_cast<int>(std::min(completions.size(), out.size())), completions.data());
    if (n < 0) return n == -1 ? -EIO : n;
    for (int i = 0; i < n; ++i) {
      const ibv_wc& from = completions[static_cast<std::size_t>(i)];
      Completion& to = out[static_cast<std::size_t>(i)];
      to = Completion{};
      id(to, from.wr_id);
      to.status = from.status;
      to.bytes = from.byte_len;
      to.source_qpn = from.src_qp;
      to.grh = (from.wc_flags & IBV_WC_GRH) != 0;
    }
    return n;
  }

  // Ids: direction in the lowest bit, slot above it, generation in the upper half.
  static std::uint64_t make_id(std::uint32_t generation, std::uint32_t slot, bool receive) {
    return std::uint64_t{generation} << 32 | std::uint64_t{slot} << 1 | (receive ? 1 : 0);
  }
  std::uint32_t generation = 0;

  ibv_cq* get() const { return cq_.get(); }
  DeviceClock clock() const { return clock_; }
  int arm(bool solicited) { return ibv_req_notify_cq(cq_.get(), solicited ? 1 : 0); }

  // One: an arming gives no more, and what is left keeps the channel readable.
  void take_event(ibv_comp_channel* channel) {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (ibv_get_cq_event(channel, &cq, &user) == 0) ibv_ack_cq_events(cq_.get(), 1);
  }
  void destroy() {
    extended_ = nullptr;
    cq_.reset();
  }

 private:
  static constexpr std::uint32_t kStale = 0xffffffff;

  void id(Completion& to, std::uint64_t wr_id) const {
    // Of before a repair: whoever polls drops it.
    to.slot = static_cast<std::uint32_t>(wr_id >> 32) == generation
                  ? static_cast<std::uint32_t>(wr_id & 0xffffffff) >> 1
                  : kStale;
    to.receive = (wr_id & 1) != 0;
  }

  int poll_extended(std::span<Completion> out) {
    ibv_poll_cq_attr attributes{};
    int err = ibv_start_poll(extended_, &attributes);
    if (err == ENOENT) return 0;
    if (err != 0) return -err;
    std::size_t n = 0;
    for (;;) {
      Completion& to = out[n++];
      to = Completion{};
      id(to, extended_->wr_id);
      to.status = extended_->status;
      if (to.status == IBV_WC_SUCCESS) {
        to.ticks = ibv_wc_read_completion_ts(extended_);
        if (to.receive) {
          to.bytes = ibv_wc_read_byte_len(extended_);
          to.source_qpn = ibv_wc_read_src_qp(extended_);
          to.grh = (ibv_wc_read_wc_flags(extended_) & IBV_WC_GRH) != 0;
        }
      }
      if (n == out.size()) break;
      err = ibv_next_poll(extended_);
      if (err != 0) break;  // empty, or the error comes again at the next start
    }
    ibv_end_poll(extended_);
    return static_cast<int>(n);
  }

  Handle<ibv_cq> cq_;
  ibv_cq_ex* extended_ = nullptr;
  DeviceClock clock_;
};

class IbDatagramQueue final : public DatagramQueue {
 public:
  IbDatagramQueue(const QueueSpec& spec, std::string device)
      : spec_(spec),
        device_(std::move(device)),
        receive_bytes_((kGrhBytes + spec.slot_bytes + 63) / 64 * 64),
        send_bytes_((spec.slot_bytes + 63) / 64 * 64),
        slots_bytes_(std::size_t{receive_bytes_} * spec.receive_slots + std::size_t{send_bytes_} * spec.send_slots),
        pages_(slots_bytes_ + kSinkBytes) {}

  ~IbDatagramQueue() override {
    qp_.reset();
    cq_.destroy();
    channel_.reset();
    mr_.reset();
  }

  // `pd` belongs to the context and outlives this; addresses are of the same one.
  Result<void> create(ibv_context* context, ibv_pd* pd) {
    if (pages_.data() == nullptr) return fail_errno(ENOMEM, device_ + ": buffers");
    errno = 0;
    mr_.reset(ibv_reg_mr(pd, pages_.data(), pages_.bytes(), kLocalWrite));
    if (!mr_) return memory_failure(device_, pages_.bytes(), errno_or(ENOMEM));
    errno = 0;
    channel_.reset(ibv_create_comp_channel(context));
    if (!channel_ || make_nonblocking(channel_->fd) != 0)
      return fail_errno(errno_or(EIO), device_ + ": completion channel");
    ROCE_TRY_VOID(
        cq_.create(context, channel_.get(), spec_.send_slots + spec_.receive_slots, spec_.timestamps, device_));
    ibv_qp_init_attr init{};
    init.send_cq = cq_.get();
    init.recv_cq = cq_.get();
    init.qp_type = IBV_QPT_UD;
    init.sq_sig_all = 0;
    init.cap.max_send_wr = spec_.send_slots;
    init.cap.max_recv_wr = spec_.receive_slots;
    init.cap.max_send_sge = 1;
    init.cap.max_recv_sge = 2;
    init.cap.max_inline_data = 128;
    errno = 0;
    qp_.reset(ibv_create_qp(pd, &init));
    if (!qp_) {  // no inline data here
      init.cap.max_inline_data = 0;
      errno = 0;
      qp_.reset(ibv_create_qp(pd, &init));
    }
    if (!qp_) {
      const int err = errno_or(EIO);
      if (err == ENOMEM) return memory_failure(device_, pages_.bytes(), err);
      return fail_errno(err, device_ + ": UD queue pair");
    }
    inline_bytes_ = init.cap.max_inline_data;
    return bring_up();
  }

  std::uint32_t qpn() const override { return qp_->qp_num; }
  DeviceClock clock() const override { return cq_.clock(); }
  int event_fd() const override { return channel_->fd; }
  std::span<std::uint8_t> send_slot(std::uint32_t slot) override {
    return {pages_.data() + std::size_t{receive_bytes_} * spec_.receive_slots + std::size_t{send_bytes_} * slot,
            spec_.slot_bytes};
  }
  std::span<const std::uint8_t> receive_slot(std::uint32_t slot) const override {
    return {pages_.data() + std::size_t{receive_bytes_} * slot, kGrhBytes + spec_.slot_bytes};
  }

  int post_send(std::uint32_t slot, std::size_t bytes, const Address& to, std::uint32_t remote_qpn, std::uint32_t qkey,
                bool solicited) override {
    ibv_sge sge{};
    sge.addr = reinterpret_cast<std::uintptr_t>(send_slot(slot).data());
    sge.length = static_cast<std::uint32_t>(bytes);
    sge.lkey = mr_->lkey;
    ibv_send_wr request{};
    request.wr_id = CompletionQueue::make_id(cq_.generation, slot, false);
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    if (solicited) request.send_flags |= IBV_SEND_SOLICITED;
    if (bytes <= inline_bytes_) request.send_flags |= IBV_SEND_INLINE;
    request.wr.ud.ah = static_cast<const IbAddress&>(to).get();
    request.wr.ud.remote_qpn = remote_qpn;
    request.wr.ud.remote_qkey = qkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_.get(), &request, &bad);
  }

  int post_receive(std::uint32_t slot) override {
    std::array<ibv_sge, 2> parts{};
    parts[0].addr = reinterpret_cast<std::uintptr_t>(pages_.data() + std::size_t{receive_bytes_} * slot);
    parts[0].length = static_cast<std::uint32_t>(kGrhBytes) + spec_.slot_bytes;
    parts[1].addr = reinterpret_cast<std::uintptr_t>(pages_.data() + slots_bytes_);
    parts[1].length = kSinkBytes;
    parts[0].lkey = parts[1].lkey = mr_->lkey;
    ibv_recv_wr request{};
    request.wr_id = CompletionQueue::make_id(cq_.generation, slot, true);
    request.sg_list = parts.data();
    request.num_sge = static_cast<int>(parts.size());
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_.get(), &request, &bad);
  }

  int poll(std::span<Completion> out) override {
    const int n = cq_.poll(out);
    int kept = 0;
    for (int i = 0; i < n; ++i) {
      const Completion& from = out[static_cast<std::size_t>(i)];
      if (from.slot >= (from.receive ? spec_.receive_slots : spec_.send_slots)) continue;
      out[static_cast<std::size_t>(kept++)] = from;
    }
    // All were of before a repair: look again, the queue need not be empty.
    return n > 0 && kept == 0 ? poll(out) : (n < 0 ? n : kept);
  }

  int arm(bool solicited) override { return cq_.arm(solicited); }
  void take_events() override { cq_.take_event(channel_.get()); }

  Result<void> repair() override {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RESET;
    if (const int err = ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE); err != 0)
      return fail_errno(err, device_ + ": UD queue pair to RESET");
    ++cq_.generation;
    return bring_up();
  }

 private:
  // A datagram that is longer than what was posted for it takes the queue pair into its error state: one stranger's
  // packet would silence it until it is repaired. What is too long goes on into a place that all slots share and nobody
  // reads; it is longer than any Ethernet frame.
  static constexpr std::uint32_t kSinkBytes = 16384;

  Result<void> bring_up() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = spec_.port;
    attributes.qkey = spec_.qkey;
    if (const int err =
            ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
        err != 0)
      return fail_errno(err, device_ + ": UD queue pair to INIT");
    for (std::uint32_t slot = 0; slot < spec_.receive_slots; ++slot)
      if (const int err = post_receive(slot); err != 0) return fail_errno(err, device_ + ": posting receives");
    attributes = {};
    attributes.qp_state = IBV_QPS_RTR;
    if (const int err = ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE); err != 0)
      return fail_errno(err, device_ + ": UD queue pair to RTR");
    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    if (const int err = ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN); err != 0)
      return fail_errno(err, device_ + ": UD queue pair to RTS");
    return {};
  }

  QueueSpec spec_;
  std::string device_;
  std::uint32_t receive_bytes_, send_bytes_;
  std::size_t slots_bytes_;  // the sink is after them
  Pages pages_;
  Handle<ibv_mr> mr_;
  Handle<ibv_comp_channel> channel_;
  CompletionQueue cq_;
  Handle<ibv_qp> qp_;
  std::uint32_t inline_bytes_ = 0;
};

class IbReadQueue final : public ReadQueue {
 public:
  IbReadQueue(const ReadQueueSpec& spec, std::string device) : spec_(spec), device_(std::move(device)) {}
  ~IbReadQueue() override {
    qp_.reset();
    cq_.destroy();
    channel_.reset();
  }

  // `pd` and `mr` belong to the context and outlive this.
  Result<void> create(ibv_context* context, ibv_pd* pd, std::uint8_t* scratch, std::uint32_t lkey) {
    scratch_ = scratch;
    lkey_ = lkey;
    errno = 0;
    channel_.reset(ibv_create_comp_channel(context));
    if (!channel_ || make_nonblocking(channel_->fd) != 0)
      return fail_errno(errno_or(EIO), device_ + ": completion channel");
    ROCE_TRY_VOID(cq_.create(context, channel_.get(), 4, true, device_));
    ibv_qp_init_attr init{};
    init.send_cq = cq_.get();
    init.recv_cq = cq_.get();
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = 2;
    init.cap.max_recv_wr = 1;
    init.cap.max_send_sge = 1;
    init.cap.max_recv_sge = 1;
    errno = 0;
    qp_.reset(ibv_create_qp(pd, &init));
    if (!qp_) return fail_errno(errno_or(EIO), device_ + ": RC queue pair");
    psn_ = random24();
    return {};
  }

  std::uint32_t qpn() const override { return qp_->qp_num; }
  std::uint32_t psn() const override { return psn_; }
  DeviceClock clock() const override { return cq_.clock(); }
  int event_fd() const override { return channel_->fd; }

  Result<void> connect(const ReadPath& path) override {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = spec_.port;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    if (const int err =
            ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        err != 0)
      return fail_errno(err, device_ + ": RC queue pair to INIT");
    attributes = {};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = mtu_of(path.mtu);
    attributes.dest_qp_num = path.qpn;
    attributes.rq_psn = path.psn;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = spec_.port;
    attributes.ah_attr.sl = path.sl;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, path.gid.raw.data(), path.gid.raw.size());
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(spec_.gid_index);
    attributes.ah_attr.grh.traffic_class = path.traffic_class;
    attributes.ah_attr.grh.flow_label = path.flow_label;
    attributes.ah_attr.grh.hop_limit = path.hop_limit;
    if (const int err = ibv_modify_qp(qp_.get(), &attributes,
                                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        err != 0)
      return fail_errno(err, device_ + ": RC queue pair to RTR");
    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = psn_;
    attributes.timeout = 14;   // 67 ms
    attributes.retry_cnt = 6;  // 7 means "for ever" to some devices
    attributes.rnr_retry = 6;
    attributes.max_rd_atomic = 1;
    if (const int err = ibv_modify_qp(qp_.get(), &attributes,
                                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
        err != 0)
      return fail_errno(err, device_ + ": RC queue pair to RTS");
    return {};
  }

  int post_read(std::uint64_t remote, std::uint32_t rkey, std::uint32_t bytes) override {
    ibv_sge sge{};
    sge.addr = reinterpret_cast<std::uintptr_t>(scratch_);
    sge.length = std::min<std::uint32_t>(bytes, kDummyBytes);
    sge.lkey = lkey_;
    ibv_send_wr request{};
    request.wr_id = 0;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_READ;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = rkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_.get(), &request, &bad);
  }
  int poll(Completion& out) override { return cq_.poll({&out, 1}); }
  int arm() override { return cq_.arm(false); }
  void take_events() override { cq_.take_event(channel_.get()); }

 private:
  ReadQueueSpec spec_;
  std::string device_;
  std::uint8_t* scratch_ = nullptr;
  std::uint32_t lkey_ = 0, psn_ = 0;
  Handle<ibv_comp_channel> channel_;
  CompletionQueue cq_;
  Handle<ibv_qp> qp_;
};

class IbContext final : public Context {
 public:
  IbContext(Handle<ibv_context> context, std::string device)
      : device_(std::move(device)),
        node_(fmt::format("{}/{}", kDeviceNodes, context->device->dev_name)),
        context_(std::move(context)) {}

  ~IbContext() override {
    addresses_.clear();
    dummy_mr_.reset();
    scratch_mr_.reset();
    read_pd_.reset();
    datagram_pd_.reset();
  }

  bool present() const override { return access(node_.c_str(), F_OK) == 0; }
  int event_fd() const override { return context_->async_fd; }

  DeviceEvent take_event() override {
    ibv_async_event event{};
    if (ibv_get_async_event(context_.get(), &event) != 0) return DeviceEvent::kNone;
    const auto type = event.event_type;
    ibv_ack_async_event(&event);
    switch (type) {
      case IBV_EVENT_PORT_ERR:
        return DeviceEvent::kPortError;
      case IBV_EVENT_PORT_ACTIVE:
        return DeviceEvent::kPortActive;
      case IBV_EVENT_GID_CHANGE:
        return DeviceEvent::kGidChange;
      case IBV_EVENT_DEVICE_FATAL:
        return DeviceEvent::kFatal;
      default:
        return DeviceEvent::kOther;
    }
  }

  Result<PortInfo> port(std::uint8_t port) override {
    ibv_port_attr attributes{};
    if (const int err = ibv_query_port(context_.get(), port, &attributes); err != 0)
      return fail_errno(err, fmt::format("{}/{}: port", device_, port));
    PortInfo out;
    out.active = attributes.state == IBV_PORT_ACTIVE;
    out.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    out.mtu = bytes_of(attributes.active_mtu);
    return out;
  }

  Result<LocalGid> gid(std::uint8_t port_number) override {
    ROCE_TRY(const PortInfo info, port(port_number));
    std::array<ibv_gid_entry, 1024> entries{};
    const ssize_t n = ibv_query_gid_table(context_.get(), entries.data(), entries.size(), 0);
    if (n < 0) return fail_errno(static_cast<int>(-n), fmt::format("{}: GID table", device_));
    std::optional<LocalGid> best;
    int best_rank = 0;
    for (const ibv_gid_entry& entry : std::span(entries).first(static_cast<std::size_t>(n))) {
      const auto* raw = entry.gid.raw;
      if (entry.port_num != port_number || std::all_of(raw, raw + 16, [](std::uint8_t b) { return b == 0; })) continue;
      int rank = 1;
      if (info.ethernet) {
        if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
        const bool mapped = std::all_of(raw, raw + 10, [](std::uint8_t b) { return b == 0; }) && raw[10] == 0xff;
        const bool link_local = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
        if (link_local) continue;
        rank = mapped ? 3 : 2;
      }
      if (rank <= best_rank) continue;
      best_rank = rank;
      best.emplace();
      std::copy(raw, raw + 16, best->gid.raw.begin());
      best->index = entry.gid_index;
    }
    if (!best)
      return fail(ErrorKind::kAbsent, fmt::format("{}/{}: no {} in the GID table", device_, port_number,
                                                  info.ethernet ? "RoCE v2 GID of a routable address" : "GID"));
    return *best;
  }

  Result<std::unique_ptr<DatagramQueue>> create_datagram_queue(const QueueSpec& spec) override {
    auto queue = std::make_unique<IbDatagramQueue>(spec, device_);
    ROCE_TRY(ibv_pd* const pd, domain(datagram_pd_));
    ROCE_TRY_VOID(queue->create(context_.get(), pd));
    return queue;
  }

  Result<Address*> create_address(const AddressSpec& spec) override {
    ROCE_TRY(ibv_pd* const pd, domain(datagram_pd_));
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.port_num = spec.port;
    attributes.sl = spec.sl;
    std::memcpy(attributes.grh.dgid.raw, spec.gid.raw.data(), spec.gid.raw.size());
    attributes.grh.sgid_index = static_cast<std::uint8_t>(spec.gid_index);
    attributes.grh.traffic_class = spec.traffic_class;
    attributes.grh.flow_label = spec.flow_label;
    attributes.grh.hop_limit = spec.hop_limit;
    errno = 0;
    ibv_ah* ah = ibv_create_ah(pd, &attributes);
    if (ah == nullptr) return fail_errno(errno_or(EIO), device_ + ": address handle");
    auto address = std::make_unique<IbAddress>(ah);
    Address* out = address.get();
    const std::lock_guard lock(mutex_);
    addresses_.emplace(out, std::move(address));
    return out;
  }

  void destroy_address(Address* address) override {
    std::unique_ptr<IbAddress> gone;
    const std::lock_guard lock(mutex_);
    if (const auto found = addresses_.find(address); found != addresses_.end()) {
      gone = std::move(found->second);
      addresses_.erase(found);
    }
  }

  Result<std::unique_ptr<ReadQueue>> create_read_queue(const ReadQueueSpec& spec) override {
    ROCE_TRY_VOID(register_dummy());
    auto queue = std::make_unique<IbReadQueue>(spec, device_);
    ROCE_TRY_VOID(queue->create(context_.get(), read_pd_.get(), dummy_.data() + kDummyBytes, scratch_mr_->lkey));
    return queue;
  }

  Result<DummyMemory> dummy_memory() override {
    ROCE_TRY_VOID(register_dummy());
    return DummyMemory{reinterpret_cast<std::uintptr_t>(dummy_.data()), dummy_mr_->rkey, kDummyBytes};
  }

  Result<std::uint64_t> time_registration(std::size_t bytes) override {
    ROCE_TRY(ibv_pd* const pd, domain(datagram_pd_));
    const Pages pages(bytes);
    if (pages.data() == nullptr) return fail_errno(ENOMEM, device_ + ": buffer");
    // Touched first: what is timed is the pinning and the device, not the page faults.
    std::memset(pages.data(), 1, pages.bytes());
    timespec before{}, after{};
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    errno = 0;
    const Handle<ibv_mr> mr(ibv_reg_mr(pd, pages.data(), pages.bytes(), kLocalWrite));
    const int err = errno_or(ENOMEM);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    if (!mr) return memory_failure(device_, bytes, err);
    return static_cast<std::uint64_t>((after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec);
  }

 private:
  Result<ibv_pd*> domain(Handle<ibv_pd>& pd) {
    const std::lock_guard lock(mutex_);
    if (!pd) {
      errno = 0;
      pd.reset(ibv_alloc_pd(context_.get()));
      if (!pd) return fail_errno(errno_or(EIO), device_ + ": protection domain");
    }
    return pd.get();
  }

  // What others may read and what our reads write to: two registrations in a domain that holds nothing else.
  Result<void> register_dummy() {
    ROCE_TRY(ibv_pd* const pd, domain(read_pd_));
    const std::lock_guard lock(mutex_);
    if (dummy_mr_ && scratch_mr_) return {};
    if (dummy_.data() == nullptr) return fail_errno(ENOMEM, device_ + ": buffers");
    errno = 0;
    dummy_mr_.reset(ibv_reg_mr(pd, dummy_.data(), kDummyBytes, kRemoteRead));
    if (!dummy_mr_) return memory_failure(device_, kDummyBytes, errno_or(ENOMEM));
    errno = 0;
    scratch_mr_.reset(ibv_reg_mr(pd, dummy_.data() + kDummyBytes, kDummyBytes, kLocalWrite));
    if (!scratch_mr_) return memory_failure(device_, kDummyBytes, errno_or(ENOMEM));
    return {};
  }

  std::string device_, node_;
  Handle<ibv_context> context_;
  std::mutex mutex_;
  Pages dummy_{2 * kDummyBytes};
  Handle<ibv_pd> datagram_pd_, read_pd_;
  Handle<ibv_mr> dummy_mr_, scratch_mr_;
  std::unordered_map<const Address*, std::unique_ptr<IbAddress>> addresses_;
};

class IbVerbs final : public Verbs {
 public:
  IbVerbs() : watch_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    // Only once there is a device: until then there is nothing that could go away.
    (void)watch();
  }
  ~IbVerbs() override {
    if (watch_ >= 0) (void)close(watch_);
  }
  IbVerbs(const IbVerbs&) = delete;
  IbVerbs& operator=(const IbVerbs&) = delete;

  Result<std::unique_ptr<Context>> open(const std::string& device) override {
    (void)watch();
    // To ask libibverbs would load the RDMA core into a kernel that has none yet.
    if (access((std::string(kDevices) + device).c_str(), F_OK) != 0)
      return fail(ErrorKind::kAbsent, device + ": no such RDMA device", ENODEV);
    int count = 0;
    errno = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (list == nullptr) {
      const int err = errno_or(ENOSYS);
      if (err == ENOSYS || err == ENOENT)
        return fail(ErrorKind::kAbsent, device + ": no RDMA device on this host", err);
      return fail_errno(err, device + ": list of devices");
    }
    ibv_device* found = nullptr;
    for (int i = 0; i < count; ++i)
      if (device == ibv_get_device_name(list[i])) found = list[i];
    if (found == nullptr) {
      ibv_free_device_list(list);
      return fail(ErrorKind::kAbsent, device + ": no such RDMA device", ENODEV);
    }
    errno = 0;
    Handle<ibv_context> context(ibv_open_device(found));
    const int err = errno_or(EIO);
    ibv_free_device_list(list);
    if (!context) return fail_errno(err, device + ": open");
    if (make_nonblocking(context->async_fd) != 0) return fail_errno(errno_or(EIO), device + ": events");
    return std::make_unique<IbContext>(std::move(context), device);
  }

  int removal_fd() const override { return watch_; }
  void take_removals() override {
    alignas(inotify_event) std::array<char, 4096> buffer{};
    while (read(watch_, buffer.data(), buffer.size()) > 0) {
    }
  }
  std::uint64_t now() const override { return clock(CLOCK_MONOTONIC); }
  std::uint64_t realtime() const override { return clock(CLOCK_REALTIME); }

 private:
  bool watch() {
    return watch_ >= 0 && inotify_add_watch(watch_, kDeviceNodes, IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR) >= 0;
  }
  static std::uint64_t clock(clockid_t id) {
    timespec now{};
    (void)clock_gettime(id, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  }
  int watch_;
};

}  // namespace

std::unique_ptr<Verbs> system_verbs() { return std::make_unique<IbVerbs>(); }

}  // namespace roce::probe
