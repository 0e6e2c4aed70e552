// Which elements dropout drops: a hash of a key, a row and a column says it, so that nothing is stored and every rank
// that holds an element decides the same, in the forward pass and in the backward pass.
//
//     const Dropout dropout{.key = key, .rate = 0.1, .first_row = 2048};
//     drop<float>(dropout, rows, width, x, x);            // elements 2048.. of the batch, in place
//
// Rows are numbered over the whole batch, columns over the whole width: no layout changes what is dropped.
#pragma once

#include <cstdint>

namespace twinpod::kernel {

struct Dropout {
  std::uint64_t key = 0;  // of seed, step, layer and place
  double rate = 0;        // 0: nothing is dropped
  std::int64_t first_row = 0;
  std::int64_t stride = 1;  // from the number of a row to that of the next
  [[gnu::always_inline]] bool on() const { return rate > 0; }
};

// What elements of one row share. Kernels for each instruction set are built of these two, so they are always inlined.
struct DropoutRow {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  std::uint32_t threshold = 0;  // of 24 bits: what is below is dropped
  double scale = 0;             // of what is kept
};

// `number` counts as Dropout::first_row does. The finalizer of splitmix64 (Steele, Lea, Flood 2014).
[[gnu::always_inline]] inline DropoutRow dropout_row(const Dropout& dropout, std::int64_t number) {
  std::uint64_t z = dropout.key + static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  z ^= z >> 31U;
  return {static_cast<std::uint32_t>(z), static_cast<std::uint32_t>(z >> 32U),
          static_cast<std::uint32_t>(dropout.rate * 0x1p24 + 0.5), 1 / (1 - dropout.rate)};
}

// The finalizer of MurmurHash3 (Appleby) with one half of the row's bits before it and the other half inside.
[[gnu::always_inline]] inline bool keeps(const DropoutRow& row, std::int64_t column) {
  std::uint32_t x = static_cast<std::uint32_t>(column) + row.low;
  x = ((x ^ (x >> 16U)) * 0x85ebca6bU) ^ row.high;
  x = (x ^ (x >> 13U)) * 0xc2b2ae35U;
  x ^= x >> 16U;
  return (x >> 8U) >= row.threshold;
}

// out = x / (1 - rate) where it is kept, else 0. out may be x.
template <typename T>
void drop(const Dropout& dropout, std::int64_t rows, std::int64_t width, const T* x, T* out);

}  // namespace twinpod::kernel
