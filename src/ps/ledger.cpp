#include "ps/ledger.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <new>

namespace twinpod::ps {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Held& held_at(const Ledger& ledger, int place, ShardId shard) {
  return ledger.held[at(place) * at(ledger.size.shards) + at(shard)];
}

std::uint64_t* sequences_at(const Ledger& ledger, int place, ShardId shard) {
  return ledger.sequences + (at(place) * at(ledger.size.shards) + at(shard)) * at(ledger.size.nodes);
}

// The copy nearest to the head that was handed in; -1: none was.
int place_with(const Ledger& ledger, const View& view, const std::map<NodeId, int>& places, ShardId shard) {
  for (const Member& member : view.chains[at(shard)]) {
    const auto found = places.find(member.server);
    if (found != places.end() && held_at(ledger, found->second, shard).there != 0) return found->second;
  }
  return -1;
}

void add_shard(const Ledger& ledger, int place, ShardId shard, Balance& balance) {
  static constexpr Held kNothing = {};
  const Held& held = place < 0 ? kNothing : held_at(ledger, place, shard);
  balance.applied += held.applied;
  balance.dropped += held.dropped;
  balance.waiting += held.waiting;
  std::uint64_t pushed = 0;
  for (NodeId id = 0; id < ledger.size.nodes; ++id) {
    const std::uint64_t has = place < 0 ? 0 : sequences_at(ledger, place, shard)[id];
    const std::uint64_t acked = acked_by(ledger, id)[shard];
    pushed += has;
    if (acked > has) balance.lost += acked - has;
  }
  const std::uint64_t counted = held.applied + held.dropped + held.waiting + held.clocks;
  if (counted > pushed) balance.twice += counted - pushed;
  if (counted < pushed) balance.lost += pushed - counted;
}

}  // namespace

Ledger::~Ledger() {
  if (memory != nullptr) munmap(memory, bytes);
}

Result<std::unique_ptr<Ledger>> make_ledger(const LedgerSize& size) {
  auto ledger = std::make_unique<Ledger>();
  ledger->size = size;
  constexpr std::size_t kHead = 64;
  const std::size_t acked = at(size.nodes) * at(size.shards) * sizeof(std::uint64_t);
  const std::size_t held = at(size.servers) * at(size.shards) * sizeof(Held);
  ledger->bytes = kHead + acked + held + at(size.servers) * acked;
  void* const memory = mmap(nullptr, ledger->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return infeasible(fmt::format("{} bytes to count updates in", ledger->bytes));
  ledger->memory = memory;
  auto* const bytes = static_cast<std::byte*>(memory);
  ledger->closed = new (bytes) std::atomic<int>(0);
  // Zero bytes, as the kernel gives them, are updates of nobody.
  ledger->acked = reinterpret_cast<std::uint64_t*>(bytes + kHead);
  ledger->held = reinterpret_cast<Held*>(bytes + kHead + acked);
  ledger->sequences = reinterpret_cast<std::uint64_t*>(bytes + kHead + acked + held);
  return ledger;
}

std::uint64_t* acked_by(const Ledger& ledger, NodeId worker) {
  return ledger.acked + at(worker) * at(ledger.size.shards);
}

void close(Ledger& ledger) { ledger.closed->store(1); }

bool is_closed(const Ledger& ledger) { return ledger.closed->load(std::memory_order_relaxed) != 0; }

void hand_in(Ledger& ledger, int place, const Server& server) {
  for (const auto& [shard, replica] : server.replicas) {
    if (!replica.has_state) continue;
    const ShardState& state = replica.state;
    std::uint64_t* const sequences = sequences_at(ledger, place, shard);
    for (const std::vector<Progress>* list : {&state.workers, &state.left}) {
      for (const Progress& one : *list) {
        if (one.worker >= 0 && one.worker < ledger.size.nodes) sequences[one.worker] = one.sequence;
      }
    }
    held_at(ledger, place, shard) = {.there = 1,
                                     .applied = state.applied,
                                     .dropped = state.dropped,
                                     .waiting = num_waiting(state),
                                     .clocks = state.clocks};
  }
}

Balance balance_of(const Ledger& ledger, const View& view, const std::map<NodeId, int>& places) {
  Balance balance;
  for (ShardId shard = 0; shard < static_cast<ShardId>(view.chains.size()); ++shard) {
    add_shard(ledger, place_with(ledger, view, places, shard), shard, balance);
  }
  return balance;
}

Balance balance_here(const Ledger& ledger) {
  Balance balance;
  for (ShardId shard = 0; shard < ledger.size.shards; ++shard) {
    for (int place = 0; place < ledger.size.servers; ++place) {
      if (held_at(ledger, place, shard).there == 0) continue;
      add_shard(ledger, place, shard, balance);
      break;
    }
  }
  return balance;
}

}  // namespace twinpod::ps
