#include "data/shuffle.hpp"

#include <bit>

#include "core/rng.hpp"

namespace twinpod::data {
namespace {

std::uint64_t permuted(const Shuffle& shuffle, std::uint64_t number) {
  const std::uint64_t mask = (std::uint64_t{1} << shuffle.half_bits) - 1;
  std::uint64_t left = number >> shuffle.half_bits;
  std::uint64_t right = number & mask;
  for (const std::uint64_t key : shuffle.keys) {
    std::uint64_t state = key ^ right;
    const std::uint64_t next = left ^ (splitmix64(state) & mask);
    left = right;
    right = next;
  }
  return left << shuffle.half_bits | right;
}

}  // namespace

Shuffle make_shuffle(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  Shuffle shuffle;
  shuffle.count = static_cast<std::uint64_t>(count);
  const auto bits = static_cast<unsigned>(std::bit_width(shuffle.count - 1));
  shuffle.half_bits = bits < 2 ? 1 : (bits + 1) / 2;
  // Mixed one after the other: the sum of two neighbouring seeds and epochs would give the same order twice.
  std::uint64_t state = seed;
  state = splitmix64(state) ^ static_cast<std::uint64_t>(epoch);
  Rng rng(splitmix64(state));
  for (std::uint64_t& key : shuffle.keys) key = rng.next();
  return shuffle;
}

std::int64_t shuffled(const Shuffle& shuffle, std::int64_t place) {
  std::uint64_t number = permuted(shuffle, static_cast<std::uint64_t>(place));
  while (number >= shuffle.count) number = permuted(shuffle, number);
  return static_cast<std::int64_t>(number);
}

}  // namespace twinpod::data
