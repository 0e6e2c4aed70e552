#include "report/step_metrics.hpp"

#include <algorithm>

namespace twinpod::report {
namespace {

using program::Lane;
using program::Op;
using program::OpKind;

// A rank's list while it is walked.
struct Walk {
  const program::Program& program;
  const program::RankTimeline& rank;
  std::vector<std::size_t> first;  // op of each instance
};

const program::Instance& instance_at(const Walk& walk, std::size_t i) {
  return walk.program.kinds[static_cast<std::size_t>(walk.rank.kind)].instances[i];
}

const program::Block& block_at(const Walk& walk, std::size_t i) {
  return walk.program.blocks[static_cast<std::size_t>(instance_at(walk, i).block)];
}

// What an op waited for last, and when that let it go.
struct Blocker {
  const Op* op = nullptr;  // nullptr: nothing in its own list
  std::size_t instance = 0;
  std::size_t number = 0;
  double start_s = 0;
  double release_s = 0;
};

void consider(const Walk& walk, std::size_t instance, std::size_t op, bool end, Blocker& blocker) {
  const program::OpSpan& span = walk.rank.ops[walk.first[instance] + op];
  const double at = end ? span.end_s : span.release_s;
  if (blocker.op != nullptr && at <= blocker.release_s) return;
  blocker = {&block_at(walk, instance).ops[op], instance, op, span.start_s, at};
}

Blocker blocker_of(const Walk& walk, std::size_t instance, std::size_t number) {
  const program::Block& block = block_at(walk, instance);
  const Op& op = block.ops[number];
  Blocker blocker;
  for (int w = 0; w < op.waits.count; ++w) {
    const int waited = *(block.waits.data() + op.waits.first + w);
    consider(walk, instance, static_cast<std::size_t>(waited), false, blocker);
  }
  const program::Source& source = instance_at(walk, instance).from[op.half];
  if (op.entry && op.kind != OpKind::recv && source.kind >= 0) {
    const auto before = static_cast<std::size_t>(source.instance);
    for (std::size_t o = 0; o < block_at(walk, before).ops.size(); ++o) consider(walk, before, o, true, blocker);
  }
  return blocker;
}

// Computation waited from one moment to another: for communication while that was under way, and before it for what
// that waited for in turn; where the chain leaves the rank, for other ranks.
void add_gap(const Walk& walk, std::size_t instance, std::size_t number, double from_s, double to_s,
             RankShares& shares) {
  while (to_s > from_s) {
    const Blocker blocker = blocker_of(walk, instance, number);
    if (blocker.op == nullptr || blocker.op->kind == OpKind::compute || blocker.start_s >= to_s) break;
    const double began = std::max(from_s, blocker.start_s);
    shares.exposed[static_cast<std::size_t>(blocker.op->lane)] += to_s - began;
    to_s = began;
    instance = blocker.instance;
    number = blocker.number;
    if (blocker.op->kind == OpKind::recv) break;
  }
  shares.bubble_s += std::max(0.0, to_s - from_s);
}

RankShares shares_of(const program::Program& program, const program::RankTimeline& rank, double step_s) {
  Walk walk{program, rank, {}};
  std::size_t first = 0;
  const program::Kind& kind = program.kinds[static_cast<std::size_t>(rank.kind)];
  for (const program::Instance& instance : kind.instances) {
    walk.first.push_back(first);
    first += program.blocks[static_cast<std::size_t>(instance.block)].ops.size();
  }
  RankShares shares;
  double at = 0;
  double last = 0;
  for (std::size_t i = 0; i < kind.instances.size(); ++i) {
    const program::Block& block = block_at(walk, i);
    for (std::size_t o = 0; o < block.ops.size(); ++o) {
      const program::OpSpan& span = rank.ops[walk.first[i] + o];
      last = std::max(last, span.end_s);
      if (block.ops[o].lane != Lane::compute || block.ops[o].kind != OpKind::compute) continue;
      if (span.start_s > at) add_gap(walk, i, o, at, span.start_s, shares);
      shares.compute_s += span.end_s - span.start_s;
      at = std::max(at, span.end_s);
    }
  }
  // Behind the last computation: gathers of updated parameters, then nothing.
  shares.exposed[static_cast<std::size_t>(Lane::data)] += std::max(0.0, last - at);
  shares.tail_s = step_s - std::max(last, at);
  return shares;
}

void add(const RankShares& one, double weight, RankShares& sum) {
  sum.compute_s += weight * one.compute_s;
  sum.bubble_s += weight * one.bubble_s;
  sum.tail_s += weight * one.tail_s;
  for (std::size_t l = 0; l < sum.exposed.size(); ++l) sum.exposed[l] += weight * one.exposed[l];
}

}  // namespace

double RankShares::exposed_s() const {
  double sum = 0;
  for (const double seconds : exposed) sum += seconds;
  return sum;
}

StepMetrics step_metrics(const program::Program& program, double step_s, std::size_t num_ranks, const MakeRank& rank) {
  StepMetrics metrics;
  double ranks = 0;
  for (std::size_t i = 0; i < num_ranks; ++i) {
    const program::RankTimeline one = rank(i);
    metrics.ranks.push_back(shares_of(program, one, step_s));
    add(metrics.ranks.back(), one.count, metrics.mean);
    ranks += one.count;
  }
  RankShares mean;
  if (ranks > 0) add(metrics.mean, 1 / ranks, mean);
  metrics.mean = mean;
  return metrics;
}

StepMetrics step_metrics(const program::Program& program, const program::Timeline& timeline) {
  return step_metrics(program, timeline.step_s, timeline.ranks.size(),
                      [&](std::size_t i) { return timeline.ranks[i]; });
}

}  // namespace twinpod::report
