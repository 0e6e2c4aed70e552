#include "kernel/attention.hpp"

#include "kernel/testing.hpp"

namespace twinpod::kernel {
namespace {

struct Sample {
  AttentionShape shape;
  Doubles qkv, dout;
};

Sample sample(const AttentionShape& shape, double scale = 1) {
  const std::int64_t rows = shape.batch * shape.sequence;
  return {shape, some(rows * (shape.heads + 2 * shape.kv_heads) * shape.head_dim, 1, scale),
          some(rows * shape.heads * shape.head_dim, 2)};
}

template <typename T>
struct Outcome {
  std::vector<T> out, dqkv;
  std::vector<Sum<T>> log_sums;
};

template <typename T>
Outcome<T> run(const Sample& s, const Dropout& dropout = {}) {
  Outcome<T> o;
  o.out = std::vector<T>(s.dout.size());
  o.dqkv = as<T>(s.qkv);  // to be overwritten
  o.log_sums = std::vector<Sum<T>>(static_cast<std::size_t>(s.shape.batch * s.shape.heads * s.shape.sequence));
  const std::size_t bytes = attention_workspace_bytes<T>(s.shape);
  EXPECT_EQ(bytes % 64, 0U);
  std::vector<std::byte> room(bytes, std::byte{0x7f});  // what was there before does not matter
  const auto qkv = as<T>(s.qkv), dout = as<T>(s.dout);
  attention<T>(s.shape, qkv.data(), o.out.data(), o.log_sums.data(), room.data(), dropout);
  std::fill(room.begin(), room.end(), std::byte{0xff});
  attention_backward<T>(s.shape, qkv.data(), o.out.data(), o.log_sums.data(), dout.data(), o.dqkv.data(), room.data(),
                        dropout);
  return o;
}

template <typename T>
void compare_with_double(Sample s, const Outcome<double>& b, const Dropout& dropout = {}) {
  const Outcome<T> a = run<T>(s, dropout);
  EXPECT_LE(difference(doubles(a.out), b.out), kTolerance<T>);
  EXPECT_LE(difference(doubles(a.log_sums), b.log_sums), kTolerance<float>);
  EXPECT_LE(difference(doubles(a.dqkv), b.dqkv), kTolerance<T>);
}

TEST(Attention, EveryVersionIsCloseToDouble) {
  const std::vector<AttentionShape> shapes = {{2, 1, 2, 2, 64},    {1, 7, 2, 1, 8},    {2, 31, 3, 3, 16},
                                              {1, 64, 4, 2, 40},   {1, 65, 2, 2, 64},  {1, 130, 1, 1, 80},
                                              {1, 384, 2, 1, 64},  {1, 70, 1, 1, 256}, {1, 66, 2, 1, 7},
                                              {1, 100, 1, 1, 128}, {1, 65, 1, 1, 1}};
  for (const AttentionShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.sequence << " x " << shape.head_dim);
    Sample s = sample(shape, 2);
    s.qkv = rounded<Bf16>(s.qkv);
    s.dout = rounded<Bf16>(s.dout);
    const Outcome<double> exact = run<double>(s);
    with_each_instruction_set([&] {
      compare_with_double<float>(s, exact);
      compare_with_double<Bf16>(s, exact);
    });
  }
}

TEST(Attention, LongSequencesGoByBlocksOfKeys) {
  const Sample s = sample({1, 2200, 1, 1, 8}, 3);
  const Sample same{s.shape, rounded<float>(s.qkv), rounded<float>(s.dout)};
  const Outcome<double> exact = run<double>(same);
  with_each_instruction_set([&] {
    if (instructions() != Instructions::scalar) compare_with_double<float>(same, exact);
  });
}

TEST(Attention, PeakedScoresNeitherOverflowNorVanish) {
  const Sample s = sample({1, 200, 1, 1, 32}, 40);
  const Sample same{s.shape, rounded<float>(s.qkv), rounded<float>(s.dout)};
  const Outcome<double> exact = run<double>(same);
  with_each_instruction_set([&] {
    // Scores of hundreds have errors of 1e-5 themselves.
    const Outcome<float> o = run<float>(same);
    EXPECT_LE(difference(doubles(o.out), exact.out), 1e-3);
    EXPECT_LE(difference(doubles(o.dqkv), exact.dqkv), 1e-3);
  });
}

TEST(Attention, GradientsAreThoseOfFiniteDifferences) {
  for (const int kv_heads : {1, 2}) {
    Sample s = sample({2, 5, 2, kv_heads, 3});
    const Outcome<double> o = run<double>(s);
    const auto loss = [&] {
      Outcome<double> now;
      now.out = Doubles(s.dout.size());
      now.log_sums = Doubles(o.log_sums.size());
      attention<double>(s.shape, s.qkv.data(), now.out.data(), now.log_sums.data(), nullptr);
      return dot(now.out, s.dout);
    };
    EXPECT_LE(difference(o.dqkv, numeric_gradient(s.qkv, loss)), kGradientTolerance);
  }
}

// ---- dropout ----

constexpr Dropout kDropout{.key = 5, .rate = 0.25, .first_row = 300, .stride = 8};

TEST(Attention, WithDropoutEveryVersionIsCloseToDouble) {
  for (const AttentionShape& shape : std::vector<AttentionShape>{{2, 31, 3, 3, 16}, {1, 130, 2, 1, 24}}) {
    Sample s = sample(shape, 2);
    s.qkv = rounded<Bf16>(s.qkv);
    s.dout = rounded<Bf16>(s.dout);
    const Outcome<double> exact = run<double>(s, kDropout);
    EXPECT_GT(difference(exact.out, run<double>(s).out), 0.01);
    EXPECT_EQ(exact.log_sums, run<double>(s).log_sums);
    with_each_instruction_set([&] {
      compare_with_double<float>(s, exact, kDropout);
      compare_with_double<Bf16>(s, exact, kDropout);
    });
  }
}

TEST(Attention, WithDropoutLongSequencesGoByBlocksOfKeys) {
  const Sample s = sample({1, 2200, 1, 1, 8}, 3);
  const Sample same{s.shape, rounded<float>(s.qkv), rounded<float>(s.dout)};
  const Outcome<double> exact = run<double>(same, kDropout);
  with_each_instruction_set([&] {
    if (instructions() != Instructions::scalar) compare_with_double<float>(same, exact, kDropout);
  });
}

TEST(Attention, WithDropoutGradientsAreThoseOfFiniteDifferences) {
  Sample s = sample({2, 5, 2, 1, 3});
  const Outcome<double> o = run<double>(s, kDropout);
  const auto loss = [&] { return dot(run<double>(s, kDropout).out, s.dout); };
  EXPECT_LE(difference(o.dqkv, numeric_gradient(s.qkv, loss)), kGradientTolerance);
}

// ---- with scores in memory ----

template <typename T>
Outcome<T> run_by_scores(const Sample& s, const Dropout& dropout) {
  Outcome<T> o;
  o.out = std::vector<T>(s.dout.size());
  o.dqkv = as<T>(s.qkv);  // to be overwritten
  const auto scores = static_cast<std::size_t>(s.shape.batch * s.shape.heads * s.shape.sequence * s.shape.sequence);
  std::vector<T> shares(scores), again(scores), room(scores);
  const auto qkv = as<T>(s.qkv), dout = as<T>(s.dout);
  attention_by_scores<T>(s.shape, qkv.data(), shares.data(), o.out.data(), room.data(), dropout);
  attention_shares<T>(s.shape, qkv.data(), again.data());
  EXPECT_EQ(doubles(again), doubles(shares));
  attention_by_scores_backward<T>(s.shape, qkv.data(), shares.data(), dout.data(), o.dqkv.data(), room.data(), dropout);
  return o;
}

TEST(Attention, ByScoresIsTheSame) {
  for (const AttentionShape& shape :
       std::vector<AttentionShape>{{2, 31, 3, 3, 16}, {1, 70, 4, 2, 8}, {2, 1, 2, 1, 4}}) {
    for (const Dropout& dropout : {Dropout{}, kDropout}) {
      Sample s = sample(shape, 2);
      s.qkv = rounded<Bf16>(s.qkv);
      s.dout = rounded<Bf16>(s.dout);
      const Outcome<double> exact = run<double>(s, dropout);
      const Outcome<double> wide = run_by_scores<double>(s, dropout);
      EXPECT_LE(difference(wide.out, exact.out), 1e-12);
      EXPECT_LE(difference(wide.dqkv, exact.dqkv), 1e-12);
      with_each_instruction_set([&] {
        const Outcome<float> found = run_by_scores<float>(s, dropout);
        EXPECT_LE(difference(doubles(found.out), exact.out), 1e-5);
        EXPECT_LE(difference(doubles(found.dqkv), exact.dqkv), 1e-5);
        const Outcome<Bf16> half = run_by_scores<Bf16>(s, dropout);
        EXPECT_LE(difference(doubles(half.out), exact.out), 0.02);  // scores are rounded too
        EXPECT_LE(difference(doubles(half.dqkv), exact.dqkv), 0.04);
      });
    }
  }
}

TEST(Attention, ATokenDoesNotSeeWhatComesLater) {
  Sample s = sample({1, 100, 1, 1, 8});
  with_each_instruction_set([&] {
    const auto before = run<float>(s).out;
    Sample later = s;
    for (std::size_t i = 60 * 24; i < later.qkv.size(); ++i) later.qkv[i] = 5;
    const auto after = run<float>(later).out;
    for (std::size_t i = 0; i < 60 * 8; ++i) EXPECT_EQ(before[i], after[i]);
    EXPECT_NE(before.back(), after.back());
  });
}

TEST(Attention, NothingToDoIsFine) {
  with_each_instruction_set([] {
    run<float>(sample({0, 16, 2, 2, 8}));
    run<float>(sample({2, 0, 2, 2, 8}));
  });
}

}  // namespace
}  // namespace twinpod::kernel
