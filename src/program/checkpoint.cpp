#include "program/checkpoint.hpp"

#include <algorithm>
#include <map>

#include "program/blocks.hpp"
#include "program/state.hpp"

namespace twinpod::program {
namespace {

// 8-bit copies are made anew from what is saved, and our trainer makes its 16-bit copy anew from the fp32 one.
double saved_bytes(const spec::Job& job) {
  const ParameterBytes bytes = bytes_of_parameter(job);
  if (job.stack.executed && !spec::is_wide(job.training.precision) && !job.training.pure_low_precision)
    return bytes.optimizer;
  const bool narrow = spec::is_narrow(job.training.precision) && job.layout.zero < 3;
  return (narrow ? kHalfBytes : bytes.parameter) + bytes.optimizer;
}

// How many stages hold the chunk at each position of the model: two with DualPipe.
std::map<int, double> holders_of_positions(const Program& program) {
  std::map<int, double> holders;
  for (const Kind& kind : program.kinds) {
    for (const Chunk& chunk : kind.chunks) holders[chunk.position] += 1;
  }
  return holders;
}

Op idle_op(Lane lane) {
  Op op;
  op.lane = lane;
  op.phase = Phase::update;
  op.segment = Segment::boundary;
  return op;
}

// All come here; then no lane goes on before the boundary is over. A block of its own for that has no buffers.
Block boundary_block(const Program& step) {
  Builder builder;
  builder.block.phase = Phase::update;
  builder.enters = true;
  Op meet = idle_op(Lane::compute);
  if (!step.validates_later && step.mesh.ranks() > 1) {
    meet.kind = OpKind::collective;
    meet.verb = collective::Verb::barrier;
    meet.group = layout::Group::world;
  }
  const int met = builder.chain(meet);
  for (const Lane lane : {Lane::tensor, Lane::pipe, Lane::data, Lane::host}) builder.add(idle_op(lane), {met});
  return finish(builder);
}

Op write_op(Lane lane, Tier tier, double bytes) {
  Op op = idle_op(lane);
  op.kind = OpKind::write;
  op.segment = Segment::checkpoint;
  op.tier = tier;
  op.bytes = bytes;
  op.element = ElementType::fp32;
  return op;
}

Block snapshot_block(double bytes) {
  Builder builder;
  builder.block.phase = Phase::update;
  builder.enters = true;
  builder.chain(write_op(Lane::host, Tier::host_memory, bytes));
  return finish(builder);
}

// Behind the snapshot.
Block drain_block(double bytes, const std::vector<Tier>& tiers) {
  Builder builder;
  builder.block.phase = Phase::update;
  builder.enters = true;
  for (const Tier tier : tiers) builder.chain(write_op(Lane::drain, tier, bytes));
  return finish(builder);
}

// Computation goes on when the snapshot is done.
Block hold_block() {
  Builder builder;
  builder.block.phase = Phase::update;
  builder.enters = true;
  builder.chain(idle_op(Lane::compute));
  return finish(builder);
}

int add_block(Program& program, Block block) {
  block.shapes[0] = static_cast<int>(program.shapes.size());
  program.shapes.emplace_back();
  program.blocks.push_back(std::move(block));
  return static_cast<int>(program.blocks.size()) - 1;
}

// Writes the list of a kind, step by step. The next update waits for the snapshot: an instance that holds computation
// stands in front of the last one of the next step, or in front of its first.
struct Writer {
  const Program& step;
  const CheckpointSteps& what;
  Steps& steps;
  int boundary_block = 0;
  int hold_block = 0;

  std::vector<Instance>& list(int kind) const { return steps.program.kinds[static_cast<std::size_t>(kind)].instances; }
  int num_instances(int kind) const { return steps.num_instances[static_cast<std::size_t>(kind)]; }
  bool saved_behind(int s) const {
    return std::find(steps.checkpoints.begin(), steps.checkpoints.end(), s) != steps.checkpoints.end();
  }
  // The first instance of a step that comes from the Program.
  int first_of(int kind, int s) const { return steps.boundary(kind, s) - num_instances(kind) - held_inside(s); }
  int held_inside(int s) const { return what.beside && saved_behind(s - 1) ? 1 : 0; }

  // The instance stands behind another one of its kind; -1: behind none.
  void add(int kind, int block, int before) const {
    Instance instance;
    instance.block = block;
    if (before >= 0) instance.from[0] = {kind, before};
    list(kind).push_back(instance);
  }

  void add_step(int kind, int s) const {
    const std::vector<Instance>& own = step.kinds[static_cast<std::size_t>(kind)].instances;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (i + 1 == own.size() && held_inside(s) > 0) add(kind, hold_block, last_snapshot(kind, s));
      Instance instance = own[i];
      for (Source& source : instance.from) {
        if (source.kind >= 0) source.instance += first_of(source.kind, s);
      }
      list(kind).push_back(instance);
    }
    add(kind, boundary_block, static_cast<int>(list(kind).size()) - 1);
  }

  int last_snapshot(int kind, int s) const {
    const auto before = std::lower_bound(steps.checkpoints.begin(), steps.checkpoints.end(), s);
    return steps.snapshot(kind, static_cast<int>(before - steps.checkpoints.begin()) - 1);
  }

  void add_checkpoint(int kind, int number, int snapshot_block, int drain_block) const {
    int before = -1;
    if (number > 0) before = what.tiers.empty() ? steps.snapshot(kind, number - 1) : steps.drain(kind, number - 1);
    add(kind, snapshot_block, before);
    const int snapshot = static_cast<int>(list(kind).size()) - 1;
    if (drain_block >= 0) add(kind, drain_block, snapshot);
    if (!what.beside) add(kind, hold_block, snapshot);
  }
};

}  // namespace

CheckpointBytes checkpoint_bytes(const spec::Job& job, const Program& program) {
  const double saved = saved_bytes(job);
  const double copies = static_cast<double>(spec::data_parallel(job)) * job.layout.cp;
  const std::map<int, double> holders = holders_of_positions(program);
  CheckpointBytes bytes;
  for (const Kind& kind : program.kinds) {
    double parameters = 0;
    for (const Chunk& chunk : kind.chunks) {
      // A tied table is saved where the embedding stands.
      const PieceParameters own =
          shape_parameters(job, program.shapes[static_cast<std::size_t>(chunk.shape)], /*copies_table=*/false);
      parameters += (own.dense / copies + own.experts / expert_shard_ranks(job)) / holders.at(chunk.position);
    }
    bytes.of_rank.push_back(saved * parameters);
    bytes.all += bytes.of_rank.back() * program.ranks_of_kind();
  }
  return bytes;
}

int Steps::boundary(int kind, int step) const {
  const auto before = std::lower_bound(checkpoints.begin(), checkpoints.end(), step) - checkpoints.begin();
  // A checkpoint has a snapshot, one that holds computation, and a drain. The one that holds is a part of the next step
  // or stands before it; either way it comes before that step's boundary.
  const int of_checkpoint = drains ? 3 : 2;
  return (step + 1) * (num_instances[static_cast<std::size_t>(kind)] + 1) - 1 +
         static_cast<int>(before) * of_checkpoint;
}

int Steps::snapshot(int kind, int checkpoint) const {
  return boundary(kind, checkpoints[static_cast<std::size_t>(checkpoint)]) + 1;
}

Steps with_checkpoints(const Program& step, const CheckpointBytes& bytes, const CheckpointSteps& what) {
  Steps steps;
  steps.program = step;
  steps.num_step_blocks = static_cast<int>(step.blocks.size());
  steps.num_steps = what.steps;
  steps.drains = !what.tiers.empty();
  for (int s = 0; s < what.steps; s += what.every) {
    steps.checkpoints.push_back(s);
    if (what.every <= 0) break;
  }
  for (const Kind& kind : step.kinds) steps.num_instances.push_back(static_cast<int>(kind.instances.size()));
  const int boundary = add_block(steps.program, boundary_block(step));
  const Writer writer{step, what, steps, boundary, add_block(steps.program, hold_block())};
  std::map<double, std::pair<int, int>> blocks;  // stages that save as much share them
  for (int k = 0; k < static_cast<int>(step.kinds.size()); ++k) {
    const double own = bytes.of_rank[static_cast<std::size_t>(k)];
    if (!blocks.contains(own)) {
      const int snapshot = add_block(steps.program, snapshot_block(own));
      blocks[own] = {snapshot, steps.drains ? add_block(steps.program, drain_block(own, what.tiers)) : -1};
    }
    writer.list(k).clear();
    int saved = 0;
    for (int s = 0; s < what.steps; ++s) {
      writer.add_step(k, s);
      if (writer.saved_behind(s)) writer.add_checkpoint(k, saved++, blocks[own].first, blocks[own].second);
    }
  }
  return steps;
}

}  // namespace twinpod::program
