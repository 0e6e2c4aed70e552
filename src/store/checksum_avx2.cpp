#define XXH_INLINE_ALL  // the header is all of it; it looks at what the compiler may use
#include <xxhash.h>

#include "store/checksum_ways.hpp"

namespace twinpod::store {

std::uint64_t checksum_avx2(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace twinpod::store
