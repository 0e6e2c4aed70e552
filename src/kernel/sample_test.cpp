#include "kernel/sample.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "core/half.hpp"

namespace twinpod::kernel {
namespace {

float value_of(float number) { return number; }
float value_of(Bf16 number) { return to_float(number); }

// Figures from zeros were 10 % too good.
template <typename T>
void expect_numbers_of_a_step() {
  constexpr std::size_t kCount = 10000;
  std::vector<T> numbers(kCount);
  fill_sample(std::as_writable_bytes(std::span(numbers)));
  std::set<float> different;
  int negative = 0;
  for (const T number : numbers) {
    const float value = value_of(number);
    ASSERT_GE(std::fabs(value), 0x1p-7F);
    ASSERT_LT(std::fabs(value), 0x1p-5F);
    different.insert(value);
    negative += value < 0 ? 1 : 0;
  }
  EXPECT_GT(different.size(), 500U) << "of Bf16 there are 512";
  EXPECT_NEAR(negative, kCount / 2.0, kCount / 20.0);
}

TEST(Sample, HasNumbersAsAStepHasThem) {
  expect_numbers_of_a_step<float>();
  expect_numbers_of_a_step<Bf16>();
}

TEST(Sample, LeavesALastPartOfEightBytesAsItIs) {
  std::vector<std::byte> memory(13, std::byte{7});
  fill_sample(memory);
  EXPECT_NE(memory[7], std::byte{7});
  for (std::size_t i = 8; i < memory.size(); ++i) EXPECT_EQ(memory[i], std::byte{7});
}

}  // namespace
}  // namespace twinpod::kernel
