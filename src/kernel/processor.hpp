// What this processor can do, and how kernels are set up for it.
#pragma once

#include <string_view>

#include "spec/names.hpp"

namespace twinpod::kernel {

enum class Instructions { scalar, avx2, avx512, amx };  // amx: avx512, and products in tiles

// The best that this processor has; tests choose a lesser one. TWINPOD_INSTRUCTIONS in the environment does, too.
Instructions instructions();
void use_instructions(Instructions instructions);  // REQUIRES: the processor has them
std::string_view name_of(Instructions instructions);

// Numbers too small for their format become zero: with them kernels are up to 30 times slower. Of the calling thread
// and those it starts later.
void flush_denormals();

// How products of bf16 are computed here: in the processor (AMX, AVX512-BF16) or by way of fp32. A processor may have
// instructions for them that are slower than those for fp32, so that both are timed once (gemm.cpp).
enum class Bf16Products { native, widened };
Bf16Products bf16_products();

}  // namespace twinpod::kernel
