#include "store/checksum.hpp"

#define XXH_INLINE_ALL  // the header is all of it
#include <xxhash.h>

#include "store/checksum_ways.hpp"

namespace twinpod::store {

std::uint64_t checksum_plain(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

#if defined(__x86_64__)
// All that cmake lets the compiler use for files of that name.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
bool has_avx2() { return true; }
#endif

std::uint64_t checksum(std::span<const std::byte> bytes) {
  static const auto best = has_avx2() ? &checksum_avx2 : &checksum_plain;
  return best(bytes);
}

}  // namespace twinpod::store
