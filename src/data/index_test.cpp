#include "data/index.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace twinpod::data {
namespace {

constexpr std::int64_t kBinBytes = 10;  // five tokens of two bytes

// Sequences of 3 and 2 tokens, a document each: lengths at byte 34, places at 42, bounds at 58, the end at 82.
std::vector<std::byte> two_documents() {
  std::vector<std::byte> bytes;
  const auto add = [&](auto value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof value);
  };
  for (const char c : kIndexMagic) add(c);
  add(std::uint64_t{1});
  add(std::uint8_t{8});
  add(std::uint64_t{2});
  add(std::uint64_t{3});
  for (const std::int32_t length : {3, 2}) add(length);
  for (const std::int64_t place : {0, 6}) add(place);
  for (const std::int64_t bound : {0, 1, 2}) add(bound);
  return bytes;
}

template <typename T>
std::vector<std::byte> with(std::size_t at, T value) {
  std::vector<std::byte> bytes = two_documents();
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

std::string refusal(const std::vector<std::byte>& bytes, std::int64_t bytes_of_bin = kBinBytes) {
  const Result<Index> index = parse_index(bytes, bytes_of_bin, "a.idx");
  EXPECT_FALSE(index);
  return index ? "" : to_string(index.error());
}

TEST(ParseIndex, ReadsCountsLengthsPlacesAndBounds) {
  const std::vector<std::byte> bytes = two_documents();
  const Result<Index> index = parse_index(bytes, kBinBytes, "a.idx");
  ASSERT_TRUE(index) << to_string(index.error());
  EXPECT_EQ(index->type, TokenType::u16);
  EXPECT_EQ(index->num_sequences, 2);
  EXPECT_EQ(index->num_documents, 2);
  EXPECT_EQ(index->num_tokens, 5);
  EXPECT_TRUE(index->in_order);
  EXPECT_EQ(sequence_length(*index, 1), 2);
  EXPECT_EQ(sequence_place(*index, 1), 6);
  EXPECT_EQ(document_bound(*index, 2), 2);
}

TEST(ParseIndex, PassesOverModes) {
  std::vector<std::byte> bytes = two_documents();
  bytes.resize(bytes.size() + 2);
  EXPECT_TRUE(parse_index(bytes, kBinBytes, "a.idx"));
}

TEST(ParseIndex, SequencesInAnotherOrderAreNoStream) {
  const std::vector<std::byte> bytes = with(42, std::int64_t{4});
  const Result<Index> index = parse_index(bytes, kBinBytes, "a.idx");
  ASSERT_TRUE(index);
  EXPECT_FALSE(index->in_order);
}

// The message says where and what, for each field.
TEST(ParseIndex, RefusesWhatIsWrongWithFileAndByte) {
  EXPECT_EQ(refusal(with(0, 'X')).substr(0, 82),
            "a.idx: byte 0: found `XMIDIDX\\x00\\x00`, expected `MMIDIDX\\x00\\x00`\n  an index of M");
  EXPECT_EQ(refusal(with(9, std::uint64_t{2})), "a.idx: byte 9: found version 2, expected 1");
  EXPECT_NE(refusal(with(17, std::uint8_t{9})).find("byte 17: found 9 as the type of a token"), std::string::npos);
  EXPECT_NE(refusal(with(17, std::uint8_t{7})).find("floating-point"), std::string::npos);
  EXPECT_NE(refusal(with(18, ~std::uint64_t{0})).find("byte 18: found 18446744073709551615 sequences"),
            std::string::npos);
  EXPECT_NE(refusal(with(26, std::uint64_t{0})).find("byte 26: found no document bounds"), std::string::npos);
  EXPECT_NE(refusal(with(26, ~std::uint64_t{0})).find("byte 26: found 18446744073709551615 document bounds"),
            std::string::npos);
  EXPECT_NE(refusal(with(38, std::int32_t{-1})).find("byte 38: sequence 1 has -1 tokens"), std::string::npos);
  EXPECT_NE(refusal(with(50, std::int64_t{8})).find("byte 50: sequence 1 stands at byte 8 with 2 tokens of 2 bytes"),
            std::string::npos);
  EXPECT_NE(refusal(with(50, std::int64_t{-2})).find("byte 50: sequence 1 stands at byte -2"), std::string::npos);
  EXPECT_NE(refusal(with(58, std::int64_t{1})).find("byte 58: found 1 as document bound 0, expected 0"),
            std::string::npos);
  EXPECT_NE(refusal(with(66, std::int64_t{3})).find("byte 66: found 3 as document bound 1, expected 0 to 2"),
            std::string::npos);
  EXPECT_NE(refusal(with(74, std::int64_t{1})).find("byte 74: the last document ends at sequence 1, but there are 2"),
            std::string::npos);
  EXPECT_NE(refusal(two_documents(), kBinBytes - 1).find("but the .bin file has 9 bytes"), std::string::npos);
}

TEST(ParseIndex, RefusesEveryFileThatWasCutShort) {
  const std::vector<std::byte> whole = two_documents();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(refusal(part).find("a.idx: "), std::string::npos) << size;
  }
}

TEST(TypeForVocabulary, IsMegatrons) {
  EXPECT_EQ(type_for_vocabulary(257), TokenType::u16);
  EXPECT_EQ(type_for_vocabulary(65499), TokenType::u16);
  EXPECT_EQ(type_for_vocabulary(65500), TokenType::i32);
}

}  // namespace
}  // namespace twinpod::data
