#include "program/checkpoint.hpp"

#include <algorithm>
#include <map>

#include "program/blocks.hpp"
#include "program/state.hpp"

namespace twinpod::program {
namespace {

// 8-bit copies are made anew from what is saved.
double saved_bytes(const spec::Job& job) {
  const ParameterBytes bytes = bytes_of_parameter(job);
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

Block checkpoint_block(double bytes, const std::vector<Tier>& tiers) {
  Builder builder;
  builder.block.phase = Phase::update;
  builder.enters = true;
  const int snapshot = builder.chain(write_op(Lane::host, Tier::host_memory, bytes));
  builder.add(idle_op(Lane::compute), {snapshot});
  for (const Tier tier : tiers) builder.add(write_op(Lane::drain, tier, bytes), {snapshot});
  return finish(builder);
}

int add_block(Program& program, Block block) {
  block.shapes[0] = static_cast<int>(program.shapes.size());
  program.shapes.emplace_back();
  program.blocks.push_back(std::move(block));
  return static_cast<int>(program.blocks.size()) - 1;
}

int checkpoints_before(const std::vector<int>& checkpoints, int step) {
  return static_cast<int>(std::count_if(checkpoints.begin(), checkpoints.end(), [&](int c) { return c < step; }));
}

// Where the instances of a step begin in the list of a kind.
int first_instance(const Steps& steps, int kind, int step) {
  return step * (steps.num_instances[static_cast<std::size_t>(kind)] + 1) + checkpoints_before(steps.checkpoints, step);
}

void add_step(Steps& steps, const Program& step, int kind, int number) {
  std::vector<Instance>& list = steps.program.kinds[static_cast<std::size_t>(kind)].instances;
  for (Instance instance : step.kinds[static_cast<std::size_t>(kind)].instances) {
    for (Source& source : instance.from) {
      if (source.kind >= 0) source.instance += first_instance(steps, source.kind, number);
    }
    list.push_back(instance);
  }
}

// The instance stands behind another one of its kind; -1: behind none.
Instance behind(int block, int kind, int before) {
  Instance instance;
  instance.block = block;
  if (before >= 0) instance.from[0] = {kind, before};
  return instance;
}

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
  return first_instance(*this, kind, step) + num_instances[static_cast<std::size_t>(kind)];
}

int Steps::checkpoint(int kind, int number) const {
  return boundary(kind, checkpoints[static_cast<std::size_t>(number)]) + 1;
}

Steps with_checkpoints(const Program& step, const CheckpointBytes& bytes, const CheckpointSteps& what) {
  Steps steps;
  steps.program = step;
  steps.num_step_blocks = static_cast<int>(step.blocks.size());
  steps.num_steps = what.steps;
  for (int s = 0; what.saves && s < what.steps; s += what.every) {
    steps.checkpoints.push_back(s);
    if (what.every <= 0) break;
  }
  for (const Kind& kind : step.kinds) steps.num_instances.push_back(static_cast<int>(kind.instances.size()));
  const int boundary = add_block(steps.program, boundary_block(step));
  std::map<double, int> blocks;  // stages that save as much share one
  for (int k = 0; k < static_cast<int>(step.kinds.size()); ++k) {
    const double own = bytes.of_rank[static_cast<std::size_t>(k)];
    if (what.saves && !blocks.contains(own)) {
      blocks[own] = add_block(steps.program, checkpoint_block(own, what.tiers));
    }
    std::vector<Instance>& list = steps.program.kinds[static_cast<std::size_t>(k)].instances;
    list.clear();
    int last = -1;  // checkpoint
    for (int s = 0; s < what.steps; ++s) {
      add_step(steps, step, k, s);
      list.push_back(behind(boundary, k, static_cast<int>(list.size()) - 1));
      if (std::find(steps.checkpoints.begin(), steps.checkpoints.end(), s) == steps.checkpoints.end()) continue;
      list.push_back(behind(blocks[own], k, last));
      last = static_cast<int>(list.size()) - 1;
    }
  }
  return steps;
}

}  // namespace twinpod::program
