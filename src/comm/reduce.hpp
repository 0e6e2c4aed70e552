// Adding up buffers, with the widest vectors that the processor has.
//
//     reduce({.type = ElementType::f32, .op = ReduceOp::sum}, {a, b}, {out}, 1000);       // out = a + b
//     reduce({.type = ElementType::f32, .op = ReduceOp::sum}, {a, b}, {a, b}, 1000);      // the sum into both
//
// Sources are taken in their order, so the same sources in the same order give the same bits on every rank and for
// every width of vector. bf16 and f16 are added up as floats and rounded once at the end.
#pragma once

#include <cstddef>
#include <span>

#include "comm/element.hpp"

namespace twinpod::comm {

struct Reduction {
  ElementType type = ElementType::f32;
  ReduceOp op = ReduceOp::sum;
  int divisor = 1;        // of an average: how many contributions there are; 1 leaves the sum as it is
  std::size_t whole = 0;  // elements in all, if this is a part: what is large goes past the caches
};

enum class VectorWidth { scalar, avx2, avx512 };

// The widest that this processor has.
VectorWidth widest_vectors();

// Every target becomes sources[0] op sources[1] op ... REQUIRES: at least one source and one target; a target is the
// same memory as a source or does not overlap with it. Nothing needs to be aligned.
void reduce(const Reduction& reduction, std::span<const void* const> sources, std::span<void* const> targets,
            std::size_t count);

// The same with vectors of a given width, for tests and benches. REQUIRES: not wider than widest_vectors().
void reduce_with(VectorWidth width, const Reduction& reduction, std::span<const void* const> sources,
                 std::span<void* const> targets, std::size_t count);

}  // namespace twinpod::comm
