#include "program/order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/files.hpp"
#include "layout/check.hpp"

namespace twinpod::program {
namespace {

using spec::Schedule;

constexpr double kMostPasses = 3e6;  // that a step can be spelled out in

Order empty_order(int stages, int chunks, int micro_batches, Placement placement) {
  Order order;
  order.placement = placement;
  order.chunks = chunks;
  order.micro_batches = micro_batches;
  order.stages.resize(static_cast<std::size_t>(stages));
  return order;
}

void add(std::vector<Action>& list, Phase phase, int micro_batch, int chunk = 0) {
  list.push_back({phase, micro_batch, chunk, false});
}

// `warmup` forward passes, then forward and backward in turn, then what is left. The weight half of a backward pass is
// put off until `deferred` more backward passes are done; -1: the passes are not split.
std::vector<Action> alternating(int micro_batches, int warmup, int deferred) {
  std::vector<Action> list;
  const bool split = deferred >= 0;
  int weights = 0;
  for (int i = 0; i < warmup; ++i) add(list, Phase::forward, i);
  for (int i = 0; i < micro_batches; ++i) {
    if (i + warmup < micro_batches) add(list, Phase::forward, i + warmup);
    add(list, split ? Phase::backward_input : Phase::backward, i);
    if (split && i >= deferred) add(list, Phase::backward_weight, weights++);
  }
  while (split && weights < micro_batches) add(list, Phase::backward_weight, weights++);
  return list;
}

// The k-th pass of an interleaved stage: rounds of p micro-batches go through all chunks.
Action interleaved_pass(int k, int stages, int chunks, Phase phase) {
  const int round = stages * chunks;
  const int chunk = k % round / stages;
  return {phase, k / round * stages + k % stages, phase == Phase::forward ? chunk : chunks - 1 - chunk, false};
}

// Counts of what a stage of a V has begun, by chunk.
struct VCounts {
  int forward[2] = {0, 0};
  int backward[2] = {0, 0};
  int weight[2] = {0, 0};
};

struct VList {
  std::vector<Action> list;
  VCounts counts;
  int micro_batches = 0;

  // Micro-batches beyond the last fill the pattern of a short step; they are left out.
  void put(Phase phase, int micro_batch, int chunk) {
    if (micro_batch < micro_batches) add(list, phase, micro_batch, chunk);
  }
  void forward(int chunk) { put(Phase::forward, counts.forward[chunk]++, chunk); }
  void backward(int chunk) { put(Phase::backward_input, counts.backward[chunk]++, chunk); }
  void weight(int chunk) { put(Phase::backward_weight, counts.weight[chunk]++, chunk); }
  void whole(int chunk) {
    backward(chunk);
    weight(chunk);
  }
};

// Qi 2024: chunk 0 fills the V, chunk 1 comes back beside it, then F0 B0 W0 F1 B1 W1 in turn, and what is left.
std::vector<Action> v_stage(int stage, int stages, int micro_batches) {
  VList v;
  v.micro_batches = micro_batches;
  const int all = std::max(micro_batches, 2 * stages - 1);
  for (int i = 0; i < 2 * (stages - stage) - 1; ++i) v.forward(0);
  for (int i = 0; i < stage; ++i) {
    v.forward(1);
    v.forward(0);
  }
  for (int i = 0; i < stages - stage; ++i) {
    v.forward(1);
    v.whole(1);
  }
  while (v.counts.forward[1] < v.counts.forward[0] || v.counts.forward[0] < all) {
    if (v.counts.forward[0] < all) v.forward(0);
    v.whole(0);
    v.forward(1);
    v.whole(1);
  }
  for (int i = 0; i < stage; ++i) {
    v.backward(0);
    v.backward(1);
  }
  for (int i = 0; i < stages - stage; ++i) v.whole(0);
  while (v.counts.weight[1] < v.counts.backward[1]) v.weight(1);
  while (v.counts.weight[0] < v.counts.backward[0]) v.weight(0);
  return std::move(v.list);
}

}  // namespace

Order gpipe(int stages, int micro_batches) {
  Order order = empty_order(stages, 1, micro_batches, Placement::loop);
  for (std::vector<Action>& list : order.stages) {
    for (int i = 0; i < micro_batches; ++i) add(list, Phase::forward, i);
    for (int i = 0; i < micro_batches; ++i) add(list, Phase::backward, i);
  }
  return order;
}

Order one_f_one_b(int stages, int micro_batches) {
  Order order = empty_order(stages, 1, micro_batches, Placement::loop);
  for (int s = 0; s < stages; ++s)
    order.stages[static_cast<std::size_t>(s)] = alternating(micro_batches, std::min(micro_batches, stages - s - 1), -1);
  return order;
}

Order interleaved(int stages, int chunks, int micro_batches) {
  Order order = empty_order(stages, chunks, micro_batches, Placement::loop);
  const int all = micro_batches * chunks;
  for (int s = 0; s < stages; ++s) {
    std::vector<Action>& list = order.stages[static_cast<std::size_t>(s)];
    const int warmup = std::min(all, 2 * (stages - s - 1) + (chunks - 1) * stages);
    for (int k = 0; k < warmup; ++k) list.push_back(interleaved_pass(k, stages, chunks, Phase::forward));
    for (int k = 0; k < all; ++k) {
      if (k + warmup < all) list.push_back(interleaved_pass(k + warmup, stages, chunks, Phase::forward));
      list.push_back(interleaved_pass(k, stages, chunks, Phase::backward));
    }
  }
  return order;
}

// A stage puts off as many weight gradients as its place, so that all hold p micro-batches, as the first of 1F1B does.
Order zb_h1(int stages, int micro_batches) {
  Order order = empty_order(stages, 1, micro_batches, Placement::loop);
  for (int s = 0; s < stages; ++s)
    order.stages[static_cast<std::size_t>(s)] = alternating(micro_batches, std::min(micro_batches, stages - s - 1), s);
  return order;
}

// The same with twice the memory: enough forward passes at the start that no stage ever waits.
Order zb_h2(int stages, int micro_batches) {
  Order order = empty_order(stages, 1, micro_batches, Placement::loop);
  for (int s = 0; s < stages; ++s) {
    const int warmup = std::min(micro_batches, 2 * (stages - s - 1));
    order.stages[static_cast<std::size_t>(s)] = alternating(micro_batches, warmup, 2 * s);
  }
  return order;
}

Order zb_v(int stages, int micro_batches) {
  Order order = empty_order(stages, 2, micro_batches, Placement::v);
  for (int s = 0; s < stages; ++s) order.stages[static_cast<std::size_t>(s)] = v_stage(s, stages, micro_batches);
  return order;
}

Result<Order> order_of(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  const int p = layout.pp;
  const int m = static_cast<int>(spec::micro_batches(job));
  const double passes = 3.0 * p * m * std::max(2, layout.virtual_stages);
  if (passes > kMostPasses) {
    return infeasible(
        fmt::format("program: {} stages with {} micro-batches make a list of up to {:.0f} passes, more than "
                    "{:.0f}",
                    p, m, passes, kMostPasses),
        "try a larger micro_batch or a smaller global_batch");
  }
  if (layout.schedule == Schedule::custom) {
    const Result<std::string> text = read_file(job.schedule_file, kMostTextBytes, "a schedule as CSV");
    if (!text) return tl::unexpected(text.error());
    return read_order(*text, job.schedule_file, job);
  }
  if (p == 1) return layout.schedule == Schedule::gpipe ? gpipe(1, m) : one_f_one_b(1, m);
  switch (layout.schedule) {
    case Schedule::gpipe:
      return gpipe(p, m);
    case Schedule::zb_1p:
      return zb_h1(p, m);
    case Schedule::zb_2p:
      return zb_h2(p, m);
    case Schedule::zb_v:
      return zb_v(p, m);
    case Schedule::dualpipe:
      return dualpipe(p, m);
    case Schedule::dualpipe_v:
      return dualpipe_v(p, m);
    default:
      return layout.virtual_stages > 1 ? interleaved(p, layout.virtual_stages, m) : one_f_one_b(p, m);
  }
}

int num_positions(const Order& order) {
  return order.placement == Placement::mirror ? order.num_stages() : order.num_stages() * order.chunks;
}

int position(const Order& order, int stage, int chunk) {
  const int p = order.num_stages();
  switch (order.placement) {
    case Placement::loop:
      return chunk * p + stage;
    case Placement::v:
      return chunk == 0 ? stage : 2 * p - 1 - stage;
    case Placement::mirror:
      return chunk == 0 ? stage : p - 1 - stage;
  }
  return 0;
}

StageChunk at_position(const Order& order, int position, int chunk) {
  const int p = order.num_stages();
  if (position < 0 || position >= num_positions(order)) return {};
  switch (order.placement) {
    case Placement::loop:
      return {position % p, position / p};
    case Placement::v:
      return position < p ? StageChunk{position, 0} : StageChunk{2 * p - 1 - position, 1};
    case Placement::mirror:
      return {chunk == 0 ? position : p - 1 - position, chunk};
  }
  return {};
}

}  // namespace twinpod::program
