#include "comm/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "core/thousands.hpp"

namespace twinpod::comm {
namespace {

using collective::Verb;

std::string group_name(std::uint32_t group) { return group == 0 ? "world" : fmt::format("group {}", group); }

std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

bool is_collective(const Operation& operation) { return operation.sequence > 0; }
bool is_open(const Operation& operation) { return operation.end_ns == 0; }

bool has_root(Verb verb) {
  return verb == Verb::broadcast || verb == Verb::reduce || verb == Verb::scatter || verb == Verb::gather;
}
bool adds(Verb verb) { return verb == Verb::reduce || verb == Verb::all_reduce || verb == Verb::reduce_scatter; }

// What must be alike on all ranks, without the number.
std::string what(const Operation& operation) {
  std::string text(name_of(operation.verb));
  if (operation.verb == Verb::barrier) return text;
  text += fmt::format(" of {} bytes", operation.bytes);
  if (adds(operation.verb)) text += fmt::format(" ({}, {})", name_of(operation.type), name_of(operation.op));
  if (has_root(operation.verb)) text += fmt::format(" with root {}", operation.root);
  return text;
}

const RankRecord* record_of(const Recording& recording, int rank) {
  const auto found =
      std::find_if(recording.ranks.begin(), recording.ranks.end(), [&](const RankRecord& r) { return r.rank == rank; });
  return found == recording.ranks.end() ? nullptr : &*found;
}

const Operation* open_operation(const RankRecord& record) {
  const auto found = std::find_if(record.operations.begin(), record.operations.end(), is_open);
  return found == record.operations.end() ? nullptr : &*found;
}

std::string last_deed(const RankRecord& record) {
  if (const Operation* const open = open_operation(record)) return fmt::format("in {}", described(*open));
  if (record.operations.empty()) return "before its first operation";
  return fmt::format("after {}", described(record.operations.back()));
}

std::optional<Diagnosis> diagnose_ends(const Recording& recording) {
  for (const RankRecord& record : recording.ranks) {
    if (record.status != RankStatus::died) continue;
    const std::string how = record.signal != 0 ? fmt::format("was killed by {}", signal_name(record.signal))
                                               : fmt::format("exited with status {}", record.exit_status);
    return Diagnosis{record.rank, fmt::format("rank {} {} {}", record.rank, how, last_deed(record))};
  }
  for (const RankRecord& record : recording.ranks) {
    if (record.status != RankStatus::stopped) continue;
    return Diagnosis{record.rank, fmt::format("rank {} is stopped ({}) {}", record.rank, signal_name(record.signal),
                                              last_deed(record))};
  }
  for (const RankRecord& record : recording.ranks) {
    if (record.status != RankStatus::failed) continue;
    return Diagnosis{record.rank, fmt::format("rank {} failed {}: {}", record.rank, last_deed(record), record.error)};
  }
  return std::nullopt;
}

using Callers = std::map<std::string, std::vector<int>>;  // what was called: by whom

Diagnosis disagreement(const Operation& operation, const Callers& callers) {
  // The many are right, and of equally many those with the lowest rank.
  const auto right = std::max_element(callers.begin(), callers.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.second.size(), -a.second[0]) < std::tuple(b.second.size(), -b.second[0]);
  });
  for (const auto& [text, ranks] : callers) {
    if (text == right->first) continue;
    const std::string others = right->second.size() == 1 ? fmt::format("rank {}", right->second[0]) : "the others";
    return {ranks[0], fmt::format("rank {} called {} as operation {} of {}; {} called {}", ranks[0], text,
                                  operation.sequence, group_name(operation.group), others, right->first)};
  }
  return {};
}

std::optional<Diagnosis> diagnose_mismatch(const Recording& recording) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Callers> calls;
  for (const RankRecord& record : recording.ranks) {
    for (const Operation& operation : record.operations) {
      if (is_collective(operation))
        calls[{operation.group, operation.sequence}][what(operation)].push_back(record.rank);
    }
  }
  for (const auto& [key, callers] : calls) {
    if (callers.size() < 2) continue;
    return disagreement({.group = key.first, .sequence = key.second}, callers);
  }
  return std::nullopt;
}

bool came_to(const RankRecord& record, const Operation& operation) {
  return std::any_of(record.operations.begin(), record.operations.end(), [&](const Operation& own) {
    return is_collective(own) && own.group == operation.group && own.sequence >= operation.sequence;
  });
}

// A rank that this operation waits for; -1: none is known.
int awaited(const Recording& recording, const Operation& operation) {
  if (!is_collective(operation)) return operation.peer;
  for (const GroupRecord& group : recording.groups) {
    if (group.id != operation.group) continue;
    for (const int member : group.members) {
      const RankRecord* const record = record_of(recording, member);
      if (record == nullptr || !came_to(*record, operation)) return member;
    }
  }
  return -1;
}

Diagnosis absence(const Recording& recording, int rank, const Operation& missed) {
  const RankRecord* const record = record_of(recording, rank);
  if (record == nullptr)
    return {rank, fmt::format("rank {} gives no answer; others wait in {}", rank, described(missed))};
  const std::string verb = is_collective(missed) ? "has not come to"
                           : missed.receives     ? "has not sent what is waited for in"
                                                 : "has not received what is sent in";
  if (record->status == RankStatus::finished) {
    return {rank, fmt::format("rank {} ended {}; others wait in {}", rank, last_deed(*record), described(missed))};
  }
  return {rank, fmt::format("rank {} {} {}; it is {}", rank, verb, described(missed), last_deed(*record))};
}

// From whoever has waited longest to the one that keeps it waiting, until one does not wait itself.
Diagnosis diagnose_waits(const Recording& recording) {
  const RankRecord* waiting = nullptr;
  for (const RankRecord& record : recording.ranks) {
    const Operation* const open = open_operation(record);
    if (open == nullptr) continue;
    if (waiting == nullptr || open->start_ns < open_operation(*waiting)->start_ns) waiting = &record;
  }
  if (waiting == nullptr) return {-1, "no rank was in an operation"};
  std::vector<int> visited;
  while (true) {
    const Operation& operation = *open_operation(*waiting);
    visited.push_back(waiting->rank);
    const int next = awaited(recording, operation);
    if (next < 0) return {-1, fmt::format("all ranks came to {}, but it did not end", described(operation))};
    if (std::find(visited.begin(), visited.end(), next) != visited.end()) {
      return {next, fmt::format("rank {} and rank {} wait for each other; rank {} in {}", next, waiting->rank,
                                waiting->rank, described(operation))};
    }
    const RankRecord* const record = record_of(recording, next);
    if (record == nullptr || open_operation(*record) == nullptr) return absence(recording, next, operation);
    waiting = record;
  }
}

}  // namespace

bool all_came_to(const Recording& recording, const Operation& operation) {
  return !is_collective(operation) || awaited(recording, operation) < 0;
}

std::string described(const Operation& operation) {
  if (is_collective(operation)) {
    return fmt::format("{}, operation {} of {}", what(operation), operation.sequence, group_name(operation.group));
  }
  return fmt::format("{} {} rank {}, {} bytes, tag {}", operation.receives ? "a receive" : "a send",
                     operation.receives ? "from" : "to", operation.peer, operation.bytes, operation.tag);
}

Diagnosis diagnose(const Recording& recording) {
  if (std::optional<Diagnosis> ends = diagnose_ends(recording)) return *ends;
  if (std::optional<Diagnosis> mismatch = diagnose_mismatch(recording)) return *mismatch;
  return diagnose_waits(recording);
}

std::string explained(const Recording& recording) {
  const Diagnosis diagnosis = diagnose(recording);
  std::string text = fmt::format("{}\n\n{}, timeout {:.3g} s; what each did last:\n", diagnosis.message,
                                 counted(recording.ranks.size(), "rank"), recording.timeout_s);
  for (const RankRecord& record : recording.ranks) {
    text += fmt::format("  {} rank {}: {} operations, {}", record.rank == diagnosis.culprit ? ">" : " ", record.rank,
                        record.num_operations, last_deed(record));
    const Operation* const open = open_operation(record);
    if (open != nullptr)
      text += fmt::format(", for {:.3g} s", 1e-9 * static_cast<double>(recording.now_ns - open->start_ns));
    text += "\n";
  }
  return text;
}

Recording merged(const std::vector<Recording>& recordings) {
  Recording all;
  for (const Recording& one : recordings) {
    all.timeout_s = std::max(all.timeout_s, one.timeout_s);
    all.now_ns = std::max(all.now_ns, one.now_ns);
    for (const RankRecord& record : one.ranks) {
      if (record_of(all, record.rank) == nullptr) all.ranks.push_back(record);
    }
    for (const GroupRecord& group : one.groups) {
      const bool known =
          std::any_of(all.groups.begin(), all.groups.end(), [&](const GroupRecord& g) { return g.id == group.id; });
      if (!known) all.groups.push_back(group);
    }
  }
  std::sort(all.ranks.begin(), all.ranks.end(),
            [](const RankRecord& a, const RankRecord& b) { return a.rank < b.rank; });
  return all;
}

}  // namespace twinpod::comm
