#include "ps/diary.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace twinpod::ps {
namespace {

bool names_clock(const Message& message) {
  const bool forwards = message.kind == Kind::forward;
  switch (forwards ? message.entry : message.kind) {
    case Kind::push:
    case Kind::clock:
    case Kind::norm:
    case Kind::squares:
      return true;
    case Kind::pull:
      return message.clock != kAskOnly;
    default:
      return false;
  }
}

bool is_push(const Message& message) {
  return message.kind == Kind::push || (message.kind == Kind::forward && message.entry == Kind::push);
}

// A view changes all shards, any other message one.
std::map<ShardId, std::uint64_t> applied_by(const Server& server, const Message& message) {
  std::map<ShardId, std::uint64_t> applied;
  for (const auto& [shard, replica] : server.replicas) {
    if (message.kind == Kind::view || message.shard == shard) applied[shard] = replica.state.applied;
  }
  return applied;
}

}  // namespace

Glance glance(const Server& server, const Message& message, std::int64_t clock) {
  Glance before{.applied = applied_by(server, message),
                .pulls = server.counters.pulls,
                .pulled_bytes = server.counters.pulled_bytes};
  before.message.kind = message.kind;
  before.message.shard = message.shard;
  before.message.worker = message.worker;
  before.message.clock = names_clock(message) ? message.clock : clock;
  before.message.sent_ns = message.sent_ns;
  if (is_push(message)) before.message.pushed_bytes = message.payload.bytes.size();
  return before;
}

Handled handled(const Glance& before, const Server& server, const Outbox& out) {
  Handled one = before.message;
  one.answers = server.counters.pulls - before.pulls;
  one.pulled_bytes = server.counters.pulled_bytes - before.pulled_bytes;
  for (const Message& answer : out) {
    if (answer.kind != Kind::values || answer.clock == kAskOnly) continue;
    one.staleness = std::max(one.staleness, answer.clock - 1 - answer.oldest);
  }
  if (one.kind == Kind::state) return one;  // what it holds was applied elsewhere
  for (const auto& [shard, applied] : before.applied) {
    const auto now = server.replicas.find(shard);
    // A new view may have taken it away.
    if (now != server.replicas.end() && now->second.state.applied > applied)
      one.updates += now->second.state.applied - applied;
  }
  return one;
}

Diary::~Diary() {
  if (memory != nullptr) munmap(memory, bytes);
}

Result<std::unique_ptr<Diary>> make_diary(const DiarySize& size) {
  auto diary = std::make_unique<Diary>();
  diary->size = size;
  constexpr std::size_t kHead = 64;
  diary->bytes = kHead + static_cast<std::size_t>(size.entries) * sizeof(Entry);
  // Pages that nobody writes to take no memory.
  void* const memory = mmap(nullptr, diary->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return infeasible(fmt::format("{} bytes for what servers do", diary->bytes));
  diary->memory = memory;
  diary->num_entries = new (memory) std::atomic<std::int64_t>(0);
  // Zero bytes, as the kernel gives them, are entries that are not there.
  diary->entries = reinterpret_cast<Entry*>(static_cast<std::byte*>(memory) + kHead);
  return diary;
}

void write(Diary& diary, const Handled& handled) {
  if (diary.size.clock >= 0 && handled.clock != diary.size.clock) return;
  const std::int64_t place = diary.num_entries->fetch_add(1);
  if (place >= diary.size.entries) return;
  Entry& entry = diary.entries[place];
  entry.handled = handled;
  entry.ready.store(1, std::memory_order_release);
}

std::vector<Handled> entries_of(const Diary& diary) {
  std::vector<Handled> all;
  const std::int64_t end = std::min(diary.num_entries->load(), diary.size.entries);
  for (std::int64_t i = 0; i < end; ++i) {
    if (diary.entries[i].ready.load(std::memory_order_acquire) != 0) all.push_back(diary.entries[i].handled);
  }
  return all;
}

std::int64_t num_left_out(const Diary& diary) {
  return std::max<std::int64_t>(0, diary.num_entries->load() - diary.size.entries);
}

}  // namespace twinpod::ps
