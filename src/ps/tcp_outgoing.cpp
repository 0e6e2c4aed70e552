// Those that are called: one connection each, made when there is something to send, and made again when it is lost.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "comm/wait.hpp"
#include "ps/tcp.hpp"
#include "ps/tcp_address.hpp"

namespace twinpod::ps {
namespace {

constexpr std::int64_t kFirstPauseNs = 20'000'000;
constexpr std::int64_t kLastPauseNs = 1'000'000'000;
constexpr std::size_t kStage = std::size_t{16} << 10U;         // what TLS sends in one piece
constexpr std::size_t kSmall = std::size_t{4} << 10U;          // payloads that are copied to their headers
constexpr std::size_t kWrittenAtOnce = std::size_t{8} << 20U;  // to one peer, before the others have their turn
constexpr unsigned kUnacknowledgedMs = 30'000;                 // then the way there is cut

void let_go(Outgoing& one) {
  if (!one.body.bytes.empty()) one.under_way.erase(one.body_is);
  one.stage.clear();
  one.staged = one.moved = 0;
  one.body = {};
}

// What was under way is lost; it comes again when the protocol misses it.
void hang_up(const Tcp& tcp, Outgoing& one) {
  if (one.secure) epoll_ctl(tcp.poll, EPOLL_CTL_DEL, one.secure->file(), nullptr);
  one.secure.reset();
  one.open = one.full = false;
  let_go(one);
  one.pause_ns = std::clamp(2 * one.pause_ns, kFirstPauseNs, kLastPauseNs);
  one.next_try_ns = comm::now_ns() + one.pause_ns;
}

void call(Tcp& tcp, NodeId peer, Outgoing& one) {
  const Result<SocketAddress> address = resolve(tcp.endpoints.at(peer));
  if (!address) return hang_up(tcp, one);
  const int file = socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return hang_up(tcp, one);
  const int yes = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(file, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs, sizeof kUnacknowledgedMs);
  if (connect(file, address->get(), address->bytes) != 0 && errno != EINPROGRESS) {
    close(file);
    return hang_up(tcp, one);
  }
  one.secure = std::make_unique<Secure>(file, SecureOptions{.own = tcp.id, .peer = peer, .key = tcp.options.key});
  watch(tcp, file, Wants::both, true);
}

// The next messages: small ones together, a large payload from where it lies.
void fill_stage(Outgoing& one) {
  let_go(one);
  while (!one.queue.empty() && one.stage.size() + kHeaderBytes + kSmall <= kStage) {
    Message message = std::move(one.queue.front());
    one.queue.pop_front();
    const HeaderBytes header = encode_header(message);
    one.stage.insert(one.stage.end(), header.begin(), header.end());
    const std::span<const std::byte> bytes = message.payload.bytes;
    if (is_large(message)) {
      one.body_is = likeness_of(message);
      one.body = std::move(message.payload);
      return;
    }
    if (message.kind == Kind::pull) one.under_way.erase(likeness_of(message));
    one.stage.insert(one.stage.end(), bytes.begin(), bytes.end());
  }
}

bool is_through(const Outgoing& one) { return one.staged == one.stage.size() && one.moved == one.body.bytes.size(); }

// Whether it can go on.
bool write_some(Tcp& tcp, Outgoing& one, std::size_t& all) {
  const bool staged = one.staged == one.stage.size();
  const std::span<const std::byte> from =
      staged ? one.body.bytes.subspan(one.moved) : std::span<const std::byte>(one.stage).subspan(one.staged);
  std::size_t moved = 0;
  const Step step = one.secure->write(from, moved);
  if (step == Step::full || step == Step::again) {
    one.full = true;
    return false;
  }
  if (step != Step::done) {
    hang_up(tcp, one);
    return false;
  }
  (staged ? one.moved : one.staged) += moved;
  all += moved;
  return true;
}

void write_messages(Tcp& tcp, Outgoing& one) {
  std::size_t all = 0;
  while (all < kWrittenAtOnce) {
    if (is_through(one)) {
      if (one.queue.empty()) break;
      fill_stage(one);
    }
    if (!write_some(tcp, one, all)) break;
  }
  if (is_through(one)) let_go(one);  // who lent the payload may want it back
  if (!one.secure) return;
  const bool more = !is_through(one) || !one.queue.empty();
  watch(tcp, one.secure->file(), more ? Wants::both : Wants::to_read, false);
}

// They say nothing, but that they are gone.
bool is_gone(Outgoing& one) {
  std::array<std::byte, 256> nothing;
  std::size_t moved = 0;
  const Step step = one.secure->read(nothing, moved);
  return step != Step::again && step != Step::full;
}

}  // namespace

void look_at(Tcp& tcp, Outgoing& one) {
  if (!one.open) {
    const Step step = one.secure->shake();
    if (step == Step::again) return watch(tcp, one.secure->file(), Wants::to_read, false);
    if (step == Step::full) return watch(tcp, one.secure->file(), Wants::both, false);
    if (step == Step::refused && tcp.options.strangers != nullptr) ++tcp.options.strangers->impostors;
    if (step != Step::done) return hang_up(tcp, one);
    one.open = true;
    one.pause_ns = 0;
  } else if (is_gone(one)) {
    return hang_up(tcp, one);
  }
  write_messages(tcp, one);
}

void call_peers(Tcp& tcp) {
  const std::int64_t now = comm::now_ns();
  for (auto& [peer, one] : tcp.outgoing) {
    const bool waits = !one.queue.empty() || !is_through(one);
    if (!waits) continue;
    if (one.secure && one.open && !one.full) {
      write_messages(tcp, one);
    } else if (!one.secure && now >= one.next_try_ns) {
      call(tcp, peer, one);
    }
  }
}

}  // namespace twinpod::ps
