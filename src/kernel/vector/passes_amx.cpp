#ifdef __x86_64__
#include "kernel/passes.hpp"
#include "kernel/vector/attention_tiles.hpp"

namespace twinpod::kernel {
namespace {

// Vectors do all that is not a product.
template <typename T>
Passes<T> with_tiles(Passes<T> passes) {
  passes.attention = vector::attention_by<Avx512, T, vector::TileProducts<T>>;
  passes.attention_backward = vector::attention_backward_by<Avx512, T, vector::TileProducts<T>>;
  return passes;
}

}  // namespace

template <>
const Passes<float>& passes_amx<float>() {
  static const Passes<float> passes = with_tiles(passes_avx512<float>());
  return passes;
}
template <>
const Passes<Bf16>& passes_amx<Bf16>() {
  static const Passes<Bf16> passes = with_tiles(passes_avx512<Bf16>());
  return passes;
}

}  // namespace twinpod::kernel
#endif
