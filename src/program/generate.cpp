#include "program/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/check.hpp"
#include "model/arithmetic.hpp"
#include "model/tensors.hpp"
#include "program/blocks.hpp"
#include "program/order.hpp"
#include "program/schedule.hpp"

namespace twinpod::program {
namespace {

// The instance of a pass, by stage, chunk and micro-batch.
struct InstanceIndex {
  int chunks = 1;
  int micro_batches = 1;
  std::vector<int> forward;
  std::vector<int> backward;

  InstanceIndex(const Order& order) : chunks(order.chunks), micro_batches(order.micro_batches) {
    const std::size_t all =
        order.stages.size() * static_cast<std::size_t>(chunks) * static_cast<std::size_t>(micro_batches);
    forward.assign(all, -1);
    backward.assign(all, -1);
  }
  std::size_t at(int stage, int chunk, int micro_batch) const {
    return static_cast<std::size_t>((stage * chunks + chunk)) * static_cast<std::size_t>(micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }
};

struct Generator {
  const spec::Job& job;
  const Order& order;
  Program& program;
  Scene scene;
  InstanceIndex index;
  std::vector<ShapeBuffers> buffers;  // by shape
  std::map<PassKey, int> passes;
  std::map<std::pair<int, int>, int> pairs;
  std::vector<std::pair<StepKey, int>> starts;
  std::vector<std::pair<StepKey, int>> finishes;
  bool gathers_first = false;  // the first forward pass of a chunk gathers its parameters
  bool reduces_last = false;   // the last backward pass of a chunk reduces its gradients
};

int add_block(Program& program, Block block) {
  program.blocks.push_back(std::move(block));
  return static_cast<int>(program.blocks.size()) - 1;
}

void note_data_traffic(Generator& g) {
  const spec::Layout& layout = g.job.layout;
  const layout::Mesh& mesh = g.program.mesh;
  const bool once = gathers_once_a_step(g.job);
  if (layout::size(mesh, layout::Group::data) * layout::size(mesh, layout::Group::expert_data) <= 1) return;
  const bool shards_state = layout.zero == 1 || layout.zero == 2;
  g.gathers_first = once || (g.scene.overlaps && shards_state && layout.servers == 0);
  g.reduces_last = once || (g.scene.overlaps && layout.zero < 3);
}

// The layers of a chunk. `recomputed` counts those of its stage that full recomputation has taken so far.
Shape shape_of(const Generator& g, const Chunk& chunk, int layers, int& recomputed) {
  const spec::Model& model = g.job.model;
  const bool full = g.job.layout.recompute == spec::Recompute::full;
  const int limit = g.job.layout.recompute_layers;
  const auto again = [&] { return full && (limit == 0 || recomputed++ < limit); };
  Shape shape;
  shape.embedding = chunk.position == 0;
  for (int i = chunk.first_layer; i < chunk.first_layer + layers; ++i) {
    shape.layers.push_back({model::is_expert_layer(model, i), model::is_windowed_layer(model, i), again(), false});
  }
  shape.head = chunk.position == num_positions(g.order) - 1;
  const bool windowed = model::num_windowed_layers(model) == model.layers;
  for (int i = 0; shape.head && i < model.mtp_layers; ++i)
    shape.layers.push_back({model.experts.count > 0, windowed, full, true});
  return shape;
}

int shape_index(Generator& g, Shape shape) {
  std::vector<Shape>& all = g.program.shapes;
  const auto same = std::find_if(all.begin(), all.end(), [&](const Shape& other) {
    return other.layers == shape.layers && other.embedding == shape.embedding && other.head == shape.head;
  });
  if (same != all.end()) return static_cast<int>(same - all.begin());
  g.buffers.push_back(add_buffers(g.scene, shape));
  all.push_back(std::move(shape));
  return static_cast<int>(all.size()) - 1;
}

void add_chunks(Generator& g, Kind& kind) {
  spec::Layout by_position = g.job.layout;
  by_position.pp = num_positions(g.order);
  int recomputed = 0;
  for (int c = 0; c < g.order.chunks; ++c) {
    if (g.order.placement == Placement::mirror) recomputed = 0;  // of another copy of the model
    Chunk chunk;
    chunk.position = position(g.order, kind.stage, c);
    const StageLayers own = layers_of_stage(g.job.model.layers, by_position, chunk.position);
    chunk.first_layer = own.first;
    const StageChunk next = at_position(g.order, chunk.position + 1, c);
    const StageChunk previous = at_position(g.order, chunk.position - 1, c);
    chunk.next_stage = next.stage;
    chunk.next_chunk = next.chunk;
    chunk.previous_stage = previous.stage;
    chunk.previous_chunk = previous.chunk;
    chunk.shape = shape_index(g, shape_of(g, chunk, own.count, recomputed));
    kind.chunks.push_back(chunk);
  }
}

// First forward pass of a chunk and last addition to its gradients, by index into the stage's list.
struct ChunkEnds {
  int first = -1;
  int last = -1;
};

std::vector<ChunkEnds> ends_of_chunks(const Generator& g, const std::vector<Action>& list) {
  std::vector<ChunkEnds> ends(static_cast<std::size_t>(g.order.chunks));
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Action& action = list[static_cast<std::size_t>(i)];
    ChunkEnds& own = ends[static_cast<std::size_t>(action.chunk)];
    if (action.phase == Phase::forward && own.first < 0) own.first = i;
    if (action.phase == Phase::backward || action.phase == Phase::backward_weight) own.last = i;
  }
  return ends;
}

PassKey key_of(const Generator& g, const Kind& kind, const Action& action, const ChunkEnds& ends, int at) {
  const Chunk& chunk = kind.chunks[static_cast<std::size_t>(action.chunk)];
  const bool forwards = action.phase == Phase::forward;
  const int from = forwards ? chunk.previous_stage : chunk.next_stage;
  const int to = forwards ? chunk.next_stage : chunk.previous_stage;
  PassKey key;
  key.shape = chunk.shape;
  key.phase = action.phase;
  key.first = at == ends.first && g.gathers_first;
  key.last = at == ends.last && g.reduces_last;
  if (action.phase == Phase::backward_weight) return key;
  key.receives = from >= 0 && from != kind.stage;
  key.enters = from == kind.stage || (from < 0 && !forwards);
  key.sends = to >= 0 && to != kind.stage;
  return key;
}

int pass_index(Generator& g, const PassKey& key) {
  const auto found = g.passes.find(key);
  if (found != g.passes.end()) return found->second;
  const Shape& shape = g.program.shapes[static_cast<std::size_t>(key.shape)];
  const int block =
      add_block(g.program, pass_block(g.scene, shape, g.buffers[static_cast<std::size_t>(key.shape)], key));
  g.passes[key] = block;
  return block;
}

int pair_index(Generator& g, int forward, int backward) {
  const auto found = g.pairs.find({forward, backward});
  if (found != g.pairs.end()) return found->second;
  const std::vector<Block>& blocks = g.program.blocks;
  const int block = add_block(
      g.program, pair_block(blocks[static_cast<std::size_t>(forward)], blocks[static_cast<std::size_t>(backward)]));
  g.pairs[{forward, backward}] = block;
  return block;
}

void note(Generator& g, const Kind& kind, const Action& action, int instance) {
  const std::size_t at = g.index.at(kind.stage, action.chunk, action.micro_batch);
  if (action.phase == Phase::forward) g.index.forward[at] = instance;
  if (action.phase == Phase::backward || action.phase == Phase::backward_input) g.index.backward[at] = instance;
}

void add_passes(Generator& g, Kind& kind) {
  const std::vector<Action>& list = g.order.stages[static_cast<std::size_t>(kind.stage)];
  const std::vector<ChunkEnds> ends = ends_of_chunks(g, list);
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    Instance instance;
    const bool pair = list[static_cast<std::size_t>(i)].beside && i + 1 < static_cast<int>(list.size());
    int blocks[2] = {-1, -1};
    for (int half = 0; half < (pair ? 2 : 1); ++half) {
      const Action& action = *(list.begin() + i + half);
      instance.micro_batch[half] = action.micro_batch;
      instance.chunk[half] = action.chunk;
      const ChunkEnds& own = ends[static_cast<std::size_t>(action.chunk)];
      blocks[half] = pass_index(g, key_of(g, kind, action, own, i + half));
      note(g, kind, action, static_cast<int>(kind.instances.size()));
    }
    instance.block = pair ? pair_index(g, blocks[0], blocks[1]) : blocks[0];
    if (pair) ++i;
    kind.instances.push_back(instance);
  }
}

// With sequence parallelism, what the trainer sums over the tensor-parallel ranks at the end of a step.
double whole_parameters(const Generator& g, const Kind& kind) {
  const spec::Job& job = g.job;
  if (!job.stack.executed || !job.layout.sequence_parallel || job.layout.tp <= 1) return 0;
  const auto whole = [&](const std::vector<model::Tensor>& tensors) {
    return static_cast<double>(model::flat_places(tensors, job.layout.tp, 1).whole);
  };
  double sum = 0;
  for (const Chunk& chunk : kind.chunks) {
    const Shape& shape = g.program.shapes[static_cast<std::size_t>(chunk.shape)];
    if (shape.embedding) sum += whole(model::embedding_tensors(job.model));
    sum += static_cast<double>(shape.layers.size()) * whole(model::layer_tensors(job.model, 0));
    if (shape.head) sum += whole(model::head_tensors(job.model, false));
  }
  return sum;
}

StepKey step_key(const Generator& g, const Kind& kind) {
  StepKey key;
  bool has_end = false;
  for (const Chunk& chunk : kind.chunks) {
    const Shape& shape = g.program.shapes[static_cast<std::size_t>(chunk.shape)];
    const PieceParameters own = shape_parameters(g.job, shape, g.scene.copies_table);
    key.rank.dense += own.dense;
    key.rank.experts += own.experts;
    key.reads = key.reads || shape.embedding;
    has_end = has_end || shape.embedding || shape.head;
  }
  key.ties = has_end && g.scene.copies_table;
  key.mirrors = g.order.placement == Placement::mirror;
  key.whole = whole_parameters(g, kind);
  return key;
}

// The block that begins or ends the step; kinds that hold alike parameters share it.
int step_index(Generator& g, const StepKey& key, bool begins) {
  std::vector<std::pair<StepKey, int>>& known = begins ? g.starts : g.finishes;
  const auto same = std::find_if(known.begin(), known.end(), [&](const auto& other) { return other.first == key; });
  if (same != known.end()) return same->second;
  Shape shape;
  Block block = begins ? start_block(g.scene, key) : finish_block(g.scene, key, shape);
  block.shapes[0] = static_cast<int>(g.program.shapes.size());
  g.program.shapes.push_back(std::move(shape));
  g.buffers.emplace_back();
  known.emplace_back(key, add_block(g.program, std::move(block)));
  return known.back().second;
}

void add_kind(Generator& g, int stage) {
  Kind& kind = g.program.kinds[static_cast<std::size_t>(stage)];
  kind.stage = stage;
  add_chunks(g, kind);
  const StepKey key = step_key(g, kind);
  kind.parameters = key.rank.total();
  kind.expert_parameters = key.rank.experts;
  kind.residents = residents(g.job, key.rank);
  Instance ends;
  if (key.reads) {
    ends.block = step_index(g, key, true);
    kind.instances.push_back(ends);
  }
  add_passes(g, kind);
  ends.block = step_index(g, key, false);
  ends.from[0] = {stage, static_cast<int>(kind.instances.size()) - 1};
  kind.instances.push_back(ends);
}

Phase phase_of_half(const Program& program, const Instance& instance, int half) {
  const Block& block = program.blocks[static_cast<std::size_t>(instance.block)];
  return half == 1 ? Phase::backward : block.phase;
}

// Whom each pass waits for: the pass before it in the model, on whichever stage that is.
void connect(Generator& g) {
  for (Kind& kind : g.program.kinds) {
    for (Instance& instance : kind.instances) {
      for (int half = 0; half < 2; ++half) {
        const int c = instance.chunk[half];
        const int m = instance.micro_batch[half];
        if (c < 0) continue;
        const Chunk& chunk = kind.chunks[static_cast<std::size_t>(c)];
        const Phase phase = phase_of_half(g.program, instance, half);
        if (phase == Phase::backward_weight) continue;
        if (phase == Phase::forward) {
          if (chunk.previous_stage < 0) continue;
          const std::size_t at = g.index.at(chunk.previous_stage, chunk.previous_chunk, m);
          instance.from[half] = {chunk.previous_stage, g.index.forward[at]};
        } else if (chunk.next_stage < 0) {
          instance.from[half] = {kind.stage, g.index.forward[g.index.at(kind.stage, c, m)]};
        } else {
          const std::size_t at = g.index.at(chunk.next_stage, chunk.next_chunk, m);
          instance.from[half] = {chunk.next_stage, g.index.backward[at]};
        }
      }
    }
  }
}

bool splits(const Order& order) {
  return std::any_of(order.stages.begin(), order.stages.end(), [](const std::vector<Action>& list) {
    return std::any_of(list.begin(), list.end(), [](const Action& a) { return a.phase == Phase::backward_weight; });
  });
}

void fill_servers(const spec::Job& job, Program& program) {
  if (job.layout.servers == 0) return;
  PieceParameters mean;
  for (const Kind& kind : program.kinds) {
    mean.dense += (kind.parameters - kind.expert_parameters) / static_cast<double>(program.kinds.size());
    mean.experts += kind.expert_parameters / static_cast<double>(program.kinds.size());
  }
  const ServerVolumes volumes = server_volumes(job, mean);
  program.servers = {job.layout.servers, volumes.parameters, volumes.domains};
}

// A ring spells out every round of every layer.
Result<void> rings_are_short(const spec::Job& job) {
  constexpr double kMostRounds = 1e6;
  const double rounds = static_cast<double>(job.layout.cp) * job.model.layers;
  if (job.layout.context_exchange == spec::ContextExchange::gather || rounds <= kMostRounds) return {};
  return infeasible(fmt::format("program: cp {} × {} layers are {:.0f} rounds of ring attention, more than {:.0f}",
                                job.layout.cp, job.model.layers, rounds, kMostRounds),
                    "try context_exchange gather");
}

// Whoever runs them spells them all out, with some 60 bytes each.
Result<void> ops_are_few(const Program& program) {
  constexpr double kMostOps = 7e6;
  double ops = 0;
  for (const Kind& kind : program.kinds) {
    for (const Instance& instance : kind.instances) {
      ops += static_cast<double>(program.blocks[static_cast<std::size_t>(instance.block)].ops.size());
    }
  }
  if (ops <= kMostOps) return {};
  return infeasible(
      fmt::format("program: {} micro-batches make a step of {:.0f} ops, more than {:.0f}", program.micro_batches, ops,
                  kMostOps),
      fmt::format("a global_batch of at most 1/{:.0f} of this, or a larger micro_batch; `estimate` takes any",
                  std::ceil(ops / kMostOps)));
}

}  // namespace

Result<Program> generate(const spec::Job& job, const layout::AxisOrder& axes) {
  for (const Result<void>& valid : {layout::check(job), rings_are_short(job)}) {
    if (!valid) return tl::unexpected(valid.error());
  }
  const Result<layout::Mesh> mesh = layout::mesh_of(job, axes);
  if (!mesh) return tl::unexpected(mesh.error());
  const Result<Order> order = order_of(job);
  if (!order) return tl::unexpected(order.error());

  Program program;
  program.mesh = *mesh;
  program.micro_batches = order->micro_batches;
  program.chunks = order->chunks;
  program.splits_backward = splits(*order);
  program.validates_later = job.layout.pp > 1 && (job.layout.schedule == spec::Schedule::zb_2p ||
                                                  job.layout.schedule == spec::Schedule::zb_v);
  program.memory_bytes = job.cluster.device.memory_bytes;
  const int end_stage = at_position(*order, num_positions(*order) - 1, 0).stage;
  const bool copies_table = job.model.tied_embeddings && end_stage != 0;
  Generator g{job, *order, program, make_scene(job, program, copies_table), InstanceIndex(*order), {}, {}, {}, {}, {}};
  note_data_traffic(g);
  program.kinds.resize(static_cast<std::size_t>(order->num_stages()));
  for (int stage = 0; stage < order->num_stages(); ++stage) add_kind(g, stage);
  const Result<void> short_enough = ops_are_few(program);
  if (!short_enough) return tl::unexpected(short_enough.error());
  fill_servers(job, program);
  connect(g);
  return program;
}

}  // namespace twinpod::program
