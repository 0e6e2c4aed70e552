// What servers did with each message, for a trace. It lies in memory that all processes of a launch share, so what a
// dead server had done is there too.
//
//     Result<std::unique_ptr<Diary>> diary = make_diary({.entries = 100000, .clock = 3});
//     serve(link, server, tick_s, stop, [&](Handled one) { write(**diary, one); });       // any server
//     const std::vector<Handled> all = entries_of(**diary);                               // when they are gone
//
// Servers have no clock. Who gives them their messages looks at them before and behind each one (`glance`, `handled`).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "ps/server.hpp"

namespace twinpod::ps {

// One message in a server's hands. Times are by the clock of the host; in a ServedReport, since the run began.
struct Handled {
  int server = 0;  // its place
  Kind kind = Kind::push;
  ShardId shard = 0;
  NodeId worker = kNobody;   // whose message it was, or is about; in a ServedReport its place
  std::int64_t clock = 0;    // that it is about; of one that does not say so, what the last one said
  std::int64_t sent_ns = 0;  // 0: not known, as between hosts
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t updates = 0;       // pushes that came into the values by it
  std::uint64_t answers = 0;       // to pulls, this one or those that had waited
  std::uint64_t pushed_bytes = 0;  // that it brought
  std::uint64_t pulled_bytes = 0;  // of the answers
  std::int64_t staleness = 0;      // the most that an answer lacked
};

// A server before it handles a message.
struct Glance {
  Handled message = {};
  std::map<ShardId, std::uint64_t> applied = {};
  std::uint64_t pulls = 0;
  std::uint64_t pulled_bytes = 0;
};
// `clock`: of the message before.
Glance glance(const Server& server, const Message& message, std::int64_t clock);
// Behind it, before its answers are sent. Times are left to the caller.
Handled handled(const Glance& before, const Server& server, const Outbox& out);

struct DiarySize {
  std::int64_t entries = 0;  // of all servers; what comes above is counted and not kept
  std::int64_t clock = -1;   // the only one of which messages are kept; -1: all are
};

struct Entry {
  std::atomic<int> ready = 0;
  Handled handled;
};

struct Diary {
  Diary() = default;
  Diary(const Diary&) = delete;
  Diary& operator=(const Diary&) = delete;
  ~Diary();

  DiarySize size;
  void* memory = nullptr;
  std::size_t bytes = 0;
  // In the memory:
  std::atomic<std::int64_t>* num_entries = nullptr;  // with those that were not kept
  Entry* entries = nullptr;
};

Result<std::unique_ptr<Diary>> make_diary(const DiarySize& size);
void write(Diary& diary, const Handled& handled);
// Each server's in their order. One that its server died over is left out.
std::vector<Handled> entries_of(const Diary& diary);
std::int64_t num_left_out(const Diary& diary);

}  // namespace twinpod::ps
