// A small seeded generator: the same seed gives the same numbers on every machine, which <random> does not promise for
// its distributions. xoshiro256++ seeded by splitmix64 (Blackman and Vigna, https://prng.di.unimi.it/).
//
//     Rng rng(42);
//     const double x = rng.uniform();  // [0, 1)
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace twinpod {

// The next number of a splitmix64 sequence; moves the state on.
constexpr std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

// Not thread safe: give each thread its own, seeded by its index.
class Rng {
 public:
  explicit constexpr Rng(std::uint64_t seed) {
    for (std::uint64_t& word : state_) word = splitmix64(seed);
  }

  constexpr std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // In [0, 1), from the upper 53 bits: each multiple of 2^-53 is equally likely.
  constexpr double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // One of 0 .. count-1, each equally likely. REQUIRES: count > 0.
  constexpr std::uint64_t below(std::uint64_t count) {
    const std::uint64_t excess = (0 - count) % count;  // 2^64 mod count: numbers below it would be drawn once too often
    std::uint64_t drawn = next();
    while (drawn < excess) drawn = next();
    return drawn % count;
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace twinpod
