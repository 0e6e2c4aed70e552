// Pipeline schedules: how many micro-batches a stage holds, and how long its bubble is.
//
// The generator of steps and the closed form both read these, so a schedule is described once.
// Letters: p stages, v chunks of a stage, m micro-batches, F forward, B backward of inputs, W backward of weights
// (seconds of one micro-batch in one stage).
#pragma once

#include <vector>

#include "spec/job.hpp"

namespace twinpod::program {

// Layers of each stage (all its chunks together). Layers that do not divide go to the first stages, one each, or with
// `remainder_last` to the last ones; with `uneven_ends` embedding and head count as a layer of the first and the last
// stage.
std::vector<int> layers_of_stages(int layers, const spec::Layout& layout);

// The same of one stage, without a list: its first layer and how many it holds.
struct StageLayers {
  int first = 0;
  int count = 0;
};
StageLayers layers_of_stage(int layers, const spec::Layout& layout, int stage);

// Micro-batches (in units of the stage's whole share of layers) whose activations stage `stage` holds at its peak.
//   GPipe: m. 1F1B: min(m, p - stage). Interleaved: p + (p - 1 - 2 stage)/v, which is 1F1B's times 1 + (p-1)/(p v) on
//   the first stage (Korthikanti 2022, section 5). ZB-1p, ZB-V: p on every stage; ZB-2p: 2 p (the memory that their
//   schedulers are given; Qi 2023, table 4). DualPipe: p + 1 (both directions).
//   DualPipeV: 2 p + 1 chunks of half the size. A custom schedule is its Program's to say; here it counts as 1F1B.
double micro_batches_in_flight(const spec::Layout& layout, double micro_batches, int stage);

struct MicroBatchTime {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double total() const { return forward + backward_input + backward_weight; }
};

// Time that a rank idles in a step with equal stages of the given mean time.
//   GPipe, 1F1B: (p-1)(F+B+W). Interleaved: that / v (Narayanan 2021). ZB-1p (ZB-H1): (p-1)(F+B-W);
//   ZB-2p (ZB-H2), ZB-V: (p-1)(F+B-2W) (Qi 2023). DualPipe: (p/2-1)(F+2B-W): DeepSeek-V3's
//   (p/2-1)(F&B + B' - 3W) with B' = B + W the whole backward pass and a pair F&B that takes F + B'.
//   DualPipeV: the same of 2 p chunks, each of half the time.
double bubble_s(const spec::Layout& layout, const MicroBatchTime& time);

}  // namespace twinpod::program
