#include "program/schedule.hpp"

#include <algorithm>

namespace twinpod::program {

using spec::Schedule;

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

double bubble_s(const spec::Layout& layout, const MicroBatchTime& time) {
  const double p = layout.pp;
  const double v = std::max(1, layout.virtual_stages);
  const double f = time.forward;
  const double b = time.backward_input;
  const double w = time.backward_weight;
  switch (layout.schedule) {
    case Schedule::gpipe:
    case Schedule::one_f_one_b:
    case Schedule::interleaved:
    case Schedule::custom:
      return (p - 1) * (f + b + w) / v;
    case Schedule::zb_1p:
      return (p - 1) * std::max(0.0, f + b - w);
    case Schedule::zb_2p:
    case Schedule::zb_v:
      return (p - 1) * std::max(0.0, f + b - 2 * w);
    case Schedule::dualpipe:
      return std::max(0.0, p / 2 - 1) * std::max(0.0, f + 2 * b - w);
    case Schedule::dualpipe_v:
      return (p - 1) * std::max(0.0, f + 2 * b - w) / 2;
  }
  return 0;
}

}  // namespace twinpod::program
