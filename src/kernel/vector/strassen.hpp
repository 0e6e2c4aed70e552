// Products of large matrices in seven eighths of the multiplications (Strassen, "Gaussian elimination is not optimal",
// 1969): each operand is cut into four quadrants, and seven products of sums of quadrants make what eight products of
// quadrants would.
//
// Sums are made on the way into packed blocks, and a product is added to its quadrants out of the registers (Huang,
// Smith, Henry and van de Geijn, "Strassen's algorithm reloaded", SC'16), so nothing is gone through once more. Blocks:
// so many columns that the sums of b fit into the last cache, so many rows that those of a fit into the second; the
// quadrants of c that a strip of columns makes are added up beside them, and written once.
//
// Errors are some two times those of a plain product. They are in proportion to the largest elements of the operands:
// a row that is much smaller than the others loses digits. Gemm::recombines says where that does no harm.
#pragma once

#include <cstdint>

#include "kernel/vector/gemm.hpp"

namespace twinpod::kernel::vector {

constexpr int kQuadrants = 4;  // upper left, upper right, lower left, lower right
constexpr int kSeven = 7;
constexpr std::int64_t kHalfDepth = 384;        // most of k / 2 at a time
constexpr std::int64_t kSumsOfB = 1050 * 1024;  // floats, of all seven
constexpr std::int64_t kSumsOfA = 147 * 1024;   // the same
constexpr std::int64_t kSumsApart = 80;         // floats between two of seven: not in the same lines of a cache
constexpr std::int64_t kMostRows = 960;         // of a quadrant
constexpr std::int64_t kQuadrantsOfC = kQuadrants * (48 * kMostRows + 16);
constexpr std::int64_t kStrassenFloats = kSumsOfB + kSumsOfA + 2 * kSeven * kSumsApart + kQuadrantsOfC;

// The seven sums of quadrants q, of a and of b.
template <typename V>
struct Sevens {
  V of[kSeven];
};
template <typename V>
TWINPOD_INLINE Sevens<V> sums_of_a(const V (&q)[kQuadrants]) {
  return {{q[0] + q[3], q[2] + q[3], q[0], q[3], q[0] + q[1], q[2] - q[0], q[1] - q[3]}};
}
template <typename V>
TWINPOD_INLINE Sevens<V> sums_of_b(const V (&q)[kQuadrants]) {
  return {{q[0] + q[3], q[0], q[1] - q[3], q[2] - q[0], q[3], q[0] + q[1], q[2] + q[3]}};
}

// Where a product goes: into one quadrant or two, the first of a quadrant in the place of what is there.
struct Part {
  int quadrant;
  float sign;
  bool adds;
};
struct Parts {
  int count;
  Part of[2];
};
constexpr Parts kPartsOfC[kSeven] = {{2, {{0, 1, false}, {3, 1, false}}},
                                     {2, {{2, 1, false}, {3, -1, true}}},
                                     {2, {{1, 1, false}, {3, 1, true}}},
                                     {2, {{0, 1, true}, {2, 1, true}}},
                                     {2, {{0, -1, true}, {1, 1, true}}},
                                     {1, {{3, 1, true}}},
                                     {1, {{0, 1, true}}}};

// Quadrants of an operand as stored: `first` and rows `stride` apart, the others to the right of it and below.
struct Cut {
  const float* first;
  std::int64_t stride;
  std::int64_t right, below;  // elements from one quadrant to the next

  template <typename V>
  TWINPOD_INLINE void load(std::int64_t at, bool transposed, V (&q)[kQuadrants]) const {
    const float* p = first + at;
    q[0] = V::load(p);
    q[1] = V::load(p + (transposed ? below : right));
    q[2] = V::load(p + (transposed ? right : below));
    q[3] = V::load(p + right + below);
  }
};

// The sums of a, rows x depth each, `apart` floats from one to the next: as rows, element (i, x) at [i * depth + x].
template <typename V>
void sum_rows_of_a(const Cut& a, std::int64_t rows, std::int64_t depth, float* to, std::int64_t apart) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t x = 0; x < depth; x += V::kWidth) {
      V q[kQuadrants];
      a.load<V>(i * a.stride + x, false, q);
      const Sevens<V> sums = sums_of_a(q);
      for (int p = 0; p < kSeven; ++p) sums.of[p].store(to + p * apart + i * depth + x);
    }
  }
}

// The same of a transposed a: in groups of as many rows as a vector is wide, element (i, x) at [x * width + i].
template <typename V>
void sum_columns_of_a(const Cut& a, std::int64_t rows, std::int64_t depth, float* to, std::int64_t apart) {
  for (std::int64_t x = 0; x < depth; ++x) {
    for (std::int64_t i = 0; i < rows; i += V::kWidth) {
      V q[kQuadrants];
      a.load<V>(x * a.stride + i, true, q);
      const Sevens<V> sums = sums_of_a(q);
      for (int p = 0; p < kSeven; ++p) sums.of[p].store(to + p * apart + i * depth + x * V::kWidth);
    }
  }
}

// The sums of b as slivers, element (x, j) of one at [x * kTileWidth + j].
template <typename V>
void sum_rows_of_b(const Cut& b, std::int64_t width, std::int64_t depth, float* to, std::int64_t apart) {
  constexpr std::int64_t kW = kTileWidth<V>;
  for (std::int64_t x = 0; x < depth; ++x) {
    for (std::int64_t j = 0; j < width; j += V::kWidth) {
      V q[kQuadrants];
      b.load<V>(x * b.stride + j, false, q);
      const Sevens<V> sums = sums_of_b(q);
      float* const at = to + j / kW * kW * depth + x * kW + j % kW;
      for (int p = 0; p < kSeven; ++p) sums.of[p].store(at + p * apart);
    }
  }
}

// The same of a transposed b: each quadrant is turned in squares.
template <typename V>
void sum_columns_of_b(const Cut& b, std::int64_t width, std::int64_t depth, float* to, std::int64_t apart) {
  constexpr std::int64_t kW = kTileWidth<V>, kSide = V::kWidth;
  alignas(64) float squares[kQuadrants][kSide * kSide];
  const std::int64_t places[kQuadrants] = {0, b.below, b.right, b.below + b.right};
  for (std::int64_t j = 0; j < width; j += kSide) {
    for (std::int64_t x = 0; x < depth; x += kSide) {
      for (int of = 0; of < kQuadrants; ++of)
        transpose<V>(kSide, kSide, b.first + places[of] + j * b.stride + x, b.stride, squares[of], kSide);
      float* const at = to + j / kW * kW * depth + x * kW + j % kW;
      for (std::int64_t u = 0; u < kSide; ++u) {
        V q[kQuadrants];
        for (int of = 0; of < kQuadrants; ++of) q[of] = V::load(squares[of] + u * kSide);
        const Sevens<V> sums = sums_of_b(q);
        for (int p = 0; p < kSeven; ++p) sums.of[p].store(at + p * apart + u * kW);
      }
    }
  }
}

// What will be wanted soon, a few lines of it for each tile: those of c that are written next, and of a that are summed
// next.
struct Soon {
  const float* first = nullptr;
  std::int64_t stride = 0;
  std::int64_t lines_of_row = 1;
  std::int64_t lines = 0;     // of all
  std::int64_t for_each = 0;  // tile
  std::int64_t next = 0;

  template <bool Writes>
  TWINPOD_INLINE void fetch() {
    for (std::int64_t i = 0; i < for_each && next < lines; ++i, ++next)
      __builtin_prefetch(first + next / lines_of_row * stride + next % lines_of_row * 16, Writes ? 1 : 0,
                         Writes ? 3 : 2);
  }
  void spread(std::int64_t tiles) { for_each = (lines + tiles - 1) / tiles; }
};

// One tile, added to its place in the quadrants of c, which lie as tiles, `apart` floats from one quadrant to the next.
template <typename V>
TWINPOD_INLINE void make_tile(std::int64_t depth, Steps steps, const float* a, const float* b, const Parts& parts,
                              float* c, std::int64_t apart, Soon (&soon)[2]) {
  constexpr int kR = kTileRows<V>, kC = kTileVectors<V>;
  // So many steps before the end the tiles of c are fetched: earlier, and they would be gone again.
  const std::int64_t ahead = depth < 16 ? depth : 16;
  Registers<V> r;
  clear<V>(r);
  const std::int64_t half = (depth - ahead) / 2;
  soon[0].fetch<true>();
  add_slivers<V>(half, steps, a, b, r);
  soon[1].fetch<false>();
  add_slivers<V>(depth - ahead - half, steps, a, b, r);
  for (int part = 0; part < parts.count; ++part)
    for (int at = 0; at < kR * kC * V::kWidth; at += 16)
      __builtin_prefetch(c + parts.of[part].quadrant * apart + at, 1);
  add_slivers<V>(ahead, steps, a, b, r);
  for (int part = 0; part < parts.count; ++part) {
    float* const to = c + parts.of[part].quadrant * apart;
    const V sign = V::of(parts.of[part].sign);
    for (int i = 0; i < kR; ++i) {
      for (int j = 0; j < kC; ++j) {
        float* const at = to + (i * kC + j) * V::kWidth;
        (parts.of[part].adds ? fma(sign, r.sums[i][j], V::load(at)) : sign * r.sums[i][j]).store(at);
      }
    }
  }
}

// Rows of c, of all quadrants, from their tiles.
template <typename V>
void write_strip(const float* tiles, std::int64_t apart, std::int64_t rows, bool add, float* c, std::int64_t stride,
                 std::int64_t right) {
  for (int of = 0; of < kQuadrants; ++of) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* from = tiles + of * apart + i * kTileWidth<V>;
      float* to = c + (of / 2 * rows + i) * stride + of % 2 * right;
      for (int j = 0; j < kTileWidth<V>; j += V::kWidth) {
        const V value = V::load(from + j);
        (add ? V::load(to + j) + value : value).store(to + j);
      }
    }
  }
}

// A block of a product, and where its sums are. Sizes are those of a quadrant.
struct Seven {
  std::int64_t rows, width, depth;
  bool transpose_a;
  const float *sums_a, *sums_b;
  std::int64_t apart_a, apart_b;
  float* tiles;
};

// REQUIRES: c has 2 rows x 2 width; soon_a: what is summed next.
template <typename V>
void multiply_seven(const Seven& s, bool add, float* c, std::int64_t stride, Soon soon_a) {
  constexpr std::int64_t kR = kTileRows<V>, kW = kTileWidth<V>;
  const std::int64_t apart = s.rows * kW + 16;
  const std::int64_t tiles = kSeven * (s.rows / kR);
  soon_a.spread(tiles * (s.width / kW));
  Soon soon[2] = {{}, soon_a};
  for (std::int64_t j = 0; j < s.width; j += kW) {
    // Of both halves of the columns; the second one's are as far from the first one's as all columns of the first.
    for (int p = 0; p < kSeven; ++p) {
      if (p == 0 || p == 4) {
        soon[0] = {c + j + (p == 0 ? 0 : s.width), stride, (kW + 15) / 16, 2 * s.rows * ((kW + 15) / 16), 0, 0};
        soon[0].spread(3 * s.rows / kR);
      }
      for (std::int64_t i = 0; i < s.rows; i += kR) {
        const float* a = s.sums_a + p * s.apart_a;
        a += s.transpose_a ? i / V::kWidth * V::kWidth * s.depth + i % V::kWidth : i * s.depth;
        const float* b = s.sums_b + p * s.apart_b + j * s.depth;
        if (s.transpose_a) {
          make_tile<V>(s.depth, {1, V::kWidth}, a, b, kPartsOfC[p], s.tiles + i * kW, apart, soon);
        } else {
          make_tile<V>(s.depth, {s.depth, 1}, a, b, kPartsOfC[p], s.tiles + i * kW, apart, soon);
        }
      }
    }
    write_strip<V>(s.tiles, apart, s.rows, add, c + j, stride, s.width);
  }
}

inline std::int64_t down_to(std::int64_t multiple_of, std::int64_t x) { return x / multiple_of * multiple_of; }
inline std::int64_t at_least(std::int64_t least, std::int64_t x) { return x < least ? least : x; }

// All rows of some columns and some of the depth. REQUIRES: sizes can be cut.
template <typename V>
void multiply_strassen_columns(const Gemm& s, const float* a, const float* b, float* c, float* room) {
  const std::int64_t width = s.n / 2, depth = s.k / 2;
  Seven seven{.rows = 0,
              .width = width,
              .depth = depth,
              .transpose_a = s.transpose_a,
              .sums_a = nullptr,
              .sums_b = nullptr,
              .apart_a = 0,
              .apart_b = width * depth + kSumsApart,
              .tiles = room};
  float* const sums_b = room + kQuadrantsOfC;
  float* const sums_a = sums_b + kSumsOfB + kSeven * kSumsApart;
  seven.sums_a = sums_a;
  seven.sums_b = sums_b;
  if (s.transpose_b) {
    sum_columns_of_b<V>({b, s.stride_b, depth, width * s.stride_b}, width, depth, sums_b, seven.apart_b);
  } else {
    sum_rows_of_b<V>({b, s.stride_b, width, depth * s.stride_b}, width, depth, sums_b, seven.apart_b);
  }
  const std::int64_t fitting = kSumsOfA / kSeven / depth < kMostRows ? kSumsOfA / kSeven / depth : kMostRows;
  const std::int64_t most = at_least(V::kWidth, down_to(V::kWidth, fitting));
  const auto place = [&](std::int64_t i) { return a + (s.transpose_a ? i : i * s.stride_a); };
  for (std::int64_t i = 0; i < s.m; i += 2 * seven.rows) {
    seven.rows = s.m - i < 2 * most ? (s.m - i) / 2 : most;
    const std::int64_t rows = seven.rows;
    seven.apart_a = rows * depth + kSumsApart;
    if (s.transpose_a) {
      sum_columns_of_a<V>({place(i), s.stride_a, rows, depth * s.stride_a}, rows, depth, sums_a, seven.apart_a);
    } else {
      sum_rows_of_a<V>({place(i), s.stride_a, depth, rows * s.stride_a}, rows, depth, sums_a, seven.apart_a);
    }
    Soon soon;
    if (i + 4 * rows <= s.m) {
      const std::int64_t long_side = (s.transpose_a ? 2 * rows : s.k) / 16, short_side = s.transpose_a ? s.k : 2 * rows;
      soon = {place(i + 2 * rows), s.stride_a, at_least(1, long_side), long_side * short_side, 0, 0};
    }
    multiply_seven<V>(seven, s.accumulate, c + i * s.stride_c, s.stride_c, soon);
  }
}

// A product whose sizes can be cut.
template <typename V>
void multiply_even(const Gemm& s, const float* a, const float* b, float* c, float* room) {
  constexpr std::int64_t kDepthStep = 2 * V::kWidth, kColumnStep = 2 * kTileWidth<V>;
  const std::int64_t parts = (s.k + 2 * kHalfDepth - 1) / (2 * kHalfDepth);
  const std::int64_t most_depth = down_to(kDepthStep, s.k / parts + kDepthStep - 1);
  for (std::int64_t x = 0; x < s.k; x += most_depth) {
    Gemm part = s;
    part.k = s.k - x < most_depth ? s.k - x : most_depth;
    part.accumulate = s.accumulate || x > 0;
    const std::int64_t most_width = at_least(kColumnStep, down_to(kColumnStep, 2 * kSumsOfB / kSeven / (part.k / 2)));
    for (std::int64_t j = 0; j < s.n; j += most_width) {
      part.n = s.n - j < most_width ? s.n - j : most_width;
      multiply_strassen_columns<V>(part, a + (s.transpose_a ? x * s.stride_a : x),
                                   b + (s.transpose_b ? j * s.stride_b + x : x * s.stride_b + j), c + j, room);
    }
  }
}

// REQUIRES: strides are set, room for kStrassenFloats and kPackedFloats. What is left over at the edges, because
// quadrants are made of whole tiles, is multiplied as ever.
template <typename V>
void multiply_by_seven(const Gemm& s, const float* a, const float* b, float* c, float* room) {
  const std::int64_t m = down_to(2 * V::kWidth, s.m), n = down_to(2 * kTileWidth<V>, s.n),
                     k = down_to(2 * V::kWidth, s.k);
  if (m == 0 || n == 0 || k == 0) return multiply<V>(s, a, b, c, room);
  const auto rest = [&](std::int64_t i, std::int64_t j, std::int64_t x, Gemm part) {
    if (part.m <= 0 || part.n <= 0 || part.k <= 0) return;
    multiply<V>(part, a + (s.transpose_a ? x * s.stride_a + i : i * s.stride_a + x),
                b + (s.transpose_b ? j * s.stride_b + x : x * s.stride_b + j), c + i * s.stride_c + j, room);
  };
  Gemm even = s, deep = s, right = s, below = s;
  even.m = deep.m = right.m = m;
  even.n = deep.n = n;
  even.k = k;
  deep.k = s.k - k;
  deep.accumulate = true;
  right.n = s.n - n;
  below.m = s.m - m;
  multiply_even<V>(even, a, b, c, room);
  rest(0, 0, k, deep);
  rest(0, n, 0, right);
  rest(m, 0, 0, below);
}

}  // namespace twinpod::kernel::vector
