#include "data/samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/test_tokens.hpp"

namespace twinpod::data {
namespace {

constexpr std::int64_t kVocabulary = 1 << 20;

std::string refusal(const TokenData& data, const SampleSettings& settings) {
  const Result<Samples> samples = make_samples(data, settings);
  EXPECT_FALSE(samples);
  return samples ? "" : to_string(samples.error());
}

// All samples of a step, as the ranks see them.
std::multiset<std::int64_t> of_all_ranks(const Samples& samples, std::int64_t step) {
  std::multiset<std::int64_t> numbers;
  for (std::int64_t rank = 0; rank < samples.settings.data_parallel; ++rank) {
    for (std::int64_t m = 0; m < num_micro_batches(samples); ++m) {
      for (std::int64_t i = 0; i < samples.settings.micro_batch; ++i) {
        numbers.insert(sample_number(samples, step, {rank, m, i}));
      }
    }
  }
  return numbers;
}

TEST(Samples, LabelsAreTheTokensOneFurther) {
  const TokenData data = counted(41);
  const Result<Samples> samples = make_samples(data, {.sequence = 8, .global_batch = 1, .vocabulary = kVocabulary});
  ASSERT_TRUE(samples) << to_string(samples.error());
  EXPECT_EQ(samples->num_training, 5);
  std::vector<std::int32_t> tokens(8);
  std::vector<std::int32_t> labels(8);
  ASSERT_TRUE(read_sample(*samples, 4, tokens, labels));
  EXPECT_EQ(tokens.front(), 32);
  EXPECT_EQ(tokens.back(), 39);
  EXPECT_EQ(labels.front(), 33);
  EXPECT_EQ(labels.back(), 40);
}

TEST(Samples, EachComesExactlyOnceInAnEpoch) {
  const TokenData data = counted(1001);
  // 100 samples, 7 in a step: epochs end inside steps.
  const Result<Samples> samples = make_samples(data, {.sequence = 10, .global_batch = 7, .vocabulary = kVocabulary});
  ASSERT_TRUE(samples);
  std::vector<std::int64_t> drawn;
  for (std::int64_t step = 0; step < 43; ++step) {
    for (std::int64_t i = 0; i < 7; ++i) drawn.push_back(global_sample_number(*samples, step, i));
  }
  std::vector<std::vector<std::int64_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const std::vector<std::int64_t> in_order(drawn.begin() + 100 * epoch, drawn.begin() + 100 * (epoch + 1));
    EXPECT_EQ(std::set<std::int64_t>(in_order.begin(), in_order.end()).size(), 100U);
    EXPECT_LT(*std::max_element(in_order.begin(), in_order.end()), 100);
    epochs.push_back(in_order);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_DOUBLE_EQ(epochs_before(*samples, 50), 3.5);
}

TEST(Samples, TheGlobalBatchIsTheSameForEveryLayout) {
  const TokenData data = counted(1001);
  SampleSettings settings{.sequence = 10, .global_batch = 24, .vocabulary = kVocabulary, .seed = 5};
  const Samples alone = *make_samples(data, settings);
  for (const std::int64_t data_parallel : {1, 2, 3, 4, 6, 8, 12, 24}) {
    for (const std::int64_t micro_batch : {1, 2, 3, 4}) {
      if (24 % (data_parallel * micro_batch) != 0) continue;
      settings.data_parallel = data_parallel;
      settings.micro_batch = micro_batch;
      const Result<Samples> samples = make_samples(data, settings);
      ASSERT_TRUE(samples) << to_string(samples.error());
      for (const std::int64_t step : {0, 1, 4, 17}) EXPECT_EQ(of_all_ranks(*samples, step), of_all_ranks(alone, step));
    }
  }
}

// Nothing is carried from step to step: a run that starts at step 30 sees what the whole run sees there.
TEST(Samples, TheStepIsAllThatAResumedRunNeeds) {
  const TokenData data = counted(1001);
  const SampleSettings settings{.sequence = 10, .global_batch = 8, .vocabulary = kVocabulary, .seed = 3};
  const Samples whole = *make_samples(data, settings);
  std::vector<std::multiset<std::int64_t>> seen;
  for (std::int64_t step = 0; step < 40; ++step) seen.push_back(of_all_ranks(whole, step));
  SampleSettings other = settings;
  other.data_parallel = 4;  // on other ranks, too
  const Result<TokenData> again = open_tokens(test_name());
  ASSERT_TRUE(again);
  const Samples resumed = *make_samples(*again, other);
  for (std::int64_t step = 30; step < 40; ++step) EXPECT_EQ(of_all_ranks(resumed, step), seen[std::size_t(step)]);
}

TEST(Samples, HeldOutTokensAreNeverTrainedOn) {
  const TokenData data = counted(1003);
  const SampleSettings settings{.sequence = 10, .global_batch = 5, .vocabulary = kVocabulary, .evaluation_share = 0.1};
  const Samples samples = *make_samples(data, settings);
  EXPECT_EQ(samples.num_training, 90);
  EXPECT_EQ(samples.num_evaluation, 10);
  std::vector<std::int32_t> tokens(10);
  std::vector<std::int32_t> labels(10);
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < 90; ++i) {
    ASSERT_TRUE(read_sample(samples, i, tokens, labels));
    largest = std::max(largest, labels.back());
  }
  for (std::int64_t i = 90; i < 100; ++i) {
    ASSERT_TRUE(read_sample(samples, i, tokens, labels));
    EXPECT_GT(tokens.front(), largest);
  }
  EXPECT_EQ(labels.back(), 1001);
  for (std::int64_t step = 0; step < 40; ++step) EXPECT_LT(*of_all_ranks(samples, step).rbegin(), 90);
}

TEST(Samples, AShareHoldsOutAtLeastOneSample) {
  const TokenData data = counted(102);
  const Result<Samples> samples =
      make_samples(data, {.sequence = 10, .global_batch = 1, .vocabulary = kVocabulary, .evaluation_share = 0.001});
  ASSERT_TRUE(samples);
  EXPECT_EQ(samples->num_evaluation, 1);
  EXPECT_EQ(samples->num_training, 9);
}

TEST(Samples, TokensOutsideTheVocabularyAreNamed) {
  write_documents(test_name(), TokenType::i32, {{0, 1, 2, 3}, {4, 50, 1, 2, 9}});
  const TokenData data = std::move(*open_tokens(test_name()));
  const Samples samples = *make_samples(data, {.sequence = 4, .global_batch = 1, .vocabulary = 9});
  std::vector<std::int32_t> tokens(4);
  std::vector<std::int32_t> labels(4);
  EXPECT_TRUE(read_sample(samples, 0, tokens, labels));
  const Result<void> second = read_sample(samples, 1, tokens, labels);
  ASSERT_FALSE(second);
  EXPECT_NE(to_string(second.error())
                .find("sample 1, position 1: token 50 is not in the vocabulary of 9 (token 5 of the data, document 1)"),
            std::string::npos)
      << to_string(second.error());
  EXPECT_NE(second.error().hint.find("must be 51 or more"), std::string::npos);
}

TEST(Samples, ALastLabelOutsideTheVocabularyIsNamedToo) {
  write_documents(test_name(), TokenType::i32, {{0, 1, 2, 3, 9}});
  const TokenData data = std::move(*open_tokens(test_name()));
  const Samples samples = *make_samples(data, {.sequence = 4, .global_batch = 1, .vocabulary = 9});
  std::vector<std::int32_t> tokens(4);
  std::vector<std::int32_t> labels(4);
  EXPECT_NE(to_string(read_sample(samples, 0, tokens, labels).error()).find("sample 0, position 4: token 9"),
            std::string::npos);
}

TEST(Samples, DataThatIsTooShortIsRefusedWithWhatWouldWork) {
  const TokenData data = counted(101);
  const SampleSettings settings{
      .sequence = 20, .global_batch = 8, .micro_batch = 2, .data_parallel = 2, .vocabulary = kVocabulary};
  const Result<Samples> samples = make_samples(data, settings);
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.error().kind, ErrorKind::infeasible);
  EXPECT_NE(samples.error().message.find("101 tokens make 5 samples of 20 for training, but a step needs 8"),
            std::string::npos);
  EXPECT_EQ(samples.error().hint, "try a global batch of 4 or a sequence of 12 or more data");
  SampleSettings shorter = settings;
  shorter.sequence = 12;
  EXPECT_TRUE(make_samples(data, shorter));
  shorter.sequence = 13;
  EXPECT_FALSE(make_samples(data, shorter));
}

TEST(Samples, SettingsThatMakeNoSenseAreRefused) {
  const TokenData data = counted(101);
  const SampleSettings right{.sequence = 4, .global_batch = 8, .vocabulary = 10};
  SampleSettings wrong = right;
  wrong.sequence = 0;
  EXPECT_EQ(refusal(data, wrong), "sequence: found 0, expected 1 or more");
  wrong = right;
  wrong.data_parallel = 3;
  EXPECT_EQ(refusal(data, wrong),
            "global batch 8: 3 data-parallel ranks with micro-batches of 1 cannot share it\n  try 6 or 9");
  wrong = right;
  wrong.micro_batch = std::int64_t{1} << 62;
  EXPECT_NE(refusal(data, wrong).find("cannot share it"), std::string::npos);
  wrong = right;
  wrong.evaluation_share = 1;
  EXPECT_NE(refusal(data, wrong).find("evaluation share: found 1"), std::string::npos);
  wrong = right;
  wrong.vocabulary = std::int64_t{1} << 40;
  EXPECT_NE(refusal(data, wrong).find("vocabulary: found 1099511627776"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::data
