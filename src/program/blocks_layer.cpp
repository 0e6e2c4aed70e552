// The ops of one layer in a pass.
#include "program/blocks.hpp"

namespace twinpod::program {
namespace {

using collective::Verb;
using layout::Group;

Op layer_op(const LayerPass& pass, Phase phase, Segment segment) {
  Op op;
  op.phase = phase;
  op.segment = segment;
  op.layer = pass.index;
  op.share = phase == Phase::recompute ? pass.scene.recompute_share : 1;
  return op;
}

Op compute(const LayerPass& pass, Phase phase, Segment segment, int work) {
  Op op = layer_op(pass, phase, segment);
  op.work = work;
  return op;
}

Op tensor_collective(const LayerPass& pass, Phase phase, Segment segment, Verb verb) {
  Op op = layer_op(pass, phase, segment);
  op.kind = OpKind::collective;
  op.lane = Lane::tensor;
  op.verb = verb;
  op.group = Group::tensor;
  op.bytes = pass.layer.plan.volumes.tensor_bytes * op.share;
  return op;
}

// Sequence parallelism gathers before and scatters behind, in both directions; else one all-reduce is behind.
void open_tensor(LayerPass& pass, Phase phase, const SegmentPlan& segment, bool here) {
  if (!here || !pass.scene.job.layout.sequence_parallel) return;
  pass.builder.chain(tensor_collective(pass, phase, segment.segment, Verb::all_gather));
}

void close_tensor(LayerPass& pass, Phase phase, const SegmentPlan& segment, bool here) {
  if (!here) return;
  const bool split = pass.scene.job.layout.sequence_parallel;
  pass.builder.chain(tensor_collective(pass, phase, segment.segment, split ? Verb::reduce_scatter : Verb::all_reduce));
}

void exchange_tokens(LayerPass& pass, Phase phase, const SegmentPlan& segment) {
  const LayerVolumes& volumes = pass.layer.plan.volumes;
  if (!segment.exchanges || volumes.exchange_inside_bytes + volumes.exchange_outside_bytes <= 0) return;
  Op op = layer_op(pass, phase, segment.segment);
  op.kind = OpKind::collective;
  op.lane = Lane::tensor;
  op.verb = Verb::all_to_all;
  op.group = Group::expert;
  op.outside_bytes = volumes.exchange_outside_bytes * op.share;
  op.bytes = volumes.exchange_inside_bytes * op.share + op.outside_bytes;
  pass.builder.chain(op);
}

// Keys and values travel round the ring while attention works on those that are there: the last round sends none. The
// backward pass sends their gradients with them.
void add_ring(LayerPass& pass, Phase phase, const SegmentPlan& segment, int work) {
  const int rounds = pass.scene.job.layout.cp;
  const double times = phase == Phase::backward || phase == Phase::backward_input ? 2 : 1;
  int arrived = pass.builder.last;
  for (int round = 0; round < rounds; ++round) {
    int received = -1;
    if (round + 1 < rounds) {
      Op op = layer_op(pass, phase, segment.segment);
      op.kind = OpKind::send;
      op.lane = Lane::tensor;
      op.group = Group::context;
      op.peer = Peer::next_in_ring;
      op.round = round;
      op.bytes = times * pass.layer.plan.volumes.context_bytes / rounds * op.share;
      const int sent = pass.builder.add(op, {arrived});
      op.kind = OpKind::recv;
      op.peer = Peer::previous_in_ring;
      received = pass.builder.add(op, {sent});
    }
    Op attend = compute(pass, phase, segment.segment, work);
    attend.round = round;
    attend.share /= rounds;
    pass.builder.last = pass.builder.add(attend, {pass.builder.last, arrived});
    if (received >= 0) arrived = received;
  }
}

void context_collective(LayerPass& pass, Phase phase, const SegmentPlan& segment, Verb verb) {
  Op op = layer_op(pass, phase, segment.segment);
  op.kind = OpKind::collective;
  op.lane = Lane::tensor;
  op.verb = verb;
  op.group = Group::context;
  op.bytes = pass.layer.plan.volumes.context_bytes * op.share;
  pass.builder.chain(op);
}

void add_attention(LayerPass& pass, Phase phase, const SegmentPlan& segment, int work) {
  if (pass.scene.job.layout.context_exchange == spec::ContextExchange::ring) {
    add_ring(pass, phase, segment, work);
    return;
  }
  context_collective(pass, phase, segment, Verb::all_gather);
  pass.builder.chain(compute(pass, phase, segment.segment, work));
  const bool forwards = phase == Phase::forward || phase == Phase::recompute;
  if (!forwards) context_collective(pass, phase, segment, Verb::reduce_scatter);
}

// The computation of a segment, in three parts where keys and values of others are needed in its middle.
void add_segment(LayerPass& pass, Phase phase, std::size_t at) {
  const SegmentPlan& segment = pass.layer.plan.segments[at];
  const SegmentWorks& works = pass.layer.works[at];
  const auto p = static_cast<std::size_t>(phase);
  if (!segment.divided) {
    pass.builder.chain(compute(pass, phase, segment.segment, works.whole[p]));
    return;
  }
  const bool forwards = phase == Phase::forward || phase == Phase::recompute;
  pass.builder.chain(compute(pass, phase, segment.segment, forwards ? works.before[p] : works.after[p]));
  add_attention(pass, phase, segment, works.attention[p]);
  pass.builder.chain(compute(pass, phase, segment.segment, forwards ? works.after[p] : works.before[p]));
}

// Only what is cheap to do again, or a share of the products with their share of the collectives.
void add_selective(LayerPass& pass) {
  const LayerPlan& plan = pass.layer.plan;
  const Segment segment = plan.segments.front().segment;
  if (pass.layer.cheap_work >= 0) {
    Op op = compute(pass, Phase::recompute, segment, pass.layer.cheap_work);
    op.share = 1;
    pass.builder.chain(op);
  }
  if (pass.layer.products_work < 0) return;
  Op op = compute(pass, Phase::recompute, segment, pass.layer.products_work);
  op.share = plan.products_share;
  pass.builder.chain(op);
  for (const SegmentPlan& one : plan.segments) {
    if (!one.closes) continue;
    const bool split = pass.scene.job.layout.sequence_parallel;
    for (const Verb verb : {Verb::all_gather, Verb::reduce_scatter}) {
      Op again = tensor_collective(pass, Phase::recompute, one.segment, split ? verb : Verb::all_reduce);
      again.share = plan.products_share / 2;
      again.bytes = plan.volumes.tensor_bytes * again.share;
      pass.builder.chain(again);
      if (!split) break;
    }
  }
}

}  // namespace

void add_layer_forward(LayerPass& pass, Phase phase) {
  const std::vector<SegmentPlan>& segments = pass.layer.plan.segments;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    exchange_tokens(pass, phase, segments[i]);
    open_tensor(pass, phase, segments[i], segments[i].opens);
    add_segment(pass, phase, i);
    // What the trainer makes again ends with what the backward pass reads.
    const bool ends = pass.scene.job.stack.executed && phase == Phase::recompute && i + 1 == segments.size();
    close_tensor(pass, phase, segments[i], segments[i].closes && !ends);
  }
}

void add_layer_backward(LayerPass& pass, Phase phase) {
  if (pass.recomputes_all) {
    add_layer_forward(pass, Phase::recompute);
  } else if (pass.scene.job.layout.recompute == spec::Recompute::selective) {
    add_selective(pass);
  }
  const std::vector<SegmentPlan>& segments = pass.layer.plan.segments;
  for (std::size_t i = segments.size(); i-- > 0;) {
    open_tensor(pass, phase, segments[i], segments[i].closes);
    add_segment(pass, phase, i);
    close_tensor(pass, phase, segments[i], segments[i].opens);
    exchange_tokens(pass, phase, segments[i]);
  }
}

void add_layer_weights(LayerPass& pass) {
  const std::vector<SegmentPlan>& segments = pass.layer.plan.segments;
  for (std::size_t i = segments.size(); i-- > 0;) {
    const int work = pass.layer.works[i].whole[static_cast<std::size_t>(Phase::backward_weight)];
    if (work >= 0) pass.builder.chain(compute(pass, Phase::backward_weight, segments[i].segment, work));
  }
}

}  // namespace twinpod::program
