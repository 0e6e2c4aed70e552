#include "store/checksum.hpp"

#define XXH_INLINE_ALL  // the header is all of it
#include <xxhash.h>

namespace twinpod::store {

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace twinpod::store
