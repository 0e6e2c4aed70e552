#include "kernel/optimizer.hpp"

#include "kernel/testing.hpp"

namespace twinpod::kernel {
namespace {

template <typename T>
struct State {
  std::vector<Sum<T>> master, mean, square;
  std::vector<T> copy;
};

constexpr AdamW kSettings{.rate = 0.01, .decay = 0.1, .gradient_scale = 0.5};

template <typename T>
State<T> after_steps(std::int64_t count, int steps, bool with_copy) {
  State<T> s;
  s.master = as<Sum<T>>(rounded<float>(some(count, 1)));
  s.mean = s.square = std::vector<Sum<T>>(static_cast<std::size_t>(count));
  s.copy = std::vector<T>(static_cast<std::size_t>(count));
  for (int step = 1; step <= steps; ++step) {
    const auto gradient = as<Sum<T>>(rounded<float>(some(count, 100 + static_cast<std::uint64_t>(step))));
    AdamW settings = kSettings;
    settings.step = step;
    adamw<T>(settings, count, s.master.data(), with_copy ? s.copy.data() : nullptr, gradient.data(), s.mean.data(),
             s.square.data());
  }
  return s;
}

TEST(AdamW, TheFirstStepIsTheRateAgainstTheSignOfTheGradient) {
  double master = 2, copy = 0, mean = 0, square = 0;
  const double gradient = -3;
  adamw<double>(kSettings, 1, &master, &copy, &gradient, &mean, &square);
  EXPECT_NEAR(master, 2 + 0.01 - 0.01 * 0.1 * 2, 1e-9);
  EXPECT_EQ(copy, master);
  EXPECT_NEAR(mean, 0.1 * -1.5, 1e-12);
  EXPECT_NEAR(square, 0.05 * 2.25, 1e-12);
}

TEST(AdamW, EveryVersionIsCloseToDouble) {
  for (const std::int64_t count : kOddSizes) {
    const State<double> exact = after_steps<double>(count, 5, false);
    with_each_instruction_set([&] {
      const State<float> a = after_steps<float>(count, 5, false);
      const State<Bf16> b = after_steps<Bf16>(count, 5, true);
      EXPECT_LE(difference(doubles(a.master), exact.master), kTolerance<float>);
      EXPECT_LE(difference(doubles(a.mean), exact.mean), kTolerance<float>);
      EXPECT_LE(difference(doubles(a.square), exact.square), kTolerance<float>);
      EXPECT_EQ(b.master, a.master);
      EXPECT_EQ(doubles(b.copy), doubles(as<Bf16>(doubles(b.master))));
    });
  }
}

TEST(AdamW, TheCopyMayBeTheMaster) {
  with_each_instruction_set([] {
    std::vector<float> master(20, 1), mean(20), square(20);
    const std::vector<float> gradient(20, 1);
    adamw<float>({.rate = 0.5}, 20, master.data(), master.data(), gradient.data(), mean.data(), square.data());
    for (const float value : master) EXPECT_NEAR(value, 0.5, 1e-6);
  });
}

TEST(AdamW, NoGradientNoStep) {
  with_each_instruction_set([] {
    std::vector<float> master(20, 1), mean(20), square(20);
    const std::vector<float> gradient(20);
    adamw<float>({}, 20, master.data(), nullptr, gradient.data(), mean.data(), square.data());
    EXPECT_EQ(master, std::vector<float>(20, 1));
  });
}

TEST(Sgd, MomentumAndDecay) {
  with_each_instruction_set([] {
    for (const std::int64_t count : kOddSizes) {
      const auto size = static_cast<std::size_t>(count);
      std::vector<float> master(size, 2), velocity(size, 1);
      std::vector<Bf16> copy(size);
      const std::vector<float> gradient(size, 4);
      const Sgd settings{.rate = 0.5, .momentum = 0.25, .decay = 0.125, .gradient_scale = 0.5};
      sgd<Bf16>(settings, count, master.data(), copy.data(), gradient.data(), velocity.data());
      EXPECT_EQ(velocity, std::vector<float>(size, 2.5));
      EXPECT_EQ(master, std::vector<float>(size, 0.75));
      for (const Bf16 value : copy) EXPECT_EQ(to_float(value), 0.75F);
    }
  });
}

TEST(SumOfSquares, IsTheSameBitByBitWithEveryInstructionSet) {
  const auto x = as<float>(some(12345, 1));
  double exact = 0;
  for (const float value : x) exact += static_cast<double>(value) * static_cast<double>(value);
  const double first = sum_of_squares<float>(12345, x.data());
  EXPECT_NEAR(first, exact, 1e-9 * exact);
  with_each_instruction_set([&] { EXPECT_EQ(sum_of_squares<float>(12345, x.data()), first); });
  EXPECT_EQ(sum_of_squares<float>(0, nullptr), 0);
  EXPECT_NEAR(sum_of_squares<double>(12345, doubles(x).data()), exact, 1e-9 * exact);
}

}  // namespace
}  // namespace twinpod::kernel
