// Copies of any size. Large ones bypass the caches: a normal store first reads what it will overwrite.
#pragma once

#include <cstddef>
#include <cstring>

namespace twinpod::comm {

inline constexpr std::size_t kStreamedCopy = std::size_t{3} << 19U;  // bytes from which on it is worth while

void copy_streaming(void* to, const void* from, std::size_t bytes);

// Nothing is done if it is the same memory already.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (to == from || bytes == 0) return;
  if (bytes >= kStreamedCopy) return copy_streaming(to, from, bytes);
  std::memcpy(to, from, bytes);
}

}  // namespace twinpod::comm
