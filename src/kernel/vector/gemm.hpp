// Matrix products by packed blocks (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008),
// for shapes where the library is slow, and for Bf16, which is widened to float on the way into the blocks.
//
// A block of b (kDepth x kWide) is packed into slivers as wide as the registers hold, a block of a (kTall x kDepth)
// into slivers as tall; then each pair of slivers makes one tile of c in registers. Whatever way operands lie, slivers
// are the same.
#pragma once

#include <cstdint>

#include "kernel/gemm.hpp"
#include "kernel/vector/tile.hpp"

namespace twinpod::kernel::vector {

constexpr std::int64_t kDepth = 384;
constexpr std::int64_t kTall = 240;
constexpr std::int64_t kWide = 768;
constexpr std::int64_t kSumRows = 960;  // rows of sums that are kept in float when c is Bf16

// Sums in registers: rows by vectors.
template <typename V>
constexpr int kTileRows = V::kWidth == 16 ? 8 : 4;
template <typename V>
constexpr int kTileVectors = 3;
template <typename V>
constexpr int kTileWidth = kTileVectors<V>* V::kWidth;

// to[x * rows + i] = element (i, x), i < rows (zero from `filled` on), x < depth. `across`: elements of one x stand
// side by side in memory, else those of one i do.
template <typename V, int Rows, typename T>
TWINPOD_INLINE void pack_sliver(std::int64_t filled, std::int64_t depth, bool across, const T* from,
                                std::int64_t stride, float* to) {
  if (!across) {
    if (filled < Rows) {
      for (std::int64_t at = 0; at < Rows * depth; ++at) to[at] = 0;
    }
    return transpose<V>(filled, depth, from, stride, to, Rows);
  }
  for (std::int64_t x = 0; x < depth; ++x, from += stride, to += Rows) {
    for (int i = 0; i < Rows; i += 16) __builtin_prefetch(from + 8 * stride + i);
    if (filled < Rows) {
      for (int i = 0; i < Rows; ++i) to[i] = i < filled ? widened<V>(from[i]) : 0;
    } else if constexpr (Rows % V::kWidth == 0) {
      for (int i = 0; i < Rows; i += V::kWidth) V::load(from + i).store(to + i);
    } else if constexpr (Rows % Avx2::kWidth == 0) {
      for (int i = 0; i < Rows; i += Avx2::kWidth) Avx2::load(from + i).store(to + i);
    } else {
      for (int i = 0; i < Rows; ++i) to[i] = widened<V>(from[i]);
    }
  }
}

// Four slivers of 8 at a time: whole lines of the cache are read, some rows ahead.
template <typename V, typename T>
void pack_four(std::int64_t depth, const T* from, std::int64_t stride, float* to) {
  for (std::int64_t x = 0; x < depth; ++x, from += stride, to += 8) {
    __builtin_prefetch(from + 12 * stride);
    __builtin_prefetch(from + 12 * stride + 16);
    for (int i = 0; i < 4; ++i) Avx2::load(from + 8 * i).store(to + 8 * i * depth);
  }
}

template <typename V, int Rows, typename T>
void pack(std::int64_t rows, std::int64_t depth, bool across, const T* from, std::int64_t stride, float* to) {
  std::int64_t i = 0;
  if (Rows == 8 && across) {
    for (; i + 32 <= rows; i += 32) pack_four<V>(depth, from + i, stride, to + i * depth);
  }
  for (; i < rows; i += Rows) {
    const std::int64_t filled = rows - i < Rows ? rows - i : Rows;
    pack_sliver<V, Rows>(filled, depth, across, from + (across ? i : i * stride), stride, to + i * depth);
  }
}

template <typename V>
struct Registers {
  V sums[kTileRows<V>][kTileVectors<V>];
};

// Element (i, x) of a sliver of a is at [i * row + x * step].
struct Steps {
  std::int64_t row, step;
};

// a and b end behind what was multiplied.
template <typename V>
TWINPOD_INLINE void add_slivers(std::int64_t depth, Steps steps, const float*& a, const float*& b, Registers<V>& r) {
  constexpr int kR = kTileRows<V>, kC = kTileVectors<V>;
  for (std::int64_t x = 0; x < depth; ++x, a += steps.step, b += kC * V::kWidth) {
    V line[kC];
    for (int j = 0; j < kC; ++j) line[j] = V::load(b + j * V::kWidth);
    for (int i = 0; i < kR; ++i) {
      const V factor = V::of(a[i * steps.row]);
      for (int j = 0; j < kC; ++j) r.sums[i][j] = fma(factor, line[j], r.sums[i][j]);
    }
  }
}

template <typename V>
TWINPOD_INLINE void clear(Registers<V>& r) {
  for (int i = 0; i < kTileRows<V>; ++i)
    for (int j = 0; j < kTileVectors<V>; ++j) r.sums[i][j] = V::zero();
}

// Writes or adds rows x width of the registers to c.
template <typename V>
TWINPOD_INLINE void write_tile(const Registers<V>& r, std::int64_t rows, std::int64_t width, bool add, float* c,
                               std::int64_t stride) {
  for (int i = 0; i < kTileRows<V> && i < rows; ++i) {
    for (int j = 0; j < kTileVectors<V>; ++j) {
      float* at = c + i * stride + j * V::kWidth;
      const std::int64_t left = width - j * V::kWidth;
      if (left >= V::kWidth) {
        (add ? V::load(at) + r.sums[i][j] : r.sums[i][j]).store(at);
      } else if (left > 0) {
        const First lanes{static_cast<int>(left)};
        (add ? V::load(at, lanes) + r.sums[i][j] : r.sums[i][j]).store(at, lanes);
      }
    }
  }
}

template <typename V>
void multiply_blocks(std::int64_t rows, std::int64_t width, std::int64_t depth, const float* a, const float* b,
                     bool add, float* c, std::int64_t stride) {
  constexpr std::int64_t kR = kTileRows<V>, kW = kTileWidth<V>;
  for (std::int64_t j = 0; j < width; j += kW) {
    for (std::int64_t i = 0; i < rows; i += kR) {
      float* at = c + i * stride + j;
      for (std::int64_t u = 0; u < kR && i + u < rows; ++u) {
        for (std::int64_t w = 0; w < kW; w += 16) __builtin_prefetch(at + u * stride + w, 1);
      }
      Registers<V> r;
      clear<V>(r);
      const float *sliver_a = a + i * depth, *sliver_b = b + j * depth;
      add_slivers<V>(depth, {1, kR}, sliver_a, sliver_b, r);
      write_tile<V>(r, rows - i, width - j, add, at, stride);
    }
  }
}

// Room for packed blocks, in floats.
constexpr std::int64_t kPackedFloats = kDepth * (kTall + 16) + kDepth * (kWide + 64) + kSumRows * kWide;

// Columns `first` .. of c, all of their depth, into floats.
template <typename V, typename T>
void multiply_columns(const Gemm& s, const T* a, const T* b, bool add, float* c, std::int64_t stride, float* room) {
  float *packed_a = room, *packed_b = room + kDepth * (kTall + 16);
  for (std::int64_t x = 0; x < s.k; x += kDepth) {
    const std::int64_t depth = s.k - x < kDepth ? s.k - x : kDepth;
    pack<V, kTileWidth<V>>(s.n, depth, !s.transpose_b, b + (s.transpose_b ? x : x * s.stride_b), s.stride_b, packed_b);
    for (std::int64_t i = 0; i < s.m; i += kTall) {
      const std::int64_t rows = s.m - i < kTall ? s.m - i : kTall;
      const T* from = a + (s.transpose_a ? x * s.stride_a + i : i * s.stride_a + x);
      pack<V, kTileRows<V>>(rows, depth, s.transpose_a, from, s.stride_a, packed_a);
      multiply_blocks<V>(rows, s.n, depth, packed_a, packed_b, add || x > 0, c + i * stride, stride);
    }
  }
}

// One block of c of at most kSumRows x kWide.
template <typename V, typename T, typename C>
void multiply_part(const Gemm& s, const T* a, const T* b, C* c, float* room) {
  if constexpr (sizeof(C) == sizeof(float)) {
    multiply_columns<V>(s, a, b, s.accumulate, c, s.stride_c, room);
  } else {
    float* sums = room + kPackedFloats - kSumRows * kWide;
    multiply_columns<V>(s, a, b, false, sums, kWide, room);
    for (std::int64_t i = 0; i < s.m; ++i) {
      each<V>(s.n, [&](std::int64_t j, auto lanes) {
        V value = V::load(sums + i * kWide + j, lanes);
        if (s.accumulate) value = value + V::load(c + i * s.stride_c + j, lanes);
        value.store(c + i * s.stride_c + j, lanes);
      });
    }
  }
}

// REQUIRES: strides are set, sizes from 1 on, room for kPackedFloats.
template <typename V, typename T, typename C>
void multiply(const Gemm& s, const T* a, const T* b, C* c, float* room) {
  const std::int64_t tall = sizeof(C) == sizeof(float) ? s.m : kSumRows;
  for (std::int64_t i = 0; i < s.m; i += tall) {
    for (std::int64_t j = 0; j < s.n; j += kWide) {
      Gemm part = s;
      part.m = s.m - i < tall ? s.m - i : tall;
      part.n = s.n - j < kWide ? s.n - j : kWide;
      multiply_part<V>(part, a + (s.transpose_a ? i : i * s.stride_a), b + (s.transpose_b ? j * s.stride_b : j),
                       c + i * s.stride_c + j, room);
    }
  }
}

}  // namespace twinpod::kernel::vector
