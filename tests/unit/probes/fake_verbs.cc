// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/probes/fake_verbs.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace roce::probe::fake {

namespace {

std::uint64_t clock_ns(clockid_t id) {
  timespec now{};
  (void)clock_gettime(id, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void signal(int fd) {
  const std::uint64_t one = 1;
  (void)!write(fd, &one, sizeof one);
}
void drain(int fd) {
  std::uint64_t count = 0;
  (void)!read(fd, &count, sizeof count);
}

bool is_ip4(const Gid& gid) {
  return std::all_of(gid.raw.begin(), gid.raw.begin() + 10, [](auto b) { return b == 0; }) && gid.raw[10] == 0xff;
}

// The 40 bytes in front of a payload.
void write_grh(std::span<std::uint8_t> out, const Gid& from, const Gid& to, std::uint8_t traffic_class,
               std::uint8_t ttl, std::size_t payload) {
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  if (!is_ip4(from)) {
    out[0] = static_cast<std::uint8_t>(0x60 | traffic_class >> 4);
    out[1] = static_cast<std::uint8_t>(traffic_class << 4);
    out[6] = 17;
    out[7] = ttl;
    std::copy(from.raw.begin(), from.raw.end(), out.begin() + 8);
    std::copy(to.raw.begin(), to.raw.end(), out.begin() + 24);
    return;
  }
  const auto ip = out.subspan(20, 20);
  const auto length = static_cast<std::uint16_t>(20 + 8 + 20 + payload + 4);
  ip[0] = 0x45;
  ip[1] = traffic_class;
  ip[2] = static_cast<std::uint8_t>(length >> 8);
  ip[3] = static_cast<std::uint8_t>(length);
  ip[6] = 0x40;
  ip[8] = ttl;
  ip[9] = 17;
  std::copy_n(from.raw.begin() + 12, 4, ip.begin() + 12);
  std::copy_n(to.raw.begin() + 12, 4, ip.begin() + 16);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(ip[i] << 8 | ip[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  ip[10] = static_cast<std::uint8_t>(~sum >> 8);
  ip[11] = static_cast<std::uint8_t>(~sum);
}

class FakeAddress final : public Address {
 public:
  explicit FakeAddress(const AddressSpec& s) : spec(s) {}
  AddressSpec spec;
};

}  // namespace

class Queue final : public DatagramQueue {
 public:
  Queue(Fabric& fabric, Device& device, const QueueSpec& spec)
      : fabric_(fabric), device_(device), spec_(spec), qpn_(fabric.next_qpn++), event_fd_(eventfd(0, EFD_NONBLOCK)) {
    receive_.resize((kGrhBytes + spec.slot_bytes) * spec.receive_slots);
    send_.resize(std::size_t{spec.slot_bytes} * spec.send_slots);
    completions_.reserve(65536);
    posted_.reserve(spec.receive_slots);
    post_all();
    fabric_.queues[qpn_] = this;
  }
  ~Queue() override {
    const std::lock_guard lock(fabric_.mutex);
    fabric_.queues.erase(qpn_);
    (void)close(event_fd_);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  std::uint32_t qpn() const override { return qpn_; }
  DeviceClock clock() const override {
    return device_.khz != 0 && spec_.timestamps ? DeviceClock{device_.mask, device_.khz} : DeviceClock{};
  }
  int event_fd() const override { return event_fd_; }
  std::span<std::uint8_t> send_slot(std::uint32_t slot) override {
    return {send_.data() + std::size_t{spec_.slot_bytes} * slot, spec_.slot_bytes};
  }
  std::span<const std::uint8_t> receive_slot(std::uint32_t slot) const override {
    return {receive_.data() + (kGrhBytes + spec_.slot_bytes) * slot, kGrhBytes + spec_.slot_bytes};
  }

  int post_send(std::uint32_t slot, std::size_t bytes, const Address& to, std::uint32_t qpn, std::uint32_t qkey,
                bool solicited) override {
    const std::lock_guard lock(fabric_.mutex);
    const AddressSpec& spec = static_cast<const FakeAddress&>(to).spec;
    const std::uint64_t now = fabric_.now();
    Sending sending{device_.gid, spec.gid, spec.traffic_class, spec.flow_label, qpn, send_slot(slot).first(bytes)};
    Fate fate = fabric_.fate ? fabric_.fate(sending) : Fate{};
    if (fate.post_errno != 0) return fate.post_errno;
    Completion completion;
    completion.slot = slot;
    completion.status = error_ ? kWorkFlushed : !device_.link ? kWorkLocalQpError : fate.send_status;
    completion.ticks = fabric_.ticks(device_, now);
    push(now, completion, false);
    if (completion.status != kWorkSuccess) {
      break_queue();
      return 0;
    }
    if (fate.drop) return 0;
    std::uint8_t traffic_class = spec.traffic_class;
    if (fate.mark && (traffic_class & 3) != 0) traffic_class |= 3;
    for (std::uint32_t i = 0; i < fate.copies; ++i)
      (void)fabric_.deliver(spec.gid, qpn, qkey, device_.gid, qpn_, traffic_class,
                            static_cast<std::uint8_t>(spec.hop_limit - fate.routers), send_slot(slot).first(bytes),
                            now + fate.latency + i, fate.corrupt, solicited);
    return 0;
  }

  int post_receive(std::uint32_t slot) override {
    const std::lock_guard lock(fabric_.mutex);
    if (error_) {
      Completion completion;
      completion.slot = slot;
      completion.receive = true;
      completion.status = kWorkFlushed;
      push(fabric_.now(), completion, false);
    } else {
      posted_.push_back(slot);
    }
    return 0;
  }

  int poll(std::span<Completion> out) override {
    const std::lock_guard lock(fabric_.mutex);
    if (device_.busy_polls > 0) {
      --device_.busy_polls;
      return -EBUSY;
    }
    const std::uint64_t now = fabric_.now();
    std::size_t n = 0, kept = 0;
    for (std::size_t i = 0; i < completions_.size(); ++i) {
      if (n < out.size() && completions_[i].at <= now)
        out[n++] = completions_[i].completion;
      else
        completions_[kept++] = completions_[i];
    }
    completions_.resize(kept);
    return static_cast<int>(n);
  }
  int arm(bool solicited) override {
    const std::lock_guard lock(fabric_.mutex);
    armed_ = solicited ? 2 : 1;
    return 0;
  }
  void take_events() override { drain(event_fd_); }

  Result<void> repair() override {
    const std::lock_guard lock(fabric_.mutex);
    if (!device_.link) return fail_errno(ENETDOWN, "repair");
    completions_.clear();
    posted_.clear();
    error_ = false;
    post_all();
    ++device_.repairs;
    return {};
  }

  // Called with the fabric's mutex held.
  int receive(std::uint32_t qkey, const Gid& from, const Gid& to, std::uint8_t traffic_class, std::uint8_t ttl,
              std::span<const std::uint8_t> payload, std::uint64_t at, bool corrupt, bool solicited) {
    if (qkey != spec_.qkey || posted_.empty() || error_ || !device_.link || !device_.present) return 0;
    const std::uint32_t slot = posted_.front();
    posted_.erase(posted_.begin());
    std::uint8_t* to_bytes = receive_.data() + (kGrhBytes + spec_.slot_bytes) * slot;
    write_grh({to_bytes, kGrhBytes}, from, to, traffic_class, ttl, payload.size());
    const auto kept = payload.first(std::min<std::size_t>(payload.size(), spec_.slot_bytes));
    std::copy(kept.begin(), kept.end(), to_bytes + kGrhBytes);
    if (corrupt) to_bytes[kGrhBytes + payload.size() / 2 + 20] ^= 0x10;
    Completion completion;
    completion.slot = slot;
    completion.receive = true;
    completion.grh = true;
    completion.bytes = static_cast<std::uint32_t>(kGrhBytes + payload.size());
    completion.ticks = fabric_.ticks(device_, at);
    completion.source_qpn = source_qpn;
    push(at, completion, solicited);
    return 1;
  }
  const Device& device() const { return device_; }
  std::uint32_t source_qpn = 0;
  void break_queue() {
    error_ = true;
    for (const std::uint32_t slot : posted_) {
      Completion completion;
      completion.slot = slot;
      completion.receive = true;
      completion.status = kWorkFlushed;
      push(fabric_.now(), completion, false);
    }
    posted_.clear();
  }

 private:
  struct Delivery {
    std::uint64_t at = 0;
    Completion completion;
  };
  void post_all() {
    for (std::uint32_t slot = 0; slot < spec_.receive_slots; ++slot) posted_.push_back(slot);
  }
  void push(std::uint64_t at, const Completion& completion, bool solicited) {
    const auto place = std::upper_bound(completions_.begin(), completions_.end(), at,
                                        [](std::uint64_t t, const Delivery& d) { return t < d.at; });
    completions_.insert(place, Delivery{at, completion});
    if (armed_ == 1 || (armed_ == 2 && (solicited || completion.status != kWorkSuccess))) {
      armed_ = 0;
      signal(event_fd_);
    }
  }

  Fabric& fabric_;
  Device& device_;
  QueueSpec spec_;
  std::uint32_t qpn_;
  int event_fd_;
  int armed_ = 0;
  bool error_ = false;
  std::vector<std::uint8_t> receive_, send_;
  std::vector<std::uint32_t> posted_;
  std::vector<Delivery> completions_;
};

class FakeReadQueue final : public ReadQueue {
 public:
  FakeReadQueue(Fabric& fabric, Device& device)
      : fabric_(fabric), device_(device), qpn_(fabric.next_qpn++), event_fd_(eventfd(0, EFD_NONBLOCK)) {}
  ~FakeReadQueue() override { (void)close(event_fd_); }
  FakeReadQueue(const FakeReadQueue&) = delete;
  FakeReadQueue& operator=(const FakeReadQueue&) = delete;
  std::uint32_t qpn() const override { return qpn_; }
  std::uint32_t psn() const override { return 1; }
  DeviceClock clock() const override { return {}; }
  Result<void> connect(const ReadPath& path) override {
    const std::lock_guard lock(fabric_.mutex);
    if (fabric_.dead.contains(path.gid)) return fail_errno(ETIMEDOUT, "RTR");
    path_ = path;
    return {};
  }
  int event_fd() const override { return event_fd_; }
  int post_read(std::uint64_t, std::uint32_t rkey, std::uint32_t bytes) override {
    const std::lock_guard lock(fabric_.mutex);
    if (path_.qpn == 0) return EINVAL;
    status_ = fabric_.read_status ? fabric_.read_status(device_.gid, path_.gid, bytes) : kWorkSuccess;
    if (rkey != 4711) status_ = kWorkRemoteAccess;
    pending_ = status_ >= 0;
    at_ = fabric_.now() + (fabric_.real_time ? 0 : 5'000);
    signal(event_fd_);
    return 0;
  }
  int poll(Completion& out) override {
    const std::lock_guard lock(fabric_.mutex);
    if (!pending_ || fabric_.now() < at_) return 0;
    pending_ = false;
    out = Completion{};
    out.status = status_;
    return 1;
  }
  int arm() override { return 0; }
  void take_events() override { drain(event_fd_); }

 private:
  Fabric& fabric_;
  Device& device_;
  std::uint32_t qpn_;
  int event_fd_;
  ReadPath path_;
  bool pending_ = false;
  int status_ = 0;
  std::uint64_t at_ = 0;
};

class FakeContext final : public Context {
 public:
  FakeContext(Fabric& fabric, Device& device) : fabric_(fabric), device_(device) { ++device_.open_contexts; }
  ~FakeContext() override {
    const std::lock_guard lock(fabric_.mutex);
    device_.addresses -= addresses_.size();
    --device_.open_contexts;
  }
  bool present() const override {
    const std::lock_guard lock(fabric_.mutex);
    return device_.present;
  }
  int event_fd() const override { return device_.event_fd; }
  DeviceEvent take_event() override {
    const std::lock_guard lock(fabric_.mutex);
    if (device_.events.empty()) {
      drain(device_.event_fd);
      return DeviceEvent::kNone;
    }
    const DeviceEvent event = device_.events.front();
    device_.events.erase(device_.events.begin());
    return event;
  }
  Result<PortInfo> port(std::uint8_t) override {
    const std::lock_guard lock(fabric_.mutex);
    return PortInfo{device_.link, true, device_.mtu};
  }
  Result<LocalGid> gid(std::uint8_t) override {
    const std::lock_guard lock(fabric_.mutex);
    return LocalGid{device_.gid, device_.gid_index};
  }
  Result<std::unique_ptr<DatagramQueue>> create_datagram_queue(const QueueSpec& spec) override {
    const std::lock_guard lock(fabric_.mutex);
    const std::uint64_t bytes = std::uint64_t{spec.slot_bytes} * (spec.send_slots + spec.receive_slots);
    if (bytes > device_.lockable) return fail_errno(ENOMEM, device_.name + ": RLIMIT_MEMLOCK");
    return std::make_unique<Queue>(fabric_, device_, spec);
  }
  Result<Address*> create_address(const AddressSpec& spec) override {
    std::unique_lock lock(fabric_.mutex);
    if (fabric_.dead.contains(spec.gid)) {
      if (fabric_.hold_dead) {
        ++fabric_.creating_;
        fabric_.dead_gate.wait(lock, [&] { return !fabric_.hold_dead; });
        --fabric_.creating_;
      }
      return fail_errno(ETIMEDOUT, device_.name + ": address handle");
    }
    auto address = std::make_unique<FakeAddress>(spec);
    Address* out = address.get();
    addresses_[out] = std::move(address);
    ++device_.addresses;
    return out;
  }
  void destroy_address(Address* address) override {
    const std::lock_guard lock(fabric_.mutex);
    device_.addresses -= addresses_.erase(address);
  }
  Result<std::unique_ptr<ReadQueue>> create_read_queue(const ReadQueueSpec&) override {
    const std::lock_guard lock(fabric_.mutex);
    return std::make_unique<FakeReadQueue>(fabric_, device_);
  }
  Result<DummyMemory> dummy_memory() override { return DummyMemory{4096, 4711, 4096}; }
  Result<std::uint64_t> time_registration(std::size_t) override { return 20'000; }

 private:
  Fabric& fabric_;
  Device& device_;
  std::map<Address*, std::unique_ptr<FakeAddress>> addresses_;
};

Fabric::Fabric() : removal_fd_(eventfd(0, EFD_NONBLOCK)) {}
Fabric::~Fabric() {
  for (auto& [name, device] : devices) (void)close(device->event_fd);
  (void)close(removal_fd_);
}

Device& Fabric::add(const std::string& name, const std::string& gid) {
  auto device = std::make_unique<Device>();
  device->name = name;
  device->gid = *parse_gid(gid);
  device->event_fd = eventfd(0, EFD_NONBLOCK);
  Device& out = *device;
  devices[name] = std::move(device);
  return out;
}

void Fabric::release_dead() {
  const std::lock_guard lock(mutex);
  hold_dead = false;
  dead_gate.notify_all();
}

void Fabric::raise(Device& device, DeviceEvent event) {
  device.events.push_back(event);
  signal(device.event_fd);
}

void Fabric::set_link(Device& device, bool up) {
  const std::lock_guard lock(mutex);
  device.link = up;
  raise(device, up ? DeviceEvent::kPortActive : DeviceEvent::kPortError);
}

void Fabric::remove(Device& device) {
  const std::lock_guard lock(mutex);
  device.present = false;
  signal(removal_fd_);
}

void Fabric::bring_back(Device& device) {
  const std::lock_guard lock(mutex);
  device.present = true;
}

void Fabric::inject(const Gid& from, const Gid& to, std::uint32_t qpn, std::uint32_t qkey, std::uint8_t traffic_class,
                    std::span<const std::uint8_t> payload) {
  const std::lock_guard lock(mutex);
  (void)deliver(to, qpn, qkey, from, 99, traffic_class, 64, payload, now(), false, true);
}

int Fabric::deliver(const Gid& to, std::uint32_t qpn, std::uint32_t qkey, const Gid& from, std::uint32_t source_qpn,
                    std::uint8_t traffic_class, std::uint8_t ttl, std::span<const std::uint8_t> payload,
                    std::uint64_t at, bool corrupt, bool solicited) {
  const auto found = queues.find(qpn);
  if (found == queues.end() || found->second->device().gid != to) return 0;
  found->second->source_qpn = source_qpn;
  return found->second->receive(qkey, from, to, traffic_class, ttl, payload, at, corrupt, solicited);
}

std::uint64_t Fabric::ticks(const Device& device, std::uint64_t at) const {
  if (device.khz == 0) return 0;
  const std::uint64_t ns = at;
  const std::uint64_t whole = ns / 1'000'000 * device.khz + ns % 1'000'000 * device.khz / 1'000'000;
  return (whole + device.tick_offset) & device.mask;
}

Result<std::unique_ptr<Context>> Fabric::open(const std::string& name) {
  const std::lock_guard lock(mutex);
  const auto found = devices.find(name);
  if (found == devices.end() || !found->second->present) return fail(ErrorKind::kAbsent, name + ": no such device");
  ++found->second->opened;
  return std::make_unique<FakeContext>(*this, *found->second);
}

void Fabric::take_removals() { drain(removal_fd_); }
std::uint64_t Fabric::now() const { return real_time ? clock_ns(CLOCK_MONOTONIC) : now_.load(); }
std::uint64_t Fabric::realtime() const {
  const std::uint64_t base = real_time ? clock_ns(CLOCK_REALTIME) : 1'700'000'000'000'000'000 + now_.load();
  return base + static_cast<std::uint64_t>(realtime_offset_.load());
}

}  // namespace roce::probe::fake
