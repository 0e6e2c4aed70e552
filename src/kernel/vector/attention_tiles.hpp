// The products of attention in tiles (tiles.hpp): keys, values and queries of a head are packed once, shares and their
// gradients when they are there. fp32 in three pieces, as products are; of bf16, shares are rounded to bf16.
#pragma once

#include <cstdint>

#include "kernel/room.hpp"
#include "kernel/vector/attention_backward.hpp"
#include "kernel/vector/tiles.hpp"

namespace twinpod::kernel::vector {

// Packed operands, all of them strips of 32 lines: rows of the panel, or what a panel is multiplied by.
template <typename T>
struct TileProducts {
  static constexpr int kRowsAtOnce = kStripLines;
  static constexpr int kHere = kPieces<T>;
  static constexpr std::int64_t kStep = kHere * 2 * kTileBytes;       // bytes of 32 lines by 32 of the depth
  static constexpr std::int64_t kBlockSteps = kBlock / kTileDepth;    // of a block as depth
  static constexpr std::int64_t kBlockStrips = kBlock / kStripLines;  // of a block as lines

  std::int64_t dim_steps = 0;  // head_dim as depth; as many strips, when it is lines
  std::int64_t key_steps = 0;  // all keys as depth
  // Named by lines and depth: key_dim has a line for each key, head_dim deep.
  std::byte *key_dim = nullptr, *dim_key = nullptr, *value_dim = nullptr, *dim_value = nullptr;
  std::byte *query_dim = nullptr, *dim_query = nullptr, *dout_dim = nullptr, *dim_dout = nullptr;
  std::byte* shares = nullptr;  // a block's queries by the keys of a panel; of backward: gradients of scores
  std::byte *share_columns = nullptr, *gradient_columns = nullptr;  // a tile's keys by its queries
  Bf16* rounded = nullptr;                                          // a tile of the panel

  // Sums get room for whole strips.
  explicit TileProducts(AttentionPass& p) {
    dim_steps = (p.shape.head_dim + kTileDepth - 1) / kTileDepth;
    key_steps = p.blocks.count * kBlockSteps;
    p.blocks.width = dim_steps * kTileDepth;
    const std::int64_t keys = key_steps * dim_steps * kStep, block = kBlockSteps * dim_steps * kStep;
    const std::int64_t panel = kBlockStrips * p.blocks.panel * kBlockSteps * kStep;
    const std::int64_t square = kBlockStrips * kBlockSteps * kStep;
    const std::int64_t floats = (2 * p.blocks.count + 1) * kBlock * p.blocks.width;
    std::byte* next = room_of_thread(3 * keys + 4 * block + panel + 2 * square + kTile * 2 + floats * 4);
    const auto take = [&next](std::int64_t bytes) {
      std::byte* piece = next;
      next += bytes;
      return piece;
    };
    key_dim = take(keys);
    dim_key = dim_value = take(keys);  // backward needs the one, forward the other
    value_dim = take(keys);
    query_dim = take(block);
    dim_query = take(block);
    dout_dim = take(block);
    dim_dout = take(block);
    shares = take(panel);
    share_columns = take(square);
    gradient_columns = take(square);
    rounded = reinterpret_cast<Bf16*>(take(kTile * 2));
    p.dkeys = reinterpret_cast<float*>(take(floats * 4));
    p.dvalues = p.dkeys + p.blocks.count * kBlock * p.blocks.width;
    p.sums = p.dvalues + p.blocks.count * kBlock * p.blocks.width;
    const TileShapes shapes;
    _tile_loadconfig(&shapes);
  }
  ~TileProducts() { _tile_release(); }
  TileProducts(const TileProducts&) = delete;
  TileProducts& operator=(const TileProducts&) = delete;

  void take_keys(const AttentionPass& p, const T* keys, const T* values) const {
    pack_strips(Lines<T>{keys, p.stride, false}, p.shape.sequence, p.shape.head_dim, true, key_dim);
    pack_strips(Lines<T>{values, p.stride, true}, p.shape.head_dim, p.shape.sequence, true, dim_value, key_steps);
  }
  void take_keys_backward(const AttentionPass& p, const T* keys, const T* values) const {
    pack_strips(Lines<T>{keys, p.stride, false}, p.shape.sequence, p.shape.head_dim, true, key_dim);
    pack_strips(Lines<T>{values, p.stride, false}, p.shape.sequence, p.shape.head_dim, true, value_dim);
    pack_strips(Lines<T>{keys, p.stride, true}, p.shape.head_dim, p.shape.sequence, true, dim_key, key_steps);
  }
  void take_queries(const AttentionPass& p, std::int64_t rows, const T* queries) const {
    pack_strips(Lines<T>{queries, p.stride, false}, rows, p.shape.head_dim, false, query_dim);
  }
  void take_queries_backward(const AttentionPass& p, std::int64_t rows, const T* queries, const T* douts) const {
    take_queries(p, rows, queries);
    pack_strips(Lines<T>{queries, p.stride, true}, p.shape.head_dim, rows, true, dim_query, kBlockSteps);
    pack_strips(Lines<T>{douts, p.keys_at, false}, rows, p.shape.head_dim, false, dout_dim);
    pack_strips(Lines<T>{douts, p.keys_at, true}, p.shape.head_dim, rows, true, dim_dout, kBlockSteps);
  }

  // A tile of the panel. Of the one on the diagonal, what no query sees stays as it is.
  void score_by(std::int64_t rows, const std::byte* a, const std::byte* b, bool diagonal, float* scores) const {
    const std::int64_t strip = dim_steps * kStep;
    for (std::int64_t i = 0; i * kStripLines < rows; ++i) {
      for (std::int64_t j = 0; j < (diagonal ? i + 1 : kBlockStrips); ++j)
        multiply_strips<kHere>(dim_steps, a + i * strip, b + j * strip, scores + (i * kBlock + j) * kStripLines,
                               kBlock);
    }
  }
  void score(const AttentionPass&, std::int64_t rows, std::int64_t tile, bool diagonal, float* scores) const {
    score_by(rows, query_dim, key_dim + tile * kBlockStrips * dim_steps * kStep, diagonal, scores);
  }
  void score_backward(const AttentionPass& p, std::int64_t rows, std::int64_t tile, bool diagonal, float* scores,
                      float* dshares) const {
    score(p, rows, tile, diagonal, scores);
    score_by(rows, dout_dim, value_dim + tile * kBlockStrips * dim_steps * kStep, diagonal, dshares);
  }

  // A tile of the panel as an operand; of Bf16 rounded before.
  Lines<T> operand(std::int64_t rows, const float* tile, bool side_by_side) const {
    if constexpr (kHere > 1) {
      return {tile, kBlock, side_by_side};
    } else {
      for (std::int64_t at = 0; at < (rows + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce * kBlock; at += 16)
        Avx512::load(tile + at).store(rounded + at);
      return {rounded, kBlock, side_by_side};
    }
  }

  // The tile of the panel as number `at` of those that `packed` holds, a line for each query.
  void pack_rows(const AttentionPass& p, const Lines<T>& tile, std::int64_t rows, std::int64_t at,
                 std::byte* packed) const {
    Lines<T> lines = tile;
    std::byte* to = packed + at * kBlockSteps * kStep;
    for (std::int64_t i = 0; i * kStripLines < rows; ++i, lines.data += kStripLines * kBlock)
      pack_strips(lines, kStripLines, kBlock, false, to + i * p.blocks.panel * kBlockSteps * kStep);
  }
  // p.sums += or = what pack_rows packed, so many tiles from `first_tile` on, times strips of head_dim.
  void add_to_sums(const AttentionPass& p, std::int64_t rows, std::int64_t first_tile, std::int64_t tiles,
                   bool ends_on_diagonal, const std::byte* packed, const std::byte* b) const {
    for (std::int64_t i = 0; i * kStripLines < rows; ++i) {
      const std::int64_t steps = tiles * kBlockSteps - (ends_on_diagonal ? kBlockSteps - 1 - i : 0);
      add_product(p, packed + i * p.blocks.panel * kBlockSteps * kStep, b + first_tile * kBlockSteps * kStep, key_steps,
                  0, steps, first_tile > 0, p.sums + i * kStripLines * p.blocks.width);
    }
  }
  void add_values(const AttentionPass& p, std::int64_t rows, std::int64_t first_tile, std::int64_t tiles,
                  bool ends_on_diagonal) const {
    for (std::int64_t t = 0; t < tiles; ++t) pack_rows(p, operand(rows, p.panel + t * kTile, false), rows, t, shares);
    add_to_sums(p, rows, first_tile, tiles, ends_on_diagonal, shares, dim_value);
  }

  // A strip of sums += or = the steps `from` .. `to` of a strip of `a` times strips of head_dim.
  void add_product(const AttentionPass& p, const std::byte* a, const std::byte* b, std::int64_t b_steps,
                   std::int64_t from, std::int64_t to, bool add, float* sums) const {
    for (std::int64_t j = 0; j < dim_steps; ++j) {
      const std::byte* strip = b + (j * b_steps + from) * kStep;
      float* c = sums + j * kStripLines;
      add ? multiply_strips<kHere, true>(to - from, a + from * kStep, strip, c, p.blocks.width)
          : multiply_strips<kHere>(to - from, a + from * kStep, strip, c, p.blocks.width);
    }
  }
  void add_gradients(const AttentionPass& p, std::int64_t rows, std::int64_t tile, bool diagonal,
                     bool first_head) const {
    const std::int64_t width = p.blocks.width, at = tile * kBlock * width, strip = kBlockSteps * kStep;
    const std::int64_t strips = (rows + kStripLines - 1) / kStripLines;  // of queries, or steps where they are depth
    pack_strips(operand(rows, p.panel, true), kBlock, strips * kStripLines, false, share_columns, kBlockSteps);
    const Lines<T> gradients = operand(rows, p.panel + kTile, true);
    pack_strips(gradients, kBlock, strips * kStripLines, false, gradient_columns, kBlockSteps);
    for (std::int64_t i = 0; i < kBlockStrips; ++i) {  // of keys: queries before them do not see them
      const std::int64_t from = diagonal ? i : 0, place = at + i * kStripLines * width;
      if (from >= strips) break;
      const bool add = !diagonal || !first_head;
      add_product(p, share_columns + i * strip, dim_dout, kBlockSteps, from, strips, add, p.dvalues + place);
      add_product(p, gradient_columns + i * strip, dim_query, kBlockSteps, from, strips, add, p.dkeys + place);
    }
    const std::int64_t in_panel = tile % p.blocks.panel;
    pack_rows(p, {gradients.data, kBlock, false}, rows, in_panel, shares);
    if (in_panel + 1 == p.blocks.panel && !diagonal)
      add_to_sums(p, rows, tile - in_panel, p.blocks.panel, false, shares, dim_key);
  }
  void finish_queries(const AttentionPass& p, std::int64_t rows, std::int64_t block) const {
    const std::int64_t in_panel = block % p.blocks.panel;
    add_to_sums(p, rows, block - in_panel, in_panel + 1, true, shares, dim_key);
  }
};

}  // namespace twinpod::kernel::vector
