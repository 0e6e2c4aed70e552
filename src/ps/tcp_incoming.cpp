// Who calls: strangers as long as they have not shown who they are, then peers whose messages are read.
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "comm/wait.hpp"
#include "ps/tcp.hpp"
#include "ps/tcp_address.hpp"

namespace twinpod::ps {
namespace {

constexpr std::size_t kMostUnknown = 64;  // at a time; the one that has been there longest goes for one more
constexpr int kCallersAtOnce = 64;
constexpr int kBacklog = 512;
constexpr std::int64_t kNoFilesPauseNs = 100'000'000;
constexpr std::size_t kReadAtOnce = std::size_t{8} << 20U;  // of one peer, before the others have their turn

std::string address_of(int file) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  std::array<char, NI_MAXHOST> name{};
  auto* const address = reinterpret_cast<sockaddr*>(&from);
  if (getpeername(file, address, &size) != 0) return "unknown";
  if (getnameinfo(address, size, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "unknown";
  return name.data();
}

void hang_up(Tcp& tcp, const Incoming& one) {
  const int file = one.secure->file();
  epoll_ctl(tcp.poll, EPOLL_CTL_DEL, file, nullptr);
  std::erase(tcp.unread, file);
  tcp.incoming.erase(file);
}

void turn_away(Tcp& tcp, const Incoming& one) {
  if (tcp.options.strangers != nullptr) count_stranger(*tcp.options.strangers, one.address);
  hang_up(tcp, one);
}

Incoming* oldest_unknown(Tcp& tcp, std::size_t& count) {
  Incoming* oldest = nullptr;
  count = 0;
  for (auto& [file, one] : tcp.incoming) {
    if (one->admitted) continue;
    ++count;
    if (oldest == nullptr || one->since_ns < oldest->since_ns) oldest = one.get();
  }
  return oldest;
}

void make_room(Tcp& tcp) {
  std::size_t count = 0;
  Incoming* const oldest = oldest_unknown(tcp, count);
  if (count >= kMostUnknown) turn_away(tcp, *oldest);
}

// A process that calls again has lost its first connection; what was under way there is lost, too.
void admit(Tcp& tcp, Incoming& one) {
  one.admitted = true;
  for (const auto& [file, other] : tcp.incoming) {
    if (other.get() == &one || !other->admitted || other->secure->peer() != one.secure->peer()) continue;
    return hang_up(tcp, *other);
  }
}

std::size_t most_of(const PayloadBounds& bounds, Kind kind) {
  switch (kind) {
    case Kind::initial:
    case Kind::push:
    case Kind::values:
    case Kind::forward:
      return std::max(bounds.values, bounds.other);  // a list of workers is forwarded, too
    case Kind::state:
      return bounds.state;
    default:
      return bounds.other;
  }
}

// The header is there: whether the rest is to be read.
bool take_header(const Tcp& tcp, Incoming& one) {
  Result<Header> header = decode_header(one.header);
  const bool right = header && header->message.to == tcp.id &&
                     may_say(one.secure->peer(), header->message, tcp.options) &&
                     header->payload_bytes <= most_of(tcp.options.bounds, header->message.kind);
  if (!right) return false;
  one.next = std::move(*header);
  // Not touched before it is needed, so that who announces much and sends little takes little.
  if (one.next.payload_bytes > 0) {
    one.room = {new std::byte[one.next.payload_bytes], std::default_delete<std::byte[]>()};
  }
  return true;
}

void deliver(Incoming& one, Inbox& inbox) {
  const std::byte* const data = one.room.get();
  if (data != nullptr) one.next.message.payload = {std::move(one.room), {data, one.next.payload_bytes}};
  inbox.bytes += kHeaderBytes + one.next.payload_bytes;
  inbox.messages.push_back(std::move(one.next.message));
  one.next = {};
  one.room.reset();
  one.have = 0;
}

std::span<std::byte> room_in(Incoming& one) {
  if (one.have < kHeaderBytes) return std::span(one.header).subspan(one.have);
  const std::size_t have = one.have - kHeaderBytes;
  return {one.room.get() + have, one.next.payload_bytes - have};
}

void read_messages(Tcp& tcp, Incoming& one, Inbox& inbox) {
  std::size_t all = 0;
  while (all < kReadAtOnce && !is_full(inbox)) {
    std::size_t moved = 0;
    const Step step = one.secure->read(room_in(one), moved);
    if (step == Step::again || step == Step::full) return;
    if (step != Step::done) return hang_up(tcp, one);
    all += moved;
    one.have += moved;
    if (one.have == kHeaderBytes && !take_header(tcp, one)) {
      if (tcp.options.strangers != nullptr) ++tcp.options.strangers->messages;
      return hang_up(tcp, one);
    }
    if (one.have >= kHeaderBytes && one.have == kHeaderBytes + one.next.payload_bytes) deliver(one, inbox);
  }
  tcp.unread.push_back(one.secure->file());
}

}  // namespace

Result<void> start_listening(Tcp& tcp) {
  const std::string& endpoint = tcp.endpoints.at(tcp.id);
  const auto failed = [&](const std::string& why) {
    return infeasible(fmt::format("node {}: cannot listen on {}: {}", tcp.id, endpoint, why), "another port");
  };
  const Result<SocketAddress> address = resolve(endpoint);
  if (!address) return failed(address.error().message);
  tcp.listener = socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (tcp.listener < 0) return failed(std::strerror(errno));
  const int yes = 1;
  setsockopt(tcp.listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(tcp.listener, address->get(), address->bytes) != 0) return failed(std::strerror(errno));
  if (listen(tcp.listener, kBacklog) != 0) return failed(std::strerror(errno));
  watch(tcp, tcp.listener, Wants::to_read, true);
  return {};
}

void take_callers(Tcp& tcp) {
  for (int i = 0; i < kCallersAtOnce; ++i) {
    const int file = accept4(tcp.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file < 0) {
      const bool no_files = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      if (!no_files) return;
      epoll_ctl(tcp.poll, EPOLL_CTL_DEL, tcp.listener, nullptr);  // or it would be told at once again
      tcp.listens_again_ns = comm::now_ns() + kNoFilesPauseNs;
      return;
    }
    make_room(tcp);
    auto one = std::make_unique<Incoming>();
    one->address = address_of(file);
    one->since_ns = comm::now_ns();
    one->secure = std::make_unique<Secure>(
        file, SecureOptions{
                  .own = tcp.id, .nodes = static_cast<NodeId>(tcp.options.addresses.size()), .key = tcp.options.key});
    tcp.incoming[file] = std::move(one);
    watch(tcp, file, Wants::to_read, true);
  }
}

void look_at(Tcp& tcp, Incoming& one, Inbox& inbox) {
  if (!one.admitted) {
    switch (one.secure->shake()) {
      case Step::done:
        admit(tcp, one);
        break;
      case Step::again:
      case Step::full:  // a few hundred bytes always fit; if not, its time runs out
        return;
      case Step::ended:
        // Who named itself rightly and went may have died. What says nothing, or other things, is none of ours.
        return one.secure->peer() == kNobody ? turn_away(tcp, one) : hang_up(tcp, one);
      case Step::refused:
        return turn_away(tcp, one);
    }
  }
  read_messages(tcp, one, inbox);
}

void send_off_silent(Tcp& tcp, std::int64_t patience_ns) {
  const std::int64_t now = comm::now_ns();
  if (tcp.listens_again_ns != 0 && now >= tcp.listens_again_ns) {
    tcp.listens_again_ns = 0;
    watch(tcp, tcp.listener, Wants::to_read, true);
  }
  std::size_t count = 0;
  Incoming* oldest = oldest_unknown(tcp, count);
  while (oldest != nullptr && now - oldest->since_ns > patience_ns) {
    turn_away(tcp, *oldest);
    oldest = oldest_unknown(tcp, count);
  }
}

}  // namespace twinpod::ps
