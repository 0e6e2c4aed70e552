#include "program/generate.hpp"

#include <algorithm>
#include <cmath>

#include "layout/check.hpp"
#include "model/arithmetic.hpp"
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
};

int add_block(Program& program, Block block) {
  program.blocks.push_back(std::move(block));
  return static_cast<int>(program.blocks.size()) - 1;
}

bool has_copies(const Program& program) {
  return layout::size(program.mesh, layout::Group::data) > 1 ||
         layout::size(program.mesh, layout::Group::expert_data) > 1;
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
  const bool data = has_copies(g.program);
  key.first = data && at == ends.first;
  key.last = data && at == ends.last;
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
      const Action& action = list[static_cast<std::size_t>(i + half)];
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

// What begins and ends the step. Kinds that hold alike parameters share the blocks.
void add_step(Generator& g, Kind& kind, bool begins, std::vector<std::pair<StepKey, int>>& known) {
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
  kind.parameters = key.rank.total();
  key.ties = has_end && g.scene.copies_table;
  key.mirrors = g.order.placement == Placement::mirror;
  if (begins && !key.reads) return;
  const auto same = std::find_if(known.begin(), known.end(), [&](const auto& other) {
    return other.first.rank.dense == key.rank.dense && other.first.rank.experts == key.rank.experts &&
           other.first.reads == key.reads && other.first.ties == key.ties;
  });
  Instance instance;
  if (same != known.end()) {
    instance.block = same->second;
  } else {
    Shape shape;
    Block block = begins ? start_block(g.scene, key) : finish_block(g.scene, key, shape);
    block.shapes[0] = static_cast<int>(g.program.shapes.size());
    g.program.shapes.push_back(std::move(shape));
    g.buffers.emplace_back();
    instance.block = add_block(g.program, std::move(block));
    known.emplace_back(key, instance.block);
  }
  if (!begins) {
    instance.from[0] = {kind.stage, static_cast<int>(kind.instances.size()) - 1};
    kind.residents = residents(g.job, key.rank);
  }
  kind.instances.push_back(instance);
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

void fill_servers(const spec::Job& job, Program& program, const std::vector<PieceParameters>& ranks) {
  if (job.layout.servers == 0) return;
  PieceParameters mean;
  for (const PieceParameters& rank : ranks) {
    mean.dense += rank.dense / static_cast<double>(ranks.size());
    mean.experts += rank.experts / static_cast<double>(ranks.size());
  }
  const ServerVolumes volumes = server_volumes(job, mean);
  program.servers = {job.layout.servers, volumes.parameters, volumes.domains};
}

}  // namespace

Result<Program> generate(const spec::Job& job, const layout::AxisOrder& axes) {
  const Result<void> valid = layout::check(job);
  if (!valid) return tl::unexpected(valid.error());
  const Result<layout::Mesh> mesh = layout::mesh_of(job, axes);
  if (!mesh) return tl::unexpected(mesh.error());
  const Result<Order> order = order_of(job);
  if (!order) return tl::unexpected(order.error());

  Program program;
  program.mesh = *mesh;
  program.micro_batches = order->micro_batches;
  program.chunks = order->chunks;
  program.splits_backward = splits(*order);
  program.memory_bytes = job.cluster.device.memory_bytes;
  const int end_stage = at_position(*order, num_positions(*order) - 1, 0).stage;
  const bool copies_table = job.model.tied_embeddings && end_stage != 0;
  Generator g{job, *order, program, make_scene(job, program, copies_table), InstanceIndex(*order), {}, {}, {}};
  std::vector<std::pair<StepKey, int>> starts;
  std::vector<std::pair<StepKey, int>> finishes;
  std::vector<PieceParameters> ranks;
  program.kinds.resize(static_cast<std::size_t>(order->num_stages()));
  for (int s = 0; s < order->num_stages(); ++s) {
    Kind& kind = program.kinds[static_cast<std::size_t>(s)];
    kind.stage = s;
    add_chunks(g, kind);
    add_step(g, kind, true, starts);
    add_passes(g, kind);
    add_step(g, kind, false, finishes);
  }
  for (const Kind& kind : program.kinds) {
    PieceParameters sum;
    for (const Chunk& chunk : kind.chunks) {
      const PieceParameters own =
          shape_parameters(job, program.shapes[static_cast<std::size_t>(chunk.shape)], copies_table);
      sum.dense += own.dense;
      sum.experts += own.experts;
    }
    ranks.push_back(sum);
  }
  fill_servers(job, program, ranks);
  connect(g);
  return program;
}

}  // namespace twinpod::program
