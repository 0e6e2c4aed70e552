// Matrix products in the tiles of the processor (AMX), which multiply 16 x 32 by 32 x 16 numbers of bf16 and add them
// up in fp32: fifteen times as many operations in a second as AVX-512 does of fp32.
//
// Numbers of fp32 are cut into three of bf16, and a product is six products of these pieces. The three that are left
// out are smaller than the last bit of fp32, so that results are as near to the exact ones as those of fp32
// (gemm_test.cpp compares the two), at twice the speed. What is infinite becomes not-a-number.
//
// With Gemm::rounds_operands they are rounded to two pieces, and a product is three: half as much work, and a relative
// error of about 4e-6, where fp32 has 1e-7 to 1e-6.
#pragma once

#include "kernel/gemm.hpp"

namespace twinpod::kernel {

// Whether this processor has them, Linux gives them to us, and they compute.
bool has_tiles();

// For <float, float>, <Bf16, Bf16>, <Bf16, float>. REQUIRES: has_tiles(), strides set, sizes from 1 on. On x86 only.
template <typename T, typename C>
void multiply_in_tiles(const Gemm& shape, const T* a, const T* b, C* c);

// One tile of ones by another: whether the sums are right. A processor that has no tiles ends the process.
bool multiply_a_tile();

}  // namespace twinpod::kernel
