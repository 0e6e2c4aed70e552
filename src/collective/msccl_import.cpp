// Lays an MSCCL program out in rounds.
//
// Thread blocks do what they can, together: first all local steps, until there is none; then a round of messages, in
// which a block sends and then receives at most once. A message goes straight to where its receiver wants it when that
// one is ready in the same round; else it waits in scratch chunks, and moving it from there is a local step.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "collective/check.hpp"
#include "collective/msccl.hpp"
#include "collective/msccl_program.hpp"

namespace twinpod::collective {
namespace msccl {
namespace {

struct Spot {
  int rank = 0;
  Buffer buffer = Buffer::input;
  int chunk = 0;
};

struct Message {
  Spot from;
  int count = 0;
  int line = 0;
  bool waits = false;  // in the receiver's scratch, which `from` names then
};

// Where a thread block is.
struct Cursor {
  std::size_t next = 0;
  bool received = false;  // the first half of a step that then sends
  Spot sends_from;        // by its second half
};

struct Layout {
  const Program& program;
  Schedule schedule;
  std::vector<std::vector<Cursor>> at = {};                            // [rank][block]
  std::vector<std::vector<std::size_t>> done = {};                     // steps that others may rely on
  std::map<std::tuple<int, int, int>, std::deque<Message>> mail = {};  // by sender, receiver, channel
  std::vector<int> next_scratch = {};                                  // of each rank
};

const Block& block_at(const Layout& layout, int rank, std::size_t b) { return layout.program.ranks[rank][b]; }

const Op* head_of(const Layout& layout, int rank, std::size_t b) {
  const Block& block = block_at(layout, rank, b);
  const std::size_t next = layout.at[rank][b].next;
  return next < block.ops.size() ? &block.ops[next] : nullptr;
}

bool may_run(const Layout& layout, int rank, const Op& op) {
  return op.waits_for_block < 0 || layout.done[rank][op.waits_for_block] > static_cast<std::size_t>(op.waits_for_step);
}

Spot new_scratch(Layout& layout, int rank, int count) {
  const int chunk = layout.next_scratch[rank];
  if (chunk > kMaxChunks) return {rank, Buffer::scratch, 0};  // refused at the end
  layout.next_scratch[rank] += count;
  layout.schedule.scratch_chunks = std::max(layout.schedule.scratch_chunks, layout.next_scratch[rank]);
  return {rank, Buffer::scratch, chunk};
}

Step step_of(const Spot& from, const Spot& to, int count, bool reduce, int line) {
  return {from.rank, to.rank, from.buffer, from.chunk, to.buffer, to.chunk, count, reduce, line};
}

std::deque<Message>& inbox(Layout& layout, int rank, const Block& block) {
  return layout.mail[{block.receive, rank, block.channel}];
}

// Takes the first message into its place: `before` for what must be there before, `round` for the message itself.
Result<void> receive(Layout& layout, int rank, std::size_t b, Round& before, Round& round) {
  const Op& op = *head_of(layout, rank, b);
  Cursor& cursor = layout.at[rank][b];
  std::deque<Message>& box = inbox(layout, rank, block_at(layout, rank, b));
  const Message message = box.front();
  box.pop_front();
  if (message.count != op.count) {
    return refuse_at(op.line, fmt::format("{} receives {} chunks, but rank {} sends {} (line {})",
                                          where(rank, block_at(layout, rank, b), static_cast<int>(cursor.next)),
                                          op.count, block_at(layout, rank, b).receive, message.count, message.line));
  }
  const Spot added{rank, op.source, op.source_chunk};
  const Spot kept{rank, op.target, op.target_chunk};
  const Spot target = op.type->keeps ? kept : new_scratch(layout, rank, op.count);
  const bool apart = place_of(layout.schedule, rank, added.buffer, added.chunk) !=
                     place_of(layout.schedule, rank, target.buffer, target.chunk);
  if (op.type->reduces && apart) before.steps.push_back(step_of(added, target, op.count, false, op.line));
  round.steps.push_back(step_of(message.from, target, op.count, op.type->reduces, op.line));
  if (op.type->sends) {
    cursor.received = true;
    cursor.sends_from = target;
  } else {
    ++cursor.next;
  }
  return {};
}

void add_round(Layout& layout, Round round) {
  if (!round.steps.empty()) layout.schedule.rounds.push_back(std::move(round));
}

// Steps that are done become known to others at the end of a round.
void settle(Layout& layout) {
  for (std::size_t rank = 0; rank < layout.at.size(); ++rank) {
    for (std::size_t b = 0; b < layout.at[rank].size(); ++b) layout.done[rank][b] = layout.at[rank][b].next;
  }
}

template <typename F>
Result<void> for_each_head(Layout& layout, F&& f) {
  for (int rank = 0; rank < layout.schedule.ranks; ++rank) {
    for (std::size_t b = 0; b < layout.at[rank].size(); ++b) {
      const Op* op = head_of(layout, rank, b);
      if (op == nullptr || !may_run(layout, rank, *op)) continue;
      if (const Result<void> done = f(rank, b, *op); !done) return done;
    }
  }
  return {};
}

// One step of every thread block that needs no message from now. Whether there was any.
Result<bool> run_local(Layout& layout) {
  bool any = false;
  Round before;
  Round round;
  const Result<void> ran = for_each_head(layout, [&](int rank, std::size_t b, const Op& op) -> Result<void> {
    Cursor& cursor = layout.at[rank][b];
    if (op.type->receives && !cursor.received) {
      const std::deque<Message>& box = inbox(layout, rank, block_at(layout, rank, b));
      if (box.empty() || !box.front().waits) return {};
      any = true;
      return receive(layout, rank, b, before, round);
    }
    if (op.type->sends || op.type->receives) return {};
    any = true;
    ++cursor.next;
    if (!op.type->local) return {};  // nop
    const Spot from{rank, op.source, op.source_chunk};
    const Spot to{rank, op.target, op.target_chunk};
    round.steps.push_back(step_of(from, to, op.count, op.type->reduces, op.line));
    return {};
  });
  if (!ran) return tl::unexpected(ran.error());
  add_round(layout, std::move(before));
  add_round(layout, std::move(round));
  settle(layout);
  return any;
}

using Reads = std::set<std::tuple<int, Buffer, int>>;

void post_sends(Layout& layout, Reads& reads, std::vector<std::tuple<int, int, int>>& posted) {
  (void)for_each_head(layout, [&](int rank, std::size_t b, const Op& op) -> Result<void> {
    Cursor& cursor = layout.at[rank][b];
    if (!op.type->sends || (op.type->receives && !cursor.received)) return {};
    const Block& block = block_at(layout, rank, b);
    const Spot from = cursor.received ? cursor.sends_from : Spot{rank, op.source, op.source_chunk};
    for (int i = 0; i < op.count; ++i) {
      const Place place = place_of(layout.schedule, rank, from.buffer, from.chunk + i);
      reads.emplace(rank, place.buffer, place.chunk);
    }
    layout.mail[{rank, block.send, block.channel}].push_back({from, op.count, op.line, false});
    posted.emplace_back(rank, block.send, block.channel);
    cursor = {.next = cursor.next + 1, .received = false, .sends_from = {}};
    return {};
  });
}

// Whether a step would write what its rank sends in this round.
bool writes_what_is_read(const Layout& layout, int rank, const Op& op, const Reads& reads) {
  for (int i = 0; op.type->keeps && i < op.count; ++i) {
    const Place place = place_of(layout.schedule, rank, op.target, op.target_chunk + i);
    if (reads.count({rank, place.buffer, place.chunk}) > 0) return true;
  }
  return false;
}

// Messages that nobody took go to scratch.
void put_aside(Layout& layout, const std::vector<std::tuple<int, int, int>>& posted, Round& round) {
  for (const auto& key : posted) {
    std::deque<Message>& box = layout.mail[key];
    if (box.empty() || box.back().waits) continue;
    Message& message = box.back();
    const Spot aside = new_scratch(layout, std::get<1>(key), message.count);
    round.steps.push_back(step_of(message.from, aside, message.count, false, message.line));
    message.from = aside;
    message.waits = true;
  }
}

Result<bool> run_messages(Layout& layout) {
  Reads reads;
  std::vector<std::tuple<int, int, int>> posted;
  Round before;
  Round round;
  post_sends(layout, reads, posted);
  const Result<void> ran = for_each_head(layout, [&](int rank, std::size_t b, const Op& op) -> Result<void> {
    if (!op.type->receives || layout.at[rank][b].received) return {};
    const std::deque<Message>& box = inbox(layout, rank, block_at(layout, rank, b));
    if (box.empty() || writes_what_is_read(layout, rank, op, reads)) return {};
    return receive(layout, rank, b, before, round);
  });
  if (!ran) return tl::unexpected(ran.error());
  put_aside(layout, posted, round);
  const bool any = !posted.empty();
  add_round(layout, std::move(before));
  add_round(layout, std::move(round));
  settle(layout);
  return any;
}

Result<void> check_end(const Layout& layout) {
  for (int rank = 0; rank < layout.schedule.ranks; ++rank) {
    for (std::size_t b = 0; b < layout.at[rank].size(); ++b) {
      const Op* op = head_of(layout, rank, b);
      if (op == nullptr) continue;
      const Block& block = block_at(layout, rank, b);
      const std::string what = may_run(layout, rank, *op)
                                   ? fmt::format("a message of rank {} over channel {}", block.receive, block.channel)
                                   : fmt::format("step {} of thread block {}", op->waits_for_step,
                                                 layout.program.ranks[rank][op->waits_for_block].id);
      return refuse_at(op->line, fmt::format("{} waits for {} forever",
                                             where(rank, block, static_cast<int>(layout.at[rank][b].next)), what));
    }
  }
  for (const auto& [key, box] : layout.mail) {
    if (box.empty()) continue;
    const auto [from, to, channel] = key;
    return refuse_at(box.front().line,
                     fmt::format("rank {} sends {} chunks to rank {} over channel {}, and nobody receives them", from,
                                 box.front().count, to, channel));
  }
  return {};
}

// A step that reads or writes outside of its rank's buffers.
Result<void> check_bounds(const Program& program) {
  const Schedule& schedule = program.schedule;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    for (const Block& block : program.ranks[rank]) {
      for (std::size_t s = 0; s < block.ops.size(); ++s) {
        const Op& op = block.ops[s];
        const auto inside = [&](Buffer buffer, int chunk) {
          return chunk >= 0 && chunk <= num_chunks(schedule, rank, buffer) - op.count;
        };
        const bool reads =
            op.type->local || (op.type->sends && !op.type->receives) || (op.type->reduces && op.type->receives);
        const bool bad_source = reads && !inside(op.source, op.source_chunk);
        const bool bad_target = (op.type->local || op.type->keeps) && !inside(op.target, op.target_chunk);
        if (!bad_source && !bad_target) continue;
        const Buffer buffer = bad_source ? op.source : op.target;
        return refuse_at(op.line, fmt::format("{}: chunk {} and {} chunks from there, but that buffer has {}",
                                              where(rank, block, static_cast<int>(s)),
                                              bad_source ? op.source_chunk : op.target_chunk, op.count,
                                              num_chunks(schedule, rank, buffer)));
      }
    }
  }
  return {};
}

}  // namespace

Result<Schedule> lay_out(const Program& program) {
  if (const Result<void> bounds = check_bounds(program); !bounds) return tl::unexpected(bounds.error());
  Layout layout{.program = program, .schedule = program.schedule};
  for (const std::vector<Block>& blocks : program.ranks) {
    layout.at.emplace_back(blocks.size());
    layout.done.emplace_back(blocks.size(), 0);
  }
  layout.next_scratch.assign(program.ranks.size(), program.schedule.scratch_chunks);
  while (true) {
    Result<bool> local = true;
    while (local && *local) local = run_local(layout);
    if (!local) return tl::unexpected(local.error());
    const Result<bool> messages = run_messages(layout);
    if (!messages) return tl::unexpected(messages.error());
    if (!*messages) break;
  }
  if (const Result<void> end = check_end(layout); !end) return tl::unexpected(end.error());
  const std::int64_t cells =
      std::int64_t{layout.schedule.ranks} * (layout.schedule.chunks + layout.schedule.scratch_chunks);
  if (cells > kMaxCells) {
    return refuse_at(
        program.schedule.lines[0],
        fmt::format("{} ranks with {} chunks and {} chunks of scratch: {} in all; at most {} can be proved",
                    layout.schedule.ranks, layout.schedule.chunks, layout.schedule.scratch_chunks, cells, kMaxCells));
  }
  return std::move(layout.schedule);
}

}  // namespace msccl

Result<Schedule> from_msccl(std::string_view xml, std::string_view file) {
  const auto in_file = [&](Error error) {
    error.file = file;
    return tl::unexpected(std::move(error));
  };
  const Result<msccl::Program> program = msccl::parse(xml);
  if (!program) return in_file(program.error());
  Result<Schedule> schedule = msccl::lay_out(*program);
  if (!schedule) return in_file(schedule.error());
  if (const Result<void> proof = check(*schedule); !proof) return in_file(proof.error());
  return schedule;
}

}  // namespace twinpod::collective
