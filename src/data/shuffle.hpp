// A shuffled order of 0 .. count-1 that is computed place by place: no table, so any place of any epoch costs the same
// and a run goes on from a number alone.
//
//     const Shuffle shuffle = make_shuffle(1'000'000, seed, epoch);
//     shuffled(shuffle, 0)        the first number; each appears exactly once over all places
//
// A Feistel network permutes 2^(2h) >= count numbers of two h-bit halves; a result that is too large is permuted again
// until it is not (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002), four times
// at most on average. Good for mixing data, not for keeping secrets.
#pragma once

#include <array>
#include <cstdint>

namespace twinpod::data {

inline constexpr int kShuffleRounds = 8;

struct Shuffle {
  std::uint64_t count = 1;
  unsigned half_bits = 1;
  std::array<std::uint64_t, kShuffleRounds> keys{};
};

// REQUIRES: 0 < count < 2^62.
Shuffle make_shuffle(std::int64_t count, std::uint64_t seed, std::int64_t epoch);

// REQUIRES: 0 <= place < count.
std::int64_t shuffled(const Shuffle& shuffle, std::int64_t place);

}  // namespace twinpod::data
