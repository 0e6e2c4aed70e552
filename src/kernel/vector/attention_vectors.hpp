// The products of attention in vectors: operands are copied into rows and columns of floats (attention_blocks.hpp).
#pragma once

#include <cstdint>

#include "kernel/vector/attention_backward.hpp"
#include "kernel/vector/tile.hpp"

namespace twinpod::kernel::vector {

// Rows of head_dim elements become rows of `width` floats;
// up to `filled` rows.
template <typename V, typename T>
void copy_rows(const AttentionPass& p, std::int64_t rows, std::int64_t filled, const T* from, std::int64_t stride,
               float* to) {
  const std::int64_t width = p.blocks.width;
  for (std::int64_t i = 0; i < filled; ++i) {
    if (i >= rows || p.shape.head_dim < width) fill_zero<V>(width, to + i * width);
    if (i >= rows) continue;
    each<V>(p.shape.head_dim, [&](std::int64_t j, auto lanes) {
      V::load(from + i * stride + j, lanes).store(to + i * width + j, lanes);
    });
  }
}

// All keys or values of a head as columns.
template <typename V, typename T>
void copy_columns(const AttentionPass& p, const T* from, float* to) {
  for (std::int64_t first = 0; first < p.shape.sequence; first += kBlock) {
    const std::int64_t left = p.shape.sequence - first, rows = left < kBlock ? left : kBlock;
    float* tile_at = to + first * p.blocks.width;
    if (rows < kBlock) fill_zero<V>(p.shape.head_dim * kBlock, tile_at);
    transpose<V>(rows, p.shape.head_dim, from + first * p.stride, p.stride, tile_at, kBlock);
  }
}

// Rows `group` .. `group` + 3 of a tile: a (64 rows of `width`) times columns. Of the tile on the diagonal, only the
// vectors that are not wholly behind it.
template <typename V>
TWINPOD_INLINE void score_rows(const AttentionPass& p, std::int64_t group, const float* a, const float* columns,
                               bool diagonal, float* scores) {
  const std::int64_t seen = diagonal ? group + kRows : kBlock;
  strip<V, false>((seen + V::kWidth - 1) / V::kWidth, p.shape.head_dim, {a + group * p.blocks.width, p.blocks.width, 1},
                  columns, kBlock, scores + group * kBlock, kBlock);
}

// A tile of the panel: rows of `a` (64 of `width`) times columns.
template <typename V>
void score_tile(const AttentionPass& p, std::int64_t rows, const float* a, const float* columns, bool diagonal,
                float* scores) {
  for (std::int64_t group = 0; group < rows; group += kRows) score_rows<V>(p, group, a, columns, diagonal, scores);
}

template <typename V>
struct VectorProducts {
  static constexpr int kRowsAtOnce = kRows;  // rows of a panel up to a multiple of it are read

  explicit VectorProducts(AttentionPass& /*pass*/) {}

  template <typename T>
  void take_keys(const AttentionPass& p, const T* keys, const T* values) const {
    copy_columns<V>(p, keys, p.key_columns);
    copy_rows<V>(p, p.shape.sequence, p.blocks.count * kBlock, values, p.stride, p.value_rows);
  }
  template <typename T>
  void take_keys_backward(const AttentionPass& p, const T* keys, const T* values) const {
    copy_rows<V>(p, p.shape.sequence, p.blocks.count * kBlock, keys, p.stride, p.key_rows);
    copy_columns<V>(p, keys, p.key_columns);
    copy_columns<V>(p, values, p.value_columns);
    fill_zero<V>(2 * p.blocks.count * kBlock * p.blocks.width, p.dkeys);  // and p.dvalues, which stands behind
  }
  template <typename T>
  void take_queries(const AttentionPass& p, std::int64_t rows, const T* queries) const {
    copy_rows<V>(p, rows, kBlock, queries, p.stride, p.queries);
    fill_zero<V>(kBlock * p.blocks.width, p.sums);
  }
  template <typename T>
  void take_queries_backward(const AttentionPass& p, std::int64_t rows, const T* queries, const T* douts) const {
    take_queries(p, rows, queries);
    copy_rows<V>(p, rows, kBlock, douts, p.keys_at, p.douts);
  }

  void score(const AttentionPass& p, std::int64_t rows, std::int64_t tile, bool diagonal, float* scores) const {
    score_tile<V>(p, rows, p.queries, p.key_columns + tile * kBlock * p.blocks.width, diagonal, scores);
  }
  void score_backward(const AttentionPass& p, std::int64_t rows, std::int64_t tile, bool diagonal, float* scores,
                      float* dshares) const {
    score(p, rows, tile, diagonal, scores);
    score_tile<V>(p, rows, p.douts, p.value_columns + tile * kBlock * p.blocks.width, diagonal, dshares);
  }

  // p.sums += the shares in the panel times values.
  void add_values(const AttentionPass& p, std::int64_t rows, std::int64_t first_tile, std::int64_t tiles,
                  bool ends_on_diagonal) const {
    const std::int64_t width = p.blocks.width;
    for (std::int64_t t = 0; t < tiles; ++t) {
      const float* values = p.value_rows + (first_tile + t) * kBlock * width;
      for (std::int64_t group = 0; group < rows; group += kRows) {
        const Operand shares{p.panel + t * kTile + group * kBlock, kBlock, 1};
        const std::int64_t depth = ends_on_diagonal && t + 1 == tiles ? group + kRows : kBlock;
        strip<V, true>(width / V::kWidth, depth, shares, values, width, p.sums + group * width, width);
      }
    }
  }

  // Adds what the tile in the panel gives to the gradients of queries, keys and values.
  void add_gradients(const AttentionPass& p, std::int64_t rows, std::int64_t tile, bool diagonal,
                     bool /*first_head*/) const {
    const float *shares = p.panel, *dscores = p.panel + kTile;
    const std::int64_t width = p.blocks.width, vectors = width / V::kWidth, at = tile * kBlock * width;
    const std::int64_t filled = (rows + kRows - 1) / kRows * kRows;
    for (std::int64_t key = 0; key < kBlock; key += kRows) {
      const std::int64_t from = diagonal ? key : 0;  // queries before it do not see the key
      if (from >= filled) break;
      const std::int64_t place = at + key * width, cell = from * kBlock + key;
      strip<V, true>(vectors, filled - from, {shares + cell, 1, kBlock}, p.douts + from * width, width,
                     p.dvalues + place, width);
      strip<V, true>(vectors, filled - from, {dscores + cell, 1, kBlock}, p.queries + from * width, width,
                     p.dkeys + place, width);
    }
    for (std::int64_t group = 0; group < filled; group += kRows) {
      strip<V, true>(vectors, diagonal ? group + kRows : kBlock, {dscores + group * kBlock, kBlock, 1}, p.key_rows + at,
                     width, p.sums + group * width, width);
    }
  }
  void finish_queries(const AttentionPass&, std::int64_t /*rows*/, std::int64_t /*block*/) const {}
};

template <typename V, typename T>
void attention(const AttentionShape& shape, const T* qkv, T* out, float* log_sums, void* workspace,
               const Dropout& dropout) {
  attention_by<V, T, VectorProducts<V>>(shape, qkv, out, log_sums, workspace, dropout);
}
template <typename V, typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* out, const float* log_sums, const T* dout,
                        T* dqkv, void* workspace, const Dropout& dropout) {
  attention_backward_by<V, T, VectorProducts<V>>(shape, qkv, out, log_sums, dout, dqkv, workspace, dropout);
}

}  // namespace twinpod::kernel::vector
