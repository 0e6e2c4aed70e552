#include "ps/compress.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.hpp"

namespace twinpod::ps {
namespace {

constexpr std::size_t kCount = 1000;

std::vector<float> decompressed(const Compression& compression, const Payload& payload, std::size_t count) {
  EXPECT_EQ(compressed_problem(compression.encoding, payload.bytes, count), "");
  std::vector<float> values(count);
  decompress(compression.encoding, payload.bytes, values);
  return values;
}

const std::vector<std::string> kAll = {"none", "fp16", "bf16", "top-k:0.05", "1-bit", "2-bit"};

// What was sent and what is kept is what there was, up to the rounding of sums.
TEST(PsCompress, LosesNothing) {
  for (const std::string& name : kAll) {
    const Compression compression = *parse_compression(name);
    ErrorFeedback feedback;
    Rng rng(5);
    std::vector<double> sum(kCount);
    std::vector<double> sent(kCount);
    for (int step = 0; step < 20; ++step) {
      std::vector<float> gradient(kCount);
      for (float& g : gradient) g = static_cast<float>(rng.uniform(-1, 1) * std::pow(10, rng.uniform(-3, 0)));
      const Payload payload = compress(compression, gradient, feedback);
      const std::vector<float> values = decompressed(compression, payload, kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        sum[i] += gradient[i];
        sent[i] += values[i];
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const double left = feedback.left.empty() ? 0 : feedback.left[i];
      EXPECT_NEAR(sent[i] + left, sum[i], 2e-5) << name;
    }
  }
}

// With numbers of few bits nothing is rounded, and the sums are equal.
TEST(PsCompress, LosesNothingAtAllWhereSumsAreExact) {
  for (const char* name : {"top-k:0.01", "fp16", "bf16"}) {
    const Compression compression = *parse_compression(name);
    ErrorFeedback feedback;
    Rng rng(6);
    std::vector<float> sum(kCount);
    std::vector<float> sent(kCount);
    for (int step = 0; step < 50; ++step) {
      std::vector<float> gradient(kCount);
      for (float& g : gradient) g = static_cast<float>(static_cast<int>(rng.below(65536)) - 32768);
      const std::vector<float> values = decompressed(compression, compress(compression, gradient, feedback), kCount);
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += gradient[i];
      for (std::size_t i = 0; i < kCount; ++i) sent[i] += values[i];
    }
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(sent[i] + feedback.left[i], sum[i]) << name;
  }
}

// Without feedback a small number beside a large one would never be sent.
TEST(PsCompress, SmallNumbersGetTheirTurn) {
  for (const char* name : {"top-k:0.01", "1-bit", "2-bit"}) {
    const Compression compression = *parse_compression(name);
    ErrorFeedback feedback;
    std::vector<float> gradient(100, 0.01F);
    gradient[7] = 1;
    double sent = 0;
    for (int step = 0; step < 1000; ++step) {
      sent += decompressed(compression, compress(compression, gradient, feedback), 100)[50];
    }
    EXPECT_NEAR(sent, 10, 2) << name;
  }
}

TEST(PsCompress, TakesTheBytesThatItShould) {
  const std::vector<float> gradient(1024, 1.0F);
  const auto bytes = [&](const char* name) {
    ErrorFeedback feedback;
    return compress(*parse_compression(name), gradient, feedback).bytes.size();
  };
  EXPECT_EQ(bytes("none"), 4096U);
  EXPECT_EQ(bytes("bf16"), 2048U);
  EXPECT_EQ(bytes("top-k:0.01"), 11U * 8);
  EXPECT_EQ(bytes("1-bit"), 128U + 4 * 8);
  EXPECT_EQ(bytes("2-bit"), 256U + 4 * 4);
}

TEST(PsCompress, IsAsLongAsItSays) {
  for (const std::string& name : kAll) {
    const Compression compression = *parse_compression(name);
    for (const std::size_t count : {1U, 3U, 255U, 256U, 257U, 1000U}) {
      ErrorFeedback feedback;
      const std::vector<float> gradient(count, 0.5F);
      EXPECT_EQ(compress(compression, gradient, feedback).bytes.size(), compressed_bytes(compression, count)) << name;
    }
  }
}

TEST(PsCompress, RefusesBytesThatAreNot) {
  const std::vector<std::byte> bytes(16, std::byte{255});
  EXPECT_NE(compressed_problem(Encoding::top_k, bytes, 100), "");
  EXPECT_NE(compressed_problem(Encoding::one_bit, bytes, 100), "");
  EXPECT_NE(compressed_problem(Encoding::f16, bytes, 7), "");
  for (const char* wrong : {"", "top-k:", "top-k:0", "top-k:2", "top-k:nan", "fp8"}) {
    EXPECT_FALSE(parse_compression(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace twinpod::ps
