#include "program/blocks.hpp"

#include <algorithm>

#include "model/arithmetic.hpp"
#include "model/kept.hpp"

namespace twinpod::program {
namespace {

int add_work(Program& program, Work work) {
  program.works.push_back(std::move(work));
  return static_cast<int>(program.works.size()) - 1;
}

// By phase; halves of a backward pass only where the schedule has them.
void add_works(Program& program, const Piece& piece, int (&ids)[5]) {
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::backward_input, Phase::backward_weight}) {
    const bool half = phase == Phase::backward_input || phase == Phase::backward_weight;
    if (half && !program.splits_backward) continue;
    if (phase == Phase::backward_weight && piece.products.empty()) continue;
    ids[static_cast<std::size_t>(phase)] = add_work(program, work_of(piece, phase));
  }
  ids[static_cast<std::size_t>(Phase::recompute)] = ids[static_cast<std::size_t>(Phase::forward)];
}

void add_layer_works(Program& program, LayerScene& layer) {
  for (const SegmentPlan& segment : layer.plan.segments) {
    SegmentWorks works;
    add_works(program, segment.whole, works.whole);
    if (segment.divided) {
      add_works(program, segment.before, works.before);
      add_works(program, segment.attention, works.attention);
      add_works(program, segment.after, works.after);
    }
    layer.works.push_back(works);
  }
  const LayerPlan& plan = layer.plan;
  if (plan.cheap.attention_share > 0 || plan.cheap.forward_bytes > 0)
    layer.cheap_work = add_work(program, work_of(plan.cheap, Phase::forward));
  if (!plan.products.products.empty()) layer.products_work = add_work(program, work_of(plan.products, Phase::forward));
}

int add_buffer(Shape& shape, BufferKind kind, Segment segment, int layer, double bytes) {
  if (bytes <= 0) return -1;
  shape.buffers.push_back({kind, segment, layer, bytes});
  return static_cast<int>(shape.buffers.size()) - 1;
}

// Parameters that ZeRO-3 gathers for one pass and their gradients; nothing when it gathers for the whole step.
void add_shard_buffers(const Scene& scene, Shape& shape, Segment segment, int layer, double parameters,
                       LayerBuffers& buffers) {
  const bool executed = scene.job.stack.executed;
  if (executed && scatters_each_pass(scene.job))
    buffers.gradients = add_buffer(shape, BufferKind::communication, segment, layer, parameters * scene.bytes.gradient);
  if (scene.job.layout.zero < 3 || shard_ranks(scene.job) <= 1 || gathers_once_a_step(scene.job)) return;
  const double gathered = parameters * scene.bytes.gathered;
  buffers.gathered = add_buffer(shape, BufferKind::communication, segment, layer, gathered);
  // The look-up's backward pass needs no parameters, and has no weight half that could stand apart.
  const bool table = segment == Segment::embedding;
  if (!table) buffers.gathered_again = add_buffer(shape, BufferKind::communication, segment, layer, gathered);
  if (executed || (table && scene.program.splits_backward)) return;
  buffers.gradients = add_buffer(shape, BufferKind::communication, segment, layer, parameters * kHalfBytes);
}

std::vector<int> laid_down(const std::vector<Builder::Touch>& touches, std::vector<Op>& ops,
                           std::vector<int> Builder::Touch::*list, Range Op::*range, std::vector<int> into) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::vector<int>& values = touches[i].*list;
    ops[i].*range = {static_cast<int>(into.size()), static_cast<int>(values.size())};
    into.insert(into.end(), values.begin(), values.end());
  }
  return into;
}

}  // namespace

Scene make_scene(const spec::Job& job, Program& program, bool copies_table) {
  Scene scene{job, program, model::shard_of(job), model::activation_rules(job), bytes_of_parameter(job), {}};
  scene.copies_table = copies_table;
  scene.overlaps = overlaps_data(job);
  scene.recompute_share = job.stack.physics.recompute_share;
  scene.transfer_bytes = transfer_bytes(job, scene.shard);
  add_works(program, embedding_piece(job), scene.embedding_works);
  add_works(program, head_piece(job), scene.head_works);
  return scene;
}

const LayerScene& layer_scene(Scene& scene, const Layer& layer) {
  LayerScene& own = scene.layers[(layer.experts ? 1 : 0) + (layer.windowed ? 2 : 0) + (layer.predicts ? 4 : 0)];
  if (own.ready) return own;
  const spec::Job& job = scene.job;
  const auto kind = layer.experts ? model::LayerKind::experts : model::LayerKind::dense;
  own.ready = true;
  own.plan = layer_plan(job, layer);
  own.parameters = layer_piece_parameters(job, layer);
  own.sharded = job.stack.executed ? own.parameters : layer_parameters(job, scene.shard, kind);
  own.stored_bytes = model::layer_activation_bytes(job.model, scene.shard, kind, scene.rules);
  own.working_bytes = model::layer_working_bytes(job.model, scene.shard, kind, scene.rules);
  model::ActivationRules none = scene.rules;
  if (none.recompute == spec::Recompute::full) none.recompute = spec::Recompute::none;
  own.kept_bytes = model::layer_activation_bytes(job.model, scene.shard, kind, none);
  add_layer_works(scene.program, own);
  return own;
}

int Builder::add(const Op& op, std::initializer_list<int> waits) {
  Touch touch;
  for (const int wait : waits) {
    if (wait >= 0 && std::find(touch.waits.begin(), touch.waits.end(), wait) == touch.waits.end())
      touch.waits.push_back(wait);
  }
  block.ops.push_back(op);
  touches.push_back(std::move(touch));
  return static_cast<int>(block.ops.size()) - 1;
}

int Builder::chain(const Op& op) {
  last = add(op, {last});
  if (enters) block.ops.back().entry = true;
  enters = false;
  for (const int wait : also) touches.back().waits.push_back(wait);
  also.clear();
  return last;
}

void Builder::create(int op, int buffer) {
  if (buffer >= 0 && op >= 0) touches[static_cast<std::size_t>(op)].creates.push_back(buffer);
}

void Builder::free(int op, int buffer) {
  if (buffer >= 0 && op >= 0) touches[static_cast<std::size_t>(op)].frees.push_back(buffer);
}

void Builder::use(int op, int buffer) {
  if (buffer >= 0 && op >= 0) touches[static_cast<std::size_t>(op)].uses.push_back(buffer);
}

Block finish(Builder& builder) {
  Block& block = builder.block;
  block.waits = laid_down(builder.touches, block.ops, &Builder::Touch::waits, &Op::waits, {});
  std::vector<int> buffers = laid_down(builder.touches, block.ops, &Builder::Touch::creates, &Op::creates, {});
  buffers = laid_down(builder.touches, block.ops, &Builder::Touch::frees, &Op::frees, std::move(buffers));
  block.buffers = laid_down(builder.touches, block.ops, &Builder::Touch::uses, &Op::uses, std::move(buffers));
  return std::move(block);
}

namespace {

// Activations of a layer as the trainer keeps them.
void add_kept_buffers(const Scene& scene, Shape& shape, int index, LayerBuffers& buffers) {
  const Layer& layer = shape.layers[static_cast<std::size_t>(index)];
  const model::KeptRules rules{scene.job.layout.recompute, layer.recomputed,
                               static_cast<int>(activation_bytes(scene.job)),
                               spec::fuses(scene.job.training.recipe, spec::Fusion::attention)};
  const model::KeptLayer kept = model::kept_of_layer(scene.job.model, scene.shard, rules);
  const auto add = [&](BufferKind kind, std::int64_t bytes) {
    return add_buffer(shape, kind, Segment::block, index, static_cast<double>(bytes));
  };
  buffers.stored = add(BufferKind::activations, kept.stored_bytes);
  buffers.working = add(BufferKind::working, kept.working_bytes);
  buffers.passing = add(BufferKind::working, kept.working_bytes);
}

// The trainer gathers a tied table with the embedding's other tensors.
double gathered_of_head(const Scene& scene) {
  const spec::Job& job = scene.job;
  const double own = head_parameters(job, scene.copies_table).total();
  const bool shared = job.stack.executed && job.model.tied_embeddings && !scene.copies_table;
  return own + (shared ? embedding_parameters(job).total() : 0);
}

}  // namespace

ShapeBuffers add_buffers(Scene& scene, Shape& shape) {
  const spec::Job& job = scene.job;
  ShapeBuffers all;
  if (shape.embedding) {
    const double mask = model::embedding_activation_bytes(job.model, scene.shard);
    all.embedding.stored = add_buffer(shape, BufferKind::activations, Segment::embedding, -1, mask);
    add_shard_buffers(scene, shape, Segment::embedding, -1, embedding_parameters(job).total(), all.embedding);
  }
  for (int i = 0; i < static_cast<int>(shape.layers.size()); ++i) {
    const Layer& layer = shape.layers[static_cast<std::size_t>(i)];
    const LayerScene& own = layer_scene(scene, layer);
    const bool kept = scene.rules.recompute == spec::Recompute::full && !layer.recomputed;
    const double stored = kept ? own.kept_bytes : own.stored_bytes;
    LayerBuffers buffers;
    if (job.stack.executed) {
      add_kept_buffers(scene, shape, i, buffers);
      add_shard_buffers(scene, shape, Segment::block, i, own.parameters.total(), buffers);
      all.layers.push_back(buffers);
      continue;
    }
    buffers.stored = add_buffer(shape, BufferKind::activations, Segment::block, i, stored);
    if (job.layout.offload_activations)
      buffers.returned = add_buffer(shape, BufferKind::activations, Segment::block, i, stored);
    if (job.layout.offload_activations && scene.program.splits_backward)
      buffers.returned_again = add_buffer(shape, BufferKind::activations, Segment::block, i, stored);
    buffers.working = add_buffer(shape, BufferKind::working, Segment::block, i, own.working_bytes);
    add_shard_buffers(scene, shape, Segment::block, i, own.parameters.total(), buffers);
    all.layers.push_back(buffers);
  }
  if (shape.head) {
    const auto element = static_cast<int>(activation_bytes(job));
    const bool fuses_loss = spec::fuses(job.training.recipe, spec::Fusion::cross_entropy);
    const double bytes =
        job.stack.executed ? static_cast<double>(model::kept_of_head(job.model, scene.shard, element, fuses_loss).bytes)
                           : model::head_activation_bytes(job.model, scene.shard, scene.rules);
    all.head.stored = add_buffer(shape, BufferKind::working, Segment::head, -1, bytes);
    add_shard_buffers(scene, shape, Segment::head, -1, gathered_of_head(scene), all.head);
  }
  return all;
}

}  // namespace twinpod::program
