#include "kernel/gemm.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/signals.hpp"
#include "kernel/library.hpp"
#include "kernel/passes.hpp"
#include "kernel/processor.hpp"
#include "kernel/reference/gemm.hpp"
#include "kernel/room.hpp"
#include "kernel/tiles.hpp"

namespace twinpod::kernel {
namespace {

std::atomic<bool>& tuning() {
  static std::atomic<bool> on = true;
  return on;
}

std::atomic<bool>& settling() {
  static std::atomic<bool> on = false;
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

float* packing_room(std::int64_t floats) {
  return reinterpret_cast<float*>(room_of_thread(floats * static_cast<std::int64_t>(sizeof(float))));
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

void by_seven(const Gemm& s, const float* a, const float* b, float* c) {
  const Passes<float>& own = passes<float>();
  own.multiply_by_seven(s, a, b, c, packing_room(own.seven_floats));
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
  const int kind = (s.transpose_a ? 1 : 0) + (s.transpose_b ? 2 : 0) + (s.accumulate ? 4 : 0) +
                   (s.rounds_operands ? 8 : 0) + (s.recombines ? 16 : 0);
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

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One product of middle size in the instructions for bf16 and by way of fp32.
bool library_wins_bf16() {
  constexpr std::int64_t kSide = 384;
  constexpr int kRounds = 4;
  const Gemm s = with_strides({.m = kSide, .n = kSide, .k = kSide, .transpose_b = true});
  const std::vector<Bf16> a(kSide * kSide, to_bf16(1));
  std::vector<Bf16> c(a.size());
  std::array<double, 2> best = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  try {
    for (int trial = 0; trial < kRounds; ++trial) {
      best[0] = std::min(best[0], seconds_of([&] { by_native(s, a.data(), a.data(), c.data()); }));
      best[1] = std::min(best[1], seconds_of([&] { by_packing(s, a.data(), a.data(), c.data()); }));
    }
  } catch (const dnnl::error&) {
    return false;  // the library cannot do it
  }
  return best[0] < best[1];
}

bool has_bf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

// Whether the library's products of bf16 are worth a try: it may compute them in instructions that are slower than ours
// for fp32.
bool library_has_bf16() {
  if (!has_bf16() || instructions() < Instructions::avx512) return false;
  ask_for_tiles();
  static const bool wins = library_wins_bf16();
  return wins;
}

constexpr std::size_t kMostWays = 4;

// Below this, sums of quadrants cost more than the multiplications that they save.
bool is_large(const Gemm& s) {
  constexpr std::int64_t kLeast = 256;
  return s.m >= kLeast && s.n >= kLeast && s.k >= kLeast;
}

// Up to kMostWays; the first one is what an untuned product takes.
template <typename T, typename C>
std::vector<Way<T, C>> ways(const Gemm& s) {
  if constexpr (std::is_same_v<T, double>) {
    return {
        [](const Gemm& shape, const double* a, const double* b, double* c) { reference::multiply(shape, a, b, c); }};
  } else {
    std::vector<Way<T, C>> known;
#ifdef __x86_64__
    if (instructions() == Instructions::amx) known.push_back(multiply_in_tiles<T, C>);
#endif
    if constexpr (std::is_same_v<T, float>) {
      known.push_back(by_library);
    } else {
      if (!has_packing()) return {by_widening<C>};
      if (library_has_bf16()) known.push_back(by_native<C>);
    }
    if (has_packing()) known.push_back(by_packing<T, C>);
    if constexpr (std::is_same_v<T, float>) {
      if (has_packing() && s.recombines && is_large(s)) known.push_back(by_seven);
    }
    return known;
  }
}

constexpr int kTrials = 4;             // of each way that is not much slower than another, at first
constexpr double kFar = 1.3;           // is much slower
constexpr double kLongSeconds = 0.02;  // a product of which one try tells, else it takes two
constexpr int kLaterTrials = 24;       // of each way that is near the fastest, one call in kSeldom
constexpr int kSeldom = 16;
constexpr double kNear = 1.15;
constexpr double kSettleSeconds = 0.1;  // of a shape: then one try of each way has to do

// What is known of a shape: the tries of each way, and its best time.
struct Trial {
  int calls = 0;
  std::array<int, kMostWays> tries{};
  std::array<double, kMostWays> best = {kNever, kNever, kNever, kNever};
  static constexpr double kNever = std::numeric_limits<double>::infinity();
};

std::size_t fastest_way(const Trial& trial) {
  return static_cast<std::size_t>(std::min_element(trial.best.begin(), trial.best.end()) - trial.best.begin());
}

// Whether a way is still to be tried, among the first calls of a shape.
bool is_open(const Trial& trial, std::size_t way) {
  const double least = trial.best[fastest_way(trial)];
  const int enough = least > kLongSeconds ? 1 : 2;
  const bool is_far = trial.tries[way] >= enough && trial.best[way] > kFar * least;
  return trial.tries[way] < kTrials && !is_far;
}

// The way that a shape takes now: each in turn at first, then the fastest; and from time to time another one that is
// nearly as fast, because others on the machine may have disturbed the first tries.
std::size_t way_of(const Trial& trial, std::size_t ways) {
  const std::size_t fastest = fastest_way(trial);
  std::size_t next = ways;
  for (std::size_t way = 0; way < ways; ++way) {
    if (is_open(trial, way) && (next == ways || trial.tries[way] < trial.tries[next])) next = way;
  }
  if (next < ways) return next;
  if (trial.calls % kSeldom != 0) return fastest;
  // The first way is expected to be the fastest. Tiles suffer from others on the machine more than vectors do, for
  // seconds at a time: what was tried then says little.
  if (fastest != 0 && trial.tries[0] < kLaterTrials) return 0;
  next = fastest;
  for (std::size_t way = 0; way < ways; ++way) {
    const bool near = trial.best[way] < kNear * trial.best[fastest] && trial.tries[way] < kLaterTrials;
    if (near && (next == fastest || trial.tries[way] < trial.tries[next])) next = way;
  }
  return next;
}

// Whether the first calls of a shape have told its fastest way.
bool is_settled(const Trial& trial, std::size_t ways, double spent_s) {
  for (std::size_t way = 0; way < ways; ++way) {
    if (trial.tries[way] == 0 || (spent_s < kSettleSeconds && is_open(trial, way))) return false;
  }
  return true;
}

template <typename T, typename C>
void by_fastest(const std::vector<Way<T, C>>& known, const Gemm& s, const T* a, const T* b, C* c) {
  static std::mutex mutex;
  static std::map<std::pair<Instructions, Key>, Trial> trials;
  std::unique_lock lock(mutex);
  Trial& trial = trials[{instructions(), key_of(s)}];  // stays where it is
  double spent_s = 0;
  do {
    const std::size_t way = way_of(trial, known.size());
    const bool is_first = trial.calls++ == 0;
    lock.unlock();
    const double seconds = seconds_of([&] { known[way](s, a, b, c); });
    lock.lock();
    if (is_first) continue;  // memory that nobody has touched yet says nothing of the way
    spent_s += seconds;
    ++trial.tries[way];
    trial.best[way] = std::min(trial.best[way], seconds);
  } while (settling() && !is_settled(trial, known.size(), spent_s));
}

template <typename C>
void clear(const Gemm& s, C* c) {
  for (std::int64_t i = 0; i < s.m; ++i) std::fill(c + i * s.stride_c, c + i * s.stride_c + s.n, C{});
}

}  // namespace

Bf16Products bf16_products() {
  return instructions() == Instructions::amx || library_has_bf16() ? Bf16Products::native : Bf16Products::widened;
}

void tune_gemm(bool on) { tuning() = on; }

void settle_gemm(bool on) { settling() = on; }

template <typename T, typename C>
void gemm(const Gemm& shape, const T* a, const T* b, C* c) {
  const Gemm s = with_strides(shape);
  if (s.m <= 0 || s.n <= 0) return;
  if (s.k <= 0) {
    if (!s.accumulate) clear(s, c);
    return;
  }
  ask_for_tiles();
  own_signal_stack();
  const std::vector<Way<T, C>> known = ways<T, C>(s);
  if (known.size() > 1 && tuning()) return by_fastest(known, s, a, b, c);
  known.front()(s, a, b, c);
}
template decltype(gemm<float, float>) gemm<float, float>;
template decltype(gemm<double, double>) gemm<double, double>;
template decltype(gemm<Bf16, Bf16>) gemm<Bf16, Bf16>;
template decltype(gemm<Bf16, float>) gemm<Bf16, float>;

}  // namespace twinpod::kernel
