#include "kernel/vocabulary.hpp"

#include "kernel/testing.hpp"

namespace twinpod::kernel {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens tokens(std::int64_t rows, std::int64_t count) {
  Rng rng(11);
  Tokens result;
  for (std::int64_t i = 0; i < rows; ++i)
    result.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(count))));
  return result;
}

TEST(LookUp, RowsOfTheTableAndOfPositions) {
  with_each_instruction_set([] {
    for (const std::int64_t width : kOddSizes) {
      const Doubles table = rounded<Bf16>(some(3 * width, 1)), positions = rounded<Bf16>(some(2 * width, 2));
      const Tokens row_tokens = {5, 4, 3, 9, 6};  // the part holds 4, 5 and 6
      const Vocabulary part{.first = 4, .count = 3};
      std::vector<float> out(static_cast<std::size_t>(5 * width)), plain(out.size());
      const auto t = as<float>(table), p = as<float>(positions);
      look_up<float>(5, width, row_tokens.data(), part, t.data(), p.data(), 2, out.data());
      look_up<float>(5, width, row_tokens.data(), part, t.data(), nullptr, 0, plain.data());
      for (std::int64_t at = 0; at < 5 * width; ++at) {
        const std::int64_t token = row_tokens[static_cast<std::size_t>(at / width)] - 4, j = at % width;
        const float row = token < 0 || token > 2 ? 0 : t[static_cast<std::size_t>(token * width + j)];
        EXPECT_EQ(plain[static_cast<std::size_t>(at)], row);
        EXPECT_EQ(out[static_cast<std::size_t>(at)], row + p[static_cast<std::size_t>(at / width % 2 * width + j)]);
      }
    }
  });
}

template <typename T>
void look_up_there_and_back() {
  const std::int64_t width = 65, rows = 40, sequence = 8;
  const Vocabulary part{.first = 2, .count = 6};
  const Tokens row_tokens = tokens(rows, 10);
  const auto dout = as<T>(some(rows * width, 1));
  std::vector<Sum<T>> dtable(static_cast<std::size_t>(part.count * width), 1), dpositions(sequence * width, 2);
  look_up_backward<T>(rows, width, row_tokens.data(), part, dout.data(), dtable.data(), dpositions.data(), sequence);
  Doubles table(dtable.size(), 1), positions(dpositions.size(), 2);
  look_up_backward<double>(rows, width, row_tokens.data(), part, doubles(dout).data(), table.data(), positions.data(),
                           sequence);
  EXPECT_LE(difference(doubles(dtable), table), kTolerance<float>);
  EXPECT_LE(difference(doubles(dpositions), positions), kTolerance<float>);
  look_up_backward<T>(rows, width, row_tokens.data(), part, dout.data(), dtable.data(), nullptr, 0);
}

TEST(Loss, InPlainPassesHasTheSameGradients) {
  with_each_instruction_set([] {
    for (const std::int64_t width : kOddSizes) {
      const std::int64_t rows = 6;
      const Vocabulary part{.first = 2, .count = width};
      const Tokens labels = tokens(rows, width + 4);  // of other ranks too
      const auto logits = as<float>(some(rows * width, 3, 5));
      std::vector<float> maxima(rows), sums(rows), targets(rows), in_place = logits, shares(logits.size());
      std::vector<float> gradients(logits.size());
      row_maxima<float>(rows, width, logits.data(), maxima.data());
      row_sums<float>(rows, part, logits.data(), labels.data(), maxima.data(), sums.data(), targets.data());
      loss_backward<float>(rows, part, in_place.data(), labels.data(), maxima.data(), sums.data(), 0.25);
      probabilities_of<float>(rows, width, logits.data(), maxima.data(), sums.data(), shares.data());
      gradients_of_probabilities<float>(rows, part, shares.data(), labels.data(), 0.25, gradients.data());
      EXPECT_LE(difference(doubles(gradients), doubles(in_place)), 1e-6);
      for (std::int64_t i = 0; i < rows; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < width; ++j)
          sum += static_cast<double>(shares[static_cast<std::size_t>(i * width + j)]);
        EXPECT_NEAR(sum, 1, 1e-5);
      }
    }
  });
}

TEST(LookUp, BackwardAddsToTheTable) {
  with_each_instruction_set([] {
    look_up_there_and_back<float>();
    look_up_there_and_back<Bf16>();
  });
}

TEST(LookUp, GradientsAreThoseOfFiniteDifferences) {
  const Tokens row_tokens = {1, 0, 3, 1};
  const Vocabulary part{.first = 0, .count = 3};
  Doubles table = some(3 * 2, 1), positions = some(2 * 2, 2);
  const Doubles dout = some(4 * 2, 3);
  const auto loss = [&] {
    Doubles out(8);
    look_up<double>(4, 2, row_tokens.data(), part, table.data(), positions.data(), 2, out.data());
    return dot(out, dout);
  };
  Doubles dtable(6), dpositions(4);
  look_up_backward<double>(4, 2, row_tokens.data(), part, dout.data(), dtable.data(), dpositions.data(), 2);
  EXPECT_LE(difference(dtable, numeric_gradient(table, loss)), kGradientTolerance);
  EXPECT_LE(difference(dpositions, numeric_gradient(positions, loss)), kGradientTolerance);
}

template <typename T>
struct Loss {
  std::vector<T> logits;
  std::vector<Sum<T>> losses;
};

template <typename T>
Loss<T> loss_of(std::int64_t rows, std::int64_t width, const Doubles& logits, const Tokens& labels) {
  Loss<T> result{as<T>(logits), std::vector<Sum<T>>(static_cast<std::size_t>(rows))};
  loss_and_backward<T>(rows, width, result.logits.data(), labels.data(), result.losses.data(), 0.5);
  return result;
}

template <typename T>
void compare_loss_with_double(std::int64_t rows, std::int64_t width) {
  const Doubles logits = rounded<T>(some(rows * width, 1, 10));
  const Tokens labels = tokens(rows, width);
  const Loss<T> a = loss_of<T>(rows, width, logits, labels);
  const Loss<double> b = loss_of<double>(rows, width, logits, labels);
  EXPECT_LE(difference(doubles(a.losses), b.losses), kTolerance<float>);
  EXPECT_LE(difference(doubles(a.logits), b.logits), kTolerance<T>);
}

TEST(Loss, EveryVersionIsCloseToDouble) {
  with_each_instruction_set([] {
    for (const std::int64_t width : kOddSizes) {
      SCOPED_TRACE(width);
      if (width > 1) compare_loss_with_double<float>(5, width);
      if (width > 1) compare_loss_with_double<Bf16>(5, width);
    }
    compare_loss_with_double<float>(2, 50304);
  });
}

TEST(Loss, OneClassIsCertain) {
  with_each_instruction_set([] {
    const Loss<float> loss = loss_of<float>(2, 1, {3, -4}, {0, 0});
    EXPECT_EQ(loss.losses, (std::vector<float>{0, 0}));
    EXPECT_EQ(loss.logits, (std::vector<float>{0, 0}));
  });
}

TEST(Loss, GradientsAreThoseOfFiniteDifferences) {
  Doubles logits = some(3 * 7, 1, 3);
  const Tokens labels = {0, 6, 3};
  const Loss<double> exact = loss_of<double>(3, 7, logits, labels);
  const auto loss = [&] { return 0.5 * dot(loss_of<double>(3, 7, logits, labels).losses, Doubles(3, 1)); };
  EXPECT_LE(difference(exact.logits, numeric_gradient(logits, loss)), kGradientTolerance);
}

template <typename T>
void parts_agree_with_the_whole() {
  const std::int64_t rows = 4, width = 130;
  const Doubles logits = rounded<T>(some(rows * width, 5, 8));
  const Tokens labels = {0, 69, 70, 129};
  const Loss<T> whole = loss_of<T>(rows, width, logits, labels);
  std::vector<Sum<T>> maxima(rows, -INFINITY), sums(rows), targets(rows);
  std::vector<std::vector<T>> held;
  const std::vector<Vocabulary> parts = {{0, 70}, {70, 60}};
  for (const Vocabulary& part : parts) {
    Doubles mine;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < part.count; ++j)
        mine.push_back(logits[static_cast<std::size_t>(i * width + part.first + j)]);
    held.push_back(as<T>(mine));
    std::vector<Sum<T>> own(rows);
    row_maxima<T>(rows, part.count, held.back().data(), own.data());
    for (std::size_t i = 0; i < own.size(); ++i) maxima[i] = std::max(maxima[i], own[i]);
  }
  for (std::size_t x = 0; x < parts.size(); ++x) {
    std::vector<Sum<T>> sum(rows), target(rows);
    row_sums<T>(rows, parts[x], held[x].data(), labels.data(), maxima.data(), sum.data(), target.data());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sums[i] += sum[i];
      targets[i] += target[i];
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_NEAR(whole.losses[i], std::log(sums[i]) + maxima[i] - targets[i], 1e-5);
  for (std::size_t x = 0; x < parts.size(); ++x) {
    loss_backward<T>(rows, parts[x], held[x].data(), labels.data(), maxima.data(), sums.data(), 0.5);
    for (std::int64_t at = 0; at < rows * parts[x].count; ++at) {
      const std::int64_t i = at / parts[x].count, j = parts[x].first + at % parts[x].count;
      EXPECT_NEAR(reference::get(held[x][static_cast<std::size_t>(at)]),
                  reference::get(whole.logits[static_cast<std::size_t>(i * width + j)]), kTolerance<T>);
    }
  }
}

TEST(Loss, PartsOfTheVocabularyAgreeWithTheWhole) {
  with_each_instruction_set([] {
    parts_agree_with_the_whole<float>();
    parts_agree_with_the_whole<Bf16>();
    parts_agree_with_the_whole<double>();
  });
}

TEST(Loss, WhatIsNotANumberStaysVisible) {
  with_each_instruction_set([] {
    const Loss<float> loss = loss_of<float>(2, 3, {0, NAN, 0, 1, 2, 3}, {0, 0});
    EXPECT_TRUE(std::isnan(loss.losses[0]));
    EXPECT_FALSE(std::isnan(loss.losses[1]));
    const Loss<float> infinite = loss_of<float>(1, 3, {0, INFINITY, 0}, {0});
    EXPECT_FALSE(std::isfinite(infinite.losses[0]));
  });
}

TEST(Loss, NoRowsAreFine) {
  with_each_instruction_set([] { loss_of<float>(0, 5, {}, {}); });
}

}  // namespace
}  // namespace twinpod::kernel
