// How attention is cut into blocks, and the workspace that they need; the same for every instruction set, so that the
// memory of a step does not depend on the processor.
//
// Queries and keys are taken in blocks of 64. The scores of a block of queries with up to kKeys keys are a panel of
// 64 x 64 tiles that stays in the L2 cache; its softmax is exact, and only sequences beyond kKeys need several panels
// and rescaling in between. Keys and values of a head are first copied in one piece, in rows of `width` floats
// ("rows"), or transposed, 64 of them to a tile of head_dim x 64 ("columns"), both filled up with zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/attention.hpp"

namespace twinpod::kernel {

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kTile = kBlock * kBlock;
constexpr std::int64_t kKeys = 2048;

struct AttentionBlocks {
  std::int64_t width = 0;  // head_dim, filled up
  std::int64_t count = 0;  // blocks in a sequence
  std::int64_t panel = 0;  // blocks of keys in a panel, 2 at least
};

inline AttentionBlocks attention_blocks(const AttentionShape& shape) {
  const std::int64_t count = (shape.sequence + kBlock - 1) / kBlock;
  constexpr std::int64_t kMost = kKeys / kBlock;
  return {(shape.head_dim + 15) / 16 * 16, count, count < 2 ? 2 : count < kMost ? count : kMost};
}

// Backward needs most: keys as rows and as columns, values as columns, and the gradients of keys and values of a head;
// a panel (two tiles are enough for backward); queries, gradients of outputs and of queries of a block; 4 numbers a
// row; and what it takes to start at a multiple of 64 bytes.
inline std::size_t attention_floats(const AttentionShape& shape) {
  const AttentionBlocks blocks = attention_blocks(shape);
  const std::int64_t floats =
      5 * blocks.count * kBlock * blocks.width + blocks.panel * kTile + 3 * kBlock * blocks.width + 4 * kBlock + 16;
  return static_cast<std::size_t>(floats);
}

}  // namespace twinpod::kernel
