#include "ps/tcp.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "comm/wait.hpp"

namespace twinpod::ps {
namespace {

constexpr std::size_t kInboxMessages = 10'000;
constexpr std::size_t kInboxBytes = std::size_t{256} << 20U;
constexpr std::size_t kQueue = 10'000;  // messages to one peer
constexpr int kEvents = 128;
constexpr std::int64_t kPatienceNs = 3'000'000'000;    // with who does not show who it is
constexpr std::int64_t kLastPatienceNs = 500'000'000;  // at the end: a process of the job needs some milliseconds

bool is_of_worker(Kind kind) {
  return kind == Kind::initial || kind == Kind::push || kind == Kind::clock || kind == Kind::pull || kind == Kind::norm;
}

// By the socket.
void look_at_file(Tcp& tcp, int file, Inbox& inbox) {
  if (file == tcp.listener) return take_callers(tcp);
  if (file == tcp.wakes) {
    std::uint64_t count = 0;
    (void)!read(tcp.wakes, &count, sizeof count);
    return;
  }
  if (const auto caller = tcp.incoming.find(file); caller != tcp.incoming.end()) {
    return look_at(tcp, *caller->second, inbox);
  }
  for (auto& [peer, one] : tcp.outgoing) {
    if (!one.secure || one.secure->file() != file) continue;
    one.full = false;
    return look_at(tcp, one);
  }
}

}  // namespace

PayloadBounds bounds_of(std::span<const Shard> shards, int nodes) {
  std::size_t most = 0;
  for (const Shard& shard : shards) most = std::max(most, static_cast<std::size_t>(shard.count) * sizeof(float));
  constexpr std::size_t kSome = std::size_t{64} << 10U;
  const auto all = static_cast<std::size_t>(std::max(1, nodes));
  // Compressed values may be longer than plain ones; a state has values, what the optimizer keeps, and what waits.
  return {.values = kSome + 2 * most,
          .state = kSome * all + most * (4 + 4 * all),
          .other = kSome + shards.size() * 32 * all};
}

bool may_say(NodeId peer, const Message& message, const TcpOptions& options) {
  const bool of_its_host = peer < options.launchers && message.from % options.launchers == peer;
  const bool tells_death = of_its_host && message.kind == Kind::leave && message.to == kController;
  if (message.from != peer && !tells_death) return false;
  if (is_of_worker(message.kind) && message.worker != peer) return false;
  const bool commands = message.kind == Kind::view || (message.kind == Kind::leave && message.to != kController);
  return !commands || peer == kController;
}

Likeness likeness_of(const Message& message) {
  return {message.kind, message.entry,    message.shard, message.worker,
          message.view, message.sequence, message.clock, message.position};
}

bool is_large(const Message& message) {
  constexpr std::size_t kSmall = std::size_t{4} << 10U;  // is copied to its header
  return message.payload.bytes.size() > kSmall;
}

bool is_full(const Inbox& inbox) {
  return inbox.closed || inbox.messages.size() >= kInboxMessages || inbox.bytes >= kInboxBytes;
}

void watch(const Tcp& tcp, int file, Wants wants, bool is_new) {
  epoll_event event{};
  event.data.fd = file;
  if (wants != Wants::to_write) event.events |= EPOLLIN;
  if (wants != Wants::to_read) event.events |= EPOLLOUT;
  epoll_ctl(tcp.poll, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, file, &event);
}

Tcp::~Tcp() {
  send_off_silent(*this, kLastPatienceNs);
  for (const int file : {listener, wakes, poll}) {
    if (file >= 0) close(file);
  }
}

Result<std::unique_ptr<Tcp>> open_tcp(NodeId id, const TcpOptions& options) {
  auto tcp = std::make_unique<Tcp>();
  tcp->id = id;
  tcp->options = options;
  for (const Address& address : options.addresses) tcp->endpoints[address.id] = address.endpoint;
  if (!tcp->endpoints.contains(id)) {
    return input_error(
        fmt::format("node {}: no address to listen on among {} addresses", id, options.addresses.size()));
  }
  tcp->poll = epoll_create1(EPOLL_CLOEXEC);
  tcp->wakes = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (tcp->poll < 0 || tcp->wakes < 0)
    return infeasible(fmt::format("node {}: no files are left", id), "ulimit -n 1024");
  watch(*tcp, tcp->wakes, Wants::to_read, true);
  if (Result<void> listens = start_listening(*tcp); !listens) return tl::unexpected(listens.error());
  return tcp;
}

void post(Tcp& tcp, Message message) {
  if (!tcp.endpoints.contains(message.to)) return;
  const NodeId peer = message.to;
  Outgoing& one = tcp.outgoing[peer];
  if (one.queue.size() >= kQueue) return;
  const bool goes_once = is_large(message) || message.kind == Kind::pull;
  if (goes_once && !one.under_way.insert(likeness_of(message)).second) return;
  one.queue.push_back(std::move(message));
}

void drop(Tcp& tcp, NodeId peer) {
  tcp.endpoints.erase(peer);
  const auto found = tcp.outgoing.find(peer);
  if (found == tcp.outgoing.end()) return;
  if (found->second.secure) epoll_ctl(tcp.poll, EPOLL_CTL_DEL, found->second.secure->file(), nullptr);
  tcp.outgoing.erase(found);
}

void look(Tcp& tcp, int wait_ms, Inbox& inbox) {
  call_peers(tcp);
  std::array<epoll_event, kEvents> events{};
  const int count = epoll_wait(tcp.poll, events.data(), kEvents, tcp.unread.empty() ? wait_ms : 0);
  std::vector<int> unread;
  unread.swap(tcp.unread);
  for (int i = 0; i < count; ++i) {
    const int file = events[static_cast<std::size_t>(i)].data.fd;
    std::erase(unread, file);
    look_at_file(tcp, file, inbox);
  }
  for (const int file : unread) look_at_file(tcp, file, inbox);
  send_off_silent(tcp, kPatienceNs);
  call_peers(tcp);
}

bool has_unsent(const Tcp& tcp) {
  return std::any_of(tcp.outgoing.begin(), tcp.outgoing.end(), [](const auto& one) {
    const Outgoing& to = one.second;
    return !to.queue.empty() || to.staged < to.stage.size() || to.moved < to.body.bytes.size();
  });
}

void wake(const Tcp& tcp) {
  const std::uint64_t one = 1;
  (void)!write(tcp.wakes, &one, sizeof one);
}

}  // namespace twinpod::ps
