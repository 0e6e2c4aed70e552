#ifdef __x86_64__
#include "kernel/vector/passes.hpp"

namespace twinpod::kernel {

template <>
const Passes<float>& passes_avx2<float>() {
  return vector::kVectorPasses<Avx2, float>;
}
template <>
const Passes<Bf16>& passes_avx2<Bf16>() {
  return vector::kVectorPasses<Avx2, Bf16>;
}

}  // namespace twinpod::kernel
#endif
