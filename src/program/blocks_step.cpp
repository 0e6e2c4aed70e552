// What belongs to the step as a whole: training data, reductions that nothing hides, the optimizer's update.
#include <cmath>

#include "cluster/network.hpp"
#include "program/blocks.hpp"

namespace twinpod::program {
namespace {

using collective::Verb;
using layout::Group;

Op step_op(OpKind kind, Lane lane, double bytes, ElementType element) {
  Op op;
  op.kind = kind;
  op.lane = lane;
  op.phase = Phase::update;
  op.segment = Segment::optimizer;
  op.bytes = bytes;
  op.element = element;
  return op;
}

void reduce(Scene& scene, Builder& builder, Group group, double bytes) {
  if (layout::size(scene.program.mesh, group) <= 1 || bytes <= 0) return;
  Op op = step_op(OpKind::collective, Lane::data, bytes, element_of(scattered_bytes(scene.job)));
  op.verb = Verb::all_reduce;
  op.group = group;
  builder.chain(op);
}

// Copies of parameters on other stages, whose gradients are summed too: the other end of a tied embedding, the mirrored
// stage of DualPipe; and with shards in smaller groups, the other groups.
void reduce_copies(Scene& scene, const StepKey& key, Builder& builder) {
  const spec::Job& job = scene.job;
  const double shards = job.layout.zero == 3 ? shard_ranks(job) : 1;
  if (job.layout.zero == 3) {
    for (const DataTransfer& one : data_volumes(job, key.rank)) reduce(scene, builder, Group::replica, one.bytes);
  }
  if (key.mirrors) reduce(scene, builder, Group::mirror, owned_parameters(job, key.rank) * scattered_bytes(job));
  if (!key.ties) return;
  const double table = static_cast<double>(job.model.vocab) * job.model.hidden / job.layout.tp;
  const double rows = std::ceil(static_cast<double>(job.model.vocab) / job.layout.tp);
  const double summed = job.stack.executed ? rows * job.model.hidden : table / shards;
  reduce(scene, builder, Group::ends, summed * scattered_bytes(job));
}

// Each rank of a scale-up domain sends its part of the domain's sum, and gets the same part updated.
void ask_servers(Scene& scene, const StepKey& key, Builder& builder) {
  const spec::Job& job = scene.job;
  const double copies = static_cast<double>(spec::data_parallel(job)) * job.layout.cp;
  const cluster::Group dense = cluster::group_of(job.cluster, copies, job.layout.tp);
  const double stride = static_cast<double>(job.layout.ep) * scene.shard.etp;
  const cluster::Group experts = cluster::group_of(job.cluster, expert_shard_ranks(job), stride);
  const double part = key.rank.dense / dense.per_domain + key.rank.experts / experts.per_domain;
  const double push = part * scattered_bytes(job);
  const double pull = part * gathered_bytes(job);
  builder.chain(step_op(OpKind::push, Lane::data, push, element_of(scattered_bytes(job))));
  builder.chain(step_op(OpKind::pull, Lane::data, pull, element_of(gathered_bytes(job))));
}

void update_on_host(Scene& scene, Builder& builder, double owned, int work) {
  if (!sums_on_host(scene.job)) {
    Op write = step_op(OpKind::write, Lane::host, 4 * owned, ElementType::fp32);
    write.tier = Tier::host_memory;
    builder.chain(write);
  }
  Op update = step_op(OpKind::compute, Lane::host, 0, ElementType::fp32);
  update.work = work;
  builder.chain(update);
  Op read = step_op(OpKind::read, Lane::host, kHalfBytes * owned, ElementType::bf16);
  read.tier = Tier::host_memory;
  builder.chain(read);
}

void update(Scene& scene, const StepKey& key, Builder& builder, Shape& shape) {
  const spec::Job& job = scene.job;
  const double owned = owned_parameters(job, key.rank);
  Work work;
  work.parameters = owned;
  work.on_host = job.layout.offload_optimizer;
  scene.program.works.push_back(work);
  const int id = static_cast<int>(scene.program.works.size()) - 1;
  if (job.layout.offload_optimizer) return update_on_host(scene, builder, owned, id);
  Op op = step_op(OpKind::compute, Lane::compute, 0, ElementType::fp32);
  op.work = id;
  const int at = builder.chain(op);
  const double temporaries = job.stack.memory.update_bytes * owned;
  if (temporaries <= 0) return;
  shape.buffers.push_back({BufferKind::update, Segment::optimizer, -1, temporaries});
  builder.create(at, 0);
  builder.free(at, 0);
}

}  // namespace

ElementType element_of(double bytes) {
  if (bytes >= 4) return ElementType::fp32;
  return bytes >= 2 ? ElementType::bf16 : ElementType::fp8;
}

std::vector<Op> data_ops(const spec::Job& job, const PieceParameters& parameters, bool gathers) {
  std::vector<Op> ops;
  if (job.layout.zero == 3) return ops;
  const bool servers = job.layout.servers > 0;
  const DataVolumes volumes = data_volumes(job, parameters);
  const int of_dense = job.layout.zero == 0 && !servers ? 1 : 2;
  for (int i = 0; i < volumes.size; ++i) {
    const DataTransfer& one = volumes.items[static_cast<std::size_t>(i)];
    if ((one.verb == cluster::Verb::all_gather) != gathers || one.bytes <= 0 || one.group.ranks <= 1) continue;
    const double element = gathers ? gathered_bytes(job) : scattered_bytes(job);
    if (!gathers && job.stack.executed && scatters_each_pass(job)) continue;
    Op op = step_op(OpKind::collective, Lane::data, one.bytes, element_of(element));
    const bool dense = i < of_dense;
    op.group = servers ? (dense ? Group::domain : Group::expert_domain) : (dense ? Group::data : Group::expert_data);
    op.verb =
        gathers ? Verb::all_gather : (one.verb == cluster::Verb::all_reduce ? Verb::all_reduce : Verb::reduce_scatter);
    ops.push_back(op);
  }
  return ops;
}

// Every rank of the first stage reads its share of what the step trains on; it is there one step ahead, so that nothing
// waits for it.
Block start_block(Scene& scene, const StepKey& key) {
  const spec::Job& job = scene.job;
  Builder builder;
  builder.block.phase = Phase::update;
  if (key.reads) {
    const double all = job.training.global_batch * job.training.sequence * job.training.bytes_per_token;
    Op op = step_op(OpKind::read, Lane::host, all / scene.program.ranks_of_kind(), ElementType::token);
    op.segment = Segment::input;
    op.tier = Tier::storage;
    builder.add(op);
  }
  return finish(builder);
}

Block finish_block(Scene& scene, const StepKey& key, Shape& shape) {
  const spec::Job& job = scene.job;
  Builder builder;
  builder.block.phase = Phase::update;
  builder.enters = true;
  // The trainer sums copies of a tied table before it divides the sum among the ranks of a stage.
  if (job.stack.executed) reduce_copies(scene, key, builder);
  if (!scene.overlaps) {
    for (const Op& op : data_ops(job, key.rank, false)) builder.chain(op);
  }
  if (!job.stack.executed) reduce_copies(scene, key, builder);
  if (key.whole > 0) reduce(scene, builder, Group::tensor, key.whole * 4);
  if (job.layout.servers > 0) {
    ask_servers(scene, key, builder);
  } else {
    // The norm of gradients, to clip them; the trainer sends the loss along.
    if (!scene.program.validates_later) reduce(scene, builder, Group::world, job.stack.executed ? 8 : 4);
    update(scene, key, builder, shape);
  }
  if (!scene.overlaps || job.layout.servers > 0) {
    for (const Op& op : data_ops(job, key.rank, true)) builder.chain(op);
  }
  return finish(builder);
}

}  // namespace twinpod::program
