// A pass of one micro-batch through a chunk: embedding, layers and head in turn, with what moves beside them.
#include <algorithm>

#include "program/blocks.hpp"

namespace twinpod::program {
namespace {

using collective::Verb;
using layout::Group;

// Embedding, a layer, or head.
struct Unit {
  Segment segment = Segment::block;
  int layer = -1;
};

struct Pass {
  Scene& scene;
  const Shape& shape;
  const ShapeBuffers& buffers;
  const PassKey& key;
  Builder builder;
  std::vector<Unit> units;               // in the order of this pass
  std::vector<int> ends;                 // last op of each unit that is done
  std::vector<std::vector<int>> before;  // ops that a unit's first one waits for
};

bool is_forward(const Pass& pass) { return pass.key.phase == Phase::forward; }
bool makes_weights(const Pass& pass) {
  return pass.key.phase == Phase::backward || pass.key.phase == Phase::backward_weight;
}

std::vector<Unit> units_of(const Shape& shape, bool forwards) {
  std::vector<Unit> units;
  if (shape.embedding) units.push_back({Segment::embedding, -1});
  for (int i = 0; i < static_cast<int>(shape.layers.size()); ++i) units.push_back({Segment::block, i});
  if (shape.head) units.push_back({Segment::head, -1});
  if (!forwards) std::reverse(units.begin(), units.end());
  return units;
}

const LayerBuffers& buffers_of(const Pass& pass, const Unit& unit) {
  if (unit.segment == Segment::embedding) return pass.buffers.embedding;
  if (unit.segment == Segment::head) return pass.buffers.head;
  return pass.buffers.layers[static_cast<std::size_t>(unit.layer)];
}

const Layer& layer_of(const Pass& pass, const Unit& unit) {
  return pass.shape.layers[static_cast<std::size_t>(unit.layer)];
}

PieceParameters parameters_of(Pass& pass, const Unit& unit) {
  if (unit.segment == Segment::embedding) return embedding_parameters(pass.scene.job);
  if (unit.segment == Segment::head) return head_parameters(pass.scene.job, pass.scene.copies_table);
  return layer_scene(pass.scene, layer_of(pass, unit)).parameters;
}

// As the closed form counts what ZeRO-3 gathers of a unit.
PieceParameters sharded_parameters(Pass& pass, const Unit& unit) {
  const spec::Job& job = pass.scene.job;
  if (unit.segment == Segment::head && job.stack.executed) {
    const bool shared = job.model.tied_embeddings && !pass.scene.copies_table;
    return {head_parameters(job, pass.scene.copies_table).dense + (shared ? embedding_parameters(job).dense : 0), 0};
  }
  if (unit.segment == Segment::head)
    return {static_cast<double>(job.model.vocab) * job.model.hidden / job.layout.tp, 0};
  if (unit.segment == Segment::embedding) return embedding_parameters(job);
  return layer_scene(pass.scene, layer_of(pass, unit)).sharded;
}

Op unit_op(const Pass& pass, const Unit& unit) {
  Op op;
  op.phase = pass.key.phase;
  op.segment = unit.segment;
  op.layer = unit.layer;
  return op;
}

// ZeRO-3: the collectives that gather or scatter a unit, all behind `after`. Returns the last; -1: there is none.
int add_shard_ops(Pass& pass, const Unit& unit, bool gathers, int after, int& first) {
  const spec::Job& job = pass.scene.job;
  const PieceParameters parameters = sharded_parameters(pass, unit);
  int last = -1;
  first = -1;
  const auto add = [&](const ShardVolumes& volumes, Group group) {
    if (volumes.calls <= 0 || layout::size(pass.scene.program.mesh, group) <= 1) return;
    Op op = unit_op(pass, unit);
    op.kind = OpKind::collective;
    op.lane = Lane::data;
    op.group = group;
    op.verb = gathers ? Verb::all_gather : Verb::reduce_scatter;
    op.bytes = (gathers ? volumes.gather_bytes : volumes.scatter_bytes) / volumes.calls;
    op.element = element_of(gathers ? pass.scene.bytes.gathered : scattered_bytes(job));
    for (int i = 0; i < static_cast<int>(volumes.calls + 0.5); ++i) {
      op.round = i;
      last = pass.builder.add(op, {after});
      if (first < 0) first = last;
    }
  };
  add(dense_shard_volumes(job, parameters.dense), Group::shard);
  add(expert_shard_volumes(job, parameters.experts), Group::expert_data);
  return last;
}

// Activations of a unit that this pass reads from the host; -1: none.
int returned_buffer(const Pass& pass, const Unit& unit) {
  const LayerBuffers& buffers = buffers_of(pass, unit);
  if (is_forward(pass)) return -1;
  return pass.key.phase == Phase::backward_weight ? buffers.returned_again : buffers.returned;
}

// What unit `at` needs before it can begin: gathered parameters, activations from the host. At most one unit ahead.
void prepare(Pass& pass, std::size_t at) {
  if (at >= pass.units.size()) return;
  const Unit& unit = pass.units[at];
  const LayerBuffers& buffers = buffers_of(pass, unit);
  const int after = at >= 2 ? pass.ends[at - 2] : -1;
  const int gathered = is_forward(pass) ? buffers.gathered : buffers.gathered_again;
  if (gathered >= 0 && pass.key.phase != Phase::backward_weight) {
    int first = -1;
    const int last = add_shard_ops(pass, unit, true, after, first);
    pass.builder.create(first, gathered);
    if (last >= 0) pass.before[at].push_back(last);
  }
  const int returned = returned_buffer(pass, unit);
  if (returned < 0) return;
  Op op = unit_op(pass, unit);
  op.kind = OpKind::read;
  op.lane = Lane::host;
  op.tier = Tier::host_memory;
  op.bytes = pass.shape.buffers[static_cast<std::size_t>(returned)].bytes;
  const int read = pass.builder.add(op, {after});
  pass.builder.create(read, returned);
  pass.before[at].push_back(read);
}

// Groups of units whose gradients are reduced together, by the order of the backward pass.
std::vector<std::vector<std::size_t>> buckets_of(Pass& pass) {
  const std::vector<Unit> backwards = units_of(pass.shape, false);
  const double full = bucket_bytes(pass.scene.job);
  std::vector<std::vector<std::size_t>> buckets(1);
  double bytes = 0;
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (bytes >= full && !buckets.back().empty()) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(is_forward(pass) ? backwards.size() - 1 - i : i);
    bytes += parameters_of(pass, backwards[i]).total() * scattered_bytes(pass.scene.job);
  }
  return buckets;
}

// Its place in the order of the model, if the bucket holds no other.
int piece_of(const Pass& pass, const std::vector<std::size_t>& bucket) {
  if (bucket.size() != 1) return -1;
  return static_cast<int>(is_forward(pass) ? bucket[0] : pass.units.size() - 1 - bucket[0]);
}

PieceParameters bucket_parameters(Pass& pass, const std::vector<std::size_t>& bucket) {
  PieceParameters sum;
  for (const std::size_t at : bucket) {
    const PieceParameters piece = parameters_of(pass, pass.units[at]);
    sum.dense += piece.dense;
    sum.experts += piece.experts;
  }
  return sum;
}

// Parameters that are gathered once a step, before the first forward pass needs them.
void gather_for_the_step(Pass& pass) {
  const spec::Job& job = pass.scene.job;
  if (!is_forward(pass) || !pass.key.first) return;
  if (gathers_once_a_step(job)) {
    for (std::size_t at = 0; at < pass.units.size(); ++at) {
      int first = -1;
      const int last = add_shard_ops(pass, pass.units[at], true, -1, first);
      if (last >= 0) pass.before[at].push_back(last);
    }
    return;
  }
  if (!pass.scene.overlaps || job.layout.servers > 0) return;
  std::vector<std::vector<std::size_t>> buckets = buckets_of(pass);
  std::reverse(buckets.begin(), buckets.end());
  for (int i = 0; i < static_cast<int>(buckets.size()); ++i) {
    const std::vector<std::size_t>& bucket = buckets[static_cast<std::size_t>(i)];
    for (Op op : data_ops(job, bucket_parameters(pass, bucket), true)) {
      op.phase = Phase::forward;
      op.round = i;
      op.piece = piece_of(pass, bucket);
      const int gathered = pass.builder.add(op);
      for (const std::size_t at : bucket) pass.before[at].push_back(gathered);
    }
  }
}

void tensor_op(Pass& pass, const Unit& unit, Verb verb, double bytes) {
  Op op = unit_op(pass, unit);
  op.kind = OpKind::collective;
  op.lane = Lane::tensor;
  op.verb = verb;
  op.group = Group::tensor;
  op.bytes = bytes;
  pass.builder.chain(op);
}

double stream_bytes(const Pass& pass) {
  return pass.scene.shard.tokens() * pass.scene.job.model.hidden * activation_bytes(pass.scene.job);
}

void embedding_ops(Pass& pass, const Unit& unit) {
  const spec::Job& job = pass.scene.job;
  if (pass.key.phase == Phase::backward_weight) return;
  const bool divided = job.stack.executed && job.layout.sequence_parallel && job.layout.tp > 1;
  if (divided && !is_forward(pass)) tensor_op(pass, unit, Verb::all_gather, stream_bytes(pass));
  Op op = unit_op(pass, unit);
  op.work = pass.scene.embedding_works[static_cast<std::size_t>(pass.key.phase)];
  pass.builder.chain(op);
  if (!is_forward(pass) || job.layout.tp <= 1) return;
  tensor_op(pass, unit, divided ? Verb::reduce_scatter : Verb::all_reduce, stream_bytes(pass));
}

// Only Programs that are executed spell out the collectives of a divided vocabulary; elsewhere they are too small to
// tell.
void head_ops(Pass& pass, const Unit& unit) {
  const spec::Job& job = pass.scene.job;
  const bool divided = job.stack.executed && job.layout.tp > 1;
  if (divided && is_forward(pass) && job.layout.sequence_parallel)
    tensor_op(pass, unit, Verb::all_gather, stream_bytes(pass));
  Op op = unit_op(pass, unit);
  op.work = pass.scene.head_works[static_cast<std::size_t>(pass.key.phase)];
  pass.builder.chain(op);
  if (!divided) return;
  constexpr double kStatistics = 3 * 4;  // of a token: maximum, sum, logit of the label
  if (is_forward(pass)) {
    tensor_op(pass, unit, Verb::all_gather, kStatistics * pass.scene.shard.tokens() * job.layout.tp);
  } else {
    tensor_op(pass, unit, job.layout.sequence_parallel ? Verb::reduce_scatter : Verb::all_reduce, stream_bytes(pass));
  }
}

void unit_ops(Pass& pass, const Unit& unit) {
  if (unit.segment == Segment::embedding) return embedding_ops(pass, unit);
  if (unit.segment == Segment::head) return head_ops(pass, unit);
  const Layer& layer = layer_of(pass, unit);
  LayerPass one{pass.scene,      layer_scene(pass.scene, layer), buffers_of(pass, unit), pass.builder, unit.layer,
                layer.recomputed};
  if (is_forward(pass)) return add_layer_forward(one, Phase::forward);
  if (pass.key.phase == Phase::backward_weight) return add_layer_weights(one);
  add_layer_backward(one, pass.key.phase);
}

// Activations of the unit: made by the forward pass, freed when nothing needs them any more. An embedding's mask and
// the head's logits have no weight half.
void touch_activations(Pass& pass, const Unit& unit, int first, int last) {
  const LayerBuffers& buffers = buffers_of(pass, unit);
  Builder& builder = pass.builder;
  const bool parked = buffers.returned >= 0;
  const int kept = parked ? returned_buffer(pass, unit) : buffers.stored;
  if (is_forward(pass)) {
    builder.create(first, buffers.stored);
    builder.create(first, buffers.passing);
    builder.free(last, buffers.passing);
    builder.free(last, buffers.gathered);
    return;
  }
  const bool halves = unit.segment == Segment::block;
  if (halves || pass.key.phase != Phase::backward_weight) builder.use(first, kept);
  const bool done = halves ? parked || makes_weights(pass) : pass.key.phase != Phase::backward_weight;
  if (done) builder.free(last, kept);
  if (makes_weights(pass)) builder.create(first, buffers.gradients);
  if (pass.key.phase == Phase::backward_weight) return;
  builder.create(first, buffers.working);
  builder.free(last, buffers.working);
  builder.free(last, buffers.gathered_again);
}

void park(Pass& pass, const Unit& unit, int last) {
  const LayerBuffers& buffers = buffers_of(pass, unit);
  if (!is_forward(pass) || buffers.returned < 0) return;
  Op op = unit_op(pass, unit);
  op.kind = OpKind::write;
  op.lane = Lane::host;
  op.tier = Tier::host_memory;
  op.bytes = pass.shape.buffers[static_cast<std::size_t>(buffers.stored)].bytes;
  pass.builder.free(pass.builder.add(op, {last}), buffers.stored);
}

// Gradients of the unit that leave at once: scattered by ZeRO-3, or to the host that adds them up.
void send_gradients(Pass& pass, const Unit& unit, int last) {
  if (!makes_weights(pass)) return;
  const spec::Job& job = pass.scene.job;
  const bool tied = unit.segment == Segment::embedding && job.model.tied_embeddings && !pass.scene.copies_table &&
                    !job.stack.executed;
  const bool scatters = job.layout.zero == 3 || (job.stack.executed && scatters_each_pass(job));
  if (scatters && !tied && (pass.key.last || !gathers_once_a_step(job))) {
    int first = -1;
    const int scattered = add_shard_ops(pass, unit, false, last, first);
    pass.builder.free(scattered, buffers_of(pass, unit).gradients);
  } else {
    pass.builder.free(last, buffers_of(pass, unit).gradients);
  }
  if (!sums_on_host(job)) return;
  Op op = unit_op(pass, unit);
  op.kind = OpKind::write;
  op.lane = Lane::host;
  op.tier = Tier::host_memory;
  op.element = ElementType::fp32;
  op.bytes = 4 * owned_parameters(job, parameters_of(pass, unit));
  pass.builder.add(op, {last});
}

void reduce_buckets(Pass& pass, const std::vector<std::vector<std::size_t>>& buckets, std::size_t done) {
  for (int i = 0; i < static_cast<int>(buckets.size()); ++i) {
    const std::vector<std::size_t>& bucket = buckets[static_cast<std::size_t>(i)];
    if (bucket.empty() || bucket.back() != done) continue;
    for (Op op : data_ops(pass.scene.job, bucket_parameters(pass, bucket), false)) {
      op.phase = pass.key.phase;
      op.round = i;
      op.piece = piece_of(pass, bucket);
      pass.builder.add(op, {pass.builder.last});
    }
  }
}

void add_transfer(Pass& pass, OpKind kind) {
  Op op;
  op.kind = kind;
  op.lane = Lane::pipe;
  op.phase = pass.key.phase;
  op.bytes = pass.scene.transfer_bytes;
  op.peer = is_forward(pass) == (kind == OpKind::send) ? Peer::next_chunk : Peer::previous_chunk;
  op.entry = kind == OpKind::recv;
  if (kind == OpKind::recv) {
    pass.builder.chain(op);
  } else {
    pass.builder.add(op, {pass.builder.last});
  }
}

void run_units(Pass& pass) {
  const bool reduces = pass.key.last && makes_weights(pass) && pass.scene.overlaps && pass.scene.job.layout.zero < 3;
  const std::vector<std::vector<std::size_t>> buckets =
      reduces ? buckets_of(pass) : std::vector<std::vector<std::size_t>>{};
  prepare(pass, 0);
  for (std::size_t at = 0; at < pass.units.size(); ++at) {
    const Unit& unit = pass.units[at];
    prepare(pass, at + 1);
    const int first = static_cast<int>(pass.builder.block.ops.size());
    pass.builder.also = pass.before[at];
    unit_ops(pass, unit);
    if (static_cast<int>(pass.builder.block.ops.size()) > first) {
      touch_activations(pass, unit, first, pass.builder.last);
      park(pass, unit, pass.builder.last);
    }
    send_gradients(pass, unit, pass.builder.last);
    pass.ends.push_back(pass.builder.last);
    reduce_buckets(pass, buckets, at);
  }
}

}  // namespace

Block pass_block(Scene& scene, const Shape& shape, const ShapeBuffers& buffers, const PassKey& key) {
  Pass pass{scene, shape, buffers, key, {}, units_of(shape, key.phase == Phase::forward), {}, {}};
  pass.before.resize(pass.units.size());
  pass.builder.block.phase = key.phase;
  pass.builder.block.shapes[0] = key.shape;
  gather_for_the_step(pass);
  pass.builder.enters = key.enters;
  if (key.receives) add_transfer(pass, OpKind::recv);
  run_units(pass);
  if (key.sends) add_transfer(pass, OpKind::send);
  return finish(pass.builder);
}

Block pair_block(const Block& forward, const Block& backward) {
  const Block* halves[2] = {&forward, &backward};
  Builder builder;
  std::vector<int> places[2];
  std::size_t next[2] = {0, 0};
  const auto copy = [&](int h) {
    Op op = halves[h]->ops[next[h]++];
    op.half = static_cast<std::uint8_t>(h);
    const int at = builder.add(op);
    places[h].push_back(at);
    Builder::Touch& touch = builder.touches.back();
    const auto waits = halves[h]->waits.begin() + op.waits.first;
    for (auto wait = waits; wait != waits + op.waits.count; ++wait)
      touch.waits.push_back(places[h][static_cast<std::size_t>(*wait)]);
    const auto buffers = [&](const Range& range) {
      const auto begin = halves[h]->buffers.begin() + range.first;
      return std::vector<int>(begin, begin + range.count);
    };
    touch.creates = buffers(op.creates);
    touch.frees = buffers(op.frees);
    touch.uses = buffers(op.uses);
    return op.lane == Lane::compute && op.kind == OpKind::compute;
  };
  // Up to and with the next computation of either, in turn: the exchanges of one then run beside the other's work.
  while (next[0] < forward.ops.size() || next[1] < backward.ops.size()) {
    for (const int h : {0, 1}) {
      while (next[h] < halves[h]->ops.size() && !copy(h)) {
      }
    }
  }
  builder.block.phase = forward.phase;
  builder.block.pair = true;
  builder.block.shapes[0] = forward.shapes[0];
  builder.block.shapes[1] = backward.shapes[0];
  return finish(builder);
}

}  // namespace twinpod::program
