#include "kernel/gemm.hpp"

#include <cmath>
#include <limits>

#include "kernel/passes.hpp"
#include "kernel/product.hpp"
#include "kernel/testing.hpp"

namespace twinpod::kernel {
namespace {

// Room for rows of `stride`, or of `width` when that is 0.
std::int64_t room(std::int64_t rows, std::int64_t width, std::int64_t stride) { return rows * std::max(width, stride); }

template <typename T, typename C>
std::vector<C> product(const Gemm& s, const Doubles& a, const Doubles& b, const Doubles& c) {
  const auto in_a = as<T>(a), in_b = as<T>(b);
  auto out = as<C>(c);
  gemm<T, C>(s, in_a.data(), in_b.data(), out.data());
  return out;
}

template <typename T, typename C>
void compare_with_double(const Gemm& s) {
  SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k << (s.transpose_a ? " T" : " N")
                                  << (s.transpose_b ? "T" : "N") << (s.accumulate ? " added" : ""));
  const Doubles a = rounded<T>(some(s.transpose_a ? room(s.k, s.m, s.stride_a) : room(s.m, s.k, s.stride_a), 1));
  const Doubles b = rounded<T>(some(s.transpose_b ? room(s.n, s.k, s.stride_b) : room(s.k, s.n, s.stride_b), 2));
  const Doubles c = rounded<C>(some(room(s.m, s.n, s.stride_c), 3));
  const Doubles exact = product<double, double>(s, a, b, c);
  for (int again = 0; again < 13; ++again)  // in each way, and then the fastest
    EXPECT_LE(difference(doubles(product<T, C>(s, a, b, c)), exact), kTolerance<C>);
}

void compare_all(const Gemm& s) {
  compare_with_double<float, float>(s);
  compare_with_double<Bf16, Bf16>(s);
  compare_with_double<Bf16, float>(s);
}

std::vector<Gemm> all_kinds(std::int64_t m, std::int64_t n, std::int64_t k, bool strided) {
  std::vector<Gemm> shapes;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool add : {false, true}) {
        Gemm s{.m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb, .accumulate = add};
        if (strided) {
          s.stride_a = (ta ? m : k) + 3;
          s.stride_b = (tb ? k : n) + 5;
          s.stride_c = n + 7;
        }
        shapes.push_back(s);
      }
  return shapes;
}

TEST(Gemm, DoubleIsRowsTimesColumns) {
  const Doubles a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 2, 1, 0, 3};
  const Doubles expected = {5, 11, 14, 23};
  EXPECT_EQ((product<double, double>({.m = 2, .n = 2, .k = 3}, a, b, Doubles(4))), expected);
  EXPECT_EQ((product<double, double>({.m = 2, .n = 2, .k = 3, .transpose_a = true}, {1, 4, 2, 5, 3, 6}, b, Doubles(4))),
            expected);
  EXPECT_EQ((product<double, double>({.m = 2, .n = 2, .k = 3, .transpose_b = true}, a, {1, 2, 0, 0, 1, 3}, Doubles(4))),
            expected);
}

TEST(Gemm, EveryTranspositionOfOddSizes) {
  set_threads(1);
  with_each_instruction_set([] {
    for (const std::int64_t m : kOddSizes)
      for (const Gemm& s : all_kinds(m, 65, 31, false)) compare_all(s);
    for (const std::int64_t n : kOddSizes)
      for (const Gemm& s : all_kinds(31, n, 7, false)) compare_all(s);
    for (const std::int64_t k : kOddSizes)
      for (const Gemm& s : all_kinds(64, 33, k, false)) compare_all(s);
  });
}

TEST(Gemm, RowsMayStandApart) {
  with_each_instruction_set([] {
    for (const Gemm& s : all_kinds(65, 50, 31, true)) compare_all(s);
  });
}

TEST(Gemm, LongSumsAndSeveralBlocks) {
  for (const Gemm& s : all_kinds(100, 120, 800, false)) compare_all(s);
}

// Of a product whose numbers are of all sizes, against double.
template <typename T>
double error_of(const Gemm& s, const Doubles& a, const Doubles& b, const Doubles& exact) {
  const Doubles got = doubles(product<T, T>(s, a, b, Doubles(exact.size())));
  double squares = 0, all = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    squares += (got[i] - exact[i]) * (got[i] - exact[i]);
    all += exact[i] * exact[i];
  }
  return std::sqrt(squares / all);
}

TEST(Gemm, TilesAreAsExactAsFp32) {
  const Instructions best = instructions();
  if (best < Instructions::amx) GTEST_SKIP() << "this processor has no tiles";
  tune_gemm(false);  // the first way is that of the tiles
  for (const std::int64_t k : {31, 384, 2000, 9000}) {
    const Gemm s{.m = 40, .n = 50, .k = k, .transpose_b = true};
    Doubles a = some(s.m * k, 1), b = some(s.n * k, 2);
    for (std::size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<float>(std::ldexp(a[i], static_cast<int>(i % 41) - 20));
    for (double& x : b) x = static_cast<float>(x);
    const Doubles exact = product<double, double>(s, a, b, Doubles(40 * 50));
    use_instructions(Instructions::amx);
    const double tiles = error_of<float>(s, a, b, exact);
    use_instructions(Instructions::avx512);
    const double fp32 = error_of<float>(s, a, b, exact);
    EXPECT_LE(tiles, 1.5 * fp32 + 1e-7) << k;
  }
  use_instructions(best);
  tune_gemm(true);
}

// Operands rounded to 17 bits: errors of either sign, which do not grow with the length of a sum.
TEST(Gemm, RoundedOperandsKeepFiveDigits) {
  const Instructions best = instructions();
  if (best < Instructions::amx) GTEST_SKIP() << "this processor has no tiles";
  tune_gemm(false);
  for (const std::int64_t k : {31, 384, 2000, 9000}) {
    for (const bool transpose_a : {true, false}) {
      Gemm s{.m = 100, .n = 50, .k = k, .transpose_a = transpose_a, .rounds_operands = true};
      Doubles a = some(s.m * k, 1), b = some(s.n * k, 2);
      for (Doubles* x : {&a, &b})
        for (double& value : *x) value = static_cast<float>(value);
      const Doubles exact = product<double, double>(s, a, b, Doubles(static_cast<std::size_t>(s.m * s.n)));
      const double rounded = error_of<float>(s, a, b, exact);
      s.rounds_operands = false;
      EXPECT_LE(rounded, 5e-6) << k;
      EXPECT_GT(rounded, error_of<float>(s, a, b, exact)) << k;
    }
  }
  tune_gemm(true);
}

// Edges that are no whole tiles, and what lies beside c.
TEST(Gemm, SumsOfQuadrantsGiveTheSameProduct) {
  with_each_instruction_set([] {
    for (Gemm s : all_kinds(295, 306, 291, true)) {
      s.recombines = true;
      compare_with_double<float, float>(s);
    }
  });
}

TEST(Gemm, SumsOfQuadrantsInSeveralBlocks) {
  compare_with_double<float, float>({.m = 700, .n = 256, .k = 256, .transpose_b = true, .recombines = true});
  compare_with_double<float, float>({.m = 256, .n = 256, .k = 900, .transpose_a = true, .recombines = true});
  compare_with_double<float, float>({.m = 256, .n = 1000, .k = 800, .recombines = true});
}

TEST(Gemm, SumsOfQuadrantsAreNearlyAsExactAsPlainProducts) {
  if (passes<float>().multiply_by_seven == nullptr) GTEST_SKIP() << "this processor has no vectors of ours";
  for (const std::int64_t k : {256, 384, 2048}) {
    const Gemm s{.m = 320, .n = 288, .k = k, .stride_a = k, .stride_b = 288, .stride_c = 288};
    const Doubles a = rounded<float>(some(s.m * k, 1)), b = rounded<float>(some(s.n * k, 2));
    const Doubles exact = product<double, double>(s, a, b, Doubles(320 * 288));
    const auto error_of_pass = [&](auto* multiply) {
      const auto in_a = as<float>(a), in_b = as<float>(b);
      std::vector<float> out(exact.size()), room(static_cast<std::size_t>(passes<float>().seven_floats));
      multiply(s, in_a.data(), in_b.data(), out.data(), room.data());
      return difference(doubles(out), exact);
    };
    EXPECT_LE(error_of_pass(passes<float>().multiply_by_seven), 4 * error_of_pass(passes<float>().multiply)) << k;
  }
}

TEST(Gemm, WhatIsNotFiniteStaysSo) {
  with_each_instruction_set([] {
    for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      Doubles a(4 * 40, 1.0);
      a[5] = bad;
      for (int again = 0; again < 12; ++again)
        EXPECT_FALSE(
            std::isfinite((product<float, float>({.m = 4, .n = 3, .k = 40}, a, Doubles(40 * 3, 1.0), Doubles(12)))[0]));
    }
  });
}

TEST(Gemm, SizesOfZero) {
  std::vector<float> c = {1, 2};
  gemm<float>({.m = 0, .n = 2, .k = 3}, nullptr, nullptr, c.data());
  gemm<float>({.m = 1, .n = 2, .k = 0, .accumulate = true}, nullptr, nullptr, c.data());
  EXPECT_EQ(c, (std::vector<float>{1, 2}));
  gemm<float>({.m = 1, .n = 2, .k = 0}, nullptr, nullptr, c.data());
  EXPECT_EQ(c, (std::vector<float>{0, 0}));
}

TEST(Gemm, WithoutTuningTwoRunsAreEqualBitByBit) {
  tune_gemm(false);
  const Gemm s{.m = 200, .n = 150, .k = 300, .transpose_a = true};
  const Doubles a = some(200 * 300, 1), b = some(300 * 150, 2), c(200 * 150);
  EXPECT_EQ((product<float, float>(s, a, b, c)), (product<float, float>(s, a, b, c)));
  tune_gemm(true);
}

}  // namespace
}  // namespace twinpod::kernel
