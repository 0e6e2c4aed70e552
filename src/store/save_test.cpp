#include "store/save.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "store/checkpoints.hpp"
#include "store/faulty_files.hpp"
#include "store/posix_files.hpp"
#include "store/safetensors.hpp"
#include "store/simulated_files.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

std::vector<std::string> names_of(const std::vector<CheckpointInfo>& infos) {
  std::vector<std::string> names;
  for (const CheckpointInfo& info : infos) names.push_back(info.name);
  return names;
}

std::string latest(Files& files) {
  const Result<Bytes> bytes = read_whole(files, "/s/latest", 100);
  return bytes ? std::string(text_of(*bytes)) : "";
}

TEST(StoreSave, NamesOfCheckpointsCountUp) {
  EXPECT_EQ(checkpoint_name(12), "checkpoint-000012");
  EXPECT_EQ(checkpoint_number("checkpoint-000012"), 12);
  EXPECT_EQ(checkpoint_number("checkpoint-12345678"), 12345678);
  for (const char* name : {"checkpoint-", "checkpoint-12", "checkpoint-000012x", "latest", "checkpoint-00001-1"}) {
    EXPECT_EQ(checkpoint_number(name), -1) << name;
  }
}

TEST(StoreSave, WhatWasSavedIsFoundAndLatestNamesIt) {
  SimulatedFiles files;
  ASSERT_TRUE(save_step(files, "/s", 100, {.tp = 2}));
  ASSERT_TRUE(save_step(files, "/s", 200, {.tp = 2}));
  EXPECT_EQ(latest(files), "checkpoint-000002\n");
  const WholeCheckpoint found = newest_whole(files, "/s").value();
  EXPECT_EQ(found.manifest.state.step, 200);
  EXPECT_EQ(found.manifest.number, 2);
  EXPECT_EQ(found.manifest.state.samples, 1600);
  EXPECT_TRUE(found.passed_over.empty());
}

TEST(StoreSave, WorksOnARealDisk) {
  PosixFiles files;
  const std::string root = testing::TempDir() + "twinpod_store_save/runs/a";
  std::filesystem::remove_all(testing::TempDir() + "twinpod_store_save");
  std::filesystem::create_directories(testing::TempDir());
  for (int step = 1; step <= 3; ++step) ASSERT_TRUE(save_step(files, root, step, {.tp = 2, .dp = 2}));
  EXPECT_EQ(prune_checkpoints(files, root, 2).value(), 1);
  const WholeCheckpoint found = newest_whole(files, root).value();
  EXPECT_EQ(found.manifest.state.step, 3);
  EXPECT_EQ(check_step(files, root + "/" + found.name, found.manifest, {.pp = 2, .dp = 3, .zero = true}), "");
}

TEST(StoreSave, AShardIsASafetensorsFile) {
  SimulatedFiles files;
  ASSERT_TRUE(save_step(files, "/s", 1, {.tp = 2}));
  const Bytes bytes = read_whole(files, "/s/checkpoint-000001/shard-00001.safetensors", 1 << 20).value();
  const Safetensors file = parse_safetensors(bytes, static_cast<std::int64_t>(bytes.size()), "f").value();
  ASSERT_FALSE(file.tensors.empty());
  const TensorEntry& tensor = file.tensors.front();
  EXPECT_EQ(tensor.name, "embedding[0:7,3:6]");
  EXPECT_EQ(tensor.shape, (Dims{7, 3}));
  float value = 0;
  std::memcpy(&value, bytes.data() + file.header_bytes + tensor.begin, sizeof value);
  EXPECT_EQ(value, test_value(1, 0, 3));
}

TEST(StoreSave, CopiesAreWrittenOnce) {
  SimulatedFiles files;
  ASSERT_TRUE(save_step(files, "/s", 1, {}));
  ASSERT_TRUE(save_step(files, "/s", 1, {.dp = 4}));
  const Manifest one = read_manifest(files, "/s/checkpoint-000001").value();
  const Manifest four = read_manifest(files, "/s/checkpoint-000002").value();
  ASSERT_EQ(one.tensors.size(), four.tensors.size());
  for (std::size_t i = 0; i < one.tensors.size(); ++i) EXPECT_EQ(four.tensors[i].regions.size(), 1U);
}

TEST(StoreSave, CopiesAreSpreadOverTheirHolders) {
  const HeldRegion large{"l", "F32", {100}, {{0}, {100}}, {}};
  const HeldRegion small{"s", "F32", {60}, {{0}, {60}}, {}};
  const HeldRegion other{"t", "F32", {40}, {{0}, {40}}, {}};
  const std::vector<std::vector<std::size_t>> chosen = regions_to_write({{large, small, other}, {large, small, other}});
  EXPECT_EQ(chosen, (std::vector<std::vector<std::size_t>>{{0}, {1, 2}}));
}

TEST(StoreSave, WrongRegionsAreRefusedByName) {
  SimulatedFiles files;
  ASSERT_TRUE(files.make_folder("/f"));
  const std::vector<float> values(6);
  const auto refusal = [&](const HeldRegion& held) {
    const Result<Manifest> written = write_shard(files, "/f", "x", {held, held});
    return written ? "" : written.error().message;
  };
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  EXPECT_EQ(refusal({"w", "F31", {2, 3}, whole({2, 3}), bytes}), "tensor w has the unknown dtype F31");
  EXPECT_EQ(refusal({"w", "F32", {2, 3}, {{1, 0}, {2, 3}}, bytes}), "tensor w [2,3] has no such region");
  EXPECT_EQ(refusal({"w", "F32", {2, 3}, whole({2, 3}), bytes.first(20)}),
            "tensor w [0:2,0:3]: 20 bytes given, F32 [2,3] has 24");
  EXPECT_EQ(refusal({"w", "F32", {2, 3}, whole({2, 3}), bytes}), "tensor w is given twice");
  EXPECT_TRUE(files.list("/f").value().empty()) << "nothing was written";
}

TEST(StoreSave, NamesThatAreNoTextAreRefused) {
  SimulatedFiles files;
  ASSERT_TRUE(files.make_folder("/f"));
  for (const char* name : {"", "__metadata__", "a\"b", "a\\b", "a\nb", "a\xff"}) {
    const std::vector<HeldRegion> held = {{name, "F32", {0}, {{0}, {0}}, {}}};
    EXPECT_FALSE(write_shard(files, "/f", "x", held)) << name;
  }
  EXPECT_TRUE(write_shard(files, "/f", "x", {{"schön.é", "F32", {0}, {{0}, {0}}, {}}}));
}

TEST(StoreSave, AStateThatIsNoTextIsRefused) {
  SimulatedFiles files;
  const std::string name = begin_checkpoint(files, "/s").value();
  Manifest manifest;
  manifest.state.values["note"] = "\xff";
  EXPECT_FALSE(commit_checkpoint(files, "/s", name, manifest));
  manifest.state.values["note"] = "a\n\"b\"";
  EXPECT_TRUE(commit_checkpoint(files, "/s", name, manifest));
}

TEST(StoreCheckpoints, AStoreThatIsNotThereHasNone) {
  SimulatedFiles files;
  EXPECT_TRUE(list_checkpoints(files, "/none").value().empty());
  const Result<WholeCheckpoint> found = newest_whole(files, "/none");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "/none has no whole checkpoint");
}

TEST(StoreCheckpoints, ASaveThatDidNotEndIsNoCheckpoint) {
  SimulatedFiles files;
  ASSERT_TRUE(save_step(files, "/s", 1, {}));
  ASSERT_TRUE(begin_checkpoint(files, "/s"));
  const std::vector<CheckpointInfo> infos = list_checkpoints(files, "/s").value();
  ASSERT_EQ(infos.size(), 2U);
  EXPECT_TRUE(infos[0].abandoned);
  EXPECT_TRUE(infos[1].complete);
  EXPECT_EQ(newest_whole(files, "/s")->passed_over,
            std::vector<std::string>{"checkpoint-000002: it has no manifest: the save did not end"});
}

TEST(StoreCheckpoints, PruningKeepsTheNewest) {
  SimulatedFiles files;
  for (int step = 1; step <= 5; ++step) ASSERT_TRUE(save_step(files, "/s", step, {.dp = 2}));
  EXPECT_EQ(prune_checkpoints(files, "/s", 2).value(), 3);
  EXPECT_EQ(names_of(*list_checkpoints(files, "/s")),
            (std::vector<std::string>{"checkpoint-000005", "checkpoint-000004"}));
  EXPECT_EQ(prune_checkpoints(files, "/s", 0).value(), 1) << "one stays";
}

TEST(StoreCheckpoints, PruningRemovesWhatWasAbandonedBeforeAWholeOne) {
  SimulatedFiles files;
  ASSERT_TRUE(begin_checkpoint(files, "/s"));
  ASSERT_TRUE(save_step(files, "/s", 1, {}));
  ASSERT_TRUE(begin_checkpoint(files, "/s"));
  EXPECT_EQ(prune_checkpoints(files, "/s", 3).value(), 1);
  EXPECT_EQ(names_of(*list_checkpoints(files, "/s")),
            (std::vector<std::string>{"checkpoint-000003", "checkpoint-000002"}));
}

TEST(StoreCheckpoints, ADamagedOneIsNotCountedAsKept) {
  SimulatedFiles files;
  for (int step = 1; step <= 3; ++step) ASSERT_TRUE(save_step(files, "/s", step, {}));
  files.contents("/s/checkpoint-000003/manifest.json")->pop_back();
  EXPECT_EQ(prune_checkpoints(files, "/s", 1).value(), 1);
  EXPECT_EQ(newest_whole(files, "/s")->manifest.state.step, 2);
}

TEST(StoreCheckpoints, ADamagedOneIsSetAsideAndNotRemoved) {
  SimulatedFiles files;
  for (int step = 1; step <= 4; ++step) ASSERT_TRUE(save_step(files, "/s", step, {}));
  files.contents("/s/checkpoint-000001/manifest.json")->pop_back();
  ASSERT_TRUE(files.remove("/s/checkpoint-000002/shard-00000.safetensors"));
  const PrunePlan done = prune_checkpoints(files, "/s", PruneRule{.keep = 1}).value();
  EXPECT_EQ(done.set_aside, (std::vector<std::string>{"checkpoint-000002", "checkpoint-000001"}));
  EXPECT_EQ(done.removed, std::vector<std::string>{"checkpoint-000003"});
  EXPECT_EQ(*list_set_aside(files, "/s"), (std::vector<std::string>{"damaged-000001", "damaged-000002"}));
  EXPECT_TRUE(files.exists("/s/damaged-000001/shard-00000.safetensors").value()) << "with all that is in it";
  EXPECT_TRUE(remove_set_aside(files, "/s", "damaged-000001"));
  EXPECT_EQ(*list_set_aside(files, "/s"), (std::vector<std::string>{"damaged-000002"}));
}

TEST(StoreCheckpoints, WhatCannotBeReadJustNowIsNotTakenForDamaged) {
  SimulatedFiles below;
  for (int step = 1; step <= 3; ++step) ASSERT_TRUE(save_step(below, "/s", step, {}));
  FaultyFiles files(below);
  files.only("checkpoint-000001/");
  for (int at = 1; at <= 6; ++at) {
    files.fail({.at = at, .code = EIO, .lasting = true});
    EXPECT_EQ(prune_checkpoints(files, "/s", PruneRule{.keep = 2})->set_aside, std::vector<std::string>{}) << at;
    ASSERT_TRUE(below.exists("/s/checkpoint-000001").value()) << at;
    if (!below.exists("/s/checkpoint-000001/manifest.json").value()) break;
  }
}

TEST(StoreCheckpoints, NumbersOfThoseThatWereSetAsideAreNotUsedAgain) {
  SimulatedFiles files;
  ASSERT_TRUE(files.make_folder("/s"));
  ASSERT_TRUE(files.make_folder("/s/damaged-000007"));
  EXPECT_EQ(save_step(files, "/s", 1, {}).value(), "checkpoint-000008");
}

// The manifest of a format to come.
void make_newer(SimulatedFiles& files, const std::string& name) {
  const std::string text = R"({"twinpod_checkpoint":3,"sum":"00","tensors":{}})";
  Bytes* manifest = files.contents("/s/" + name + "/manifest.json");
  manifest->assign(bytes_of(text).begin(), bytes_of(text).end());
}

TEST(StoreCheckpoints, AStoreWithANewerFormatIsNotPruned) {
  SimulatedFiles files;
  for (int step = 1; step <= 4; ++step) ASSERT_TRUE(save_step(files, "/s", step, {}));
  make_newer(files, "checkpoint-000001");
  const Result<int> pruned = prune_checkpoints(files, "/s", 1);
  ASSERT_FALSE(pruned);
  EXPECT_EQ(pruned.error().message,
            "/s/checkpoint-000001 is of version 3 of the format, but this twinpod knows version 1");
  EXPECT_EQ(list_checkpoints(files, "/s")->size(), 4U);
  EXPECT_TRUE(list_set_aside(files, "/s")->empty());
}

TEST(StoreCheckpoints, AFlippedBitOfTheVersionIsDamage) {
  SimulatedFiles files;
  ASSERT_TRUE(save_step(files, "/s", 1, {}));
  Bytes& manifest = *files.contents("/s/checkpoint-000001/manifest.json");
  manifest[std::string_view(R"({"twinpod_checkpoint":)").size()] = std::byte{'3'};
  const CheckpointInfo info = list_checkpoints(files, "/s")->front();
  EXPECT_EQ(info.other_version, 0);
  EXPECT_TRUE(info.damaged);
}

TEST(StoreCheckpoints, AnOlderOneIsTakenWhenTheNewestIsDamaged) {
  SimulatedFiles files;
  for (int step = 1; step <= 2; ++step) ASSERT_TRUE(save_step(files, "/s", step, {}));
  (*files.contents("/s/checkpoint-000002/shard-00000.safetensors"))[70] ^= std::byte{4};
  const WholeCheckpoint found = newest_whole(files, "/s").value();
  EXPECT_EQ(found.manifest.state.step, 1);
  ASSERT_EQ(found.passed_over.size(), 1U);
  EXPECT_TRUE(
      found.passed_over[0].starts_with("checkpoint-000002: /s/checkpoint-000002/shard-00000.safetensors: is "
                                       "damaged: bytes 64 to 127 have the checksum "))
      << found.passed_over[0];
}

}  // namespace
}  // namespace twinpod::store
