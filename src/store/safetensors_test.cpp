#include "store/safetensors.hpp"

#include <gtest/gtest.h>

#include "store/files.hpp"

namespace twinpod::store {
namespace {

std::string with_length(const std::string& json) {
  std::string head(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) head[i] = static_cast<char>(json.size() >> (8 * i) & 0xff);
  return head + json;
}

// "" when it is read.
std::string refusal(const std::string& file, std::int64_t data_bytes) {
  const Result<Safetensors> read =
      parse_safetensors(bytes_of(file), static_cast<std::int64_t>(file.size()) + data_bytes, "f");
  return read ? "" : to_string(read.error());
}

TEST(Safetensors, TheHeaderIsWhatThePublicLibraryWrites) {
  std::vector<TensorEntry> tensors = {{"b", "BF16", {4}}, {"w", "F32", {2, 3}}, {"a", "F32", {}}};
  place_tensors(tensors);
  const std::string head = safetensors_header(tensors, {{"format", "pt"}});
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},"b":{"dtype":"BF16","shape":[4],"data_offsets":[28,36]}})";
  EXPECT_EQ(head.substr(8, json.size()), json);
  EXPECT_EQ(head.size() % 8, 0U);
  EXPECT_EQ(head, with_length(head.substr(8)));
}

TEST(Safetensors, WhatWasWrittenIsRead) {
  std::vector<TensorEntry> tensors = {{"b", "BF16", {4}}, {"w", "F32", {2, 3}}, {"empty", "I64", {0, 7}}};
  place_tensors(tensors);
  const std::string head = safetensors_header(tensors, {{"format", "pt"}});
  const Safetensors read = parse_safetensors(bytes_of(head), static_cast<std::int64_t>(head.size()) + 32, "f").value();
  ASSERT_EQ(read.tensors.size(), 3U);
  EXPECT_EQ(read.tensors[1].name, "w");
  EXPECT_EQ(read.tensors[1].shape, (Dims{2, 3}));
  EXPECT_EQ(read.tensors[1].end, 24);
  EXPECT_EQ(read.metadata.at("format"), "pt");
  EXPECT_EQ(read.header_bytes, static_cast<std::int64_t>(head.size()));
}

TEST(Safetensors, WhatThePublicLibraryRefusesIsRefused) {
  EXPECT_EQ(refusal("1234567", 0), "f: has less than eight bytes");
  EXPECT_EQ(refusal(with_length("{}") + "", 0), "");
  EXPECT_EQ(refusal(with_length(" {}"), 0), "f: the header does not begin with {");
  EXPECT_EQ(refusal(with_length("{"), 0), "f: the header is no JSON object");
  EXPECT_EQ(refusal(with_length(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"), 8),
            "f: the tensors have 4 bytes, but the file has 8 after its header");
  EXPECT_EQ(refusal(with_length(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"), 8),
            "f: tensor \"a\" of the header begins at byte 4, the one before ends at 0");
  EXPECT_EQ(refusal(with_length(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})"), 4),
            "f: tensor \"a\" of the header has the unknown dtype F31");
  EXPECT_EQ(refusal(with_length(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})"), 4),
            "f: tensor \"a\" of the header has 4 bytes for F32 [2] of 8");
  EXPECT_EQ(refusal(with_length(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})"), 4),
            "f: tensor \"a\" of the header has no shape");
  EXPECT_EQ(refusal(with_length(R"({"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]}})"), 4),
            "f: tensor \"a\" of the header is too large");
  EXPECT_EQ(refusal(with_length(R"({"a":1})"), 0), "f: tensor \"a\" of the header has no dtype");
  EXPECT_EQ(refusal(with_length(R"({"__metadata__":{"a":1}})"), 0), "f: __metadata__ is no object of strings");
  const std::string a = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(refusal(with_length("{" + a + "," + a + "}"), 0), "f: the header has two entries \"a\"");
}

TEST(Safetensors, AHeaderLongerThanTheFileIsRefused) {
  std::string file(8, '\xff');
  EXPECT_EQ(refusal(file, 0), "f: a header of 18446744073709551615 bytes does not fit into a file of 8");
}

}  // namespace
}  // namespace twinpod::store
