// What workers, servers and the controller of a parameter server say to each other, and how it is written as bytes.
//
//     Message push{.kind = Kind::push, .from = 7, .to = 2, .shard = 0, .worker = 7, .sequence = 1, .clock = 0};
//     push.payload = payload_of(std::vector<float>{1, 2, 3});
//     const HeaderBytes header = encode_header(push);                 // the payload follows it as it is
//     const Result<Message> again = decode(bytes, owner);             // any bytes are read or refused
//
// A payload is bytes and whoever keeps them alive: messages are copied freely, and what they carry never is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace twinpod::ps {

using NodeId = std::int32_t;   // a process; the number of one that is gone is never used again
using ShardId = std::int32_t;  // see shards.hpp
inline constexpr NodeId kController = 0;
inline constexpr NodeId kNobody = -1;
inline constexpr std::int64_t kAskOnly = -1;  // clock of a pull that only wants to know where the others are

enum class Kind : std::uint8_t {
  initial,        // worker to head: the values at the very start; the first one counts
  push,           // worker to head: a gradient (or a delta) of a clock
  clock,          // worker to head: nothing to add up to this clock
  ack,            // head to worker: every copy has all pushes up to this sequence
  pull,           // worker to tail: values that hold at least ...
  values,         // tail to worker
  forward,        // along the chain: one entry of the shard's log
  backup_ack,     // back along the chain: the tail has all entries up to this position
  state_request,  // to the one before in the chain: I have nothing yet
  state,          // the answer
  synced,         // server to controller, and back as its receipt: I have a copy of this shard
  join,           // to the controller
  leave,
  view,      // from the controller: who is there, and who holds what
  view_ack,  // its receipt
  barrier,   // worker to controller: I am there; back: all are
  squares,   // tail to worker: of a clock's gradient, which waits for the norm of all shards; to tail: tell me again
  norm,      // worker to head: that norm
};
inline constexpr int kNumKinds = 18;
std::string_view name_of(Kind kind);

// How the numbers of a gradient are written (compress.hpp).
enum class Encoding : std::uint8_t { f32, f16, bf16, top_k, one_bit, two_bit };
inline constexpr int kNumEncodings = 6;

enum class Role : std::uint8_t { server, worker };

// Numbers in memory of somebody's choice: such as other processes can read (link.hpp).
using Values = std::pmr::vector<float>;

// REQUIRES: nobody changes the bytes while a message has them.
struct Payload {
  std::shared_ptr<const void> owner;  // keeps the bytes; none: somebody else sees to it
  std::span<const std::byte> bytes;
};

Payload payload_of(std::vector<float> values);
Payload payload_of(std::vector<std::byte> bytes);
Payload payload_of(std::shared_ptr<const Values> values);

// As numbers; empty when the bytes are none: not a multiple of 4, or not aligned.
std::span<const float> floats_of(const Payload& payload);

struct Message {
  Kind kind = Kind::ack;
  Kind entry = Kind::push;            // forward: what the entry of the log is; ack: what is acknowledged
  Encoding encoding = Encoding::f32;  // of the payload
  Role role = Role::server;           // join, leave
  NodeId from = kNobody;
  NodeId to = kNobody;
  ShardId shard = 0;
  NodeId worker = kNobody;     // whose push or pull it is
  std::uint64_t view = 0;      // number of the sender's view
  std::uint64_t sequence = 0;  // push: counts this worker's pushes on this shard, from 1; pull: the last one it made
  std::int64_t clock = 0;      // step of the worker; pull and values: what the request was for
  std::int64_t oldest = -1;    // values: all updates up to this clock are in them
  std::uint64_t position = 0;  // in the log of the shard, from 1
  double rate = 0;             // push: learning rate; 0: the server's own; norm: the norm
  std::int64_t sent_ns = 0;    // by the clock of the host, for measuring alone; 0: not said
  Payload payload = {};
};

using Outbox = std::vector<Message>;

inline constexpr std::size_t kHeaderBytes = 96;  // a multiple of 16: what follows it is aligned as the header is
using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encode_header(const Message& message);
// A message without its payload; payload_bytes is how long that is.
struct Header {
  Message message;
  std::size_t payload_bytes = 0;
};
Result<Header> decode_header(std::span<const std::byte> bytes);

std::vector<std::byte> encode(const Message& message);
// The payload stays where it is and is kept by `owner`.
Result<Message> decode(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

// What the next forward pass needs first goes first: control messages, then shards in their order. Messages about one
// shard stay in order.
void order_by_priority(Outbox& outbox);

}  // namespace twinpod::ps
