// The same checksum computed with what some processors have more than others; checksum() takes the best that runs here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace twinpod::store {

std::uint64_t checksum_plain(std::span<const std::byte> bytes);
// REQUIRES of both: the processor has these instructions; where the compiler does not know them, they are the plain
// one.
std::uint64_t checksum_avx2(std::span<const std::byte> bytes);
std::uint64_t checksum_avx512(std::span<const std::byte> bytes);

// Whether it may be called here.
bool has_avx2();
bool has_avx512();

}  // namespace twinpod::store
