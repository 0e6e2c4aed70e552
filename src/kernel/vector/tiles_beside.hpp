// A strip of an operand, packed while others are multiplied. Tiles multiply in a unit of their own, 16 cycles for each
// instruction, and leave the vectors idle: a few vectors are packed behind each round of products, few enough for both
// to be under way at once.
//
//     StripBeside<3, false> next(lines, depth, to, rounds);      // all to be done within so many rounds
//     multiply_strips<3>(steps, a, b, c, stride, next);          // and more of them
//     next.finish();
//
// What both need is the buffers for lines of the first cache that are on their way: tiles come from the second cache
// all the time. So what is packed next is fetched into the second cache in good time, and a line or two at a time.
#pragma once

#include <cstdint>

#include "kernel/vector/tiles_pack.hpp"

namespace twinpod::kernel::vector {

struct NothingBeside {
  TWINPOD_INLINE void round() {}
};

// What happens a number of times within a number of rounds, evenly.
class Evenly {
 public:
  Evenly(std::int64_t times, std::int64_t rounds) : rate_((times * kOne + rounds - 1) / rounds), left_(times) {}
  template <typename Work>
  TWINPOD_INLINE void round(const Work& work) {
    for (credit_ += rate_; credit_ >= kOne && left_ > 0; credit_ -= kOne, --left_) work();
  }
  template <typename Work>
  void rest(const Work& work) {
    for (; left_ > 0; --left_) work();
  }

 private:
  static constexpr std::int64_t kOne = 1 << 16;
  std::int64_t rate_, credit_ = 0, left_;
};

// Beside something else, fetches the next 32 x 32 of c, which will be written: 64 lines, each of which would be asked
// for when a tile is stored, all at once.
template <typename Beside>
class AndTarget {
 public:
  AndTarget(Beside& beside, const float* next, std::int64_t stride, std::int64_t rounds)
      : beside_(beside), next_(next), stride_(stride), rows_(kStripLines, rounds) {}
  TWINPOD_INLINE void round() {
    beside_.round();
    rows_.round([&] {
      __builtin_prefetch(next_, 1);
      __builtin_prefetch(next_ + 16, 1);
      next_ += stride_;
    });
  }

 private:
  Beside& beside_;
  const float* next_;
  std::int64_t stride_;
  Evenly rows_;
};

// As rows (tiles_pack.hpp). REQUIRES: kStripLines lines, a depth of whole steps.
template <int Pieces, bool SideBySide>
class StripBeside {
 public:
  StripBeside(const Lines<float>& from, std::int64_t depth, std::byte* to, std::int64_t rounds)
      : from_(from),
        to_(to),
        steps_(depth / kTileDepth),
        units_(SideBySide ? steps_ * 2 * kStages : steps_ * kStripLines, rounds),
        rows_(depth - kTileDepth, rounds),
        fetched_(from.data + kTileDepth * from.stride) {}

  TWINPOD_INLINE void round() {
    if constexpr (SideBySide) rows_.round([this] { fetch_row(); });
    units_.round([this] { unit(); });
  }
  void finish() {
    units_.rest([this] { unit(); });
    asm volatile("" ::: "memory");  // tiles are read behind the compiler's back
  }

 private:
  static constexpr int kStages = 5;  // of a tile that is turned over: a copy, and four quarters

  TWINPOD_INLINE void unit() { SideBySide ? turn_some() : cut_some(); }

  // A step of one line, then the next step, while the next line is fetched.
  TWINPOD_INLINE void cut_some() {
    const float* const p = from_.data + line_ * from_.stride + step_ * kTileDepth;
    __builtin_prefetch(p + from_.stride);
    __builtin_prefetch(p + from_.stride + 16);
    std::byte* const tile = to_ + step_ * Pieces * 2 * kTileBytes + line_ / kTileLines * kTileBytes;
    write_pairs<Pieces>(_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16), tile + line_ % kTileLines * 64);
    if (++step_ == steps_) {
      step_ = 0;
      ++line_;
    }
  }

  // A tile is copied, which waits for memory alone; then four of its lines at a time are turned over.
  TWINPOD_INLINE void turn_some() {
    if (stage_ == 0) {
      const float* row = from_.data + tile_ / 2 * kTileDepth * from_.stride + tile_ % 2 * kTileLines;
      for (int at = 0; at < kTileDepth; ++at, row += from_.stride) _mm512_store_ps(copy_[at], _mm512_loadu_ps(row));
    } else {
      const int first = 4 * (stage_ - 1);
      std::byte* const tile = to_ + (tile_ / 2 * Pieces * 2 + tile_ % 2) * kTileBytes;
      __m512 low[4], high[4];
      turn_quarter(&copy_[0][first], low);
      turn_quarter(&copy_[16][first], high);
      for (int i = 0; i < 4; ++i) write_pairs<Pieces>(low[i], high[i], tile + 64 * (first + i));
    }
    if (++stage_ == kStages) {
      stage_ = 0;
      ++tile_;
    }
  }

  // Four columns of 16 rows. Quarters of rows are put together as they are loaded, which leaves half of the shuffles of
  // turn(), for which there is one port.
  TWINPOD_INLINE static void turn_quarter(const float* from, __m512 (&columns)[4]) {
    __m512 rows[4];
    for (int i = 0; i < 4; ++i) {
      __m512 row = _mm512_castps128_ps512(_mm_load_ps(from + 16 * i));
      row = _mm512_insertf32x4(row, _mm_load_ps(from + 16 * (i + 4)), 1);
      row = _mm512_insertf32x4(row, _mm_load_ps(from + 16 * (i + 8)), 2);
      rows[i] = _mm512_insertf32x4(row, _mm_load_ps(from + 16 * (i + 12)), 3);
    }
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(rows[0], rows[1]));
    const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(rows[0], rows[1]));
    const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(rows[2], rows[3]));
    const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(rows[2], rows[3]));
    columns[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    columns[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    columns[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    columns[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }

  // Of the strip's two lines of cache in a row, one step ahead.
  TWINPOD_INLINE void fetch_row() {
    __builtin_prefetch(fetched_, 0, 2);
    __builtin_prefetch(fetched_ + 16, 0, 2);
    fetched_ += from_.stride;
  }

  Lines<float> from_;
  std::byte* to_;
  std::int64_t steps_;
  Evenly units_;
  Evenly rows_;  // that are fetched
  const float* fetched_;
  std::int64_t line_ = 0, step_ = 0;
  std::int64_t tile_ = 0;
  int stage_ = 0;
  alignas(64) float copy_[kTileDepth][16];
};

}  // namespace twinpod::kernel::vector
