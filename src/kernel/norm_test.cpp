#include "kernel/norm.hpp"

#include "kernel/testing.hpp"

namespace twinpod::kernel {
namespace {

struct Sample {
  NormShape shape;
  Doubles x, delta, bias, weight, norm_bias, dout, dresidual;
};

Sample sample(std::int64_t rows, std::int64_t width, bool rms) {
  const std::int64_t all = rows * width;
  return {{.rows = rows, .width = width, .rms = rms},
          some(all, 1),
          some(all, 2),
          some(width, 3),
          some(width, 4),
          some(width, 5),
          some(all, 6),
          some(all, 7)};
}

template <typename T>
struct Outcome {
  std::vector<T> sum, out, again, dx;
  std::vector<Sum<T>> mean, inverse, dweight, dnorm_bias, dbias;
};

// Forward and backward. `options`: with delta, biases and residual, or without.
template <typename T>
Outcome<T> run(const Sample& s, bool options) {
  const auto rows = static_cast<std::size_t>(s.shape.rows), width = static_cast<std::size_t>(s.shape.width);
  Outcome<T> o;
  o.sum = o.out = o.again = o.dx = std::vector<T>(rows * width);
  o.mean = o.inverse = std::vector<Sum<T>>(rows);
  o.dweight = o.dnorm_bias = o.dbias = std::vector<Sum<T>>(width, 1);
  const auto x = as<T>(s.x), delta = as<T>(s.delta), bias = as<T>(s.bias), weight = as<T>(s.weight),
             norm_bias = as<T>(s.norm_bias), dout = as<T>(s.dout);
  auto* mean = s.shape.rms ? nullptr : o.mean.data();
  o.dx = as<T>(s.dresidual);  // in place
  if (options) {
    add_norm<T>(s.shape, x.data(), delta.data(), bias.data(), weight.data(), norm_bias.data(), o.sum.data(),
                o.out.data(), mean, o.inverse.data());
    norm_again<T>(s.shape, o.sum.data(), mean, o.inverse.data(), weight.data(), norm_bias.data(), o.again.data());
    norm_backward<T>(s.shape, o.sum.data(), mean, o.inverse.data(), weight.data(), dout.data(), o.dx.data(),
                     o.dx.data(), o.dweight.data(), o.dnorm_bias.data(), o.dbias.data());
  } else {
    o.sum = x;
    add_norm<T>(s.shape, x.data(), nullptr, nullptr, weight.data(), nullptr, nullptr, o.out.data(), mean,
                o.inverse.data());
    norm_again<T>(s.shape, x.data(), mean, o.inverse.data(), weight.data(), nullptr, o.again.data());
    norm_backward<T>(s.shape, x.data(), mean, o.inverse.data(), weight.data(), dout.data(), nullptr, o.dx.data(),
                     o.dweight.data(), nullptr, nullptr);
  }
  return o;
}

template <typename T>
void compare_with_double(const Sample& given, bool options) {
  Sample s = given;
  for (Doubles* values : {&s.x, &s.delta, &s.bias, &s.weight, &s.norm_bias, &s.dout, &s.dresidual})
    *values = rounded<T>(*values);
  const Outcome<T> a = run<T>(s, options);
  const Outcome<double> b = run<double>(s, options);
  EXPECT_LE(difference(doubles(a.sum), b.sum), kTolerance<T>);
  EXPECT_LE(difference(doubles(a.out), b.out), kTolerance<T>);
  EXPECT_EQ(doubles(a.out), doubles(a.again));
  EXPECT_LE(difference(doubles(a.dx), b.dx), kTolerance<T>);
  EXPECT_LE(difference(doubles(a.dweight), b.dweight), kTolerance<T>);
  EXPECT_LE(difference(doubles(a.dnorm_bias), b.dnorm_bias), kTolerance<T>);
  EXPECT_LE(difference(doubles(a.dbias), b.dbias), kTolerance<T>);
}

TEST(Norm, EveryVersionIsCloseToDouble) {
  with_each_instruction_set([] {
    for (const std::int64_t width : kOddSizes) {
      if (width == 1) continue;
      for (const bool rms : {false, true}) {
        for (const bool options : {false, true}) {
          SCOPED_TRACE(testing::Message() << width << (rms ? " rms" : "") << (options ? " with all options" : ""));
          compare_with_double<float>(sample(5, width, rms), options);
          compare_with_double<Bf16>(sample(5, width, rms), options);
        }
      }
    }
  });
}

TEST(Norm, ARowOfOneElementIsItsBias) {
  with_each_instruction_set([] {
    const Outcome<float> o = run<float>(sample(3, 1, false), true);
    for (const float out : o.out) EXPECT_NEAR(out, sample(3, 1, false).norm_bias[0], 1e-4);
  });
}

TEST(Norm, GradientsAreThoseOfFiniteDifferences) {
  for (const bool rms : {false, true}) {
    Sample s = sample(4, 9, rms);
    // dresidual is the gradient that reaches the sum by another way.
    const auto loss = [&] {
      const Outcome<double> o = run<double>(s, true);
      return dot(o.out, s.dout) + dot(o.sum, s.dresidual);
    };
    Outcome<double> o = run<double>(s, true);
    for (Doubles* sums : {&o.dweight, &o.dnorm_bias, &o.dbias})
      for (double& sum : *sums) sum -= 1;  // what they are added to
    EXPECT_LE(difference(o.dx, numeric_gradient(s.x, loss)), kGradientTolerance);
    EXPECT_LE(difference(o.dx, numeric_gradient(s.delta, loss)), kGradientTolerance);
    EXPECT_LE(difference(o.dbias, numeric_gradient(s.bias, loss)), kGradientTolerance);
    EXPECT_LE(difference(o.dweight, numeric_gradient(s.weight, loss)), kGradientTolerance);
    EXPECT_LE(difference(o.dnorm_bias, numeric_gradient(s.norm_bias, loss)), kGradientTolerance);
  }
}

TEST(Norm, NoRowsAreFine) {
  with_each_instruction_set([] { run<float>(sample(0, 8, false), true); });
}

TEST(Norm, SumMayBeX) {
  with_each_instruction_set([] {
    const Sample s = sample(3, 65, false);
    auto x = as<float>(s.x);
    const auto delta = as<float>(s.delta), weight = as<float>(s.weight);
    std::vector<float> out(x.size()), mean(3), inverse(3);
    add_norm<float>(s.shape, x.data(), delta.data(), nullptr, weight.data(), nullptr, x.data(), out.data(), mean.data(),
                    inverse.data());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], s.x[i] + s.delta[i], 1e-6);
  });
}

}  // namespace
}  // namespace twinpod::kernel
