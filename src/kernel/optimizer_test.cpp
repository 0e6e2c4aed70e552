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

TEST(AdamW, InPlainPassesIsTheSame) {
  for (const std::int64_t count : kOddSizes) {
    const State<double> exact = after_steps<double>(count, 5, false);
    with_each_instruction_set([&] {
      State<Bf16> s;
      s.master = as<float>(rounded<float>(some(count, 1)));
      s.mean = s.square = std::vector<float>(static_cast<std::size_t>(count));
      s.copy = std::vector<Bf16>(static_cast<std::size_t>(count));
      std::vector<float> scratch(static_cast<std::size_t>(count));
      for (int step = 1; step <= 5; ++step) {
        auto gradient = as<float>(rounded<float>(some(count, 100 + static_cast<std::uint64_t>(step))));
        AdamW settings = kSettings;
        settings.step = step;
        adamw_in_passes<Bf16>(settings, count, s.master.data(), s.copy.data(), gradient.data(), s.mean.data(),
                              s.square.data(), scratch.data());
      }
      EXPECT_LE(difference(doubles(s.master), exact.master), kTolerance<float>);
      EXPECT_LE(difference(doubles(s.mean), exact.mean), kTolerance<float>);
      EXPECT_LE(difference(doubles(s.square), exact.square), kTolerance<float>);
      EXPECT_EQ(doubles(s.copy), doubles(as<Bf16>(doubles(s.master))));
    });
  }
}

TEST(Sgd, InPlainPassesIsTheSameAndWithoutMomentumNeedsNoVelocity) {
  with_each_instruction_set([] {
    for (const double momentum : {0.9, 0.0}) {
      const Sgd settings{.rate = 0.1, .momentum = momentum, .decay = 0.1, .gradient_scale = 0.5};
      std::vector<float> master = as<float>(some(65, 1)), plain = master, velocity(65), other(65);
      for (std::uint64_t step = 0; step < 3; ++step) {
        std::vector<float> gradient = as<float>(some(65, 10 + step)), same = gradient;
        const bool moves = momentum > 0;
        sgd<float>(settings, 65, master.data(), nullptr, gradient.data(), moves ? velocity.data() : nullptr);
        sgd_in_passes<float>(settings, 65, plain.data(), nullptr, same.data(), moves ? other.data() : nullptr);
      }
      EXPECT_LE(difference(doubles(plain), doubles(master)), 1e-6);
      EXPECT_NE(master, as<float>(some(65, 1)));
    }
  });
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
