// Messages through shared memory. Small ones travel inside the descriptor, one line of cache. Large ones are read by
// the receiver where they lie if that memory is shared, else go through a ring in fragments, which sender and receiver
// copy at the same time. A ring that is known to be empty begins anew at its beginning: bytes that go where others have
// just been find their lines in the first caches, and the ring as a whole does not fit there. Who sends tells in the
// same line of cache how far it has read what comes the other way, so that knowing it costs nothing.
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/copy.hpp"
#include "comm/huge_pages.hpp"
#include "comm/pickup.hpp"
#include "comm/reach.hpp"
#include "comm/shared.hpp"
#include "comm/transport.hpp"

namespace twinpod::comm {
namespace {

constexpr std::size_t kFragment = std::size_t{32} << 10U;
// Shorter ones are copied twice sooner than waited for once.
constexpr std::size_t kPointerFrom = std::size_t{4} << 10U;
constexpr std::size_t kRemoteFrom = kAwaitedRemoteFrom;
constexpr std::size_t kStreamedMessage = std::size_t{4} << 20U;

// A message that came before anybody asked for it.
struct Unexpected {
  std::uint64_t context = 0;
  int tag = 0;
  std::size_t total = 0;
  std::size_t arrived = 0;
  std::vector<std::byte> data;
  DescriptorPointer pointer = {};  // where it lies, if it was not sent
  bool remote = false;             // in the memory of another process
};

struct Outgoing {
  std::deque<Message*> queue;
  std::vector<Message*> untaken;  // sent as pointers, not yet read
  std::uint32_t descriptors = 0;
  std::uint32_t bytes = 0;
  std::uint64_t used_slots = 0;  // of Channel::pickups, one bit each
  // What the receiver had read when we last looked: looking costs a line of cache, so we do it only when it seems full.
  std::uint32_t descriptors_read = 0;
  std::uint32_t bytes_read = 0;
};

// A message whose last block the sender may still be copying.
struct PickedUp {
  Pickup* pickup = nullptr;
  Message* message = nullptr;
};

struct Incoming {
  std::uint32_t descriptors = 0;
  std::uint32_t bytes = 0;
  std::deque<Message*> posted;
  std::list<Unexpected> unexpected;
  std::vector<PickedUp> picked_up;
  Message* message = nullptr;      // that the next fragment belongs to
  Unexpected* stranger = nullptr;  // or this one
};

struct Local {
  Segment segment;
  int rank = 0;
  std::mutex mutex;
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  bool moved = false;
  bool may_reach = false;
  HugePages* huge_pages = nullptr;
};

void copy_out(const Channel& channel, std::uint32_t at, std::byte* to, std::size_t bytes) {
  const std::size_t first = at % kRingBytes;
  const std::size_t until_end = std::min(bytes, kRingBytes - first);
  std::memcpy(to, channel.ring.data() + first, until_end);
  if (bytes > until_end) std::memcpy(to + until_end, channel.ring.data(), bytes - until_end);
}

void copy_in(Channel& channel, std::uint32_t at, const std::byte* from, std::size_t bytes) {
  const std::size_t first = at % kRingBytes;
  const std::size_t until_end = std::min(bytes, kRingBytes - first);
  std::memcpy(channel.ring.data() + first, from, until_end);
  if (bytes > until_end) std::memcpy(channel.ring.data(), from + until_end, bytes - until_end);
}

// Bytes up to the next beginning of the ring.
std::uint32_t next_start(std::uint32_t bytes) { return (bytes + kRingBytes - 1) / kRingBytes * kRingBytes; }

// What the receiver says it has read may be older than what is known, above all when the ring has begun anew since.
void note_read(Outgoing& out, std::uint32_t bytes) {
  if (static_cast<std::int32_t>(bytes - out.bytes_read) > 0) out.bytes_read = bytes;
}

// A block of a message: long messages go past the caches, though their blocks would fit.
void copy_block(const Message& message, std::byte* to, const std::byte* from, std::size_t bytes) {
  const bool streams = message.streams || message.bytes >= kStreamedMessage;
  if (streams && to != from) return copy_streaming(to, from, bytes);
  copy_bytes(to, from, bytes);
}

void finish_descriptor(const Local& local, Outgoing& out, Descriptor& descriptor, const Message& message) {
  descriptor.heard = local.incoming[static_cast<std::size_t>(message.peer)].bytes;
  descriptor.context = message.context;
  descriptor.tag = message.tag;
  descriptor.total = message.bytes;
  descriptor.turn.store(++out.descriptors, std::memory_order_release);
}

bool send_pointer(Local& local, Channel& channel, Outgoing& out, Descriptor& descriptor, Message& message) {
  const bool shared = is_shared(local.segment, message.data, message.bytes);
  if (message.bytes < (shared ? kPointerFrom : kRemoteFrom) || message.moved > 0 || ~out.used_slots == 0) return false;
  if (!shared && !local.may_reach) return false;
  message.slot = static_cast<std::uint32_t>(std::countr_one(out.used_slots));
  out.used_slots |= std::uint64_t{1} << message.slot;
  descriptor.carrier = shared ? Carrier::pointer : Carrier::remote;
  descriptor.restarts = false;
  descriptor.bytes = 0;
  descriptor.pointer.address = message.data;
  Pickup& pickup = channel.pickups[message.slot];
  pickup.taken.store(0, std::memory_order_relaxed);
  pickup.next.store(0, std::memory_order_relaxed);
  pickup.copied.store(0, std::memory_order_relaxed);
  pickup.target.store(nullptr, std::memory_order_relaxed);
  descriptor.pointer.pickup = &pickup;
  descriptor.pointer.awaited = message.awaited;
  out.untaken.push_back(&message);
  message.moved = message.bytes;
  finish_descriptor(local, out, descriptor, message);
  return true;
}

void progress_receives(Local& local, int peer);

// One descriptor's worth; false when there is no room.
bool send_some(Local& local, Channel& channel, Outgoing& out, Message& message) {
  if (out.descriptors - out.descriptors_read == kDescriptors) {
    out.descriptors_read = channel.descriptors_read.load(std::memory_order_acquire);
    if (out.descriptors - out.descriptors_read == kDescriptors) return false;
  }
  Descriptor& descriptor = channel.descriptors[out.descriptors % kDescriptors];
  prefetch_to_write(&channel.descriptors[(out.descriptors + 2) % kDescriptors]);  // the receiver looks at the next
  if (message.bytes <= kInlineMessage) {
    descriptor.carrier = Carrier::inlined;
    descriptor.restarts = false;
    descriptor.bytes = static_cast<std::uint16_t>(message.bytes);
    if (message.bytes > 0) std::memcpy(descriptor.data.data(), message.data, message.bytes);
    message.moved = message.bytes;
    finish_descriptor(local, out, descriptor, message);
    return true;
  }
  if (send_pointer(local, channel, out, descriptor, message)) return true;
  const std::size_t bytes = std::min(message.bytes - message.moved, kFragment);
  if (kRingBytes - (out.bytes - out.bytes_read) < bytes) {
    // Who only sends would else not look at what comes in: what that says must not get so old as to seem new.
    progress_receives(local, message.peer);
    note_read(out, channel.bytes_read.load(std::memory_order_acquire));
    if (kRingBytes - (out.bytes - out.bytes_read) < bytes) return false;
  }
  descriptor.restarts = out.bytes_read == out.bytes && out.bytes % kRingBytes != 0;
  if (descriptor.restarts) out.bytes = out.bytes_read = next_start(out.bytes);
  copy_in(channel, out.bytes, static_cast<const std::byte*>(message.data) + message.moved, bytes);
  out.bytes += static_cast<std::uint32_t>(bytes);
  message.moved += bytes;
  descriptor.carrier = Carrier::ring;
  descriptor.bytes = static_cast<std::uint16_t>(bytes);
  finish_descriptor(local, out, descriptor, message);
  return true;
}

void ring_doorbell(Local& local, int rank) {
  local.moved = true;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  WaitWord& bell = state_of(local.segment, rank).doorbell;
  if (bell.waiters.load(std::memory_order_relaxed) == 0) return;
  bell.value.fetch_add(1, std::memory_order_seq_cst);
  wake_all(bell);
}

// The sender's part of a large message that is being received.
void help(const Local& local, Pickup& pickup, const Message& message) {
  auto* const target = static_cast<std::byte*>(pickup.target.load(std::memory_order_acquire));
  if (target == nullptr) return;
  const bool shared = is_shared(local.segment, target, message.bytes);
  const int receiver = state_of(local.segment, message.peer).pid;
  copy_blocks(pickup, message.bytes, [&](std::size_t first, std::size_t bytes) {
    const auto* const from = static_cast<const std::byte*>(message.data) + first;
    if (!shared) return write_remote(receiver, from, target + first, bytes);
    copy_block(message, target + first, from, bytes);
    return true;
  });
}

// The other end has copied, or has helped to copy, what lies in this rank's memory.
void note_moved(const Local& local, const Message& message) {
  const bool remote = local.may_reach && !is_shared(local.segment, message.data, message.bytes);
  if (remote && local.huge_pages != nullptr) local.huge_pages->moved(message.data, message.bytes);
}

void progress_sends(Local& local, int peer) {
  Outgoing& out = local.outgoing[static_cast<std::size_t>(peer)];
  if (out.queue.empty() && out.untaken.empty()) return;
  Channel& channel = channel_of(local.segment, local.rank, peer);
  bool sent = false;
  while (!out.queue.empty() && send_some(local, channel, out, *out.queue.front())) {
    sent = true;
    Message& message = *out.queue.front();
    if (message.moved < message.bytes) continue;
    out.queue.pop_front();
    const bool by_pointer = !out.untaken.empty() && out.untaken.back() == &message;
    if (!by_pointer) message.done.store(true, std::memory_order_release);
  }
  std::erase_if(out.untaken, [&](Message* message) {
    Pickup& pickup = channel.pickups[message->slot];
    if (message->helps) help(local, pickup, *message);
    if (pickup.taken.load(std::memory_order_acquire) == 0) return false;
    out.used_slots &= ~(std::uint64_t{1} << message->slot);
    local.moved = true;
    note_moved(local, *message);
    message->done.store(true, std::memory_order_release);
    return true;
  });
  if (sent) ring_doorbell(local, peer);
}

// What the receiver can still be waiting for is a block that the sender has begun.
void finish_pickups(Local& local, Incoming& in) {
  std::erase_if(in.picked_up, [&](const PickedUp& one) {
    if (one.pickup->copied.load(std::memory_order_acquire) < num_blocks(one.message->bytes)) return false;
    one.pickup->taken.store(1, std::memory_order_release);
    note_moved(local, *one.message);
    one.message->done.store(true, std::memory_order_release);
    local.moved = true;
    return true;
  });
}

// Copies from where it lies. A sender that is dead cannot be read; then the message stays what it is, and the launcher
// ends all.
void take_pointer(Local& local, const DescriptorPointer& pointer, bool remote, std::size_t total, Message& message) {
  Pickup& pickup = *pointer.pickup;
  const int sender = state_of(local.segment, message.peer).pid;
  const auto copy = [&](std::size_t first, std::size_t bytes) {
    auto* const to = static_cast<std::byte*>(message.data) + first;
    const auto* const from = static_cast<const std::byte*>(pointer.address) + first;
    if (remote) return read_remote(sender, from, to, bytes);
    copy_block(message, to, from, bytes);
    return true;
  };
  message.arrived = total;
  if (is_shared_work(total, remote, pointer.awaited) && total == message.bytes) {
    const bool reachable = local.may_reach || is_shared(local.segment, message.data, total);
    if (reachable) pickup.target.store(message.data, std::memory_order_release);
    copy_blocks(pickup, total, copy);
    local.incoming[static_cast<std::size_t>(message.peer)].picked_up.push_back({&pickup, &message});
    return;
  }
  if (!copy(0, std::min(total, message.bytes))) return;
  pickup.taken.store(1, std::memory_order_release);
  message.moved = total;
}

void finish_if_whole(Incoming& in, Message& message, std::size_t total) {
  if (message.moved < total) return;
  message.arrived = total;
  if (in.message == &message) in.message = nullptr;
  message.done.store(true, std::memory_order_release);
}

Message* match(Incoming& in, std::uint64_t context, int tag) {
  const auto found = std::find_if(in.posted.begin(), in.posted.end(),
                                  [&](const Message* m) { return m->context == context && m->tag == tag; });
  if (found == in.posted.end()) return nullptr;
  Message* const message = *found;
  in.posted.erase(found);
  return message;
}

// The part of a fragment that fits into the buffer of a receive.
void put(Message& message, const Channel& channel, const Incoming& in, const Descriptor& descriptor) {
  const std::size_t room = message.bytes > message.moved ? message.bytes - message.moved : 0;
  const std::size_t bytes = std::min<std::size_t>(room, descriptor.bytes);
  auto* const to = static_cast<std::byte*>(message.data) + message.moved;
  if (bytes > 0 && descriptor.carrier == Carrier::inlined) std::memcpy(to, descriptor.data.data(), bytes);
  if (bytes > 0 && descriptor.carrier == Carrier::ring) copy_out(channel, in.bytes, to, bytes);
  message.moved += descriptor.bytes;
}

void keep(Unexpected& stranger, const Channel& channel, const Incoming& in, const Descriptor& descriptor) {
  if (descriptor.carrier == Carrier::pointer || descriptor.carrier == Carrier::remote) {
    stranger.pointer = descriptor.pointer;
    stranger.remote = descriptor.carrier == Carrier::remote;
    return;
  }
  const std::size_t at = stranger.data.size();
  stranger.data.resize(at + descriptor.bytes);
  if (descriptor.carrier == Carrier::inlined) {
    if (descriptor.bytes > 0) std::memcpy(stranger.data.data() + at, descriptor.data.data(), descriptor.bytes);
  } else {
    copy_out(channel, in.bytes, stranger.data.data() + at, descriptor.bytes);
  }
}

void receive_one(Local& local, const Channel& channel, Incoming& in, const Descriptor& descriptor) {
  if (in.message == nullptr && in.stranger == nullptr) {
    in.message = match(in, descriptor.context, descriptor.tag);
    if (in.message == nullptr) {
      in.unexpected.push_back(
          {.context = descriptor.context, .tag = descriptor.tag, .total = descriptor.total, .data = {}});
      in.stranger = &in.unexpected.back();
    }
  }
  if (in.message != nullptr) {
    Message& message = *in.message;
    const bool remote = descriptor.carrier == Carrier::remote;
    if (remote || descriptor.carrier == Carrier::pointer) {
      take_pointer(local, descriptor.pointer, remote, descriptor.total, message);
      if (message.moved < descriptor.total) {
        in.message = nullptr;  // finish_pickups() will tell
        return;
      }
    } else {
      put(message, channel, in, descriptor);
    }
    finish_if_whole(in, message, descriptor.total);
    return;
  }
  keep(*in.stranger, channel, in, descriptor);
  if (in.stranger->pointer.address != nullptr || in.stranger->data.size() == in.stranger->total) in.stranger = nullptr;
}

void progress_receives(Local& local, int peer) {
  Incoming& in = local.incoming[static_cast<std::size_t>(peer)];
  Channel& channel = channel_of(local.segment, peer, local.rank);
  finish_pickups(local, in);
  bool received = false;
  while (true) {
    const Descriptor& descriptor = channel.descriptors[in.descriptors % kDescriptors];
    if (descriptor.turn.load(std::memory_order_acquire) != in.descriptors + 1) break;
    note_read(local.outgoing[static_cast<std::size_t>(peer)], descriptor.heard);
    if (descriptor.restarts) in.bytes = next_start(in.bytes);
    receive_one(local, channel, in, descriptor);
    if (descriptor.carrier == Carrier::ring) in.bytes += descriptor.bytes;
    ++in.descriptors;
    channel.bytes_read.store(in.bytes, std::memory_order_release);
    channel.descriptors_read.store(in.descriptors, std::memory_order_release);
    received = true;
  }
  if (received) ring_doorbell(local, peer);
}

// A receive for what is there already, in whole or in part.
bool take_unexpected(Local& local, Incoming& in, Message& message) {
  const auto found = std::find_if(in.unexpected.begin(), in.unexpected.end(), [&](const Unexpected& u) {
    return u.context == message.context && u.tag == message.tag;
  });
  if (found == in.unexpected.end()) return false;
  if (found->pointer.address != nullptr) {
    take_pointer(local, found->pointer, found->remote, found->total, message);
    ring_doorbell(local, message.peer);
  } else {
    const std::size_t bytes = std::min(found->data.size(), message.bytes);
    if (bytes > 0) std::memcpy(message.data, found->data.data(), bytes);
    message.moved = found->data.size();
  }
  if (in.stranger == &*found) {
    in.stranger = nullptr;
    in.message = &message;
  } else {
    finish_if_whole(in, message, found->total);
  }
  in.unexpected.erase(found);
  return true;
}

void post(void* state, Message& message) {
  auto& local = *static_cast<Local*>(state);
  const std::lock_guard lock(local.mutex);
  if (message.sends) {
    local.outgoing[static_cast<std::size_t>(message.peer)].queue.push_back(&message);
    progress_sends(local, message.peer);
    return;
  }
  Incoming& in = local.incoming[static_cast<std::size_t>(message.peer)];
  if (take_unexpected(local, in, message)) return;
  in.posted.push_back(&message);
  progress_receives(local, message.peer);
}

void progress(void* state) {
  auto& local = *static_cast<Local*>(state);
  const std::unique_lock lock(local.mutex, std::try_to_lock);
  if (!lock) return;  // another thread of this rank is at it
  for (int peer = 0; peer < local.segment.ranks; ++peer) {
    progress_receives(local, peer);
    progress_sends(local, peer);
  }
}

void rest(void* state) {
  auto& local = *static_cast<Local*>(state);
  WaitWord& bell = state_of(local.segment, local.rank).doorbell;
  bell.waiters.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = bell.value.load(std::memory_order_seq_cst);
  local.mutex.lock();
  local.moved = false;
  local.mutex.unlock();
  progress(state);
  local.mutex.lock();
  const bool moved = local.moved;
  local.mutex.unlock();
  if (!moved) sleep_on(bell, seen);
  bell.waiters.fetch_sub(1, std::memory_order_relaxed);
}

void take_back(void* state, Message& message) {
  auto& local = *static_cast<Local*>(state);
  const std::lock_guard lock(local.mutex);
  Outgoing& out = local.outgoing[static_cast<std::size_t>(message.peer)];
  Incoming& in = local.incoming[static_cast<std::size_t>(message.peer)];
  std::erase(out.queue, &message);
  std::erase(out.untaken, &message);
  std::erase(in.posted, &message);
  std::erase_if(in.picked_up, [&](const PickedUp& one) { return one.message == &message; });
  if (in.message == &message) in.message = nullptr;
}

void close(void* state) { delete static_cast<Local*>(state); }

}  // namespace

Transport local_transport(const Segment& segment, int rank, bool may_reach, HugePages* huge_pages) {
  auto local = std::make_unique<Local>();
  local->segment = segment;
  local->rank = rank;
  local->may_reach = may_reach;
  local->huge_pages = huge_pages;
  local->outgoing.resize(static_cast<std::size_t>(segment.ranks));
  local->incoming.resize(static_cast<std::size_t>(segment.ranks));
  return {local.release(), post, progress, rest, take_back, close};
}

}  // namespace twinpod::comm
