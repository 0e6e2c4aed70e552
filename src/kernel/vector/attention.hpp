// Causal attention over vectors, 64 queries at a time; see attention_blocks.hpp for how things lie in the workspace.
//
// Its matrix products are those of `Products`: VectorProducts (attention_vectors.hpp) or TileProducts
// (attention_tiles.hpp). All else (softmax, dropout, their gradients) is here and in attention_backward.hpp.
#pragma once

#include <cstdint>

#include "kernel/attention_blocks.hpp"
#include "kernel/vector/dropout.hpp"
#include "kernel/vector/vec.hpp"

namespace twinpod::kernel::vector {

// What belongs to one pass over a sequence: where the parts of a token's row stand, and the pieces of the workspace.
struct AttentionPass {
  AttentionShape shape;
  AttentionBlocks blocks;
  std::int64_t stride = 0, keys_at = 0, values_at = 0;  // of a token's row of qkv
  float scale = 0;                                      // of scores
  float *key_rows = nullptr, *key_columns = nullptr, *value_rows = nullptr, *value_columns = nullptr;
  float *dkeys = nullptr, *dvalues = nullptr, *panel = nullptr, *queries = nullptr, *douts = nullptr, *sums = nullptr;
  float* row_values = nullptr;  // 4 x kBlock
  Dropout dropout = {};         // of the head at work: its queries are the rows
};

template <typename V>
AttentionPass attention_pass(const AttentionShape& shape, void* workspace) {
  AttentionPass p;
  p.shape = shape;
  p.blocks = attention_blocks(shape);
  p.keys_at = static_cast<std::int64_t>(shape.heads) * shape.head_dim;
  p.values_at = p.keys_at + static_cast<std::int64_t>(shape.kv_heads) * shape.head_dim;
  p.stride = p.values_at + static_cast<std::int64_t>(shape.kv_heads) * shape.head_dim;
  p.scale = 1 / __builtin_sqrtf(static_cast<float>(shape.head_dim));
  const std::int64_t all = p.blocks.count * kBlock * p.blocks.width, block = kBlock * p.blocks.width;
  auto* next = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(workspace) + 63) / 64 * 64);
  const auto take = [&next](std::int64_t floats) {
    float* piece = next;
    next += floats;
    return piece;
  };
  p.key_columns = take(all);
  p.value_rows = p.key_rows = take(all);  // forward needs the one, backward the other
  p.value_columns = take(all);
  p.dkeys = take(all);
  p.dvalues = take(all);
  p.panel = take(p.blocks.panel * kTile);
  p.queries = take(block);
  p.douts = take(block);
  p.sums = take(block);
  p.row_values = take(4 * kBlock);
  return p;
}

template <typename V>
TWINPOD_INLINE void fill_zero(std::int64_t count, float* x) {
  each<V>(count, [&](std::int64_t i, auto lanes) { V::zero().store(x + i, lanes); });
}

// How many keys of a tile the query in its row `row` sees, and how many it reads: the rest of a group of rows is zero.
TWINPOD_INLINE std::int64_t keys_seen(std::int64_t row, bool diagonal) { return diagonal ? row + 1 : kBlock; }

template <typename V>
TWINPOD_INLINE float tile_maximum(const float* row, std::int64_t seen) {
  const V least = V::of(-__builtin_inff());
  V m = least;
  each<V>(seen, [&](std::int64_t j, auto lanes) { m = max(m, V::only(V::load(row + j, lanes), lanes, least)); });
  return largest(m);
}

// exp(score scale - shift) in place, zeros where the query does not look; gives their sum.
template <typename V>
TWINPOD_INLINE V tile_exponentials(float* row, std::int64_t seen, float scale, float shift) {
  V total = V::zero();
  for (std::int64_t j = 0; j < kBlock; j += V::kWidth) {
    if (j >= seen) {
      V::zero().store(row + j);
      continue;
    }
    V e = exponential(fma(V::load(row + j), V::of(scale), V::of(-shift)));
    if (j + V::kWidth > seen) e = V::only(e, First{static_cast<int>(seen - j)}, V::zero());
    e.store(row + j);
    total = total + e;
  }
  return total;
}

// One block of queries with one panel of keys. maxima and totals are of each row so far.
template <typename V>
void softmax_panel(const AttentionPass& p, std::int64_t rows, std::int64_t tiles, bool ends_on_diagonal, bool first,
                   float* maxima, float* totals) {
  for (std::int64_t i = 0; i < rows; ++i) {
    float maximum = first ? -__builtin_inff() : maxima[i];
    for (std::int64_t t = 0; t < tiles; ++t) {
      const float here =
          tile_maximum<V>(p.panel + t * kTile + i * kBlock, keys_seen(i, ends_on_diagonal && t + 1 == tiles)) * p.scale;
      maximum = here > maximum ? here : maximum;
    }
    V total = V::zero();
    for (std::int64_t t = 0; t < tiles; ++t) {
      total = total + tile_exponentials<V>(p.panel + t * kTile + i * kBlock,
                                           keys_seen(i, ends_on_diagonal && t + 1 == tiles), p.scale, maximum);
    }
    float before = 0;
    if (!first) {
      const float factor = __builtin_expf(maxima[i] - maximum);
      before = totals[i] * factor;
      float* row = p.sums + i * p.blocks.width;
      each<V>(p.blocks.width,
              [&](std::int64_t j, auto lanes) { (V::load(row + j, lanes) * V::of(factor)).store(row + j, lanes); });
    }
    maxima[i] = maximum;
    totals[i] = before + sum(total);
  }
}

// Shares of a block's queries in the panel are dropped here and there, and the others scaled.
template <typename V>
void drop_panel(const AttentionPass& p, std::int64_t block, std::int64_t rows, std::int64_t first_tile,
                std::int64_t tiles) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const DropoutRow bits = dropout_row(p.dropout, p.dropout.first_row + (block * kBlock + i) * p.dropout.stride);
    for (std::int64_t t = 0; t < tiles; ++t) {
      for (std::int64_t j = 0; j < kBlock; j += V::kWidth) {
        float* share = p.panel + t * kTile + i * kBlock + j;
        (V::load(share) * dropout_factors<V>(bits, (first_tile + t) * kBlock + j)).store(share);
      }
    }
  }
}

// Scores of the block of queries number `block` with the tiles first_tile .. of the panel, and p.sums += their softmax
// times values.
template <typename V, typename Products>
void attend_panel(const AttentionPass& p, const Products& products, std::int64_t block, std::int64_t rows,
                  std::int64_t first_tile, std::int64_t tiles, float* maxima, float* totals) {
  const bool ends = first_tile + tiles == block + 1;
  for (std::int64_t t = 0; t < tiles; ++t)
    products.score(p, rows, first_tile + t, ends && t + 1 == tiles, p.panel + t * kTile);
  softmax_panel<V>(p, rows, tiles, ends, first_tile == 0, maxima, totals);
  if (p.dropout.on()) drop_panel<V>(p, block, rows, first_tile, tiles);
  for (std::int64_t i = rows; i % Products::kRowsAtOnce != 0; ++i) {
    for (std::int64_t t = 0; t < tiles; ++t) fill_zero<V>(kBlock, p.panel + t * kTile + i * kBlock);
  }
  products.add_values(p, rows, first_tile, tiles, ends);
}

// Rows of a head stand so far apart in memory that no processor guesses the next one.
constexpr std::int64_t kAhead = 8;
template <typename V, typename T>
TWINPOD_INLINE void ask_to_write(std::int64_t count, const T* row) {
  for (std::int64_t j = 0; j < count; j += 64 / static_cast<std::int64_t>(sizeof(T))) __builtin_prefetch(row + j, 1);
}

template <typename V, typename Products, typename T>
void attend_block(const AttentionPass& p, const Products& products, std::int64_t block, const T* queries, T* out,
                  float* log_sums) {
  const std::int64_t first = block * kBlock, left = p.shape.sequence - first, rows = left < kBlock ? left : kBlock;
  const std::int64_t width = p.blocks.width, out_stride = p.keys_at;
  float *maxima = p.row_values, *totals = p.row_values + kBlock;
  products.take_queries(p, rows, queries + first * p.stride);
  for (std::int64_t tile = 0; tile <= block; tile += p.blocks.panel) {
    const std::int64_t rest = block + 1 - tile;
    attend_panel<V>(p, products, block, rows, tile, rest < p.blocks.panel ? rest : p.blocks.panel, maxima, totals);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    ask_to_write<V>(p.shape.head_dim, out + (first + i + kAhead) * out_stride);
    const V factor = V::of(1 / totals[i]);
    log_sums[first + i] = maxima[i] + __builtin_logf(totals[i]);
    each<V>(p.shape.head_dim, [&](std::int64_t j, auto lanes) {
      (V::load(p.sums + i * width + j, lanes) * factor).store(out + (first + i) * out_stride + j, lanes);
    });
  }
}

// Of a head of sequence `b`.
template <typename V>
TWINPOD_INLINE Dropout dropout_of_head(const AttentionShape& shape, const Dropout& dropout, std::int64_t b, int head) {
  Dropout own = dropout;
  own.first_row += b * shape.sequence * dropout.stride + head;
  return own;
}

template <typename V, typename T, typename Products>
void attention_by(const AttentionShape& shape, const T* qkv, T* out, float* log_sums, void* workspace,
                  const Dropout& dropout) {
  if (shape.sequence == 0) return;
  AttentionPass p = attention_pass<V>(shape, workspace);
  const Products products(p);
  const int group = shape.heads / shape.kv_heads, d = shape.head_dim;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const T* sequence = qkv + b * shape.sequence * p.stride;
    for (int kv = 0; kv < shape.kv_heads; ++kv) {
      products.take_keys(p, sequence + p.keys_at + kv * d, sequence + p.values_at + kv * d);
      for (int head = kv * group; head < (kv + 1) * group; ++head) {
        p.dropout = dropout_of_head<V>(shape, dropout, b, head);
        for (std::int64_t block = 0; block < p.blocks.count; ++block)
          attend_block<V>(p, products, block, sequence + head * d, out + b * shape.sequence * p.keys_at + head * d,
                          log_sums + (b * shape.heads + head) * shape.sequence);
      }
    }
  }
}

template <typename V, typename T>
void causal_softmax(std::int64_t matrices, std::int64_t sequence, double scale, T* scores) {
  const V factor = V::of(static_cast<float>(scale)), least = V::of(-__builtin_inff());
  for (std::int64_t row = 0; row < matrices * sequence; ++row, scores += sequence) {
    const std::int64_t seen = row % sequence + 1;
    V most = least, total = V::zero();
    each<V>(seen, [&](std::int64_t j, auto lanes) {
      most = max(most, V::only(V::load(scores + j, lanes) * factor, lanes, least));
    });
    const V maximum = V::of(largest(most));
    const auto share = [&](std::int64_t j, auto lanes) {
      return V::only(exponential(V::load(scores + j, lanes) * factor - maximum), lanes, V::zero());
    };
    each<V>(seen, [&](std::int64_t j, auto lanes) { total = total + share(j, lanes); });
    const V part = V::of(1 / sum(total));
    each<V>(seen, [&](std::int64_t j, auto lanes) { (share(j, lanes) * part).store(scores + j, lanes); });
    each<V>(sequence - seen, [&](std::int64_t j, auto lanes) { V::zero().store(scores + seen + j, lanes); });
  }
}

template <typename V, typename T>
void causal_softmax_backward(std::int64_t matrices, std::int64_t sequence, double scale, const T* shares, T* d) {
  for (std::int64_t row = 0; row < matrices * sequence; ++row, shares += sequence, d += sequence) {
    const std::int64_t seen = row % sequence + 1;
    V total = V::zero();
    each<V>(seen,
            [&](std::int64_t j, auto lanes) { total = fma(V::load(shares + j, lanes), V::load(d + j, lanes), total); });
    const V mean = V::of(sum(total)), factor = V::of(static_cast<float>(scale));
    each<V>(seen, [&](std::int64_t j, auto lanes) {
      (V::load(shares + j, lanes) * (V::load(d + j, lanes) - mean) * factor).store(d + j, lanes);
    });
    each<V>(sequence - seen, [&](std::int64_t j, auto lanes) { V::zero().store(d + seen + j, lanes); });
  }
}

}  // namespace twinpod::kernel::vector
