#include "kernel/product.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace twinpod::kernel {
namespace {

std::uint16_t bf16(float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); }

// Small whole numbers, whose sums are exact in either type.
float at(int i, int j) { return static_cast<float>((3 * i + 5 * j) % 4); }

TEST(Product, RowsTimesColumns) {
  const int m = 5, n = 7, k = 11;
  std::vector<float> a, b, c(m * n);
  for (int i = 0; i < m; ++i)
    for (int x = 0; x < k; ++x) a.push_back(at(i, x));
  for (int x = 0; x < k; ++x)
    for (int j = 0; j < n; ++j) b.push_back(at(x, j));
  set_threads(1);
  const Result<Product> product = make_product({m, n, k});
  ASSERT_TRUE(product) << product.error().message;
  multiply(*product, a.data(), b.data(), c.data());
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int x = 0; x < k; ++x) sum += at(i, x) * at(x, j);
      EXPECT_EQ(c[static_cast<std::size_t>(i * n + j)], sum);
    }
  }
}

TEST(Product, Bf16WhereTheProcessorHasIt) {
  set_threads(1);
  const Result<Product> product = make_product({2, 2, 2, spec::Precision::bf16});
  if (!product) GTEST_SKIP() << product.error().message;
  const std::vector<std::uint16_t> a = {bf16(1), bf16(2), bf16(3), bf16(4)};
  std::vector<std::uint16_t> c(4);
  multiply(*product, a.data(), a.data(), c.data());
  EXPECT_EQ(c, (std::vector<std::uint16_t>{bf16(7), bf16(10), bf16(15), bf16(22)}));
}

TEST(Product, RefusesWhatItCannotDo) {
  EXPECT_FALSE(make_product({1, 1, 0}));
  EXPECT_FALSE(make_product({1, 1, 1, spec::Precision::fp8}));
}

}  // namespace
}  // namespace twinpod::kernel
