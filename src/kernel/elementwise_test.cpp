#include "kernel/elementwise.hpp"

#include "kernel/testing.hpp"

namespace twinpod::kernel {
namespace {

enum class Activation { gelu, swiglu };

struct Sample {
  Activation kind;
  std::int64_t rows, width;
  Doubles pre, bias, dout;
};

Sample sample(Activation kind, std::int64_t rows, std::int64_t width) {
  const std::int64_t inputs = kind == Activation::swiglu ? 2 * width : width;
  return {kind, rows, width, some(rows * inputs, 1, 6), some(inputs, 2), some(rows * width, 3)};
}

template <typename T>
struct Outcome {
  std::vector<T> pre, out, again, dpre;
  std::vector<Sum<T>> dbias;
};

template <typename T>
Outcome<T> run(const Sample& s, bool with_bias) {
  Outcome<T> o;
  o.pre = as<T>(s.pre);
  o.out = o.again = std::vector<T>(s.dout.size());
  o.dpre = std::vector<T>(s.pre.size());
  o.dbias = std::vector<Sum<T>>(s.bias.size(), 1);
  const auto bias = as<T>(s.bias), dout = as<T>(s.dout);
  const T* b = with_bias ? bias.data() : nullptr;
  Sum<T>* db = with_bias ? o.dbias.data() : nullptr;
  if (s.kind == Activation::gelu) {
    bias_gelu<T>(s.rows, s.width, o.pre.data(), b, o.out.data());
    gelu<T>(s.rows * s.width, o.pre.data(), o.again.data());
    o.dpre = dout;  // in place
    gelu_backward<T>(s.rows, s.width, o.pre.data(), o.dpre.data(), o.dpre.data(), db);
  } else {
    bias_swiglu<T>(s.rows, s.width, o.pre.data(), b, o.out.data());
    swiglu<T>(s.rows, s.width, o.pre.data(), o.again.data());
    swiglu_backward<T>(s.rows, s.width, o.pre.data(), dout.data(), o.dpre.data(), db);
  }
  return o;
}

template <typename T>
void compare_with_double(Sample s, bool with_bias) {
  for (Doubles* values : {&s.pre, &s.bias, &s.dout}) *values = rounded<T>(*values);
  const Outcome<T> a = run<T>(s, with_bias);
  const Outcome<double> b = run<double>(s, with_bias);
  EXPECT_LE(difference(doubles(a.pre), b.pre), kTolerance<T>);
  EXPECT_LE(difference(doubles(a.out), b.out), kTolerance<T>);
  EXPECT_EQ(doubles(a.out), doubles(a.again));
  EXPECT_LE(difference(doubles(a.dpre), b.dpre), kTolerance<T>);
  // Of one column, it has the error of pre as bf16 rounds it.
  constexpr double kOfSums = (std::is_same_v<T, Bf16> ? 2 : 1) * kTolerance<T>;
  EXPECT_LE(difference(doubles(a.dbias), b.dbias), kOfSums);
}

TEST(Activation, EveryVersionIsCloseToDouble) {
  with_each_instruction_set([] {
    for (const std::int64_t width : kOddSizes) {
      for (const Activation kind : {Activation::gelu, Activation::swiglu}) {
        for (const bool with_bias : {false, true}) {
          SCOPED_TRACE(testing::Message() << width << (kind == Activation::gelu ? " gelu" : " swiglu") << with_bias);
          compare_with_double<float>(sample(kind, 5, width), with_bias);
          compare_with_double<Bf16>(sample(kind, 5, width), with_bias);
        }
      }
    }
  });
}

TEST(Activation, GradientsAreThoseOfFiniteDifferences) {
  for (const Activation kind : {Activation::gelu, Activation::swiglu}) {
    Sample s = sample(kind, 3, 5);
    const auto loss = [&] { return dot(run<double>(s, true).out, s.dout); };
    Outcome<double> o = run<double>(s, true);
    for (double& sum : o.dbias) sum -= 1;
    EXPECT_LE(difference(o.dpre, numeric_gradient(s.pre, loss)), kGradientTolerance);
    EXPECT_LE(difference(o.dbias, numeric_gradient(s.bias, loss)), kGradientTolerance);
  }
}

TEST(Activation, FarFromZeroItNeitherOverflowsNorLosesItsSign) {
  with_each_instruction_set([] {
    const std::vector<float> pre = {-1e15F, -1e4F, -100, -20, 0, 1e-30F, -1e-42F, 20, 100, 1e4F, 1e18F};
    std::vector<float> out(pre.size()), slope(pre.size());
    const std::vector<float> ones(pre.size(), 1);
    gelu<float>(11, pre.data(), out.data());
    gelu_backward<float>(1, 11, pre.data(), ones.data(), slope.data(), nullptr);
    for (std::size_t i = 0; i < pre.size(); ++i) {
      EXPECT_NEAR(out[i], pre[i] > 1 ? pre[i] : 0, 1e-6F * std::abs(out[i]) + 1e-20F) << pre[i];
      EXPECT_NEAR(slope[i], pre[i] > 1 ? 1 : std::abs(pre[i]) < 1 ? 0.5 : 0, 1e-6) << pre[i];
    }
    std::vector<float> both = {-1000, 1000, 3, 3}, product(2);
    swiglu<float>(1, 2, both.data(), product.data());
    EXPECT_NEAR(product[0], 0, 1e-20);
    EXPECT_NEAR(product[1], 3000, 1e-2);
  });
}

TEST(Elementwise, SumsAndBiases) {
  with_each_instruction_set([] {
    for (const std::int64_t width : kOddSizes) {
      const Doubles x = some(9 * width, 1), bias = some(width, 2);
      auto a = as<float>(x);
      const auto b = as<float>(bias);
      add_bias<float>(9, width, a.data(), b.data());
      std::vector<float> sums(static_cast<std::size_t>(width), 2);
      add_column_sums<float>(9, width, a.data(), sums.data());
      for (std::int64_t j = 0; j < width; ++j) {
        double sum = 2;
        for (std::int64_t i = 0; i < 9; ++i)
          sum += x[static_cast<std::size_t>(i * width + j)] + bias[static_cast<std::size_t>(j)];
        EXPECT_NEAR(sums[static_cast<std::size_t>(j)], sum, 1e-5);
      }
      const auto before = a;
      add<float>(9 * width, a.data(), before.data());
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i], 2 * before[i]);
    }
  });
}

TEST(Elementwise, Bf16SumsAreKeptInFloat) {
  with_each_instruction_set([] {
    const std::vector<Bf16> x(300 * 17, to_bf16(1));
    std::vector<float> sums(17);
    add_column_sums<Bf16>(300, 17, x.data(), sums.data());
    EXPECT_EQ(sums, std::vector<float>(17, 300));
    auto y = x;
    add_bias<Bf16>(300, 17, y.data(), x.data());
    add<Bf16>(300 * 17, y.data(), x.data());
    for (const Bf16 value : y) EXPECT_EQ(to_float(value), 3);
  });
}

template <typename T>
std::vector<T> turned(const RotaryShape& shape, const Doubles& x, bool back) {
  auto y = as<T>(x);
  rotate<T>(shape, y.data(), back);
  return y;
}

TEST(Rotary, EveryVersionIsCloseToDoubleAndBackUndoesIt) {
  with_each_instruction_set([] {
    for (const int head_dim : {2, 6, 64, 80, 128}) {
      const RotaryShape shape{
          .rows = 2 * 300, .sequence = 300, .heads = 3, .head_dim = head_dim, .stride = 3 * head_dim + 5};
      const Doubles x = rounded<Bf16>(some(shape.rows * shape.stride, 1));
      const Doubles exact = turned<double>(shape, x, false);
      EXPECT_LE(difference(doubles(turned<float>(shape, x, false)), exact), kTolerance<float>);
      EXPECT_LE(difference(doubles(turned<Bf16>(shape, x, false)), exact), kTolerance<Bf16>);
      EXPECT_LE(difference(doubles(turned<float>(shape, exact, true)), x), kTolerance<float>);
    }
  });
}

TEST(Rotary, ByATableIsTheSame) {
  const RotaryShape shape{.rows = 10, .sequence = 5, .heads = 3, .head_dim = 22, .stride = 80};
  std::vector<float> table(static_cast<std::size_t>(shape.sequence * shape.head_dim)), turned(10 * 3 * 22);
  fill_rotary_table<float>(shape, table.data());
  with_each_instruction_set([&] {
    for (const bool back : {false, true}) {
      auto x = as<float>(some(10 * 80, 1)), y = x;
      rotate<float>(shape, x.data(), back);
      rotate_by_table<float>(shape, y.data(), back, table.data(), turned.data());
      EXPECT_LE(difference(doubles(y), doubles(x)), 1e-6);
    }
  });
}

TEST(Rotary, APairTurnsByItsPosition) {
  const RotaryShape shape{.rows = 3, .sequence = 3, .heads = 1, .head_dim = 4, .stride = 4, .base = 100};
  const auto y = turned<double>(shape, {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0}, false);
  const Doubles expected = {1,           1,
                            0,           0,
                            std::cos(1), std::cos(0.1),
                            std::sin(1), std::sin(0.1),
                            std::cos(2), std::cos(0.2),
                            std::sin(2), std::sin(0.2)};
  EXPECT_LE(difference(y, expected), 1e-12);
}

TEST(Elementwise, NothingToDoIsFine) {
  with_each_instruction_set([] {
    add<float>(0, nullptr, nullptr);
    add_bias<float>(0, 3, nullptr, nullptr);
    add_column_sums<float>(0, 0, nullptr, nullptr);
    bias_gelu<float>(0, 4, nullptr, nullptr, nullptr);
    gelu_backward<float>(0, 4, nullptr, nullptr, nullptr, nullptr);
    rotate<float>({}, nullptr, false);
  });
}

}  // namespace
}  // namespace twinpod::kernel
