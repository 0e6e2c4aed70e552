#include "kernel/dropout.hpp"

#include "kernel/attention.hpp"
#include "kernel/norm.hpp"
#include "kernel/testing.hpp"
#include "kernel/vocabulary.hpp"

namespace twinpod::kernel {
namespace {

constexpr Dropout kSome{.key = 42, .rate = 0.3, .first_row = 1000};

// What is left of ones.
template <typename T>
Doubles left(const Dropout& dropout, std::int64_t rows, std::int64_t width) {
  const auto ones = as<T>(Doubles(static_cast<std::size_t>(rows * width), 1));
  std::vector<T> out(ones.size());
  drop<T>(dropout, rows, width, ones.data(), out.data());
  return doubles(out);
}

std::vector<bool> kept(const Doubles& values) {
  std::vector<bool> result;
  for (const double value : values) result.push_back(value != 0);
  return result;
}

TEST(Dropout, EveryVersionDropsTheSameElements) {
  for (const std::int64_t width : kOddSizes) {
    const std::vector<bool> expected = kept(left<double>(kSome, 20, width));
    with_each_instruction_set([&] {
      EXPECT_EQ(kept(left<float>(kSome, 20, width)), expected);
      EXPECT_EQ(kept(left<Bf16>(kSome, 20, width)), expected);
    });
  }
}

TEST(Dropout, DropsItsShareAndScalesTheRest) {
  for (const double rate : {0.01, 0.1, 0.5, 0.9}) {
    constexpr std::int64_t kRows = 1000, kWidth = 500;
    const Doubles values = left<double>({.key = 7, .rate = rate}, kRows, kWidth);
    double sum = 0;
    for (const double value : values) {
      sum += value;
      if (value != 0) {
        ASSERT_DOUBLE_EQ(value, 1 / (1 - rate));
      }
    }
    // Five deviations of the mean.
    const double deviation = std::sqrt(rate / (1 - rate) / static_cast<double>(kRows * kWidth));
    EXPECT_NEAR(sum / static_cast<double>(kRows * kWidth), 1, 5 * deviation) << rate;
  }
}

// How often two of them agree; rate^2 + (1 - rate)^2 when they know nothing of each other.
double agreement(const Doubles& a, const Doubles& b) {
  double same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) same += (a[i] != 0) == (b[i] != 0) ? 1 : 0;
  return same / static_cast<double>(a.size());
}

TEST(Dropout, RowsColumnsAndKeysKnowNothingOfEachOther) {
  const Dropout half{.key = 1, .rate = 0.5};
  const Doubles values = left<double>(half, 400, 256);
  EXPECT_NEAR(agreement(values, left<double>({.key = 2, .rate = 0.5}, 400, 256)), 0.5, 0.01);
  EXPECT_NEAR(agreement(values, left<double>({.key = 1, .rate = 0.5, .first_row = 1}, 400, 256)), 0.5, 0.01);
  Doubles shifted(values.begin() + 1, values.end());
  shifted.push_back(0);
  EXPECT_NEAR(agreement(values, shifted), 0.5, 0.01);
}

TEST(Dropout, APartOfTheRowsIsAPartOfTheWhole) {
  const Doubles whole = left<float>(kSome, 10, 33);
  Dropout part = kSome;
  part.first_row += 4;
  EXPECT_EQ(left<float>(part, 6, 33), Doubles(whole.begin() + 4 * 33, whole.end()));
  part.first_row -= 1;
  part.stride = 3;
  const Doubles third = left<float>(part, 3, 33);
  EXPECT_EQ(Doubles(third.begin() + 33, third.begin() + 66), Doubles(whole.begin() + 6 * 33, whole.begin() + 7 * 33));
}

template <typename T>
void drop_before_the_norm(bool has_bias) {
  const NormShape shape{.rows = 9, .width = 65};
  const auto x = as<T>(some(9 * 65, 1)), delta = as<T>(some(9 * 65, 2)), bias = as<T>(some(65, 3));
  const auto weight = as<T>(some(65, 4));
  std::vector<T> sum(x.size()), out(x.size()), alone(x.size());
  std::vector<Sum<T>> mean(9), inverse(9);
  const T* b = has_bias ? bias.data() : nullptr;
  add_norm<T>(shape, x.data(), delta.data(), b, weight.data(), nullptr, sum.data(), out.data(), mean.data(),
              inverse.data(), kSome);
  add_residual<T>(shape, x.data(), delta.data(), b, alone.data(), kSome);
  EXPECT_EQ(doubles(sum), doubles(alone));
  const Doubles factors = left<double>(kSome, 9, 65), xs = doubles(x), deltas = doubles(delta), biases = doubles(bias);
  Doubles expected;
  for (std::size_t i = 0; i < xs.size(); ++i)
    expected.push_back(xs[i] + factors[i] * (deltas[i] + (has_bias ? biases[i % 65] : 0)));
  EXPECT_LE(difference(doubles(sum), expected), kTolerance<T>);
  std::vector<T> again(x.size());
  norm_again<T>(shape, sum.data(), mean.data(), inverse.data(), weight.data(), nullptr, again.data());
  EXPECT_EQ(doubles(out), doubles(again));
}

TEST(Dropout, BeforeANormIsOfWhatIsAddedAndItsBias) {
  with_each_instruction_set([] {
    for (const bool has_bias : {false, true}) {
      drop_before_the_norm<float>(has_bias);
      drop_before_the_norm<Bf16>(has_bias);
    }
  });
}

TEST(Dropout, OfLookedUpRowsIsUndoneInTheirGradients) {
  const std::vector<std::int32_t> tokens = {1, 0, 1, 2};
  const Vocabulary part{.first = 0, .count = 3};
  with_each_instruction_set([&] {
    const auto table = as<float>(some(3 * 40, 1)), positions = as<float>(some(2 * 40, 2)),
               dout = as<float>(some(160, 3));
    std::vector<float> plain(160), out(160), expected(160);
    look_up<float>(4, 40, tokens.data(), part, table.data(), positions.data(), 2, plain.data());
    look_up<float>(4, 40, tokens.data(), part, table.data(), positions.data(), 2, out.data(), kSome);
    drop<float>(kSome, 4, 40, plain.data(), expected.data());
    EXPECT_EQ(out, expected);
    std::vector<float> dropped(160), dtable(120), dpositions(80), table_of(120), positions_of(80);
    drop<float>(kSome, 4, 40, dout.data(), dropped.data());
    look_up_backward<float>(4, 40, tokens.data(), part, dropped.data(), table_of.data(), positions_of.data(), 2);
    look_up_backward<float>(4, 40, tokens.data(), part, dout.data(), dtable.data(), dpositions.data(), 2, kSome);
    EXPECT_LE(difference(doubles(dtable), doubles(table_of)), 1e-6);
    EXPECT_LE(difference(doubles(dpositions), doubles(positions_of)), 1e-6);
  });
}

}  // namespace
}  // namespace twinpod::kernel
