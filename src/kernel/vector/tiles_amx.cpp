#ifdef __x86_64__
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "kernel/room.hpp"
#include "kernel/tiles.hpp"
#include "kernel/vector/tiles.hpp"

namespace twinpod::kernel {
namespace vector {
namespace {

// What of b stays in the second cache: all of it up to the first size, else blocks of the second, with which what goes
// by does not push them out so often. A last block of few columns would not be worth packing a for.
constexpr std::int64_t kKeptBytes = 1200 << 10;
constexpr std::int64_t kBlockBytes = 900 << 10;
constexpr std::int64_t kMostLines = 4096;  // of c, either way
template <typename T>
constexpr std::int64_t kMostDepth = kPieces<T> > 1 ? 512 : 1024;  // a strip of a stays in the second cache, too

// What becomes of what is in c: it is lost; sums are added to it when they are done; or they begin with it. The last is
// the fastest, but a number that a long sum is added to, product by product, loses its last bits.
enum class Before { lost, added, begun_with };

// Where sums go: into c, or into floats beside it while c is Bf16 and the depth is done in parts.
template <typename C>
struct Target {
  C* data;
  std::int64_t stride;
  std::int64_t rows, width;
  Before before;
};

// The 32 x 32 of c at (i, j), as far as they are there.
template <int Pieces, typename C, typename Beside>
void multiply_at(const Target<C>& c, std::int64_t i, std::int64_t j, std::int64_t steps, const std::byte* a,
                 const std::byte* b, Beside& beside) {
  C* at = c.data + i * c.stride + j;
  const std::int64_t rows = c.rows - i, width = c.width - j;
  if constexpr (sizeof(C) == sizeof(float)) {
    const bool whole = rows >= kStripLines && width >= kStripLines && c.before != Before::added;
    if (whole && width >= 2 * kStripLines) {
      AndTarget and_next(beside, at + kStripLines, c.stride, steps * kRounds<Pieces>);
      return c.before == Before::lost ? multiply_strips<Pieces>(steps, a, b, at, c.stride, and_next)
                                      : multiply_strips<Pieces, true>(steps, a, b, at, c.stride, and_next);
    }
    if (whole) {
      return c.before == Before::lost ? multiply_strips<Pieces>(steps, a, b, at, c.stride, beside)
                                      : multiply_strips<Pieces, true>(steps, a, b, at, c.stride, beside);
    }
  }
  alignas(64) float sums[kStripLines * kStripLines];
  multiply_strips<Pieces>(steps, a, b, sums, kStripLines, beside);
  for (std::int64_t row = 0; row < rows && row < kStripLines; ++row) {
    for (std::int64_t column = 0; column < width && column < kStripLines; column += 16) {
      const First lanes{static_cast<int>(width - column < 16 ? width - column : 16)};
      Avx512 value = Avx512::load(sums + row * kStripLines + column);
      if (c.before != Before::lost) value = value + Avx512::load(at + row * c.stride + column, lanes);
      value.store(at + row * c.stride + column, lanes);
    }
  }
}

template <typename T>
Lines<T> part_of(Lines<T> whole, std::int64_t line, std::int64_t x) {
  whole.data += whole.side_by_side ? x * whole.stride + line : line * whole.stride + x;
  return whole;
}

std::int64_t up_to(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// All columns of a block, of one strip of a.
template <int Pieces, typename C, typename Beside>
void multiply_row(const Target<C>& c, std::int64_t i, std::int64_t first, std::int64_t columns, std::int64_t steps,
                  std::int64_t strip, const std::byte* a, const std::byte* b, Beside& beside) {
  for (std::int64_t j = 0; j < columns; j += kStripLines)
    multiply_at<Pieces>(c, i, first + j, steps, a, b + j / kStripLines * strip, beside);
}

// Columns of a block of b: all blocks but the last have as many, and the last one hardly less.
std::int64_t block_width(std::int64_t width, std::int64_t strip) {
  const std::int64_t strips = (width + kStripLines - 1) / kStripLines;
  if (strips * strip <= kKeptBytes) return strips * kStripLines;
  const std::int64_t most = std::max<std::int64_t>(kBlockBytes / strip, 1);
  const std::int64_t blocks = (strips + most - 1) / most;
  return (strips + blocks - 1) / blocks * kStripLines;
}

// One part of the depth: a block of b is packed and stays in the second cache, all of a streams past it, so that c is
// written along its rows. Strips of a are packed for the first block, each while the one before it is multiplied, and
// kept if there are more blocks.
template <int Pieces, typename T, typename C>
void multiply_depth(const Lines<T>& a, const Lines<T>& b, std::int64_t depth, const Target<C>& c, std::byte* room) {
  const std::int64_t strip = strip_bytes<T, Pieces>(depth), steps = (depth + kTileDepth - 1) / kTileDepth;
  const std::int64_t block = block_width(c.width, strip);
  const bool keep_a = c.width > block;
  std::byte* packed_b = room;
  std::byte* packed_a = room + block / kStripLines * strip;
  const auto room_a = [&](std::int64_t i) {
    return packed_a + (keep_a ? i / kStripLines : i / kStripLines % 2) * strip;
  };
  const auto pack_a = [&](std::int64_t i) {
    pack_strips<T, Pieces>(part_of(a, i, 0), std::min<std::int64_t>(c.rows - i, kStripLines), depth, false, room_a(i));
  };
  for (std::int64_t first = 0; first < c.width; first += block) {
    const std::int64_t columns = std::min(block, c.width - first);
    pack_strips<T, Pieces>(part_of(b, first, 0), columns, depth, true, packed_b);
    if (first == 0) pack_a(0);
    for (std::int64_t i = 0; i < c.rows; i += kStripLines) {
      const std::int64_t next = i + kStripLines;
      const bool packs = first == 0 && next < c.rows;
      if constexpr (Pieces > 1) {
        if (packs && c.rows - next >= kStripLines && depth % kTileDepth == 0) {
          const std::int64_t rounds = (columns + kStripLines - 1) / kStripLines * steps * kRounds<Pieces>;
          const auto beside = [&](auto packing) {
            multiply_row<Pieces>(c, i, first, columns, steps, strip, room_a(i), packed_b, packing);
            packing.finish();
          };
          a.side_by_side ? beside(StripBeside<Pieces, true>(part_of(a, next, 0), depth, room_a(next), rounds))
                         : beside(StripBeside<Pieces, false>(part_of(a, next, 0), depth, room_a(next), rounds));
          continue;
        }
      }
      NothingBeside nothing;
      multiply_row<Pieces>(c, i, first, columns, steps, strip, room_a(i), packed_b, nothing);
      if (packs) pack_a(next);
    }
  }
}

// Sums of so many numbers may be one: their errors are still below those of sgemm (gemm_test.cpp).
constexpr std::int64_t kLongestSum = 2048;

// Of the part of the depth from x on, of those that are done there.
Before before_part(const Gemm& s, std::int64_t x, std::int64_t depth) {
  if (x == 0) return s.accumulate ? Before::added : Before::lost;
  return s.accumulate || x / depth % std::max<std::int64_t>(kLongestSum / depth, 1) == 0 ? Before::added
                                                                                         : Before::begun_with;
}

template <typename T>
std::int64_t room_bytes(std::int64_t depth) {
  return kMostLines / kStripLines * strip_bytes<T>(depth) + std::max(kKeptBytes, strip_bytes<T>(depth));
}

// One part of c.
template <int Pieces, typename T, typename C>
void multiply_part(const Gemm& s, const T* a, const T* b, C* c) {
  const Lines<T> lines_a{a, s.stride_a, s.transpose_a}, lines_b{b, s.stride_b, !s.transpose_b};
  const std::int64_t parts = (s.k + kMostDepth<T> - 1) / kMostDepth<T>;
  const std::int64_t depth = up_to((s.k + parts - 1) / parts, kTileDepth);
  const bool beside = sizeof(C) != sizeof(float) && parts > 1;
  const std::int64_t stride = up_to(s.n, 16);
  const std::int64_t packed = room_bytes<T>(depth);
  std::byte* room = room_of_thread(packed + (beside ? s.m * stride * static_cast<std::int64_t>(sizeof(float)) : 0));
  auto* sums = reinterpret_cast<float*>(room + packed);
  for (std::int64_t x = 0; x < s.k; x += depth) {
    const std::int64_t here = std::min(depth, s.k - x);
    const Lines<T> part_a = part_of(lines_a, 0, x), part_b = part_of(lines_b, 0, x);
    if (beside) {
      const Before before = x == 0 ? Before::lost : before_part(s, x, depth);
      multiply_depth<Pieces>(part_a, part_b, here, Target<float>{sums, stride, s.m, s.n, before}, room);
    } else {
      multiply_depth<Pieces>(part_a, part_b, here, Target<C>{c, s.stride_c, s.m, s.n, before_part(s, x, depth)}, room);
    }
  }
  if (!beside) return;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; j += 16) {
      const First lanes{static_cast<int>(s.n - j < 16 ? s.n - j : 16)};
      Avx512 value = Avx512::load(sums + i * stride + j);
      if (s.accumulate) value = value + Avx512::load(c + i * s.stride_c + j, lanes);
      value.store(c + i * s.stride_c + j, lanes);
    }
  }
}

}  // namespace
}  // namespace vector

bool multiply_a_tile() {
  const vector::TileShapes shapes;
  alignas(64) std::uint16_t ones[512];
  alignas(64) float sums[256];
  std::fill(std::begin(ones), std::end(ones), std::uint16_t{0x3f80});
  _tile_loadconfig(&shapes);
  _tile_loadd(4, ones, 64);
  _tile_loadd(6, ones, 64);
  _tile_zero(0);
  _tile_dpbf16ps(0, 4, 6);
  _tile_stored(0, sums, 64);
  _tile_release();
  return std::all_of(std::begin(sums), std::end(sums), [](float sum) { return sum == vector::kTileDepth; });
}

template <typename T, typename C>
void multiply_in_tiles(const Gemm& s, const T* a, const T* b, C* c) {
  const vector::TileShapes shapes;
  _tile_loadconfig(&shapes);
  for (std::int64_t i = 0; i < s.m; i += vector::kMostLines) {
    for (std::int64_t j = 0; j < s.n; j += vector::kMostLines) {
      Gemm part = s;
      part.m = std::min(s.m - i, vector::kMostLines);
      part.n = std::min(s.n - j, vector::kMostLines);
      const T* from_a = a + (s.transpose_a ? i : i * s.stride_a);
      const T* from_b = b + (s.transpose_b ? j * s.stride_b : j);
      C* to = c + i * s.stride_c + j;
      if constexpr (sizeof(T) == sizeof(float)) {
        if (s.rounds_operands) {
          vector::multiply_part<2>(part, from_a, from_b, to);
          continue;
        }
      }
      vector::multiply_part<vector::kPieces<T>>(part, from_a, from_b, to);
    }
  }
  _tile_release();
}
template decltype(multiply_in_tiles<float, float>) multiply_in_tiles<float, float>;
template decltype(multiply_in_tiles<Bf16, Bf16>) multiply_in_tiles<Bf16, Bf16>;
template decltype(multiply_in_tiles<Bf16, float>) multiply_in_tiles<Bf16, float>;

}  // namespace twinpod::kernel
#endif
