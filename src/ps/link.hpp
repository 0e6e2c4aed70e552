// How a process of the parameter server reaches the others: through shared memory on one host, over TCP between hosts.
//
//     Link link = shared_link(segment, id);
//     link.send(link.state, message);                    // never waits; keeps the payload until it is gone
//     Message message;
//     while (link.receive(link.state, message)) handle(server, message, out);
//     link.rest(link.state);                             // sleeps until something may have come, a few ms at most
//     link.forget(link.state, peer);                     // it is dead: what was for it is dropped
//
// Messages between two processes arrive in order or not at all. One thread at a time may use a link.
#pragma once

#include <span>
#include <string>

#include "comm/shared.hpp"
#include "ps/job_key.hpp"
#include "ps/message.hpp"
#include "ps/shards.hpp"
#include "ps/strangers.hpp"

namespace twinpod::ps {

struct Link {
  void* state = nullptr;
  std::pmr::memory_resource* memory = nullptr;  // payloads that lie here travel fastest
  void (*send)(void* state, Message message) = nullptr;
  bool (*receive)(void* state, Message& message) = nullptr;
  void (*rest)(void* state) = nullptr;
  void (*forget)(void* state, NodeId peer) = nullptr;
  void (*close)(void* state) = nullptr;  // what was not sent yet has a moment to get away
};

// Between processes that were forked with the segment: the number of a node is its rank there. Payloads that are large
// are copied once, from the sender's memory to the receiver's, where the kernel allows it.
// Large pushes and values are not copied at all if they lie in the link's memory: who gets them reads them there, and
// they stay there, though their sender dies, until it has. The first bytes of a process's arena are left to the
// launcher; then comes who reads what of it.
inline constexpr std::size_t kDeskBytes = std::size_t{1} << 18U;
inline constexpr std::size_t kLoanBytes = std::size_t{1} << 14U;
// `all_bytes`: of all values of the job. What the caches cannot hold, with gradients and copies, goes past them.
inline constexpr std::int64_t kStreamedValues = std::int64_t{12} << 20;
Link shared_link(const comm::Segment& segment, NodeId id, std::int64_t all_bytes = 0);

// Whether somebody but these still reads what a process lent. REQUIRES: all have forgotten the lender.
bool is_read_by_others(const comm::Segment& segment, NodeId lender, std::span<const NodeId> but);

// Between hosts, over TCP (tcp.hpp). Each process listens on its own address and knows those of the others by their
// numbers:
//     tcp://10.0.0.7:7700, tcp://[fd00::7]:7700 or tcp://node7:7700
struct Address {
  NodeId id = kNobody;
  std::string endpoint;
};

// The most that a payload may have; what says that it has more is not read.
struct PayloadBounds {
  std::size_t values = std::size_t{1} << 30U;
  std::size_t state = std::size_t{1} << 32U;
  std::size_t other = std::size_t{1} << 20U;
};
PayloadBounds bounds_of(std::span<const Shard> shards, int nodes);

struct TcpOptions {
  std::vector<Address> addresses = {};
  JobKey key = {};
  PayloadBounds bounds = {};
  int launchers = 1;               // the first numbers: each may say that a process of its host is dead
  Strangers* strangers = nullptr;  // where they are counted; it must outlive the link
  bool own_thread = true;          // moves messages while nobody looks; without it, processes can be forked
};
Result<Link> tcp_link(NodeId id, const TcpOptions& options);

void send_all(const Link& link, Outbox& out);

}  // namespace twinpod::ps
