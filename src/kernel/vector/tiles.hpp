// What can be done in the tiles of AMX: the product of two strips of packed tiles (tiles_pack.hpp).
#pragma once

#include <cstdint>

#include "kernel/vector/tiles_beside.hpp"
#include "kernel/vector/tiles_pack.hpp"

namespace twinpod::kernel::vector {

struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

// Tiles 0 to 3 are sums, 4 and 5 of a, 6 and 7 of b. Each piece of a with each of b is one round.
TWINPOD_INLINE void load_a(const std::byte* tiles) {
  _tile_loadd(4, tiles, 64);
  _tile_loadd(5, tiles + kTileBytes, 64);
}
TWINPOD_INLINE void load_b(const std::byte* tiles) {
  _tile_loadd(6, tiles, 64);
  _tile_loadd(7, tiles + kTileBytes, 64);
}
template <typename Beside>
TWINPOD_INLINE void multiply_round(Beside& beside) {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
  beside.round();
}

template <int Pieces, typename Beside>
TWINPOD_INLINE void multiply_step(const std::byte* a, const std::byte* b, Beside& beside) {
  constexpr std::int64_t kPiece = 2 * kTileBytes;
  if constexpr (Pieces == 1) {
    load_a(a);
    load_b(b);
    multiply_round(beside);
  } else if constexpr (Pieces == 2) {
    load_a(a);
    load_b(b + kPiece);
    multiply_round(beside);
    load_b(b);
    multiply_round(beside);
    load_a(a + kPiece);
    multiply_round(beside);
  } else {
    // Upper, middle and lower pieces; neighbouring rounds share an operand.
    load_a(a);
    load_b(b + 2 * kPiece);
    multiply_round(beside);
    load_b(b + kPiece);
    multiply_round(beside);
    load_a(a + kPiece);
    multiply_round(beside);
    load_b(b);
    multiply_round(beside);
    load_a(a + 2 * kPiece);
    multiply_round(beside);
    load_a(a);
    multiply_round(beside);
  }
}

template <int Pieces>
constexpr std::int64_t kRounds = Pieces*(Pieces + 1) / 2;  // of a step

// c (32 x 32) = the product of two strips, or with Add: c += it.
template <int Pieces, bool Add = false, typename Beside = NothingBeside>
TWINPOD_INLINE void multiply_strips(std::int64_t steps, const std::byte* a, const std::byte* b, float* c,
                                    std::int64_t stride, Beside&& beside = {}) {
  const std::int64_t row = stride * static_cast<std::int64_t>(sizeof(float));
  float* below = c + kTileLines * stride;
  if constexpr (Add) {
    _tile_loadd(0, c, row);
    _tile_loadd(1, c + kTileLines, row);
    _tile_loadd(2, below, row);
    _tile_loadd(3, below + kTileLines, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t step = 0; step < steps; ++step, a += Pieces * 2 * kTileBytes, b += Pieces * 2 * kTileBytes)
    multiply_step<Pieces>(a, b, beside);
  _tile_stored(0, c, row);
  _tile_stored(1, c + kTileLines, row);
  _tile_stored(2, below, row);
  _tile_stored(3, below + kTileLines, row);
}

}  // namespace twinpod::kernel::vector
