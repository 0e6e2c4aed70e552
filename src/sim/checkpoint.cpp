#include "sim/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
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

// Bytes on their way between two moments.
struct Written {
  double begin_s = 0;
  double end_s = 0;
  double bytes = 0;
};

// Steps that were simulated, to be looked at.
class Looker {
 public:
  Looker(const Steps& steps, const StepRun& run) : steps_(steps), run_(run) {
    for (std::size_t k = 0; k < steps.program.kinds.size(); ++k) {
      first_.push_back(first_ops(steps.program, static_cast<int>(k)));
    }
  }

  // When each step ended, on the first stage; with a barrier that is the same on all.
  std::vector<double> step_ends() const {
    std::vector<double> ends;
    const RankKind& kind = run_.kinds.front();
    for (int s = 0; s < steps_.num_steps; ++s)
      ends.push_back(op_of(kind, steps_.boundary(kind.program_kind, s), 0).end_s);
    return ends;
  }

  // What all ranks wrote in the first checkpoint to a tier, memory being the first.
  std::vector<Written> written(std::size_t tier) const {
    std::vector<Written> all;
    const std::size_t op = tier == 0 ? 0 : tier - 1;
    for (const RankKind& kind : run_.kinds) {
      const int k = kind.program_kind;
      const int instance = tier == 0 ? steps_.snapshot(k, 0) : steps_.drain(k, 0);
      const double bytes = program::placed(steps_.program, k, instance, static_cast<int>(op)).op->bytes;
      const OpRun& span = op_of(kind, instance, op);
      if (bytes > 0) all.push_back({span.start_s, span.end_s, bytes * kind.count});
    }
    return all;
  }

 private:
  const OpRun& op_of(const RankKind& kind, int instance, std::size_t op) const {
    const std::vector<std::uint32_t>& first = first_[static_cast<std::size_t>(kind.program_kind)];
    return kind.ops[first[static_cast<std::size_t>(instance)] + op];
  }

  const Steps& steps_;
  const StepRun& run_;
  std::vector<std::vector<std::uint32_t>> first_;  // op of each instance, by kind of the Program
};

// Of the means of all writes that were under way. One that was faster at first than in the end has a lower mean then,
// so that this can be a little more than the tier has.
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

// Of all nodes together.
double most_of(const StorageLinks& links, spec::TierKind kind) {
  const double ways = links.num_nodes * links.node_bytes_per_s;
  if (kind == spec::TierKind::local) return links.num_nodes * links.disk_bytes_per_s;
  if (kind == spec::TierKind::shared) return std::min(ways, links.shared_bytes_per_s);
  return kind == spec::TierKind::object ? std::min(ways, links.object_bytes_per_s) : StorageLinks::kNoLimit;
}

TierRun tier_run(const spec::CheckpointTier& tier, const std::vector<Written>& all, double drawn, double most) {
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
  result.peak_bytes_per_s = std::min(most, drawn * peak_of(all));
  return result;
}

void take_tiers(const CheckpointTiers& tiers, CheckpointRun& result) {
  const Looker looker(result.steps, result.run);
  double begin = std::numeric_limits<double>::infinity();
  double end = 0;
  for (std::size_t t = 0; t < tiers.tiers.size(); ++t) {
    const std::vector<Written> all = looker.written(t);
    result.tiers.push_back(
        tier_run(tiers.tiers[t], all, t == 0 ? 1 : result.drawn_share, most_of(tiers.links, tiers.tiers[t].kind)));
    for (const Written& one : all) {
      if (t == 0) continue;
      begin = std::min(begin, one.begin_s);
      end = std::max(end, one.end_s);
    }
  }
  if (end > begin) result.drain_s = (end - begin) / result.drawn_share;
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

// The snapshot alone, with a step before and one behind it. Where ranks do not meet at the end of a step, the first one
// is like no other, and a third one says how long they are.
Result<void> run_snapshot(const CheckpointInput& input, const CheckpointTiers& tiers,
                          const program::CheckpointBytes& bytes, CheckpointRun& result) {
  const bool meets = !input.program.validates_later;
  result.steps =
      program::with_checkpoints(input.program, bytes, {.steps = meets ? 2 : 3, .beside = input.job.stack.executed});
  Result<StepRun> run = simulate(input, tiers, result.steps, 1);
  if (!run) return tl::unexpected(run.error());
  result.run = std::move(*run);
  const std::vector<double> ends = Looker(result.steps, result.run).step_ends();
  result.step_s = result.slowest_step_s = meets ? ends[0] : ends[2] - ends[1];
  result.stall_s = ends[1] - ends[0] - result.step_s;
  if (result.stall_s < 1e-9 * ends[1]) result.stall_s = 0;
  return {};
}

// How many steps are simulated beside a drain, at most: fewer where hardly any ranks are alike.
int most_steps(const CheckpointRun& before) {
  constexpr double kMostOps = 40e6;
  double ops = 0;
  for (const RankKind& kind : before.run.kinds) ops += static_cast<double>(kind.ops.size()) / before.steps.num_steps;
  return static_cast<int>(std::clamp(kMostOps / std::max(1.0, ops), 4.0, double{kMostSteps}));
}

// The drain and the steps beside it: how much longer those take.
Result<double> run_drain(const CheckpointInput& input, const CheckpointTiers& tiers,
                         const program::CheckpointBytes& bytes, CheckpointRun& result) {
  const double beside = kLonger * tiers.estimate_s / result.step_s;  // steps
  const double most = most_steps(result) - 2;
  result.drawn_share = std::min(1.0, most / beside);
  program::CheckpointSteps what{.beside = input.job.stack.executed, .tiers = tiers.drains};
  what.steps = 2 + static_cast<int>(std::ceil(std::min(most, beside)));
  result.steps = program::with_checkpoints(input.program, bytes, what);
  Result<StepRun> run = simulate(input, tiers, result.steps, result.drawn_share);
  if (!run) return tl::unexpected(run.error());
  result.run = std::move(*run);
  const std::vector<double> ends = Looker(result.steps, result.run).step_ends();
  double slowed_s = 0;
  for (std::size_t s = 1; s < ends.size(); ++s) {
    const double own = ends[s] - ends[s - 1] - (s == 1 ? result.stall_s : 0);
    result.slowest_step_s = std::max(result.slowest_step_s, own);
    slowed_s += own - result.step_s;
  }
  // Rounding is no slower step.
  return slowed_s > 1e-9 * ends.back() ? slowed_s / result.drawn_share : 0;
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

  if (const Result<void> done = run_snapshot(input, *tiers, bytes, result); !done) return tl::unexpected(done.error());
  Result<double> slowed_s = 0;
  if (!tiers->drains.empty()) slowed_s = run_drain(input, *tiers, bytes, result);
  if (!slowed_s) return tl::unexpected(slowed_s.error());
  take_tiers(*tiers, result);
  add_up(result, *slowed_s);
  return result;
}

}  // namespace twinpod::sim
