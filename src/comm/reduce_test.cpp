#include "comm/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/half.hpp"
#include "core/rng.hpp"

namespace twinpod::comm {
namespace {

std::vector<VectorWidth> widths() {
  std::vector<VectorWidth> all = {VectorWidth::scalar};
  if (widest_vectors() >= VectorWidth::avx2) all.push_back(VectorWidth::avx2);
  if (widest_vectors() >= VectorWidth::avx512) all.push_back(VectorWidth::avx512);
  return all;
}

// Bytes of `count` elements that are neither NaN nor infinite.
std::vector<std::byte> random_elements(ElementType type, std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(rng.uniform(-8, 8));
    const auto put = [&](auto element) { std::memcpy(bytes.data() + i * sizeof element, &element, sizeof element); };
    if (type == ElementType::f32) put(value);
    if (type == ElementType::f64) put(static_cast<double>(value));
    if (type == ElementType::bf16) put(to_bf16(value));
    if (type == ElementType::f16) put(to_f16(value));
    if (type == ElementType::i32) put(static_cast<std::int32_t>(rng.next()));
    if (type == ElementType::i64) put(static_cast<std::int64_t>(rng.next()));
  }
  return bytes;
}

TEST(Reduce, GivesTheSameBitsForEveryWidthOfVector) {
  for (const auto& [type_name, type] : kElementTypeNames) {
    for (const auto& [op_name, op] : kReduceOpNames) {
      for (const std::size_t num_sources : {1, 2, 3, 5}) {
        const std::size_t count = 1031;
        std::vector<std::vector<std::byte>> inputs;
        std::vector<const void*> sources;
        for (std::size_t s = 0; s < num_sources; ++s) inputs.push_back(random_elements(type, count, 7 * s + 1));
        for (const auto& input : inputs) sources.push_back(input.data());
        std::vector<std::vector<std::byte>> results;
        for (const VectorWidth width : widths()) {
          results.emplace_back(count * size_of(type));
          void* const target = results.back().data();
          reduce_with(width, {type, op, static_cast<int>(num_sources)}, sources, {&target, 1}, count);
        }
        for (const auto& result : results) EXPECT_EQ(result, results[0]) << type_name << " " << op_name;
      }
    }
  }
}

TEST(Reduce, WritesTheSumIntoBothBuffersInPlace) {
  std::vector<float> a(1000);
  std::vector<float> b(1000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i);
  }
  const void* const sources[] = {a.data(), b.data()};
  void* const targets[] = {a.data(), b.data()};
  reduce({}, sources, targets, a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i], static_cast<float>(3 * i));
    ASSERT_EQ(b[i], static_cast<float>(3 * i));
  }
}

// Large sums that go elsewhere take other ways, with a rest at the end and only for aligned targets.
TEST(Reduce, LargeSumsAreTheSameAsSmallOnes) {
  for (const auto& [count, whole] :
       {std::pair<std::size_t, std::size_t>{300'000, 0}, {300'007, 0}, {300'007, 1'000'000}}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
      const std::vector<std::byte> a = random_elements(ElementType::f32, count, 1);
      const std::vector<std::byte> b = random_elements(ElementType::f32, count, 2);
      const void* const sources[] = {a.data(), b.data()};
      std::vector<float> expected(count);
      void* const reference[] = {expected.data()};
      reduce_with(VectorWidth::scalar, {}, sources, reference, count);
      auto* const memory = static_cast<float*>(std::aligned_alloc(64, 2 * 1'280'000));
      float* const first = memory + shift;
      float* const second = memory + 320'000 + shift;
      void* const targets[] = {first, second};
      reduce({.whole = whole}, sources, targets, count);
      EXPECT_EQ(std::memcmp(first, expected.data(), count * sizeof(float)), 0) << count << " " << shift;
      EXPECT_EQ(std::memcmp(second, expected.data(), count * sizeof(float)), 0) << count << " " << shift;
      std::free(memory);
    }
  }
}

TEST(Reduce, IntegersWrapAroundAndTheirAverageIsCutOff) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const std::int32_t a[] = {most, -7};
  const std::int32_t b[] = {1, 0};
  std::int32_t out[2] = {};
  const void* const sources[] = {a, b};
  void* const targets[] = {out};
  reduce({ElementType::i32, ReduceOp::sum}, sources, targets, 2);
  EXPECT_EQ(out[0], std::numeric_limits<std::int32_t>::min());
  reduce({ElementType::i32, ReduceOp::average, 2}, sources, targets, 2);
  EXPECT_EQ(out[1], -3);
}

TEST(Reduce, SixteenBitFloatsAreRoundedOnceAtTheEnd) {
  const Bf16 one = to_bf16(1);
  const Bf16 small = to_bf16(0.00390625F);  // half of the last place of 1: lost when added one by one
  const void* const sources[] = {&one, &small, &small};
  Bf16 sum;
  void* const targets[] = {&sum};
  reduce({ElementType::bf16, ReduceOp::sum}, sources, targets, 1);
  EXPECT_EQ(to_float(sum), 1.0078125F);
}

TEST(Half, EveryF16SurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const F16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(wide))));
    } else {
      ASSERT_EQ(to_f16(wide).bits, value.bits);
    }
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(to_float(to_f16(2049)), 2048);
  EXPECT_EQ(to_float(to_f16(2051)), 2052);
  EXPECT_EQ(to_float(to_f16(0x1p-25F)), 0);
  EXPECT_EQ(to_float(to_f16(0x1.8p-25F)), 0x1p-24F);
  EXPECT_EQ(to_float(to_f16(65519)), 65504);
  EXPECT_TRUE(std::isinf(to_float(to_f16(65520))));
  EXPECT_EQ(to_float(to_bf16(257)), 256);
  EXPECT_EQ(to_float(to_bf16(259)), 260);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace twinpod::comm
