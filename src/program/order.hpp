// The order in which each stage works on micro-batches: a pipeline schedule spelled out, without any work in it.
//
//     const Order order = one_f_one_b(4, 8);
//     order.stages[3][0]                                  // stage 3 begins with the forward pass of micro-batch 0
//     const Slots slots = run_slots(order, {1, 1, 1});    // when each action runs, if passes take unit time
//     slots.bubble(3)                                     // slots in which stage 3 idles
//
// Letters as in schedule.hpp: p stages, v chunks of a stage, m micro-batches, F forward, B backward, W its weight half.
// Sources: GPipe (Huang 2018), 1F1B and interleaved (Narayanan 2021), ZB-H1, ZB-H2 and ZB-V (Qi 2023, Qi 2024),
// DualPipe (DeepSeek-V3's report and its published scheduler), DualPipeV (Sea AI Lab's cut-in-half of it).
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "program/program.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

struct Action {
  Phase phase = Phase::forward;  // forward, backward, backward_input or backward_weight
  int micro_batch = 0;
  int chunk = 0;
  bool beside = false;  // a forward pass that runs beside the backward pass behind it in the list
  bool operator==(const Action&) const = default;
};

// How the chunks of all stages make up the model.
enum class Placement {
  loop,   // chunk c of stage s is number c p + s
  v,      // chunk 0 goes down the stages, chunk 1 comes back: numbers s and 2 p - 1 - s
  mirror  // two copies of the model that run against each other: chunk 0 is number s, chunk 1 number p - 1 - s
};

struct Order {
  Placement placement = Placement::loop;
  int chunks = 1;         // of a stage
  int micro_batches = 0;  // mirror: the first half of them goes down with chunk 0, the others come up with chunk 1
  std::vector<std::vector<Action>> stages;
  int num_stages() const { return static_cast<int>(stages.size()); }
};

Order gpipe(int stages, int micro_batches);
Order one_f_one_b(int stages, int micro_batches);
Order interleaved(int stages, int chunks, int micro_batches);
Order zb_h1(int stages, int micro_batches);
Order zb_h2(int stages, int micro_batches);
Order zb_v(int stages, int micro_batches);
Order dualpipe(int stages, int micro_batches);    // REQUIRES: stages even, micro_batches even and >= 2 stages
Order dualpipe_v(int stages, int micro_batches);  // REQUIRES: micro_batches >= 2 stages

// Of a file: a head line `stage,order,phase,micro_batch,chunk` and one line for each action, phases F, B and W. Where
// there is no W, B is the whole backward pass. `order` sorts the actions of a stage. Refuses, with the line, what is
// no whole step: something missing, twice, or in an order that can never run.
Result<Order> read_order(const std::string& text, const std::string& file, const spec::Job& job);

// What the layout's schedule asks for. REQUIRES: a job that passed layout::check.
Result<Order> order_of(const spec::Job& job);

// Where a chunk stands: its place along the model.
int position(const Order& order, int stage, int chunk);
int num_positions(const Order& order);
struct StageChunk {
  int stage = -1;
  int chunk = -1;
};
// The chunk at a position; with `mirror` of the copy that `chunk` belongs to. Stage -1: beyond an end.
StageChunk at_position(const Order& order, int position, int chunk);

// Slots that a pass of one chunk takes.
struct SlotWeights {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

struct Slot {
  double start = 0;
  double end = 0;
};

// Each stage runs its list as early as its order and the model allow; transfers take no time.
struct Slots {
  std::vector<std::vector<Slot>> stages;  // as in Order
  double makespan = 0;
  double busy(int stage) const;
  double bubble(int stage) const { return makespan - busy(stage); }
  // Bubble of a stage between its own first and last action: what remains when steps follow each other without a stop.
  double inner_bubble(int stage) const;
};

// Refuses an order that never ends, naming who waits for what.
Result<Slots> run_slots(const Order& order, const SlotWeights& weights);

// Chunks of micro-batches whose activations a stage holds at its peak: from F to the end of its backward pass.
int most_in_flight(const Order& order, int stage);

}  // namespace twinpod::program
