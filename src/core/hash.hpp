// A hash that is the same on every machine and in every version, for seeds and for telling whether data changed.
// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
//
//     Rng rng(fnv1a(job.name));
//     const std::uint64_t both = fnv1a("second", fnv1a("first"));
#pragma once

#include <cstdint>
#include <string_view>

namespace twinpod {

inline constexpr std::uint64_t kFnvOffset = 0xcbf29ce484222325U;
inline constexpr std::uint64_t kFnvPrime = 0x100000001b3U;

constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvOffset) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= kFnvPrime;
  }
  return hash;
}

}  // namespace twinpod
