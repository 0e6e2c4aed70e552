// Updates, counted twice: by the workers, who know what was acknowledged to them, and by the servers, who know at the
// end what their states hold. It lies in memory that all processes of a launch share, so the dead are counted too.
//
//     Result<std::unique_ptr<Ledger>> ledger = make_ledger({.nodes = 300, .shards = 40, .servers = 3});
//     client.acked = acked_by(**ledger, id);                    // a worker writes as it goes
//     if (is_closed(**ledger)) hand_in(**ledger, place, server) // a server, at the end
//     const Balance balance = balance_of(**ledger, view, places);
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "core/error.hpp"
#include "ps/server.hpp"

namespace twinpod::ps {

struct LedgerSize {
  int nodes = 0;  // numbers that processes can have
  int shards = 0;
  int servers = 0;  // at a time
};

// One copy of a shard, at the end.
struct Held {
  std::uint64_t there = 0;  // 1: the server handed it in
  std::uint64_t applied = 0;
  std::uint64_t dropped = 0;
  std::uint64_t waiting = 0;  // sync: of clocks that nobody completed
  std::uint64_t clocks = 0;
};

struct Ledger {
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger();

  LedgerSize size;
  void* memory = nullptr;
  std::size_t bytes = 0;
  // In the memory:
  std::atomic<int>* closed = nullptr;
  std::uint64_t* acked = nullptr;      // by worker, then shard
  Held* held = nullptr;                // by server's place, then shard
  std::uint64_t* sequences = nullptr;  // by server's place, shard, worker: its last push there
};

Result<std::unique_ptr<Ledger>> make_ledger(const LedgerSize& size);

std::uint64_t* acked_by(const Ledger& ledger, NodeId worker);

void close(Ledger& ledger);
bool is_closed(const Ledger& ledger);
void hand_in(Ledger& ledger, int place, const Server& server);

struct Balance {
  std::uint64_t applied = 0;
  std::uint64_t dropped = 0;
  std::uint64_t waiting = 0;
  std::uint64_t lost = 0;   // acknowledged to a worker, and not held
  std::uint64_t twice = 0;  // held more often than it was pushed
};
// `places` of the servers that were there at the end.
Balance balance_of(const Ledger& ledger, const View& view, const std::map<NodeId, int>& places);
// Of one host of several: the shards of which a copy is here, as far as the workers here know.
Balance balance_here(const Ledger& ledger);

}  // namespace twinpod::ps
