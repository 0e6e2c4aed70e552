#include "store/manifest.hpp"

#include <gtest/gtest.h>

namespace twinpod::store {
namespace {

Manifest small_manifest() {
  Manifest manifest;
  manifest.number = 12;
  manifest.extent_bytes = 64;
  manifest.state = {200, 1600, {{"dropout", std::string("\0\xff", 2)}}, {{"learning_rate", "3e-4"}}};
  manifest.shards = {{"shard-00000.safetensors", 100, {1, 0xfedcba9876543210U}}};
  manifest.tensors = {{"w", "F32", {2, 3}, {{0, {{0, 0}, {2, 3}}, 72}}}};
  return manifest;
}

std::string refusal(const Manifest& manifest) {
  const Result<Manifest> read = parse_manifest(to_text(manifest), "m");
  return read ? "" : to_string(read.error());
}

TEST(StoreManifest, WhatWasWrittenIsRead) {
  EXPECT_EQ(parse_manifest(to_text(small_manifest()), "m").value(), small_manifest());
}

// docs/store.md shows this text.
TEST(StoreManifest, IsWrittenByteForByteAsDocumented) {
  EXPECT_EQ(
      to_text(small_manifest()),
      R"({"twinpod_checkpoint":1,"checksum":"001a88abe318c3e2","body":{"number":12,"extent_bytes":64,)"
      R"("state":{"step":200,"samples":1600,"random":{"dropout":"00ff"},"values":{"learning_rate":"3e-4"}},)"
      R"("shards":[{"file":"shard-00000.safetensors","bytes":100,"checksums":"0000000000000001fedcba9876543210"}],)"
      R"("tensors":[{"name":"w","dtype":"F32","shape":[2,3],"regions":[{"shard":0,"offset":[0,0],"size":[2,3],"begin":72}]}]}})"
      "\n");
}

TEST(StoreManifest, NoBitOfItCanChangeUnseen) {
  const std::string text = to_text(small_manifest());
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(parse_manifest(changed, "m")) << "bit " << bit;
  }
}

TEST(StoreManifest, NoEndOfItCanBeMissing) {
  const std::string text = to_text(small_manifest());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_manifest(text.substr(0, length), "m")) << length;
  }
  EXPECT_FALSE(parse_manifest(text + " ", "m"));
}

TEST(StoreManifest, ImpossibleContentsAreRefused) {
  Manifest manifest = small_manifest();
  manifest.shards[0].file = "../../etc/passwd";
  EXPECT_EQ(refusal(manifest), "m: is no manifest: \"../../etc/passwd\" is no name of a shard");
  manifest = small_manifest();
  manifest.shards[0].checksums.pop_back();
  EXPECT_EQ(refusal(manifest), "m: is no manifest: shard-00000.safetensors has 2 extents, but other checksums");
  manifest = small_manifest();
  manifest.tensors[0].regions[0].begin = 80;
  EXPECT_EQ(refusal(manifest), "m: is no manifest: tensor w ends behind its shard");
  manifest = small_manifest();
  manifest.tensors[0].regions[0].shard = 1;
  EXPECT_EQ(refusal(manifest), "m: is no manifest: tensor w lies in shard 1 of 1");
  manifest = small_manifest();
  manifest.tensors[0].regions[0].region.offset = {1, 0};
  EXPECT_EQ(refusal(manifest), "m: is no manifest: tensor w [2,3] has no region [2,3]");
  manifest = small_manifest();
  manifest.tensors[0].dtype = "F31";
  EXPECT_EQ(refusal(manifest), "m: is no manifest: tensor w has the unknown dtype F31");
  manifest = small_manifest();
  manifest.number = -1;
  EXPECT_EQ(refusal(manifest), "m: is no manifest: number is no count");
}

TEST(StoreManifest, PartsAreJoinedByTensor) {
  Manifest left = small_manifest();
  left.tensors[0].regions = {{0, {{0, 0}, {1, 3}}, 72}};
  Manifest right = small_manifest();
  right.shards[0].file = "shard-00001.safetensors";
  right.tensors[0].regions = {{0, {{1, 0}, {1, 3}}, 72}};
  const Manifest joined = joined_manifest({left, right}).value();
  ASSERT_EQ(joined.tensors.size(), 1U);
  ASSERT_EQ(joined.tensors[0].regions.size(), 2U);
  EXPECT_EQ(joined.tensors[0].regions[1].shard, 1);
  EXPECT_EQ(joined.state.step, 200);
  EXPECT_EQ(total_bytes(joined), 200);
}

TEST(StoreManifest, AGapBetweenPartsIsRefused) {
  Manifest part = small_manifest();
  part.tensors[0].regions = {{0, {{0, 0}, {2, 2}}, 72}};
  const Result<Manifest> joined = joined_manifest({part});
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().message, "tensor w [2,3]: no rank gave its region [0:2,2:3]");
}

TEST(StoreManifest, PartsThatDisagreeAreRefused) {
  Manifest other = small_manifest();
  other.shards[0].file = "shard-00001.safetensors";
  other.tensors[0].shape = {2, 4};
  const Result<Manifest> joined = joined_manifest({small_manifest(), other});
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().message, "tensor w is F32 [2,3] on one rank and F32 [2,4] on another");
  EXPECT_FALSE(joined_manifest({small_manifest(), small_manifest()})) << "the same shard twice";
}

}  // namespace
}  // namespace twinpod::store
