// Makes the blocks of a Program: what a stage does with one micro-batch of a chunk, and what begins and ends a step.
// Inside of `generate`.
#pragma once

#include <initializer_list>
#include <map>
#include <tuple>
#include <vector>

#include "model/activation.hpp"
#include "program/program.hpp"
#include "program/state.hpp"
#include "program/volume.hpp"
#include "program/work.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

// Indices of a layer's works in Program::works, by segment and phase.
struct SegmentWorks {
  int whole[5] = {-1, -1, -1, -1, -1};  // by Phase, up to recompute
  int before[5] = {-1, -1, -1, -1, -1};
  int attention[5] = {-1, -1, -1, -1, -1};
  int after[5] = {-1, -1, -1, -1, -1};
};

struct LayerScene {
  bool ready = false;
  LayerPlan plan;
  std::vector<SegmentWorks> works;
  int cheap_work = -1;
  int products_work = -1;
  PieceParameters parameters;
  PieceParameters sharded;  // as ZeRO-3 gathers them
  double stored_bytes = 0;
  double kept_bytes = 0;  // stored where nothing is recomputed
  double working_bytes = 0;
};

// What all blocks of a job have in common.
struct Scene {
  const spec::Job& job;
  Program& program;
  model::Shard shard;
  model::ActivationRules rules;
  ParameterBytes bytes;
  LayerScene layers[8];        // by experts, windowed, predicts
  bool copies_table = false;   // embedding and head are tied, but on different stages
  bool overlaps = false;       // gradient traffic runs beside the passes
  double recompute_share = 1;  // of the forward pass that full recomputation does again
  double transfer_bytes = 0;   // to the next stage
  int embedding_works[5] = {-1, -1, -1, -1, -1};
  int head_works[5] = {-1, -1, -1, -1, -1};
};

Scene make_scene(const spec::Job& job, Program& program, bool copies_table);
const LayerScene& layer_scene(Scene& scene, const Layer& layer);

// Adds ops to a block.
struct Builder {
  Block block;
  int last = -1;          // the op that the next one of the chain waits for
  bool enters = false;    // the next one of the chain is an entry
  std::vector<int> also;  // for which the next one of the chain waits too
  struct Touch {
    std::vector<int> waits, creates, frees, uses;
  };
  std::vector<Touch> touches;  // by op

  // Appends an op that waits for `waits` (entries below 0 are left out); returns its index.
  int add(const Op& op, std::initializer_list<int> waits = {});
  // The same, and the chain goes on behind it.
  int chain(const Op& op);
  void create(int op, int buffer);
  void free(int op, int buffer);
  void use(int op, int buffer);
};

// Ranges of creates and frees must be contiguous in Block::buffers, so they are laid down when the block is done.
Block finish(Builder& builder);

// The buffers of a shape, by what they are for; -1: there is none.
struct LayerBuffers {
  int stored = -1;
  int returned = -1;        // activations that come back from the host
  int returned_again = -1;  // for a weight half that stands apart
  int working = -1;
  int passing = -1;         // what the forward pass of the trainer makes and drops
  int gathered = -1;        // parameters, for the forward pass
  int gathered_again = -1;  // for the backward pass
  int gradients = -1;       // before they are scattered
};

struct ShapeBuffers {
  std::vector<LayerBuffers> layers;
  LayerBuffers embedding;
  LayerBuffers head;
};

// Fills Shape::buffers.
ShapeBuffers add_buffers(Scene& scene, Shape& shape);

// What of a chunk's pass depends on its place in the pipeline and in the step.
struct PassKey {
  int shape = 0;
  Phase phase = Phase::forward;
  bool receives = false;  // from another stage
  bool enters = false;    // waits for an instance of its own stage
  bool sends = false;
  bool first = false;  // micro-batch of the step, of this chunk
  bool last = false;   // contribution to the chunk's gradients
  auto tied() const { return std::tie(shape, phase, receives, enters, sends, first, last); }
  bool operator<(const PassKey& other) const { return tied() < other.tied(); }
};

Block pass_block(Scene& scene, const Shape& shape, const ShapeBuffers& buffers, const PassKey& key);

// Two passes side by side: their ops in turn, segment by segment.
Block pair_block(const Block& forward, const Block& backward);

// What a stage does before its first and after its last pass.
struct StepKey {
  PieceParameters rank;  // of all its chunks
  bool reads = false;    // training data
  bool ties = false;     // it holds one end of a tied embedding
  bool mirrors = false;  // another stage holds a copy of its chunks (DualPipe)
  double whole =
      0;  // sequence parallelism: parameters that all tensor-parallel ranks hold, each with a part of their gradient
  bool operator==(const StepKey& other) const {
    return rank.dense == other.rank.dense && rank.experts == other.rank.experts && reads == other.reads &&
           ties == other.ties && mirrors == other.mirrors && whole == other.whole;
  }
};
Block start_block(Scene& scene, const StepKey& key);
Block finish_block(Scene& scene, const StepKey& key, Shape& shape);

ElementType element_of(double bytes);

// Gradient and parameter traffic of one bucket, as ops without waits: reductions first or gathers only.
std::vector<Op> data_ops(const spec::Job& job, const PieceParameters& parameters, bool gathers);

// Layers of one kind's pass (program/blocks_layer.cpp).
struct LayerPass {
  Scene& scene;
  const LayerScene& layer;
  const LayerBuffers& buffers;
  Builder& builder;
  int index = 0;
  bool recomputes_all = false;
};
void add_layer_forward(LayerPass& pass, Phase phase);
void add_layer_backward(LayerPass& pass, Phase phase);  // backward or backward_input
void add_layer_weights(LayerPass& pass);

}  // namespace twinpod::program
