#include "kernel/gemm.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernel/library.hpp"
#include "kernel/passes.hpp"
#include "kernel/processor.hpp"
#include "kernel/reference/gemm.hpp"

namespace twinpod::kernel {
namespace {

std::atomic<bool>& tuning() {
  static std::atomic<bool> on = true;
  return on;
}

Gemm with_strides(Gemm shape) {
  if (shape.stride_a == 0) shape.stride_a = shape.transpose_a ? shape.m : shape.k;
  if (shape.stride_b == 0) shape.stride_b = shape.transpose_b ? shape.k : shape.n;
  if (shape.stride_c == 0) shape.stride_c = shape.n;
  return shape;
}

// ---- the ways

void by_library(const Gemm& s, const float* a, const float* b, float* c) {
  dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1, a, s.stride_a, b, s.stride_b,
             s.accumulate ? 1 : 0, c, s.stride_c);
}

// Where packed blocks go: once for each thread that computes.
float* packing_room(std::int64_t floats) {
  constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(float* room) const { ::operator delete(room, kLine); }
  };
  thread_local std::unique_ptr<float, Free> room;
  thread_local std::int64_t size = 0;
  if (size < floats) {
    room.reset(static_cast<float*>(::operator new(static_cast<std::size_t>(floats) * sizeof(float), kLine)));
    size = floats;
  }
  return room.get();
}

template <typename T, typename C>
void by_packing(const Gemm& s, const T* a, const T* b, C* c) {
  const Passes<T>& own = passes<T>();
  if constexpr (std::is_same_v<T, C>) {
    own.multiply(s, a, b, c, packing_room(own.packed_floats));
  } else {
    own.multiply_to_sums(s, a, b, c, packing_room(own.packed_floats));
  }
}

std::vector<float> widen(std::int64_t rows, std::int64_t width, std::int64_t stride, const Bf16* x) {
  std::vector<float> wide(static_cast<std::size_t>(rows * width));
  for (std::int64_t at = 0; at < rows * width; ++at)
    wide[static_cast<std::size_t>(at)] = to_float(x[at / width * stride + at % width]);
  return wide;
}

// For processors that have no vectors of ours.
template <typename C>
void by_widening(const Gemm& s, const Bf16* a, const Bf16* b, C* c) {
  const std::vector<float> wide_a = widen(s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.stride_a, a);
  const std::vector<float> wide_b = widen(s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.stride_b, b);
  Gemm wide = s;
  wide.stride_a = wide.stride_b = 0;
  if constexpr (std::is_same_v<C, float>) {
    by_library(with_strides(wide), wide_a.data(), wide_b.data(), c);
  } else {
    std::vector<float> sums = widen(s.m, s.n, s.stride_c, c);
    wide.stride_c = 0;
    by_library(with_strides(wide), wide_a.data(), wide_b.data(), sums.data());
    for (std::int64_t at = 0; at < s.m * s.n; ++at)
      c[at / s.n * s.stride_c + at % s.n] = to_bf16(sums[static_cast<std::size_t>(at)]);
  }
}

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>;

Key key_of(const Gemm& s) {
  const int kind = (s.transpose_a ? 1 : 0) + (s.transpose_b ? 2 : 0) + (s.accumulate ? 4 : 0);
  return {s.m, s.n, s.k, s.stride_a, s.stride_b, s.stride_c, kind};
}

// The library's product of bf16, in instructions for it. C: Bf16 or float.
template <typename C>
dnnl::matmul native_matmul(const dnnl::engine& engine, const Gemm& s, std::array<dnnl::memory::desc, 3>& descs) {
  using Memory = dnnl::memory;
  using Strides = Memory::dims;
  const auto type = std::is_same_v<C, float> ? Memory::data_type::f32 : Memory::data_type::bf16;
  descs[0] = Memory::desc({s.m, s.k}, Memory::data_type::bf16,
                          s.transpose_a ? Strides{1, s.stride_a} : Strides{s.stride_a, 1});
  descs[1] = Memory::desc({s.k, s.n}, Memory::data_type::bf16,
                          s.transpose_b ? Strides{1, s.stride_b} : Strides{s.stride_b, 1});
  descs[2] = Memory::desc({s.m, s.n}, type, Strides{s.stride_c, 1});
  dnnl::primitive_attr attributes;
  if (s.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1);
    attributes.set_post_ops(sum);
  }
  return make_matmul(engine, descs[0], descs[1], descs[2], attributes);
}

template <typename C>
void by_native(const Gemm& s, const Bf16* a, const Bf16* b, C* c) {
  struct Made {
    dnnl::matmul matmul;
    std::array<dnnl::memory::desc, 3> descs;
  };
  thread_local const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  thread_local dnnl::stream stream(engine);
  thread_local std::map<Key, Made> made;
  const auto [place, is_new] = made.try_emplace(key_of(s));
  Made& m = place->second;
  if (is_new) m.matmul = native_matmul<C>(engine, s, m.descs);
  m.matmul.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(m.descs[0], engine, const_cast<Bf16*>(a))},      // NOLINT: only
                            {DNNL_ARG_WEIGHTS, dnnl::memory(m.descs[1], engine, const_cast<Bf16*>(b))},  // NOLINT: read
                            {DNNL_ARG_DST, dnnl::memory(m.descs[2], engine, c)}});
  stream.wait();
}

// ---- the choice

template <typename T, typename C>
using Way = void (*)(const Gemm& s, const T* a, const T* b, C* c);

bool has_packing() { return passes<float>().multiply != nullptr; }

// The first one is what an untuned product takes.
template <typename T, typename C>
std::vector<Way<T, C>> ways() {
  if constexpr (std::is_same_v<T, double>) {
    return {[](const Gemm& s, const double* a, const double* b, double* c) { reference::multiply(s, a, b, c); }};
  } else if constexpr (std::is_same_v<T, float>) {
    if (!has_packing()) return {by_library};
    return {by_library, by_packing<T, C>};
  } else {
    if (!has_packing()) return {by_widening<C>};
    if (bf16_products() == Bf16Products::native) return {by_native<C>, by_packing<T, C>};
    return {by_packing<T, C>};
  }
}

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr int kTrials = 4;               // of each way
constexpr double kWorthChanging = 0.98;  // of the first way's time

// What is known of a shape: how often it was computed, and the best time of each way.
struct Trial {
  int calls = 0;
  std::array<double, 2> best = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
};

// The way that a shape takes now: each in turn at first, then the fastest.
std::size_t way_of(const Trial& trial, std::size_t ways) {
  if (trial.calls < kTrials * static_cast<int>(ways)) return static_cast<std::size_t>(trial.calls) % ways;
  return trial.best[1] < kWorthChanging * trial.best[0] ? 1 : 0;
}

template <typename T, typename C>
void by_fastest(const std::vector<Way<T, C>>& known, const Gemm& s, const T* a, const T* b, C* c) {
  static std::mutex mutex;
  static std::map<std::pair<Instructions, Key>, Trial> trials;
  std::unique_lock lock(mutex);
  Trial& trial = trials[{instructions(), key_of(s)}];  // stays where it is
  const std::size_t way = way_of(trial, known.size());
  const bool open = trial.calls < kTrials * static_cast<int>(known.size());
  if (open) ++trial.calls;
  lock.unlock();
  const double seconds = seconds_of([&] { known[way](s, a, b, c); });
  if (!open) return;
  lock.lock();
  trial.best[way] = std::min(trial.best[way], seconds);
}

template <typename C>
void clear(const Gemm& s, C* c) {
  for (std::int64_t i = 0; i < s.m; ++i) std::fill(c + i * s.stride_c, c + i * s.stride_c + s.n, C{});
}

// One product of middle size in the instructions for bf16 and by way of fp32.
Bf16Products faster_bf16_products() {
  constexpr std::int64_t kSide = 384;
  const Gemm s = with_strides({.m = kSide, .n = kSide, .k = kSide, .transpose_b = true});
  const std::vector<Bf16> a(kSide * kSide, to_bf16(1));
  std::vector<Bf16> c(a.size());
  std::array<double, 2> best = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  try {
    for (int trial = 0; trial < kTrials; ++trial) {
      best[0] = std::min(best[0], seconds_of([&] { by_native(s, a.data(), a.data(), c.data()); }));
      best[1] = std::min(best[1], seconds_of([&] { by_packing(s, a.data(), a.data(), c.data()); }));
    }
  } catch (const dnnl::error&) {
    return Bf16Products::widened;  // the library cannot do it
  }
  return best[0] < best[1] ? Bf16Products::native : Bf16Products::widened;
}

bool has_bf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace

Bf16Products bf16_products() {
  if (!has_bf16() || instructions() != Instructions::avx512) return Bf16Products::widened;
  ask_for_tiles();
  static const Bf16Products faster = faster_bf16_products();
  return faster;
}

void tune_gemm(bool on) { tuning() = on; }

template <typename T, typename C>
void gemm(const Gemm& shape, const T* a, const T* b, C* c) {
  const Gemm s = with_strides(shape);
  if (s.m <= 0 || s.n <= 0) return;
  if (s.k <= 0) {
    if (!s.accumulate) clear(s, c);
    return;
  }
  ask_for_tiles();
  const std::vector<Way<T, C>> known = ways<T, C>();
  if (known.size() > 1 && tuning()) return by_fastest(known, s, a, b, c);
  known.front()(s, a, b, c);
}
template decltype(gemm<float, float>) gemm<float, float>;
template decltype(gemm<double, double>) gemm<double, double>;
template decltype(gemm<Bf16, Bf16>) gemm<Bf16, Bf16>;
template decltype(gemm<Bf16, float>) gemm<Bf16, float>;

}  // namespace twinpod::kernel
