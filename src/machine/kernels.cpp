// The trainer's kernels beside products: attention, what passes over memory in a layer, the loss, the update.
#include <array>

#include "kernel/attention.hpp"
#include "kernel/elementwise.hpp"
#include "kernel/norm.hpp"
#include "kernel/optimizer.hpp"
#include "kernel/vocabulary.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"
#include "model/segment.hpp"

namespace twinpod::machine {
namespace {

using comm::Communicator;

// A layer of a small GPT, with a vocabulary and an optimizer's part of the parameters.
struct Shape {
  int sequences, sequence, hidden, vocabulary;
  std::int64_t parameters;
  std::int64_t tokens() const { return std::int64_t{sequences} * sequence; }
};
constexpr int kHeadDim = 64;
constexpr std::array<Shape, 3> kShapes = {
    {{8, 128, 256, 4096, 4 << 20}, {8, 256, 384, 4096, 8 << 20}, {2, 512, 768, 16384, 8 << 20}}};
constexpr std::array<Shape, 1> kQuickShapes = {{{4, 128, 256, 2048, 1 << 20}}};

std::span<const Shape> shapes_of(bool quick) {
  return quick ? std::span<const Shape>(kQuickShapes) : std::span<const Shape>(kShapes);
}

// What the closed form counts for such a layer.
model::LayerWork work_of(const Shape& shape) {
  spec::Model model;
  model.layers = 1;
  model.hidden = shape.hidden;
  model.ffn = 4 * shape.hidden;
  model.attention.heads = model.attention.kv_heads = shape.hidden / kHeadDim;
  model.attention.head_dim = kHeadDim;
  model.gated_mlp = false;
  model.dropout = 0;
  model::Shard shard;
  shard.micro_batch = shape.sequences;
  shard.sequence = shape.sequence;
  return model::layer_work(model, shard, model::LayerKind::dense, false);
}

struct Data {
  const Shape& shape;
  Ring& ring;
  float* rows(std::int64_t width) { return ring.next<float>(static_cast<std::size_t>(shape.tokens() * width)); }
  float* row(std::int64_t width) { return ring.next<float>(static_cast<std::size_t>(width)); }
};

// Both norms with their residuals, biases and the activation function, forward and backward.
void pass_over_layer(Data data) {
  const std::int64_t n = data.shape.tokens();
  const std::int64_t h = data.shape.hidden;
  const kernel::NormShape norm{.rows = n, .width = h};
  for (int i = 0; i < 2; ++i) {
    kernel::add_norm<float>(norm, data.rows(h), data.rows(h), data.row(h), data.row(h), data.row(h), data.rows(h),
                            data.rows(h), data.row(n), data.row(n));
    kernel::norm_backward<float>(norm, data.rows(h), data.row(n), data.row(n), data.row(h), data.rows(h), data.rows(h),
                                 data.rows(h), data.row(h), data.row(h), nullptr);
    kernel::add_column_sums<float>(n, h, data.rows(h), data.row(h));
  }
  kernel::add_bias<float>(n, 3 * h, data.rows(3 * h), data.row(3 * h));
  kernel::add_column_sums<float>(n, 3 * h, data.rows(3 * h), data.row(3 * h));
  kernel::bias_gelu<float>(n, 4 * h, data.rows(4 * h), data.row(4 * h), data.rows(4 * h));
  kernel::gelu_backward<float>(n, 4 * h, data.rows(4 * h), data.rows(4 * h), data.rows(4 * h), data.row(4 * h));
}

void attend(Data data, bool back, std::span<std::byte> room) {
  const int heads = data.shape.hidden / kHeadDim;
  const kernel::AttentionShape shape{data.shape.sequences, data.shape.sequence, heads, heads, kHeadDim};
  const std::int64_t h = data.shape.hidden;
  const float* qkv = data.rows(3 * h);
  float* out = data.rows(h);
  float* log_sums = data.rows(heads);
  if (back) {
    kernel::attention_backward<float>(shape, qkv, out, log_sums, data.rows(h), data.rows(3 * h), room.data());
  } else {
    kernel::attention<float>(shape, qkv, out, log_sums, room.data());
  }
}

void lose(Data data, std::span<const std::int32_t> labels) {
  kernel::loss_and_backward<float>(data.shape.tokens(), data.shape.vocabulary, data.rows(data.shape.vocabulary),
                                   labels.data(), data.row(data.shape.tokens()), 1);
}

void update(Data data) {
  const std::int64_t count = data.shape.parameters;
  float* master = data.row(count);
  const float* gradient = data.row(count);
  (void)kernel::sum_of_squares<float>(count, gradient);
  kernel::adamw<float>({}, count, master, master, gradient, data.row(count), data.row(count));
}

Result<void> time_shape(Communicator& world, const RankRequest& request, const Shape& shape, Ring& ring,
                        Machine& machine) {
  const bool own_core = has_own_core(world, request, machine);
  const model::LayerWork work = work_of(shape);
  const int heads = shape.hidden / kHeadDim;
  std::vector<std::byte> room(
      kernel::attention_workspace_bytes<float>({shape.sequences, shape.sequence, heads, heads, kHeadDim}));
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(shape.tokens()));
  const Data data{shape, ring};
  const auto time = [&](const char* name, double amount, const std::function<void()>& call) -> Result<void> {
    const Result<double> seconds = best_seconds(world, own_core, call);
    if (!seconds) return tl::unexpected(seconds.error());
    machine.kernels.push_back({name, comm::size_of(world), request.threads, amount, *seconds});
    return {};
  };
  const double bytes = work.elements.forward_bytes + work.elements.backward_bytes;
  const double flop = work.attention.causal_flop();
  const double logits = static_cast<double>(shape.tokens()) * shape.vocabulary;
  const std::array<Result<void>, 5> done = {
      time("attention", flop, [&] { attend(data, false, room); }),
      time("attention_backward", flop, [&] { attend(data, true, room); }),
      time("elements", bytes, [&] { pass_over_layer(data); }),
      time("logits", logits, [&] { lose(data, labels); }),
      time("optimizer", static_cast<double>(shape.parameters), [&] { update(data); }),
  };
  for (const Result<void>& one : done) {
    if (!one) return one;
  }
  return {};
}

}  // namespace

Result<void> time_kernels(Communicator& world, const RankRequest& request, Machine& machine) {
  Ring ring(2 * kRingBytes);
  if (!ring.is_there()) return infeasible("no memory to measure kernels");
  for (const Shape& shape : shapes_of(request.quick)) {
    if (Result<void> done = time_shape(world, request, shape, ring, machine); !done) return done;
  }
  return {};
}

}  // namespace twinpod::machine
