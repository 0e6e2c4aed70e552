#include "sim/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/checkpoint_tiers.hpp"

namespace twinpod::sim {
namespace {

using program::Steps;

constexpr double kLonger = 1.3;  // than its estimate a drain may take, and all of it still stands beside steps

Result<StepRun> simulate(const CheckpointInput& input, const CheckpointTiers& tiers, const Steps& steps, double drawn) {
  const StepTimes times = checkpoint_times(input.job, tiers, steps, input.times, drawn);
  StepInput step{steps.program, times};
  step.graph = input.graph;
  step.routing = input.routing;
  step.device_of_rank = input.device_of_rank;
  step.slow = input.slow;
  step.fold = input.fold;
  step.storage = &tiers.links;
  return run_step(step);
}

// The ops of an instance, of a kind of ranks.
std::span<const OpRun> ops_of(const Steps& steps, const RankKind& kind, int instance) {
  const std::vector<std::uint32_t> first = first_ops(steps.program, kind.program_kind);
  const auto at = static_cast<std::size_t>(instance);
  return kind.ops.subspan(first[at], first[at + 1] - first[at]);
}

// When each step ended, on the first stage; with a barrier that is the same on all.
std::vector<double> step_ends(const Steps& steps, const StepRun& run) {
  std::vector<double> ends;
  const RankKind& kind = run.kinds.front();
  for (int s = 0; s < steps.num_steps; ++s) {
    ends.push_back(ops_of(steps, kind, steps.boundary(kind.program_kind, s)).front().end_s);
  }
  return ends;
}

// Bytes on their way between two moments.
struct Written {
  double begin_s = 0;
  double end_s = 0;
  double bytes = 0;
};

// What all ranks wrote by the op with this number in the first checkpoint.
std::vector<Written> written(const Steps& steps, const StepRun& run, std::size_t op) {
  std::vector<Written> all;
  for (const RankKind& kind : run.kinds) {
    const int instance = steps.checkpoint(kind.program_kind, 0);
    const OpRun& span = ops_of(steps, kind, instance)[op];
    const double bytes = program::placed(steps.program, kind.program_kind, instance, static_cast<int>(op)).op->bytes;
    if (bytes > 0) all.push_back({span.start_s, span.end_s, bytes * kind.count});
  }
  return all;
}

double peak_of(const std::vector<Written>& all) {
  std::vector<std::pair<double, double>> changes;
  for (const Written& one : all) {
    if (one.end_s <= one.begin_s) continue;
    const double rate = one.bytes / (one.end_s - one.begin_s);
    changes.emplace_back(one.begin_s, rate);
    changes.emplace_back(one.end_s, -rate);
  }
  std::sort(changes.begin(), changes.end());
  double now = 0;
  double peak = 0;
  for (const auto& [time, change] : changes) peak = std::max(peak, now += change);
  return peak;
}

TierRun tier_run(const spec::CheckpointTier& tier, const std::vector<Written>& all, double drawn) {
  TierRun result;
  result.kind = tier.kind;
  result.every = tier.every;
  if (all.empty()) return result;
  double begin = all.front().begin_s;
  double end = all.front().end_s;
  for (const Written& one : all) {
    result.bytes += one.bytes;
    begin = std::min(begin, one.begin_s);
    end = std::max(end, one.end_s);
  }
  result.seconds = (end - begin) / drawn;
  result.bytes_per_s = result.seconds > 0 ? result.bytes / result.seconds : 0;
  result.peak_bytes_per_s = drawn * peak_of(all);
  return result;
}

// The snapshot is op 0 of a checkpoint's block, 1 holds computation up, the drain's follow.
void take_tiers(const CheckpointTiers& tiers, CheckpointRun& result) {
  for (std::size_t t = 0; t < tiers.tiers.size(); ++t) {
    const std::vector<Written> all = written(result.steps, result.run, t == 0 ? 0 : t + 1);
    result.tiers.push_back(tier_run(tiers.tiers[t], all, t == 0 ? 1 : result.drawn_share));
  }
  if (tiers.drains.empty()) return;
  double begin = -1;
  double end = 0;
  for (std::size_t t = 1; t < tiers.tiers.size(); ++t) {
    for (const Written& one : written(result.steps, result.run, t + 1)) {
      begin = begin < 0 ? one.begin_s : std::min(begin, one.begin_s);
      end = std::max(end, one.end_s);
    }
  }
  result.drain_s = (end - begin) / result.drawn_share;
}

// What the run as a whole pays. Checkpoint number j goes to the tiers whose `every` divides j.
void add_up(CheckpointRun& result, double slowed_s) {
  constexpr int kMostPattern = 1000;
  int pattern = 1;
  double all_s = 0;  // of the drain, tier by tier
  for (std::size_t t = 1; t < result.tiers.size(); ++t) {
    pattern = std::min(kMostPattern, std::lcm(pattern, std::min(kMostPattern, result.tiers[t].every)));
    all_s += result.tiers[t].seconds;
  }
  const double interval = result.every * result.step_s;
  double longest = 0;
  for (int j = 1; j <= pattern; ++j) {
    double own = 0;
    for (std::size_t t = 1; t < result.tiers.size(); ++t) {
      if (j % std::min(kMostPattern, result.tiers[t].every) == 0) own += result.tiers[t].seconds;
    }
    // Ranks begin with the next tier while others are at this one.
    const double drain = all_s > 0 ? result.drain_s * own / all_s : 0;
    longest = std::max(longest, drain);
    result.wait_s += std::max(0.0, drain - interval) / pattern;
    if (drain > 0) result.slowed_s += slowed_s * drain / result.drain_s * std::min(1.0, interval / drain) / pattern;
  }
  const double lost = result.stall_s + result.wait_s + result.slowed_s;
  result.stall_share = lost / (interval + lost);
  result.shortest_every = std::max(1, static_cast<int>(std::ceil(longest / result.step_s * (1 - 1e-9))));
  for (TierRun& tier : result.tiers) tier.mean_bytes_per_s = tier.bytes / tier.every / (interval + lost);
}

}  // namespace

Result<CheckpointRun> run_checkpoints(const CheckpointInput& input) {
  const program::CheckpointBytes bytes = program::checkpoint_bytes(input.job, input.program);
  const Result<CheckpointTiers> tiers = checkpoint_tiers(input.job, bytes);
  if (!tiers) return tl::unexpected(tiers.error());
  CheckpointRun result;
  result.every = std::max(1, input.job.checkpoint.every);
  result.bytes = bytes.all;
  result.rank_bytes = *std::max_element(bytes.of_rank.begin(), bytes.of_rank.end());
  result.snapshot_s = result.rank_bytes / tiers->snapshot_bytes_per_s;

  // The snapshot alone, with a step before and two behind it.
  result.steps = program::with_checkpoints(input.program, bytes, {.steps = 3});
  Result<StepRun> run = simulate(input, *tiers, result.steps, 1);
  if (!run) return tl::unexpected(run.error());
  std::vector<double> ends = step_ends(result.steps, *run);
  result.step_s = ends[2] - ends[1];
  result.stall_s = std::max(0.0, ends[1] - ends[0] - result.step_s);

  double slowed_s = 0;
  if (!tiers->drains.empty()) {
    const double beside = kLonger * tiers->estimate_s / result.step_s;  // steps
    result.drawn_share = std::min(1.0, (kMostSteps - 2) / beside);
    const int steps = 2 + static_cast<int>(std::ceil(std::min<double>(kMostSteps - 2, beside)));
    result.steps = program::with_checkpoints(input.program, bytes, {.steps = steps, .tiers = tiers->drains});
    run = simulate(input, *tiers, result.steps, result.drawn_share);
    if (!run) return tl::unexpected(run.error());
    ends = step_ends(result.steps, *run);
    for (std::size_t s = 1; s < ends.size(); ++s) {
      const double own = ends[s] - ends[s - 1] - (s == 1 ? result.stall_s : 0);
      result.slowest_step_s = std::max(result.slowest_step_s, own);
      slowed_s += own - result.step_s;
    }
    // Rounding is no slower step.
    slowed_s = slowed_s > 1e-9 * ends.back() ? slowed_s / result.drawn_share : 0;
  }
  result.slowest_step_s = std::max(result.slowest_step_s, result.step_s);
  result.run = std::move(*run);
  take_tiers(*tiers, result);
  add_up(result, slowed_s);
  return result;
}

}  // namespace twinpod::sim
