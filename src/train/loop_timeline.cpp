#include "train/loop_timeline.hpp"

#include <algorithm>
#include <cmath>

#include "core/half.hpp"

namespace twinpod::train {
namespace {

template <typename F>
void for_each_span(program::Timeline& timeline, F&& change) {
  for (program::RankTimeline& one : timeline.ranks) {
    for (program::OpSpan& span : one.ops) change(span);
  }
}

void move(program::OpSpan& span, double later) {
  span.start_s += later;
  span.release_s += later;
  span.end_s += later;
}

// The first op of all starts at 0.
void start_at_zero(program::Timeline& timeline) {
  double first = 0;
  for (const program::RankTimeline& one : timeline.ranks) first = std::min(first, one.ops.front().start_s);
  for_each_span(timeline, [&](program::OpSpan& span) {
    move(span, -first);
    timeline.step_s = std::max(timeline.step_s, span.end_s);
  });
}

template <typename T>
Result<program::RankTimeline> receive_timeline(Rank<T>& rank, int other, int tag) {
  program::RankTimeline one{other, 1, program::kind_of_rank(rank.program, other), {}};
  std::size_t ops = 0;
  program::for_each_op(rank.program, one.kind, [&](const program::PlacedOp&) { ++ops; });
  one.ops.resize(ops);
  const Result<std::size_t> got = comm::receive(rank.world, one.ops.data(), ops * sizeof(program::OpSpan), other, tag);
  if (!got) return tl::unexpected(got.error());
  return one;
}

}  // namespace

Result<std::vector<double>> gather(comm::Communicator& world, double own) {
  std::vector<double> all(static_cast<std::size_t>(comm::size_of(world)), own);
  if (all.size() == 1) return all;
  const comm::Call call{
      .verb = comm::Verb::all_gather, .input = &own, .output = all.data(), .count = 1, .type = comm::ElementType::f64};
  if (Result<void> done = comm::run(world, call); !done) return tl::unexpected(done.error());
  return all;
}

template <typename T>
Result<void> gather_timeline(Rank<T>& rank, double step_s, program::Timeline& timeline) {
  constexpr int kTag = comm::kMaxTag - 1;
  const auto begin = std::chrono::duration<double>(rank.begin.time_since_epoch()).count();
  const Result<std::vector<double>> begins = gather(rank.world, begin);
  if (!begins) return tl::unexpected(begins.error());
  if (rank.rank != 0) {
    const std::size_t bytes = rank.timeline.ops.size() * sizeof(program::OpSpan);
    return comm::send(rank.world, rank.timeline.ops.data(), bytes, 0, kTag);
  }
  timeline.ranks = {rank.timeline};
  for (int other = 1; other < comm::size_of(rank.world); ++other) {
    Result<program::RankTimeline> one = receive_timeline(rank, other, kTag);
    if (!one) return tl::unexpected(one.error());
    // Clocks of one host are the same; those of others start with the step.
    const double later = (*begins)[static_cast<std::size_t>(other)] - begin;
    for (program::OpSpan& span : one->ops) {
      if (std::abs(later) <= step_s) move(span, later);
    }
    timeline.ranks.push_back(std::move(*one));
  }
  start_at_zero(timeline);
  return {};
}

double arithmetic_seconds(const spec::Job& job, const program::Program& program, const program::Timeline& timeline) {
  const double copies = job.layout.zero == 0 ? spec::data_parallel(job) : 1;
  double seconds = 0;
  for (const program::RankTimeline& one : timeline.ranks) {
    std::size_t i = 0;
    program::for_each_op(program, one.kind, [&](const program::PlacedOp& placed) {
      const program::OpSpan& span = one.ops[i++];
      if (placed.op->kind != program::OpKind::compute) return;
      const double each = one.count * (span.end_s - span.start_s);
      seconds += placed.op->phase == program::Phase::update ? each / copies : each;
    });
  }
  return seconds;
}

template Result<void> gather_timeline(Rank<float>&, double, program::Timeline&);
template Result<void> gather_timeline(Rank<double>&, double, program::Timeline&);
template Result<void> gather_timeline(Rank<Bf16>&, double, program::Timeline&);

}  // namespace twinpod::train
