#include "comm/reduce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "comm/wait.hpp"
#include "core/half.hpp"

namespace twinpod::comm {
namespace {

#define TWINPOD_INLINE [[gnu::always_inline]] inline
// A target is a source or does not overlap with it, so the elements of a vector do not depend on each other.
#ifdef __clang__
#define TWINPOD_INDEPENDENT  // looks at run time
#else
#define TWINPOD_INDEPENDENT _Pragma("GCC ivdep")
#endif

using Sources = std::span<const void* const>;
using Targets = std::span<void* const>;

// What a stored element is added up as. Integers wrap around, as those of the processor do.
template <typename Stored>
struct Wide {
  using Type = std::conditional_t<std::is_same_v<Stored, Bf16> || std::is_same_v<Stored, F16>, float, Stored>;
};

// Buffers need not be aligned, so elements go through memcpy, which costs nothing.
template <typename Stored>
TWINPOD_INLINE typename Wide<Stored>::Type load(const std::byte* from, std::size_t i) {
  Stored stored;
  std::memcpy(&stored, from + i * sizeof(Stored), sizeof(Stored));
  if constexpr (std::is_same_v<typename Wide<Stored>::Type, Stored>) {
    return stored;
  } else {
    return to_float(stored);
  }
}

template <typename Stored>
TWINPOD_INLINE void store(std::byte* to, std::size_t i, typename Wide<Stored>::Type value) {
  Stored stored;
  if constexpr (std::is_same_v<Stored, Bf16>) {
    stored = to_bf16(value);
  } else if constexpr (std::is_same_v<Stored, F16>) {
    stored = to_f16(value);
  } else {
    stored = value;
  }
  std::memcpy(to + i * sizeof(Stored), &stored, sizeof(Stored));
}

template <ReduceOp Op, typename T>
TWINPOD_INLINE T combine(T a, T b) {
  if constexpr (Op == ReduceOp::min) return b < a ? b : a;
  if constexpr (Op == ReduceOp::max) return a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto x = static_cast<Unsigned>(a);
    const auto y = static_cast<Unsigned>(b);
    return static_cast<T>(Op == ReduceOp::product ? x * y : x + y);
  } else {
    return Op == ReduceOp::product ? a * b : a + b;
  }
}

// Two buffers into one or two: what most calls are, and the only ones that need no memory between.
template <typename Stored, ReduceOp Op>
TWINPOD_INLINE void reduce_two(const std::byte* a, const std::byte* b, Targets targets, std::size_t count) {
  auto* const first = static_cast<std::byte*>(targets[0]);
  if (targets.size() == 1) {
    TWINPOD_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i)
      store<Stored>(first, i, combine<Op>(load<Stored>(a, i), load<Stored>(b, i)));
    return;
  }
  auto* const second = static_cast<std::byte*>(targets[1]);
  TWINPOD_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = combine<Op>(load<Stored>(a, i), load<Stored>(b, i));
    store<Stored>(first, i, value);
    store<Stored>(second, i, value);
  }
}

// Any number of buffers, in blocks that stay in the first cache.
template <typename Stored, ReduceOp Op>
TWINPOD_INLINE void reduce_block(Sources sources, Targets targets, std::size_t first, std::size_t count, int divisor) {
  using T = typename Wide<Stored>::Type;
  constexpr std::size_t kBlock = 2048 / sizeof(T);
  alignas(64) T sums[kBlock];
  const std::size_t offset = first * sizeof(Stored);
  const auto* const start = static_cast<const std::byte*>(sources[0]) + offset;
  for (std::size_t i = 0; i < count; ++i) sums[i] = load<Stored>(start, i);
  for (std::size_t s = 1; s < sources.size(); ++s) {
    const auto* const source = static_cast<const std::byte*>(sources[s]) + offset;
    for (std::size_t i = 0; i < count; ++i) sums[i] = combine<Op>(sums[i], load<Stored>(source, i));
  }
  if (divisor != 1) {
    const T by = static_cast<T>(divisor);
    for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] / by;
  }
  for (void* const target : targets) {
    auto* const to = static_cast<std::byte*>(target) + offset;
    for (std::size_t i = 0; i < count; ++i) store<Stored>(to, i, sums[i]);
  }
}

template <typename Stored, ReduceOp Op>
TWINPOD_INLINE void reduce_as(Sources sources, Targets targets, std::size_t count, int divisor) {
  if (sources.size() == 2 && targets.size() <= 2 && divisor == 1) {
    reduce_two<Stored, Op>(static_cast<const std::byte*>(sources[0]), static_cast<const std::byte*>(sources[1]),
                           targets, count);
    return;
  }
  constexpr std::size_t kBlock = 2048 / sizeof(typename Wide<Stored>::Type);
  for (std::size_t first = 0; first < count; first += kBlock) {
    reduce_block<Stored, Op>(sources, targets, first, std::min(kBlock, count - first), divisor);
  }
}

template <typename Stored>
TWINPOD_INLINE void reduce_type(const Reduction& reduction, Sources sources, Targets targets, std::size_t count) {
  switch (reduction.op) {
    case ReduceOp::product:
      return reduce_as<Stored, ReduceOp::product>(sources, targets, count, 1);
    case ReduceOp::min:
      return reduce_as<Stored, ReduceOp::min>(sources, targets, count, 1);
    case ReduceOp::max:
      return reduce_as<Stored, ReduceOp::max>(sources, targets, count, 1);
    case ReduceOp::average:
      return reduce_as<Stored, ReduceOp::sum>(sources, targets, count, reduction.divisor);
    default:
      return reduce_as<Stored, ReduceOp::sum>(sources, targets, count, 1);
  }
}

TWINPOD_INLINE void reduce_all(const Reduction& reduction, Sources sources, Targets targets, std::size_t count) {
  switch (reduction.type) {
    case ElementType::f64:
      return reduce_type<double>(reduction, sources, targets, count);
    case ElementType::bf16:
      return reduce_type<Bf16>(reduction, sources, targets, count);
    case ElementType::f16:
      return reduce_type<F16>(reduction, sources, targets, count);
    case ElementType::i32:
      return reduce_type<std::int32_t>(reduction, sources, targets, count);
    case ElementType::i64:
      return reduce_type<std::int64_t>(reduction, sources, targets, count);
    default:
      return reduce_type<float>(reduction, sources, targets, count);
  }
}

// The same code three times, each for other instructions.
void reduce_scalar(const Reduction& reduction, Sources sources, Targets targets, std::size_t count) {
  reduce_all(reduction, sources, targets, count);
}

#ifdef __x86_64__
#ifdef __clang__
#define TWINPOD_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2")]]
#else
#define TWINPOD_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,prefer-vector-width=512")]]
#endif

[[gnu::target("avx2")]] void reduce_avx2(const Reduction& reduction, Sources sources, Targets targets,
                                         std::size_t count) {
  reduce_all(reduction, sources, targets, count);
}

TWINPOD_AVX512 void reduce_avx512(const Reduction& reduction, Sources sources, Targets targets, std::size_t count) {
  reduce_all(reduction, sources, targets, count);
}
#endif

#ifdef __x86_64__
// Large sums that go elsewhere bypass the caches: a normal store first reads what it will overwrite.
constexpr std::size_t kStreamFrom = std::size_t{192} << 10U;  // elements: below, the caches are faster
constexpr std::size_t kStreamAllFrom = std::size_t{768} << 10U;
constexpr std::size_t kLanes = 16;

TWINPOD_AVX512 void stream_sum(const float* a, const float* b, Targets targets, std::size_t count) {
  constexpr std::size_t kAhead = 256;  // elements: the processor itself stops looking ahead at the end of a page
  for (std::size_t i = 0; i < count; i += kLanes) {
    _mm_prefetch(reinterpret_cast<const char*>(a + i + kAhead), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(b + i + kAhead), _MM_HINT_T0);
    const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i));
    for (void* const target : targets) _mm512_stream_ps(static_cast<float*>(target) + i, sum);
  }
  _mm_sfence();
}

// The first target through the caches, the second past them: a core has other buffers for the one than for the other,
// so both together are faster than either twice. REQUIRES: whole groups of four lines.
TWINPOD_AVX512 void stream_sum_twice(const float* a, const float* b, float* cached, float* streamed,
                                     std::size_t count) {
  constexpr std::size_t kAhead = 256;  // elements
  constexpr std::size_t kGroup = 4;    // lines for one target at a time
  for (std::size_t i = 0; i < count; i += kGroup * kLanes) {
    __m512 sums[kGroup];
    for (std::size_t j = 0; j < kGroup; ++j) {
      const std::size_t at = i + j * kLanes;
      if (at + kAhead < count) prefetch_to_write(cached + at + kAhead);
      sums[j] = _mm512_add_ps(_mm512_loadu_ps(a + at), _mm512_loadu_ps(b + at));
    }
    for (std::size_t j = 0; j < kGroup; ++j) _mm512_store_ps(cached + i + j * kLanes, sums[j]);
    for (std::size_t j = 0; j < kGroup; ++j) _mm512_stream_ps(streamed + i + j * kLanes, sums[j]);
  }
  _mm_sfence();
}

bool can_stream(const Reduction& reduction, Sources sources, Targets targets, std::size_t count) {
  if (reduction.type != ElementType::f32 || reduction.op != ReduceOp::sum || sources.size() != 2) return false;
  if (targets.size() > 2) return false;
  const auto fits = [&](const void* target) {
    return reinterpret_cast<std::uintptr_t>(target) % 64 == 0 && target != sources[0] && target != sources[1];
  };
  return std::max(count, reduction.whole) >= kStreamFrom && std::all_of(targets.begin(), targets.end(), fits);
}
#endif

VectorWidth find_widest() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return VectorWidth::avx512;
  }
  if (__builtin_cpu_supports("avx2")) return VectorWidth::avx2;
#endif
  return VectorWidth::scalar;
}

}  // namespace

VectorWidth widest_vectors() {
  static const VectorWidth widest = find_widest();
  return widest;
}

void reduce_with(VectorWidth width, const Reduction& reduction, Sources sources, Targets targets, std::size_t count) {
#ifdef __x86_64__
  if (width == VectorWidth::avx512) return reduce_avx512(reduction, sources, targets, count);
  if (width == VectorWidth::avx2) return reduce_avx2(reduction, sources, targets, count);
#endif
  (void)width;
  reduce_scalar(reduction, sources, targets, count);
}

void reduce(const Reduction& reduction, Sources sources, Targets targets, std::size_t count) {
#ifdef __x86_64__
  if (widest_vectors() == VectorWidth::avx512 && can_stream(reduction, sources, targets, count)) {
    const auto* const a = static_cast<const float*>(sources[0]);
    const auto* const b = static_cast<const float*>(sources[1]);
    const std::size_t whole = count / 64 * 64;
    if (targets.size() == 2 && std::max(count, reduction.whole) < kStreamAllFrom) {
      stream_sum_twice(a, b, static_cast<float*>(targets[0]), static_cast<float*>(targets[1]), whole);
    } else {
      stream_sum(a, b, targets, whole);
    }
    if (whole == count) return;
    // The rest, as far as it goes, in the usual way.
    const void* const rest_sources[] = {a + whole, b + whole};
    for (void* const target : targets) {
      void* const rest = static_cast<float*>(target) + whole;
      reduce_avx512(reduction, rest_sources, {&rest, 1}, count - whole);
    }
    return;
  }
#endif
  reduce_with(widest_vectors(), reduction, sources, targets, count);
}

}  // namespace twinpod::comm
