#include "data/prefetch.hpp"

#include <gtest/gtest.h>

#include "data/test_tokens.hpp"

namespace twinpod::data {
namespace {

const SampleSettings kSettings{.sequence = 10,
                               .global_batch = 8,
                               .micro_batch = 2,
                               .data_parallel = 2,
                               .vocabulary = 2000,
                               .seed = 1,
                               .evaluation_share = 0.1};

TEST(ReadBatch, HoldsTheRanksMicroBatchesOneBehindTheOther) {
  const TokenData data = counted(1001);
  const Samples samples = *make_samples(data, kSettings);
  Batch batch;
  ASSERT_TRUE(read_batch(samples, 3, 1, batch));
  EXPECT_EQ(batch.tokens.size(), 40U);
  for (std::int64_t m = 0; m < 2; ++m) {
    const std::span<const std::int32_t> tokens = micro_batch_of(samples, batch.tokens, m);
    const std::span<const std::int32_t> labels = micro_batch_of(samples, batch.labels, m);
    for (std::int64_t i = 0; i < 2; ++i) {
      const std::int64_t number = sample_number(samples, 3, {1, m, i});
      EXPECT_EQ(tokens[std::size_t(i * 10)], 10 * number);
      EXPECT_EQ(labels[std::size_t(i * 10)], 10 * number + 1);
    }
  }
}

TEST(Prefetcher, GivesEveryStepsBatchInOrder) {
  const TokenData data = counted(1001);
  const Samples samples = *make_samples(data, kSettings);
  Prefetcher prefetcher(samples, 1, 5);
  Batch batch;
  Batch expected;
  for (std::int64_t step = 5; step < 60; ++step) {
    ASSERT_TRUE(prefetcher.next(batch));
    ASSERT_TRUE(read_batch(samples, step, 1, expected));
    ASSERT_EQ(batch.step, step);
    ASSERT_EQ(batch.tokens, expected.tokens);
    ASSERT_EQ(batch.labels, expected.labels);
  }
}

TEST(Prefetcher, EndsWhereverItIs) {
  const TokenData data = counted(1001);
  const Samples samples = *make_samples(data, kSettings);
  for (int taken = 0; taken < 50; ++taken) {
    Prefetcher prefetcher(samples, 0, 0);
    Batch batch;
    for (int i = 0; i < taken % 3; ++i) ASSERT_TRUE(prefetcher.next(batch));
  }
}

TEST(Prefetcher, AnErrorComesAtItsStepAndStays) {
  std::vector<std::int32_t> tokens(1001, 1);
  tokens[500] = 3000;
  write_documents(test_name(), TokenType::i32, {tokens});
  const TokenData data = std::move(*open_tokens(test_name()));
  const Samples samples = *make_samples(data, kSettings);
  Prefetcher prefetcher(samples, 0, 0);
  Batch batch;
  std::int64_t step = 0;
  while (step < 100 && prefetcher.next(batch)) ++step;
  ASSERT_LT(step, 100);
  for (int again = 0; again < 2; ++again) {
    const Result<void> read = prefetcher.next(batch);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message.find("step " + std::to_string(step + 1) + ": "), 0U) << read.error().message;
  }
}

}  // namespace
}  // namespace twinpod::data
