// Backward pass of causal attention over vectors. Shares (P) are computed again from the saved logarithms of their
// sums, a tile of 64 x 64 at a time:
//     dP = dO V^T    dS = P (dP - delta)    dV += P^T dO    dK += dS^T Q    dQ += dS K    delta = sum of O dO of a row
#pragma once

#include <cstdint>

#include "kernel/vector/attention.hpp"

namespace twinpod::kernel::vector {

// With dropout, in a row of a tile: P (dP factor - delta) is dS as before, and P factor is what values were taken by.
template <typename V>
TWINPOD_INLINE void drop_gradients(const DropoutRow& bits, std::int64_t column, float delta, std::int64_t seen,
                                   float* shares, float* dscores) {
  for (std::int64_t j = 0; j < kBlock; j += V::kWidth) {
    if (j >= seen) {
      V::zero().store(dscores + j);
      continue;
    }
    const V factor = dropout_factors<V>(bits, column + j), share = V::load(shares + j);
    (share * (V::load(dscores + j) * factor - V::of(delta))).store(dscores + j);
    (share * factor).store(shares + j);
  }
}

// P and dS of one tile, into the panel. `first`: query of its first row.
template <typename V, typename Products>
void tile_gradients(const AttentionPass& p, const Products& products, std::int64_t tile, std::int64_t first,
                    std::int64_t rows, bool diagonal) {
  const float *log_sums = p.row_values, *deltas = p.row_values + kBlock;
  float *shares = p.panel, *dscores = p.panel + kTile;
  products.score_backward(p, rows, tile, diagonal, shares, dscores);
  for (std::int64_t i = 0; i < rows || i % Products::kRowsAtOnce != 0; ++i) {
    // Rows behind the end of the sequence see nothing: they are zero.
    const std::int64_t seen = i < rows ? keys_seen(i, diagonal) : 0;
    tile_exponentials<V>(shares + i * kBlock, seen, p.scale, log_sums[i]);
    if (p.dropout.on()) {
      const DropoutRow bits = dropout_row(p.dropout, p.dropout.first_row + (first + i) * p.dropout.stride);
      drop_gradients<V>(bits, tile * kBlock, deltas[i], seen, shares + i * kBlock, dscores + i * kBlock);
      continue;
    }
    for (std::int64_t j = 0; j < kBlock; j += V::kWidth) {
      float* d = dscores + i * kBlock + j;
      if (j >= seen) {
        V::zero().store(d);
      } else {
        (V::load(shares + i * kBlock + j) * (V::load(d) - V::of(deltas[i]))).store(d);
      }
    }
  }
}

template <typename V, typename T>
TWINPOD_INLINE float row_dot(std::int64_t count, const T* a, const T* b) {
  V total = V::zero();
  each<V>(count, [&](std::int64_t j, auto lanes) { total = fma(V::load(a + j, lanes), V::load(b + j, lanes), total); });
  return sum(total);
}

// Rows of `width` floats, times `factor`, become elements of dqkv.
template <typename V, typename T>
void write_rows(const AttentionPass& p, std::int64_t rows, const float* from, float factor, T* to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    ask_to_write<V>(p.shape.head_dim, to + (i + kAhead) * p.stride);
    each<V>(p.shape.head_dim, [&](std::int64_t j, auto lanes) {
      (V::load(from + i * p.blocks.width + j, lanes) * V::of(factor)).store(to + i * p.stride + j, lanes);
    });
  }
}

template <typename V, typename Products, typename T>
void attend_block_backward(const AttentionPass& p, const Products& products, std::int64_t block, const T* queries,
                           const T* out, const float* log_sums, const T* dout, bool first_head, T* dqueries) {
  const std::int64_t first = block * kBlock, left = p.shape.sequence - first, rows = left < kBlock ? left : kBlock;
  const std::int64_t out_stride = p.keys_at;
  products.take_queries_backward(p, rows, queries + first * p.stride, dout + first * out_stride);
  fill_zero<V>(2 * kBlock, p.row_values);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = (first + i) * out_stride;
    p.row_values[i] = log_sums[first + i];
    p.row_values[kBlock + i] = row_dot<V>(p.shape.head_dim, out + at, dout + at);
  }
  for (std::int64_t tile = 0; tile <= block; ++tile) {
    tile_gradients<V>(p, products, tile, first, rows, tile == block);
    products.add_gradients(p, rows, tile, tile == block, first_head);
  }
  products.finish_queries(p, rows, block);
  write_rows<V>(p, rows, p.sums, p.scale, dqueries + first * p.stride);
}

template <typename V, typename T, typename Products>
void attention_backward_by(const AttentionShape& shape, const T* qkv, const T* out, const float* log_sums,
                           const T* dout, T* dqkv, void* workspace, const Dropout& dropout) {
  if (shape.sequence == 0) return;
  AttentionPass p = attention_pass<V>(shape, workspace);
  const Products products(p);
  const int group = shape.heads / shape.kv_heads, d = shape.head_dim;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t in = b * shape.sequence * p.stride, of_out = b * shape.sequence * p.keys_at;
    for (int kv = 0; kv < shape.kv_heads; ++kv) {
      products.take_keys_backward(p, qkv + in + p.keys_at + kv * d, qkv + in + p.values_at + kv * d);
      for (int head = kv * group; head < (kv + 1) * group; ++head) {
        p.dropout = dropout_of_head<V>(shape, dropout, b, head);
        for (std::int64_t block = 0; block < p.blocks.count; ++block)
          attend_block_backward<V>(p, products, block, qkv + in + head * d, out + of_out + head * d,
                                   log_sums + (b * shape.heads + head) * shape.sequence, dout + of_out + head * d,
                                   head == kv * group, dqkv + in + head * d);
      }
      write_rows<V>(p, shape.sequence, p.dkeys, p.scale, dqkv + in + p.keys_at + kv * d);
      write_rows<V>(p, shape.sequence, p.dvalues, 1, dqkv + in + p.values_at + kv * d);
    }
  }
}

}  // namespace twinpod::kernel::vector
