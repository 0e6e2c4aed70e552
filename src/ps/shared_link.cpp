// Messages of the parameter server as messages of comm's local transport. A small one is header and payload in one
// piece; of a large one the payload follows by itself, from where it lies to where it is needed. A large push is lent:
// the server reads it where it lies, in its way through its values.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>

#include "comm/reach.hpp"
#include "comm/transport.hpp"
#include "ps/link.hpp"
#include "ps/memory.hpp"

namespace twinpod::ps {
namespace {

constexpr std::size_t kFrameBytes = 1024;
constexpr int kHeadTag = 0;
constexpr int kBodyTag = 1;

// Who reads which payloads of a process; in its arena, behind its desk. 0: nobody (the controller borrows nothing). The
// number of a process: it is on its way there. The same below 0: it is there, and who has it puts the 0 back.
constexpr std::size_t kLoans = 4096;
struct Loans {
  std::array<std::atomic<NodeId>, kLoans> borrowers;
};
static_assert(sizeof(Loans) <= kLoanBytes && std::atomic<NodeId>::is_always_lock_free);

Loans& loans_of(const comm::Segment& segment, NodeId lender) {
  return *reinterpret_cast<Loans*>(comm::arena_of(segment, lender) + kDeskBytes);
}

// Behind the header of a message whose payload is lent.
struct Loan {
  const std::byte* address = nullptr;
  std::uint64_t place = 0;  // in the lender's Loans
};

struct Lent {
  std::size_t place = 0;
  Payload payload;
};

// A message on its way out.
struct Frame {
  comm::Message head;
  comm::Message body;
  bool has_body = false;
  Payload payload;
  alignas(64) std::array<std::byte, kFrameBytes> bytes;
};

// What is expected from a peer: a head, or the body that belongs to it.
struct Peer {
  std::unique_ptr<comm::Message> head;
  std::unique_ptr<comm::Message> body;
  std::shared_ptr<std::byte> room = {};  // of the body
  Message message;                       // that the body belongs to
  bool gone = false;
  alignas(64) std::array<std::byte, kFrameBytes> bytes;
  std::deque<std::unique_ptr<Frame>> sending;
};

struct SharedLink {
  comm::Segment segment;
  comm::Transport transport;
  NodeId id = kNobody;
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<std::unique_ptr<Frame>> spare;
  std::deque<Message> inbox;
  std::shared_ptr<ArenaMemory> memory;
  std::vector<Lent> lent;
  std::vector<std::size_t> unlent;  // free places in Loans
  bool streams = false;             // bodies go past the caches
  int idle = 0;                     // looks in vain since something came
  std::int64_t idle_since_ns = 0;
};

Peer* peer_of(SharedLink& link, NodeId id) {
  if (id < 0 || static_cast<std::size_t>(id) >= link.peers.size()) return nullptr;
  return link.peers[static_cast<std::size_t>(id)].get();
}

// Goes back when the last message lets go of it.
std::shared_ptr<std::byte> room_for(SharedLink& link, std::size_t bytes) {
  auto* const room = static_cast<std::byte*>(link.memory->allocate(bytes));
  return {room, [bytes, memory = link.memory](std::byte* data) { memory->deallocate(data, bytes); }};
}

void expect(SharedLink& link, NodeId from, std::unique_ptr<comm::Message>& slot, int tag, void* data,
            std::size_t bytes) {
  slot = std::make_unique<comm::Message>();
  slot->peer = from;
  slot->tag = tag;
  slot->data = data;
  slot->bytes = bytes;
  slot->streams = link.streams && tag == kBodyTag;
  link.transport.post(link.transport.state, *slot);
}

void expect_head(SharedLink& link, NodeId from, Peer& peer) {
  expect(link, from, peer.head, kHeadTag, peer.bytes.data(), peer.bytes.size());
}

// Sent ones are used again; the payload is let go.
void clean_up(SharedLink& link, Peer& peer) {
  while (!peer.sending.empty()) {
    Frame& frame = *peer.sending.front();
    if (!frame.head.done || (frame.has_body && !frame.body.done)) return;
    frame.payload = {};
    if (link.spare.size() < 256) link.spare.push_back(std::move(peer.sending.front()));
    peer.sending.pop_front();
  }
}

std::unique_ptr<Frame> new_frame(SharedLink& link) {
  if (link.spare.empty()) return std::make_unique<Frame>();
  std::unique_ptr<Frame> frame = std::move(link.spare.back());
  link.spare.pop_back();
  return frame;
}

void fill(comm::Message& out, NodeId to, int tag, const void* data, std::size_t bytes) {
  out.sends = true;
  out.peer = to;
  out.tag = tag;
  out.data = const_cast<void*>(data);  // NOLINT: only read
  out.bytes = bytes;
  out.moved = 0;
  out.done = false;
}

bool is_in_arena(const SharedLink& link, NodeId id, const std::byte* address, std::size_t bytes) {
  const std::byte* const arena = comm::arena_of(link.segment, id);
  const std::size_t all = link.segment.arena_bytes;
  return address >= arena && bytes <= all && static_cast<std::size_t>(address - arena) <= all - bytes;
}

// What nobody reads any more can be written to again.
void take_back_loans(SharedLink& link) {
  if (link.lent.empty()) return;
  const Loans& loans = loans_of(link.segment, link.id);
  std::erase_if(link.lent, [&](const Lent& one) {
    if (loans.borrowers[one.place].load(std::memory_order_acquire) != 0) return false;
    link.unlent.push_back(one.place);
    return true;
  });
}

// Only what lies in one's own arena: it stays there when this process dies, for as long as somebody reads it.
bool may_lend(const SharedLink& link, const Message& message) {
  const std::span<const std::byte> bytes = message.payload.bytes;
  const bool kept = message.kind == Kind::push || message.kind == Kind::values;  // by who sends it, unchanged
  return kept && !link.unlent.empty() && is_in_arena(link, link.id, bytes.data(), bytes.size());
}

// The bytes behind the header.
std::size_t lend(SharedLink& link, Message& message, std::byte* behind_header) {
  const Loan loan{message.payload.bytes.data(), link.unlent.back()};
  link.unlent.pop_back();
  loans_of(link.segment, link.id).borrowers[loan.place].store(message.to, std::memory_order_relaxed);
  std::memcpy(behind_header, &loan, sizeof loan);
  link.lent.push_back({loan.place, std::move(message.payload)});
  return sizeof loan;
}

// Whoever lets go of the payload last gives it back.
Payload borrow(const SharedLink& link, NodeId lender, const Loan& loan, std::size_t bytes) {
  std::atomic<NodeId>& borrower = loans_of(link.segment, lender).borrowers[loan.place];
  borrower.store(-link.id, std::memory_order_relaxed);
  return {std::shared_ptr<const void>(loan.address,
                                      [&borrower](const void*) { borrower.store(0, std::memory_order_release); }),
          {loan.address, bytes}};
}

void send(void* state, Message message) {
  auto& link = *static_cast<SharedLink*>(state);
  Peer* const peer = peer_of(link, message.to);
  if (peer == nullptr || peer->gone) return;
  if (message.to == link.id) return link.inbox.push_back(std::move(message));
  clean_up(link, *peer);
  std::unique_ptr<Frame> frame = new_frame(link);
  message.sent_ns = comm::now_ns();
  const HeaderBytes header = encode_header(message);
  std::copy(header.begin(), header.end(), frame->bytes.begin());
  const std::size_t bytes = message.payload.bytes.size();
  std::byte* const behind_header = frame->bytes.data() + kHeaderBytes;
  const bool is_large = kHeaderBytes + bytes > kFrameBytes;
  const bool lends = is_large && may_lend(link, message);
  std::size_t in_head = kHeaderBytes;
  if (lends) in_head += lend(link, message, behind_header);
  if (!is_large && bytes > 0) {
    std::memcpy(behind_header, message.payload.bytes.data(), bytes);
    in_head += bytes;
  }
  frame->has_body = is_large && !lends;
  fill(frame->head, message.to, kHeadTag, frame->bytes.data(), in_head);
  link.transport.post(link.transport.state, frame->head);
  if (frame->has_body) {
    fill(frame->body, message.to, kBodyTag, message.payload.bytes.data(), bytes);
    frame->body.streams = link.streams;
    frame->body.helps = false;
    frame->payload = std::move(message.payload);
    link.transport.post(link.transport.state, frame->body);
  }
  peer->sending.push_back(std::move(frame));
}

// A head has come: with its payload in it, or to be followed by it.
void take_head(SharedLink& link, NodeId from, Peer& peer) {
  const std::size_t arrived = std::min(peer.head->arrived, peer.bytes.size());
  const std::span<const std::byte> bytes(peer.bytes.data(), arrived);
  Result<Header> header = decode_header(bytes);
  if (!header) return expect_head(link, from, peer);
  Message& message = header->message;
  const std::size_t size = header->payload_bytes;
  const bool is_large = kHeaderBytes + size > kFrameBytes;
  if (is_large && arrived == kHeaderBytes + sizeof(Loan)) {
    Loan loan;
    std::memcpy(&loan, peer.bytes.data() + kHeaderBytes, sizeof loan);
    if (loan.place < kLoans && is_in_arena(link, from, loan.address, size)) {
      message.payload = borrow(link, from, loan, size);
      link.inbox.push_back(std::move(message));
    }
    return expect_head(link, from, peer);
  }
  if (is_large) {
    peer.message = std::move(message);
    peer.room = room_for(link, size);
    return expect(link, from, peer.body, kBodyTag, peer.room.get(), size);
  }
  if (arrived == kHeaderBytes + size) {
    if (size > 0) {
      std::shared_ptr<std::byte> room = room_for(link, size);
      std::memcpy(room.get(), peer.bytes.data() + kHeaderBytes, size);
      message.payload = {room, {room.get(), size}};
    }
    link.inbox.push_back(std::move(message));
  }
  expect_head(link, from, peer);
}

void take_body(SharedLink& link, NodeId from, Peer& peer) {
  peer.message.payload.bytes = {peer.room.get(), peer.body->bytes};
  peer.message.payload.owner = std::move(peer.room);
  link.inbox.push_back(std::move(peer.message));
  peer.body.reset();
  expect_head(link, from, peer);
}

// Nothing is left to do: now there is time to help those who copy what they were sent.
void help_all(SharedLink& link) {
  for (const std::unique_ptr<Peer>& peer : link.peers) {
    for (const std::unique_ptr<Frame>& frame : peer->sending) frame->body.helps = true;
  }
}

void look(SharedLink& link) {
  help_all(link);
  link.transport.progress(link.transport.state);
  take_back_loans(link);
  for (std::size_t i = 0; i < link.peers.size(); ++i) {
    Peer& peer = *link.peers[i];
    const auto from = static_cast<NodeId>(i);
    if (peer.gone || from == link.id) continue;
    clean_up(link, peer);
    while (peer.body != nullptr ? peer.body->done.load() : peer.head->done.load()) {
      peer.body != nullptr ? take_body(link, from, peer) : take_head(link, from, peer);
    }
  }
}

bool receive(void* state, Message& message) {
  auto& link = *static_cast<SharedLink*>(state);
  if (link.inbox.empty()) look(link);
  if (link.inbox.empty()) return false;
  link.idle = 0;
  message = std::move(link.inbox.front());
  link.inbox.pop_front();
  return true;
}

// The first looks in vain are followed by others at once: an answer is often a microsecond away. Then the core goes to
// whoever wants it, the other end's helper above all, for as long as a server takes for a shard, or a worker for what
// the server could help it copy: to be woken up takes about as long. Then it sleeps.
void rest(void* state) {
  auto& link = *static_cast<SharedLink*>(state);
  constexpr int kLooks = 1;
  constexpr std::int64_t kAwakeNs = 300'000;
  if (++link.idle <= kLooks) return;
  const std::int64_t now = comm::now_ns();
  if (link.idle == kLooks + 1) link.idle_since_ns = now;
  if (now - link.idle_since_ns > kAwakeNs) return link.transport.rest(link.transport.state);
  sched_yield();
}

void forget(void* state, NodeId id) {
  auto& link = *static_cast<SharedLink*>(state);
  Peer* const peer = peer_of(link, id);
  if (peer == nullptr || peer->gone || id == link.id) return;
  look(link);  // what it said last
  peer->gone = true;
  for (const std::unique_ptr<Frame>& frame : peer->sending) {
    link.transport.take_back(link.transport.state, frame->head);
    if (frame->has_body) link.transport.take_back(link.transport.state, frame->body);
  }
  for (comm::Message* message : {peer->head.get(), peer->body.get()}) {
    if (message != nullptr) link.transport.take_back(link.transport.state, *message);
  }
  peer->sending.clear();
  for (std::atomic<NodeId>& borrower : loans_of(link.segment, link.id).borrowers) {
    const NodeId now = borrower.load(std::memory_order_relaxed);
    if (now == id || now == -id) borrower.store(0, std::memory_order_relaxed);
  }
}

bool is_sending(const SharedLink& link) {
  return std::any_of(link.peers.begin(), link.peers.end(), [](const auto& peer) { return !peer->sending.empty(); });
}

void close_link(void* state) {
  auto& link = *static_cast<SharedLink*>(state);
  const std::int64_t end = comm::now_ns() + 200'000'000;
  while (is_sending(link) && comm::now_ns() < end) {
    look(link);
    link.transport.rest(link.transport.state);
  }
  link.transport.close(link.transport.state);
  delete &link;
}

}  // namespace

Link shared_link(const comm::Segment& segment, NodeId id, std::int64_t all_bytes) {
  constexpr std::size_t kOwnFrom = comm::HugePages::kBytes;
  static_assert(kDeskBytes + kLoanBytes <= kOwnFrom);
  auto link = std::make_unique<SharedLink>();
  link->segment = segment;
  link->id = id;
  for (std::size_t place = kLoans; place > 0; --place) link->unlent.push_back(place - 1);
  link->streams = all_bytes >= kStreamedValues;
  comm::state_of(segment, id).pid = getpid();
  comm::allow_reaching();
  link->memory = std::make_shared<ArenaMemory>(comm::arena_of(segment, id) + kOwnFrom, segment.arena_bytes - kOwnFrom);
  // The launcher is asked, as it is there first and longest.
  const bool reaches = id != kController && comm::may_reach(comm::state_of(segment, kController).pid, segment.base);
  link->transport = comm::local_transport(segment, id, reaches);
  for (int peer = 0; peer < segment.ranks; ++peer) {
    link->peers.push_back(std::make_unique<Peer>());
    if (peer != id) expect_head(*link, peer, *link->peers.back());
  }
  std::pmr::memory_resource* const memory = link->memory.get();
  return {link.release(), memory, send, receive, rest, forget, close_link};
}

bool is_read_by_others(const comm::Segment& segment, NodeId lender, std::span<const NodeId> but) {
  const auto& borrowers = loans_of(segment, lender).borrowers;
  return std::any_of(borrowers.begin(), borrowers.end(), [&](const std::atomic<NodeId>& borrower) {
    const NodeId holder = -borrower.load(std::memory_order_acquire);
    return holder > 0 && std::find(but.begin(), but.end(), holder) == but.end();
  });
}

void send_all(const Link& link, Outbox& out) {
  order_by_priority(out);
  for (Message& message : out) link.send(link.state, std::move(message));
  out.clear();
}

}  // namespace twinpod::ps
