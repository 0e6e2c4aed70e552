#include "program/schedule.hpp"

#include <algorithm>
#include <cmath>

namespace twinpod::program {

using spec::Schedule;

namespace {

MicroBatchTime plus(MicroBatchTime one, const MicroBatchTime& other, double times) {
  one.forward += times * other.forward;
  one.backward_input += times * other.backward_input;
  one.backward_weight += times * other.backward_weight;
  return one;
}

struct Pipeline {
  double p = 1;
  double m = 1;
  const std::vector<StageRun>& stages;
  MicroBatchTime all;  // stages together
  MicroBatchTime slowest;
};

Pipeline pipeline_of(const spec::Layout& layout, double micro_batches, const std::vector<StageRun>& stages) {
  Pipeline pipeline{static_cast<double>(layout.pp), micro_batches, stages, {}, {}};
  for (const StageRun& run : stages) {
    pipeline.all = plus(pipeline.all, run.time, run.stages);
    if (run.time.total() > pipeline.slowest.total()) pipeline.slowest = run.time;
  }
  return pipeline;
}

// A stage and what is on either side of it.
struct Place {
  double ahead = 0;     // forward passes that it does before it alternates
  double deferred = 0;  // weight gradients that it puts off
  MicroBatchTime own;
  MicroBatchTime before;
  MicroBatchTime after;
};

// Stage k waits while the first micro-batch goes to the end and comes back, for which it has forward passes of others,
// and while the last one does, for which it has backward passes.
double waits_s(double m, const Place& place, double there_and_back) {
  const double backward = place.own.backward_input + place.own.backward_weight;
  const double first = there_and_back - std::min(place.ahead, m - 1) * place.own.forward;
  const double last = m > place.ahead ? there_and_back - place.ahead * backward : 0;
  return std::max(0.0, first) + std::max(0.0, last);
}

// The step as a stage lives it: it begins when the first micro-batch has come through the stages before it, and ends
// when the last one has gone back through them. None can be faster, and for one of them it is all there is to wait for:
// the step takes as long as the longest of these.
double one_f_one_b_s(const Pipeline& pipeline, const Place& place) {
  return place.before.total() + pipeline.m * place.own.total() + waits_s(pipeline.m, place, place.after.total());
}

// The same, but only F and B are on the way of a micro-batch, and no stage waits for others at the end of the step,
// which counts from a stage's own beginning to its own end. When the last micro-batch leaves stage k there are W left
// to do, and the first stage still has one when it has come back there: the longer of the two.
double zero_bubble_s(const Pipeline& pipeline, const Place& place) {
  const auto passes = [](const MicroBatchTime& time) { return time.forward + time.backward_input; };
  const double left = (std::min(place.deferred, pipeline.m - 1) + 1) * place.own.backward_weight;
  const double of_first = pipeline.stages.front().time.backward_weight;
  return pipeline.m * place.own.total() + waits_s(pipeline.m, place, passes(place.after)) +
         std::max(0.0, passes(place.before) + of_first - left);
}

// The longest over all stages, less the work of the slowest. A stage does `passes` forward passes ahead for each stage
// behind it. Within a run of alike stages the time bends upwards over k, apart from where there are as many passes
// ahead as micro-batches: the ends and that stage tell.
template <typename StepS>
double longest_s(const Pipeline& pipeline, double passes, StepS step_s) {
  double longest = 0;
  double first = 0;
  MicroBatchTime before;
  const double bend = pipeline.p - std::ceil(pipeline.m / passes);
  for (const StageRun& run : pipeline.stages) {
    const double last = first + run.stages - 1;
    const auto look_at = [&](double k) {
      Place place{passes * (pipeline.p - 1 - k), passes * k, run.time, plus(before, run.time, k - first), {}};
      place.after = plus(plus(pipeline.all, place.before, -1), run.time, -1);
      longest = std::max(longest, step_s(pipeline, place));
    };
    look_at(first);
    if (last > first) look_at(last);
    for (const double k : {bend - 1, bend}) {
      if (k > first && k < last) look_at(k);
    }
    before = plus(before, run.time, run.stages);
    first = last + 1;
  }
  return std::max(0.0, longest - pipeline.m * pipeline.slowest.total());
}

// All forward passes, then all backward passes: each wave at the pace of its own slowest stage.
double gpipe_bubble_s(const Pipeline& pipeline) {
  double forward = 0;
  double backward = 0;
  for (const StageRun& run : pipeline.stages) {
    forward = std::max(forward, run.time.forward);
    backward = std::max(backward, run.time.backward_input + run.time.backward_weight);
  }
  const double waves = (pipeline.m - 1) * (forward + backward);
  return std::max(0.0, pipeline.all.total() + waves - pipeline.m * pipeline.slowest.total());
}

// F and `inputs` B of the other stages of a `share` of the pipeline, less `weights` W of the slowest for each of them.
double filled_s(const Pipeline& pipeline, double share, double inputs, double weights) {
  const auto passes = [&](const MicroBatchTime& time) { return time.forward + inputs * time.backward_input; };
  const double others = share * passes(pipeline.all) - passes(pipeline.slowest);
  return std::max(0.0, others - (share * pipeline.p - 1) * weights * pipeline.slowest.backward_weight);
}

}  // namespace

StageLayers layers_of_stage(int layers, const spec::Layout& layout, int stage) {
  const int p = layout.pp;
  const bool uneven = layout.uneven_ends && p > 1;
  const int slots = layers + (uneven ? 2 : 0);
  const int longer = slots % p;  // stages with a layer more than the others
  const int before = layout.remainder_last ? std::max(0, stage - (p - longer)) : std::min(stage, longer);
  const bool is_longer = layout.remainder_last ? stage >= p - longer : stage < longer;
  StageLayers own;
  own.first = stage * (slots / p) + before - (uneven && stage > 0 ? 1 : 0);
  own.count = slots / p + (is_longer ? 1 : 0) - (uneven && (stage == 0 || stage == p - 1) ? 1 : 0);
  return own;
}

std::vector<int> layers_of_stages(int layers, const spec::Layout& layout) {
  std::vector<int> stages;
  stages.reserve(static_cast<std::size_t>(layout.pp));
  for (int stage = 0; stage < layout.pp; ++stage) stages.push_back(layers_of_stage(layers, layout, stage).count);
  return stages;
}

double micro_batches_in_flight(const spec::Layout& layout, double micro_batches, int stage) {
  const double p = layout.pp;
  const double m = micro_batches;
  const double v = std::max(1, layout.virtual_stages);
  const double one_f_one_b = std::min(m, p - stage);
  switch (layout.schedule) {
    case Schedule::gpipe:
      return m;
    case Schedule::one_f_one_b:
    case Schedule::interleaved:
      return v > 1 ? std::min(m, p + (p - 1 - 2 * stage) / v) : one_f_one_b;
    case Schedule::zb_1p:
    case Schedule::zb_v:
      return std::min(m, p);
    case Schedule::zb_2p:
      return std::min(m, 2 * p);
    case Schedule::dualpipe:
      return std::min(m, p + 1);
    case Schedule::dualpipe_v:
      return std::min(m, p > 1 ? p + 0.5 : 1);
    case Schedule::custom:
      return one_f_one_b;
  }
  return one_f_one_b;
}

double bubble_s(const spec::Layout& layout, double micro_batches, const std::vector<StageRun>& stages) {
  const Pipeline pipeline = pipeline_of(layout, micro_batches, stages);
  const double v = std::max(1, layout.virtual_stages);
  switch (layout.schedule) {
    case Schedule::gpipe:
      return gpipe_bubble_s(pipeline);
    case Schedule::one_f_one_b:
    case Schedule::interleaved:
    case Schedule::custom:
      if (v <= 1) return longest_s(pipeline, 1, one_f_one_b_s);
      return (pipeline.all.total() - pipeline.slowest.total()) / v;
    case Schedule::zb_1p:
      return longest_s(pipeline, 1, zero_bubble_s);
    case Schedule::zb_2p:
      return longest_s(pipeline, 2, zero_bubble_s);
    case Schedule::zb_v:
      return filled_s(pipeline, 1, 1, 2);
    case Schedule::dualpipe:
      return filled_s(pipeline, 0.5, 2, 1);
    case Schedule::dualpipe_v:
      return filled_s(pipeline, 1, 2, 1) / 2;
  }
  return 0;
}

}  // namespace twinpod::program
