// The trainer's kernels beside products: attention, what passes over memory in a layer, the loss, the update.
#include <algorithm>
#include <array>

#include "core/half.hpp"
#include "kernel/attention.hpp"
#include "kernel/elementwise.hpp"
#include "kernel/norm.hpp"
#include "kernel/optimizer.hpp"
#include "kernel/vocabulary.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"

namespace twinpod::machine {
namespace {

using comm::Communicator;

// Small GPTs, with a vocabulary and an optimizer's part of the parameters.
struct Gpt {
  int sequences, sequence, hidden, vocabulary;
  std::int64_t parameters;
};
constexpr std::array<Gpt, 3> kGpts = {
    {{8, 128, 256, 4096, 4 << 20}, {8, 256, 384, 4096, 8 << 20}, {2, 512, 768, 16384, 8 << 20}}};
constexpr std::array<Gpt, 1> kQuickGpts = {{{4, 128, 256, 2048, 1 << 20}}};

std::span<const Gpt> gpts_of(bool quick) {
  return quick ? std::span<const Gpt>(kQuickGpts) : std::span<const Gpt>(kGpts);
}

KernelShape shape_of(const Gpt& gpt) {
  constexpr int kHeadDim = 64;
  KernelShape shape{.model = {}, .shard = {}, .parameters = gpt.parameters};
  spec::Model& model = shape.model;
  model.layers = 1;
  model.hidden = gpt.hidden;
  model.ffn = 4 * gpt.hidden;
  model.vocab = gpt.vocabulary;
  model.attention.heads = model.attention.kv_heads = gpt.hidden / kHeadDim;
  model.attention.head_dim = kHeadDim;
  model.attention.bias = model.mlp_bias = true;
  model.positions = spec::Positions::learned;
  shape.shard.micro_batch = gpt.sequences;
  shape.shard.sequence = gpt.sequence;
  return shape;
}

// What is timed: as much of a rank's part as is worth it, and what the closed form counts for that.
struct Sizes {
  const spec::Model& model;
  kernel::AttentionShape attention;
  double attention_flop = 0;
  std::int64_t tokens = 0;
  std::int64_t norm_rows = 0;
  std::int64_t qkv = 0;  // width
  std::int64_t ffn = 0;
  double element_bytes = 0;
  std::int64_t vocabulary = 0;
  std::int64_t logit_rows = 0;
  std::int64_t parameters = 0;
};

// Rates do not change beyond that.
constexpr std::int64_t kMostElements = std::int64_t{4} << 20;
constexpr std::int64_t kMostParameters = std::int64_t{8} << 20;
constexpr double kMostSequence = 4096;
constexpr double kMostFlop = 1e9;

std::int64_t rows_of(double wanted, std::int64_t width) {
  return std::clamp<std::int64_t>(kMostElements / std::max<std::int64_t>(1, width), 1,
                                  static_cast<std::int64_t>(wanted));
}

void set_attention(const KernelShape& shape, Sizes& sizes) {
  const spec::Attention& a = shape.model.attention;
  model::Shard shard = shape.shard;
  shard.sequence = std::min(shard.sequence, kMostSequence);
  int heads = std::max(1, a.heads / shard.tp);
  int kv_heads = std::max(1, a.kv_heads / shard.tp);
  model::AttentionWork work = model::layer_work(shape.model, shard, model::LayerKind::dense, false).attention;
  const auto is_too_much = [&] {
    const double width = static_cast<double>(heads + 2 * kv_heads) * a.head_dim;
    work.heads = heads;
    return work.causal_flop() > kMostFlop || work.batch * work.queries * width > double{kMostElements};
  };
  while (is_too_much() && work.batch > 1) work.batch = static_cast<int>(work.batch / 2);
  while (is_too_much() && kv_heads > 1 && kv_heads % 2 == 0) heads /= 2, kv_heads /= 2;
  sizes.attention = {static_cast<std::int64_t>(work.batch), static_cast<std::int64_t>(work.queries), heads, kv_heads,
                     a.head_dim};
  sizes.attention_flop = work.causal_flop();
}

Sizes sizes_of(const KernelShape& shape) {
  const spec::Model& model = shape.model;
  const spec::Attention& a = model.attention;
  model::Shard shard = shape.shard;
  Sizes sizes{.model = model, .attention = {}};
  set_attention(shape, sizes);
  sizes.qkv = (a.heads / shard.tp + 2 * std::max(1, a.kv_heads / shard.tp)) * std::int64_t{a.head_dim};
  sizes.ffn = model.ffn / shard.tp;
  sizes.tokens = rows_of(shard.tokens(), std::max({sizes.qkv, 2 * sizes.ffn, std::int64_t{model.hidden}}));
  sizes.norm_rows = std::max<std::int64_t>(1, sizes.tokens / (shard.sequence_parallel ? shard.tp : 1));
  sizes.vocabulary = std::max(1, model.vocab / shard.tp);
  sizes.logit_rows = rows_of(shard.tokens(), sizes.vocabulary);
  sizes.parameters = std::clamp<std::int64_t>(shape.parameters, 1, kMostParameters);
  shard.micro_batch = 1;
  shard.sequence = static_cast<double>(sizes.tokens);
  const model::ElementWork work = model::layer_work(model, shard, model::LayerKind::dense, false).elements;
  sizes.element_bytes = work.forward_bytes + work.backward_bytes;
  return sizes;
}

template <typename T>
struct Data {
  using S = kernel::Sum<T>;
  const Sizes& sizes;
  Ring& ring;
  T* rows(std::int64_t count, std::int64_t width) { return ring.next<T>(static_cast<std::size_t>(count * width)); }
  S* sums(std::int64_t count) { return ring.next<S>(static_cast<std::size_t>(count)); }
  S* sums_if(bool there, std::int64_t count) { return there ? sums(count) : nullptr; }
  T* row_if(bool there, std::int64_t width) { return there ? rows(1, width) : nullptr; }
};

// Both norms with their residuals and the biases of what they add up.
template <typename T>
void pass_over_norms(Data<T> data) {
  const spec::Model& model = data.sizes.model;
  const std::int64_t n = data.sizes.norm_rows;
  const std::int64_t h = model.hidden;
  const bool rms = model.norm == spec::Norm::rms_norm;
  const bool has_bias = !rms && model.norm_bias;
  const kernel::NormShape norm{.rows = n, .width = h, .rms = rms};
  for (const bool bias : {model.attention.bias, model.mlp_bias}) {
    auto* const mean = data.sums_if(!rms, n);
    auto* const scale = data.sums(n);
    kernel::add_norm<T>(norm, data.rows(n, h), data.rows(n, h), data.row_if(bias, h), data.rows(1, h),
                        data.row_if(has_bias, h), data.rows(n, h), data.rows(n, h), mean, scale);
    kernel::norm_backward<T>(norm, data.rows(n, h), mean, scale, data.rows(1, h), data.rows(n, h), data.rows(n, h),
                             data.rows(n, h), data.sums(h), data.sums_if(has_bias, h), nullptr);
    if (bias) kernel::add_column_sums<T>(n, h, data.rows(n, h), data.sums(h));
  }
}

// Biases, rotary positions and the activation function.
template <typename T>
void pass_over_inner(Data<T> data) {
  const Sizes& s = data.sizes;
  const spec::Model& model = s.model;
  const std::int64_t n = s.tokens;
  if (model.attention.bias) {
    kernel::add_bias<T>(n, s.qkv, data.rows(n, s.qkv), data.rows(1, s.qkv));
    kernel::add_column_sums<T>(n, s.qkv, data.rows(n, s.qkv), data.sums(s.qkv));
  }
  if (model.positions == spec::Positions::rotary) {
    const int head_dim = model.attention.head_dim;
    const int turned = static_cast<int>(s.qkv) / head_dim - s.attention.kv_heads;  // queries and keys
    const kernel::RotaryShape shape{n, s.attention.sequence, turned, head_dim, s.qkv};
    for (const bool back : {false, true}) kernel::rotate<T>(shape, data.rows(n, s.qkv), back);
  }
  const std::int64_t inner = s.ffn * (model.gated_mlp ? 2 : 1);
  const auto activate = model.gated_mlp ? kernel::bias_swiglu<T> : kernel::bias_gelu<T>;
  const auto activate_back = model.gated_mlp ? kernel::swiglu_backward<T> : kernel::gelu_backward<T>;
  activate(n, s.ffn, data.rows(n, inner), data.row_if(model.mlp_bias, inner), data.rows(n, s.ffn));
  activate_back(n, s.ffn, data.rows(n, inner), data.rows(n, s.ffn), data.rows(n, inner),
                data.sums_if(model.mlp_bias, inner));
}

template <typename T>
void attend(Data<T> data, bool back, std::span<std::byte> room) {
  const kernel::AttentionShape& shape = data.sizes.attention;
  const std::int64_t rows = shape.batch * shape.sequence;
  const std::int64_t width = std::int64_t{shape.heads} * shape.head_dim;
  const std::int64_t qkv_width = width + std::int64_t{2} * shape.kv_heads * shape.head_dim;
  const T* qkv = data.rows(rows, qkv_width);
  T* out = data.rows(rows, width);
  auto* const log_sums = data.sums(rows * shape.heads);
  if (back) {
    kernel::attention_backward<T>(shape, qkv, out, log_sums, data.rows(rows, width), data.rows(rows, qkv_width),
                                  room.data());
  } else {
    kernel::attention<T>(shape, qkv, out, log_sums, room.data());
  }
}

template <typename T>
void lose(Data<T> data, std::span<const std::int32_t> labels) {
  const Sizes& s = data.sizes;
  kernel::loss_and_backward<T>(s.logit_rows, s.vocabulary, data.rows(s.logit_rows, s.vocabulary), labels.data(),
                               data.sums(s.logit_rows), 1);
}

template <typename T>
void update(Data<T> data) {
  using S = kernel::Sum<T>;
  const std::int64_t count = data.sizes.parameters;
  S* master = data.sums(count);
  T* copy = data.rows(1, count);
  if constexpr (std::is_same_v<T, S>) copy = master;
  const S* gradient = data.sums(count);
  (void)kernel::sum_of_squares<S>(count, gradient);
  kernel::adamw<T>({}, count, master, copy, gradient, data.sums(count), data.sums(count));
}

template <typename T>
Result<void> time_shape(Communicator& world, const RankRequest& request, const KernelShape& shape, Ring& ring,
                        Machine& machine) {
  const Timing timing = timing_of(world, request, machine);
  const Sizes sizes = sizes_of(shape);
  std::vector<std::byte> room(kernel::attention_workspace_bytes<T>(sizes.attention));
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(sizes.logit_rows));
  const Data<T> data{sizes, ring};
  const auto time = [&](const char* name, double amount, const std::function<void()>& call) -> Result<void> {
    const Result<double> seconds = seconds_of_call(world, timing, call);
    if (!seconds) return tl::unexpected(seconds.error());
    machine.kernels.push_back({name, comm::size_of(world), request.threads, amount, *seconds});
    return {};
  };
  const double logits = static_cast<double>(sizes.logit_rows * sizes.vocabulary);
  const std::array<Result<void>, 5> done = {
      time("attention", sizes.attention_flop, [&] { attend<T>(data, false, room); }),
      time("attention_backward", sizes.attention_flop, [&] { attend<T>(data, true, room); }),
      time("elements", sizes.element_bytes, [&] { pass_over_norms<T>(data), pass_over_inner<T>(data); }),
      time("logits", logits, [&] { lose<T>(data, labels); }),
      time("optimizer", static_cast<double>(sizes.parameters), [&] { update<T>(data); }),
  };
  for (const Result<void>& one : done) {
    if (!one) return one;
  }
  return {};
}

}  // namespace

Result<void> time_kernels_of(Communicator& world, const RankRequest& request, const KernelShape& shape,
                             spec::Precision precision, Ring& ring, Machine& machine) {
  return precision == spec::Precision::bf16 ? time_shape<Bf16>(world, request, shape, ring, machine)
                                            : time_shape<float>(world, request, shape, ring, machine);
}

Result<void> time_kernels(Communicator& world, const RankRequest& request, Machine& machine) {
  for (const Gpt& gpt : gpts_of(request.quick)) {
    Ring ring(2 * kRingBytes);  // anew: updates, which come last, take any number for a square, and leave none
    if (!ring.is_there()) return infeasible("no memory to measure kernels");
    const Result<void> done = time_shape<float>(world, request, shape_of(gpt), ring, machine);
    if (!done) return done;
  }
  return {};
}

}  // namespace twinpod::machine
