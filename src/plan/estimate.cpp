#include "plan/estimate.hpp"

#include <array>

#include "plan/step_pieces.hpp"

namespace twinpod::plan {
namespace {

constexpr std::array<std::string_view, kNumParts> kPartNames = {
    "products", "attention", "elements", "head",   "recompute", "launch",    "tensor", "context",    "expert",
    "shard",    "parking",   "pipeline", "bubble", "data",      "optimizer", "input",  "stragglers", "fixed"};

// What the ranks of a stage do for one micro-batch, by parts.
Parts parts_of(const PassTimes& pass, const StageShare& stage) {
  Parts sum;
  for (std::size_t k = 0; k < kNumPieces; ++k) {
    if (stage.pieces[k] <= 0) continue;
    Parts both = pass.pieces[k].forward;
    both += pass.pieces[k].backward;
    sum += (both *= stage.pieces[k]);
  }
  return sum;
}

}  // namespace

std::string_view part_name(Part part) { return kPartNames[static_cast<std::size_t>(part)]; }

double Parts::total() const {
  double sum = 0;
  for (const double s : seconds) sum += s;
  return sum;
}

Parts& Parts::operator+=(const Parts& other) {
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += other.seconds[i];
  return *this;
}

Parts& Parts::operator*=(double factor) {
  for (double& s : seconds) s *= factor;
  return *this;
}

StepTime step_time(const spec::Job& job) {
  const ShardTimes shard = shard_times(job);
  const PassTimes pass = pass_times(job, shard);
  const StageShares stages = stage_shares(job);
  const StepSum sum = step_sum(job, shard, pass, stages);
  StepTime step;
  step.micro_batches = sum.micro_batches;
  step.parts = parts_of(pass, stages[sum.slowest]);
  step.parts *= sum.micro_batches * job.stack.physics.pace;
  step.parts[Part::pipeline] = sum.pipeline_s;
  step.parts[Part::bubble] = sum.bubble_s;
  step.parts[Part::stragglers] = sum.stragglers_s;
  step.parts[Part::data] = sum.data_s + sum.tied_s;
  step.parts[Part::optimizer] = sum.optimizer_s;
  step.parts[Part::input] = sum.input_s;
  step.parts[Part::fixed] = job.stack.physics.step_fixed_s;
  step.total_s = sum.total_s;
  step.executed_flop = sum.flop * sum.micro_batches * job.cluster.devices / job.layout.pp;
  return step;
}

}  // namespace twinpod::plan
