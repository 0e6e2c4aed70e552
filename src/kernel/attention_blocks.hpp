// How attention is cut into blocks, and the workspace that they need; the same for every instruction set, so that the
// memory of a step does not depend on the processor.
//
// Queries are taken in blocks of kQueries rows; their scores with up to kKeys keys are a panel that stays in the L2
// cache. Keys and values of a head are copied side by side first, in rows of `width` floats, transposed ones in rows of
// `length`, both filled up with zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/attention.hpp"

namespace twinpod::kernel {

constexpr std::int64_t kQueries = 64;
constexpr std::int64_t kKeys = 2048;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

struct AttentionBlocks {
  std::int64_t width = 0;   // head_dim, rounded up
  std::int64_t length = 0;  // sequence, rounded up
  std::int64_t panel = 0;   // keys in a panel
};

inline AttentionBlocks attention_blocks(const AttentionShape& shape) {
  const std::int64_t length = round_up(shape.sequence, kQueries);
  return {round_up(shape.head_dim, 16), length, length < kKeys ? length : kKeys};
}

// Backward needs most: keys, and keys and values transposed, and the gradients of keys and values of a head; two
// panels; queries, their transposed copy, outputs and gradients of both for a block.
inline std::size_t attention_floats(const AttentionShape& shape) {
  const AttentionBlocks blocks = attention_blocks(shape);
  const std::int64_t floats =
      5 * blocks.length * blocks.width + 2 * kQueries * blocks.panel + 6 * kQueries * blocks.width + 4 * kQueries;
  return static_cast<std::size_t>(floats);
}

}  // namespace twinpod::kernel
