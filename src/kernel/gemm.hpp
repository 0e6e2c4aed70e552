// Matrix products of the trainer, as BLAS has them, but row by row in memory.
//
//     gemm<float>({.m = tokens, .n = 3 * hidden, .k = hidden, .transpose_b = true}, x, w, y);     // y = x w^T
//     gemm<float>({.m = 3 * hidden, .n = hidden, .k = tokens, .transpose_a = true, .accumulate = true}, dy, x, dw);
//
// A weight is stored as [outputs, inputs]. Which of several ways is the fastest for a shape is found out in its first
// calls (gemm.cpp), so nothing is computed only to be timed. Ways differ in the order of their sums:
// tune_gemm(false) takes the first way for every shape, and two runs are equal bit by bit.
#pragma once

#include <cstdint>

#include "kernel/real.hpp"

namespace twinpod::kernel {

// c (m x n) = op(a) (m x k) op(b) (k x n), or c += ... . A transposed a is stored as (k x m), b as (n x k).
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  // Operands of fp32 may lose all but 17 bits where that is faster (tiles.hpp): for results that are not multiplied on.
  bool rounds_operands = false;
  // Large products of fp32 may be made of sums of quadrants where that is faster (vector/strassen.hpp): for operands
  // whose rows are alike in size.
  bool recombines = false;
  // Elements from one row to the next as stored; 0: rows follow each other.
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
};

// For <float, float>, <Bf16, Bf16>, <Bf16, float>, <double, double>. Sizes of 0 are allowed.
template <typename T, typename C = T>
void gemm(const Gemm& shape, const T* a, const T* b, C* c);

// On (as at first): the first calls of a shape go each way that is known, in turn, and are timed. Off: every shape goes
// the first way.
void tune_gemm(bool on);

// On: the first call of a shape goes on until it is known which way is the fastest, so that the next call goes it: what
// is timed then is what all later calls do. REQUIRES while it is on: nobody needs the results.
void settle_gemm(bool on);

}  // namespace twinpod::kernel
