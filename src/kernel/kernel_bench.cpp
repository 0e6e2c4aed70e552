// The kernels of a training step on one core, at the shapes of two GPTs:
//     A: hidden 384, 6 heads, sequence 256, vocabulary 4,096, 2,048 tokens
//     B: hidden 768, 12 heads, sequence 512, vocabulary 50,304, 1,024 tokens
// `best` is of the fastest call, in CPU time of the thread, so that neighbours on the machine count less: GFLOP/s of
// products and of attention (as if it were not causal), else GB/s that must be read and written at least.
// Products compare with `peak`, the fastest sgemm of several shapes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "kernel/attention.hpp"
#include "kernel/elementwise.hpp"
#include "kernel/gemm.hpp"
#include "kernel/norm.hpp"
#include "kernel/optimizer.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "kernel/reference/element.hpp"
#include "kernel/vocabulary.hpp"

namespace twinpod::kernel {
namespace {

struct Shape {
  const char* name;
  std::int64_t tokens, hidden, heads, sequence, vocabulary;
};
constexpr Shape kA{"A", 2048, 384, 6, 256, 4096};
constexpr Shape kB{"B", 1024, 768, 12, 512, 50304};

template <typename T>
std::vector<T> some(std::int64_t count, float scale = 1) {
  Rng rng(1);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) reference::put(value, scale * static_cast<float>(2 * rng.uniform() - 1));
  return values;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// `amount` is of one call, in units of 1e9.
template <typename Work>
void measure(benchmark::State& state, double amount, const Work& work) {
  flush_denormals();
  set_threads(1);
  work();  // chooses a way, and touches memory
  double best = INFINITY;
  for (auto unused : state) {
    (void)unused;
    const double start = cpu_seconds();
    work();
    best = std::min(best, cpu_seconds() - start);
  }
  state.counters["best"] = amount * 1e-9 / best;
}

template <typename T, typename C>
void product(benchmark::State& state, const Gemm& s) {
  const auto a = some<T>(s.m * s.k), b = some<T>(s.k * s.n);
  auto c = some<C>(s.m * s.n);
  measure(state, 2.0 * static_cast<double>(s.m * s.n * s.k), [&] { gemm<T, C>(s, a.data(), b.data(), c.data()); });
}

void peak(benchmark::State& state, std::int64_t m, std::int64_t n, std::int64_t k) {
  tune_gemm(false);  // the library's way
  product<float, float>(state, {.m = m, .n = n, .k = k});
  tune_gemm(true);
}

template <typename T>
void attend(benchmark::State& state, const Shape& s, bool back) {
  const AttentionShape shape{s.tokens / s.sequence, s.sequence, static_cast<int>(s.heads), static_cast<int>(s.heads),
                             static_cast<int>(s.hidden / s.heads)};
  const auto qkv = some<T>(s.tokens * 3 * s.hidden), dout = some<T>(s.tokens * s.hidden);
  auto out = dout, dqkv = qkv;
  std::vector<float> log_sums(static_cast<std::size_t>(s.tokens * s.heads));
  std::vector<std::byte> room(attention_workspace_bytes<T>(shape));
  attention<T>(shape, qkv.data(), out.data(), log_sums.data(), room.data());
  const double forward = 4.0 * static_cast<double>(s.tokens * s.sequence * s.hidden);
  measure(state, back ? 2 * forward : forward, [&] {
    if (back) {
      attention_backward<T>(shape, qkv.data(), out.data(), log_sums.data(), dout.data(), dqkv.data(), room.data());
    } else {
      attention<T>(shape, qkv.data(), out.data(), log_sums.data(), room.data());
    }
  });
}

// What one pass reads and writes, of many.
template <typename T>
double bytes(std::int64_t count, int passes) {
  return static_cast<double>(count) * sizeof(T) * passes;
}

template <typename T>
void norm_forward(benchmark::State& state, const Shape& s) {
  const NormShape shape{.rows = s.tokens, .width = s.hidden};
  const std::int64_t all = s.tokens * s.hidden;
  const auto x = some<T>(all), delta = some<T>(all), weight = some<T>(s.hidden);
  auto sum = x, out = x;
  std::vector<float> mean(static_cast<std::size_t>(s.tokens)), inverse = mean;
  measure(state, bytes<T>(all, 4), [&] {
    add_norm<T>(shape, x.data(), delta.data(), weight.data(), weight.data(), weight.data(), sum.data(), out.data(),
                mean.data(), inverse.data());
  });
}

template <typename T>
void norm_back(benchmark::State& state, const Shape& s) {
  const NormShape shape{.rows = s.tokens, .width = s.hidden};
  const std::int64_t all = s.tokens * s.hidden;
  const auto x = some<T>(all), dout = some<T>(all), weight = some<T>(s.hidden);
  auto dx = x;
  std::vector<float> mean(static_cast<std::size_t>(s.tokens)), inverse(mean.size(), 1);
  std::vector<float> dweight(static_cast<std::size_t>(s.hidden)), dshift = dweight, dbias = dweight;
  measure(state, bytes<T>(all, 4), [&] {
    norm_backward<T>(shape, x.data(), mean.data(), inverse.data(), weight.data(), dout.data(), x.data(), dx.data(),
                     dweight.data(), dshift.data(), dbias.data());
  });
}

template <typename T>
void gelu_forward(benchmark::State& state, const Shape& s) {
  const std::int64_t width = 4 * s.hidden;
  auto pre = some<T>(s.tokens * width), out = pre;
  const std::vector<T> bias(static_cast<std::size_t>(width));
  measure(state, bytes<T>(s.tokens * width, 3),
          [&] { bias_gelu<T>(s.tokens, width, pre.data(), bias.data(), out.data()); });
}

template <typename T>
void gelu_back(benchmark::State& state, const Shape& s) {
  const std::int64_t width = 4 * s.hidden;
  const auto pre = some<T>(s.tokens * width);
  auto d = pre;
  std::vector<float> dbias(static_cast<std::size_t>(width));
  measure(state, bytes<T>(s.tokens * width, 3),
          [&] { gelu_backward<T>(s.tokens, width, pre.data(), d.data(), d.data(), dbias.data()); });
}

template <typename T>
void swiglu_both(benchmark::State& state, const Shape& s, bool back) {
  const std::int64_t width = 4 * s.hidden;
  const auto pre = some<T>(2 * s.tokens * width), dout = some<T>(s.tokens * width);
  auto dpre = pre, out = dout;
  measure(state, bytes<T>(s.tokens * width, back ? 5 : 3), [&] {
    if (back) return swiglu_backward<T>(s.tokens, width, pre.data(), dout.data(), dpre.data(), nullptr);
    swiglu<T>(s.tokens, width, pre.data(), out.data());
  });
}

template <typename T>
void column_sums(benchmark::State& state, const Shape& s) {
  const auto x = some<T>(s.tokens * 3 * s.hidden);
  std::vector<float> sums(static_cast<std::size_t>(3 * s.hidden));
  measure(state, bytes<T>(s.tokens * 3 * s.hidden, 1),
          [&] { add_column_sums<T>(s.tokens, 3 * s.hidden, x.data(), sums.data()); });
}

template <typename T>
void turn(benchmark::State& state, const Shape& s) {
  auto x = some<T>(s.tokens * 3 * s.hidden);
  const RotaryShape shape{.rows = s.tokens,
                          .sequence = s.sequence,
                          .heads = static_cast<int>(2 * s.heads),
                          .head_dim = static_cast<int>(s.hidden / s.heads),
                          .stride = 3 * s.hidden};
  measure(state, bytes<T>(s.tokens * 2 * s.hidden, 2), [&] { rotate<T>(shape, x.data(), false); });
}

template <typename T>
void loss(benchmark::State& state, const Shape& s) {
  auto logits = some<T>(s.tokens * s.vocabulary, 5);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(s.tokens), 7);
  std::vector<float> losses(labels.size());
  measure(state, bytes<T>(s.tokens * s.vocabulary, 2),
          [&] { loss_and_backward<T>(s.tokens, s.vocabulary, logits.data(), labels.data(), losses.data(), 0.1); });
}

template <typename T>
void update(benchmark::State& state, std::int64_t count) {
  auto master = some<float>(count), mean = master, square = std::vector<float>(master.size(), 1);
  const auto gradient = some<float>(count);
  std::vector<T> copy(std::is_same_v<T, float> ? 0 : master.size());
  measure(state, bytes<float>(count, 7) + static_cast<double>(copy.size() * sizeof(T)), [&] {
    adamw<T>({}, count, master.data(), copy.empty() ? nullptr : copy.data(), gradient.data(), mean.data(),
             square.data());
  });
}

void squares(benchmark::State& state, std::int64_t count) {
  const auto x = some<float>(count);
  double sum = 0;
  measure(state, bytes<float>(count, 1), [&] { sum += sum_of_squares<float>(count, x.data()); });
  benchmark::DoNotOptimize(sum);
}

template <typename Work>
void add_benchmark(const std::string& name, const Work& work) {
  benchmark::RegisterBenchmark(name.c_str(), [work](benchmark::State& state) { work(state); })
      ->Unit(benchmark::kMillisecond)
      ->MinTime(0.2);
}

// Forward, gradient of inputs, gradient of weights.
template <typename T>
void add_products(const Shape& s, const std::string& type) {
  struct Layer {
    const char* name;
    std::int64_t outputs, inputs;
  };
  const std::array<Layer, 5> layers = {Layer{"qkv", 3 * s.hidden, s.hidden}, Layer{"proj", s.hidden, s.hidden},
                                       Layer{"fc", 4 * s.hidden, s.hidden}, Layer{"out", s.hidden, 4 * s.hidden},
                                       Layer{"head", s.vocabulary, s.hidden}};
  for (const Layer& layer : layers) {
    const std::int64_t t = s.tokens, n = layer.outputs, k = layer.inputs;
    const std::string name = type + "/" + s.name + "/" + layer.name;
    add_benchmark(name + "/forward",
                  [=](auto& state) { product<T, T>(state, {.m = t, .n = n, .k = k, .transpose_b = true}); });
    add_benchmark(name + "/inputs", [=](auto& state) { product<T, T>(state, {.m = t, .n = k, .k = n}); });
    add_benchmark(name + "/weights", [=](auto& state) {
      product<T, float>(state,
                        {.m = n, .n = k, .k = t, .transpose_a = true, .accumulate = true, .rounds_operands = true});
    });
  }
}

template <typename T>
void add_passes(const Shape& s, const std::string& type) {
  const std::string prefix = type + "/" + s.name + "/";
  add_benchmark(prefix + "attention", [=](auto& state) { attend<T>(state, s, false); });
  add_benchmark(prefix + "attention_backward", [=](auto& state) { attend<T>(state, s, true); });
  add_benchmark(prefix + "add_norm", [=](auto& state) { norm_forward<T>(state, s); });
  add_benchmark(prefix + "norm_backward", [=](auto& state) { norm_back<T>(state, s); });
  add_benchmark(prefix + "bias_gelu", [=](auto& state) { gelu_forward<T>(state, s); });
  add_benchmark(prefix + "gelu_backward", [=](auto& state) { gelu_back<T>(state, s); });
  add_benchmark(prefix + "swiglu", [=](auto& state) { swiglu_both<T>(state, s, false); });
  add_benchmark(prefix + "swiglu_backward", [=](auto& state) { swiglu_both<T>(state, s, true); });
  add_benchmark(prefix + "add_column_sums", [=](auto& state) { column_sums<T>(state, s); });
  add_benchmark(prefix + "rotate", [=](auto& state) { turn<T>(state, s); });
  add_benchmark(prefix + "loss_and_backward", [=](auto& state) { loss<T>(state, s); });
}

const bool kRegistered = [] {
  for (const auto& [m, n, k] : {std::array{1024, 1024, 1024}, std::array{2048, 2048, 2048}, std::array{3072, 3072, 384},
                                std::array{2048, 1536, 384}, std::array{3072, 3072, 768}, std::array{1536, 1536, 1536}})
    add_benchmark("peak/" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
                  [m = m, n = n, k = k](auto& state) { peak(state, m, n, k); });
  for (const Shape& s : {kA, kB}) {
    add_products<float>(s, "fp32");
    add_products<Bf16>(s, "bf16");
    add_passes<float>(s, "fp32");
    add_passes<Bf16>(s, "bf16");
  }
  add_benchmark("fp32/adamw", [](auto& state) { update<float>(state, 16 << 20); });
  add_benchmark("bf16/adamw", [](auto& state) { update<Bf16>(state, 16 << 20); });
  add_benchmark("fp32/sum_of_squares", [](auto& state) { squares(state, 16 << 20); });
  return true;
}();

}  // namespace
}  // namespace twinpod::kernel
