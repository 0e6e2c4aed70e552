#include "store/tiers.hpp"

#include <gtest/gtest.h>

#include "store/checkpoints.hpp"
#include "store/drain.hpp"
#include "store/memory_files.hpp"
#include "store/simulated_files.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

const TestLayout kLayout = {.tp = 2};

// Memory and two disks.
struct World {
  MemoryFiles memory;
  SimulatedFiles local;
  SimulatedFiles shared;
  std::vector<Tier> tiers = {{.name = "memory", .files = &memory, .root = "/s", .keep = 1},
                             {.name = "local", .files = &local, .root = "/s", .keep = 2},
                             {.name = "shared", .files = &shared, .root = "/s", .every = 2, .keep = 2}};
  std::string save(std::int64_t step) { return save_step(memory, "/s", step, kLayout).value(); }
};

std::vector<std::int64_t> numbers(Files& files) {
  std::vector<std::int64_t> all;
  const std::vector<CheckpointInfo> infos = list_checkpoints(files, "/s").value();
  for (const CheckpointInfo& info : infos) all.push_back(info.number);
  return all;
}

TEST(StoreTiers, ACopyIsTheSameToTheByte) {
  World world;
  const std::string name = world.save(1);
  ASSERT_GT(copy_checkpoint(world.tiers[0], world.tiers[1], name).value(), 0);
  const std::vector<std::string> files = world.memory.list("/s/" + name).value();
  EXPECT_EQ(world.local.list("/s/" + name).value(), files);
  for (const std::string& file : files) {
    const std::string path = "/s/" + name + "/" + file;
    EXPECT_EQ(read_whole(world.memory, path, 1 << 20).value(), read_whole(world.local, path, 1 << 20).value());
  }
}

TEST(StoreTiers, WhatIsThereAlreadyIsNotCopiedAgain) {
  World world;
  const std::string name = world.save(1);
  ASSERT_TRUE(copy_checkpoint(world.tiers[0], world.tiers[1], name));
  EXPECT_EQ(copy_checkpoint(world.tiers[0], world.tiers[1], name).value(), 0);
}

// A process that was killed had named the manifest, but not synced the name. The next one finds the copy and says that
// it is there; then the power fails.
TEST(StoreTiers, WhatIsThereAlreadyIsDurableWhenThatIsSaid) {
  World measured;
  ASSERT_TRUE(copy_checkpoint(measured.tiers[0], measured.tiers[1], measured.save(1)));
  for (std::int64_t at = 1; at <= measured.local.operations(); ++at) {
    World world;
    const std::string name = world.save(1);
    world.local.crash_at(at);
    (void)copy_checkpoint(world.tiers[0], world.tiers[1], name);
    world.local.restart(Loss::none, 0);
    ASSERT_TRUE(copy_checkpoint(world.tiers[0], world.tiers[1], name)) << at;
    world.local.restart(Loss::all, 0);
    ASSERT_TRUE(newest_whole(world.local, "/s")) << at;
    EXPECT_EQ(text_of(read_whole(world.local, "/s/latest", 100).value()), name + "\n") << at;
  }
}

TEST(StoreTiers, ACheckpointOfAnotherRunIsNotReplaced) {
  World world;
  ASSERT_TRUE(save_step(world.local, "/s", 7, kLayout));
  const Result<std::int64_t> copied = copy_checkpoint(world.tiers[0], world.tiers[1], world.save(1));
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().message,
            "/s/checkpoint-000001 is another checkpoint than checkpoint-000001 of the faster tier");
  EXPECT_EQ(newest_whole(world.local, "/s")->manifest.state.step, 7);
}

TEST(StoreTiers, TheFastestTierWithTheNewestIsTaken) {
  World world;
  for (int step = 1; step <= 2; ++step) ASSERT_TRUE(copy_checkpoint(world.tiers[0], world.tiers[1], world.save(step)));
  EXPECT_EQ(newest_on_tiers(world.tiers)->tier, 0U);
  ASSERT_TRUE(remove_checkpoint(world.memory, "/s", "checkpoint-000002"));
  const FoundOnTier found = newest_on_tiers(world.tiers).value();
  EXPECT_EQ(found.tier, 1U) << "newer beats faster";
  EXPECT_EQ(found.manifest.state.step, 2);
}

TEST(StoreTiers, DifferentCheckpointsOfOneNumberAreNoticed) {
  World world;
  world.save(1);
  ASSERT_TRUE(save_step(world.local, "/s", 7, kLayout));
  const Result<FoundOnTier> found = newest_on_tiers(world.tiers);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message,
            "checkpoint-000001 of tier local (/s, step 7) is another checkpoint than that of tier memory (/s, step 1)");
  world.save(2);
  EXPECT_EQ(newest_on_tiers(world.tiers)->manifest.state.step, 2) << "an older conflict is in nobody's way";
}

TEST(StoreTiers, AnotherTierIsTakenWhenOneIsDamaged) {
  World world;
  const std::string name = world.save(1);
  for (std::size_t i = 1; i < 3; ++i) ASSERT_TRUE(copy_checkpoint(world.tiers[0], world.tiers[i], name));
  ASSERT_TRUE(remove_checkpoint(world.memory, "/s", name));
  (*world.local.contents("/s/" + name + "/shard-00001.safetensors"))[100] ^= std::byte{1};
  const FoundOnTier found = newest_on_tiers(world.tiers).value();
  EXPECT_EQ(found.tier, 2U);
  ASSERT_EQ(found.passed_over.size(), 1U);
  EXPECT_TRUE(found.passed_over[0].starts_with("checkpoint-000001 on tier local: ")) << found.passed_over[0];
  EXPECT_EQ(check_step(world.shared, "/s/" + name, found.manifest, {}), "");
}

TEST(StoreTiers, DamageIsNotCopied) {
  World world;
  ASSERT_TRUE(save_step(world.local, "/s", 1, kLayout));
  (*world.local.contents("/s/checkpoint-000001/shard-00000.safetensors"))[100] ^= std::byte{1};
  EXPECT_FALSE(copy_checkpoint(world.tiers[1], world.tiers[2], "checkpoint-000001"));
  EXPECT_FALSE(newest_whole(world.shared, "/s"));
}

TEST(StoreTiers, ANumberIsUsedOnceOnAllTiers) {
  World world;
  EXPECT_EQ(next_number(world.tiers).value(), 1);
  ASSERT_TRUE(save_step(world.shared, "/s", 1, kLayout));
  ASSERT_TRUE(save_step(world.shared, "/s", 2, kLayout));
  EXPECT_EQ(next_number(world.tiers).value(), 3);
  EXPECT_EQ(begin_checkpoint(world.memory, "/s", 3).value(), "checkpoint-000003");
}

// Copies, crashes at an operation of the slower tier, comes back and copies again.
TEST(StoreTiers, ACrashAtAnyOperationOfACopyLosesNothingThatWasAcknowledged) {
  const auto copy_all = [](World& world) {
    std::int64_t acknowledged = 0;
    for (std::int64_t step = 1; step <= 3; ++step) {
      const std::string name = checkpoint_name(step);
      if (!copy_checkpoint(world.tiers[0], world.tiers[1], name)) continue;
      acknowledged = step;
      (void)prune_checkpoints(world.local, "/s", 2);
    }
    return acknowledged;
  };
  World measured;
  for (int step = 1; step <= 3; ++step) measured.save(step);
  copy_all(measured);
  for (std::int64_t at = 1; at <= measured.local.operations(); ++at) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      World world;
      for (int step = 1; step <= 3; ++step) world.save(step);
      world.local.crash_at(at);
      const std::int64_t acknowledged = copy_all(world);
      world.local.restart(seed == 0 ? Loss::none : seed == 1 ? Loss::all : Loss::some, seed);
      const Result<WholeCheckpoint> found = newest_whole(world.local, "/s");
      ASSERT_GE(found ? found->manifest.state.step : 0, acknowledged) << at << " " << seed;
      ASSERT_EQ(copy_all(world), 3) << at << " " << seed;
      ASSERT_EQ(newest_whole(world.local, "/s")->manifest.state.step, 3);
    }
  }
}

TEST(StoreDrain, EveryTierGetsWhatItsPolicySays) {
  World world;
  Drain drain(world.tiers);
  for (int step = 1; step <= 5; ++step) {
    drain.add(world.save(step));
    drain.finish();
  }
  EXPECT_EQ(numbers(world.memory), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(numbers(world.local), (std::vector<std::int64_t>{5, 4}));
  EXPECT_EQ(numbers(world.shared), (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(drain.num_left_out(), 0);
  EXPECT_EQ(drain.status()[2].num_copied, 2);
  EXPECT_EQ(drain.status()[1].newest, "checkpoint-000005");
}

TEST(StoreDrain, TheLastOneOfARunGoesToEveryTier) {
  World world;
  Drain drain(world.tiers);
  const std::string name = world.save(1);
  drain.add(name);
  drain.finish();
  EXPECT_EQ(numbers(world.shared), (std::vector<std::int64_t>{})) << "it takes every other one";
  drain.add(name, true);
  drain.finish();
  EXPECT_EQ(numbers(world.shared), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(drain.num_left_out(), 0);
}

TEST(StoreTiers, AStoreCanBeRemovedWithAllThatIsItsOwn) {
  World world;
  (void)world.save(1);
  (void)world.save(2);
  Files& files = *world.tiers[0].files;
  const std::string root = world.tiers[0].root;
  ASSERT_TRUE(remove_store(files, root));
  EXPECT_FALSE(*files.exists(root));
  (void)world.save(3);
  ASSERT_TRUE(files.make_folder(root + "/mine"));
  ASSERT_TRUE(remove_store(files, root));
  EXPECT_EQ(*files.list(root), std::vector<std::string>{"mine"});
}

TEST(StoreDrain, ATierThatFailsIsReportedAndTheOthersGoOn) {
  World world;
  world.local.fail({.at = 1, .code = EIO, .lasting = true});
  Drain drain(world.tiers);
  for (int step = 1; step <= 2; ++step) drain.add(world.save(step));
  drain.finish();
  EXPECT_EQ(numbers(world.shared), (std::vector<std::int64_t>{2}));
  ASSERT_FALSE(drain.status()[1].errors.empty());
  EXPECT_NE(drain.status()[1].errors[0].find("Input/output error"), std::string::npos);
  EXPECT_FALSE(drain.fatal());
}

TEST(StoreDrain, ATierThatMustNotFailStopsTraining) {
  World world;
  world.tiers[1].on_error = OnError::stop;
  world.local.fail({.at = 1, .code = ENOSPC, .lasting = true});
  Drain drain(world.tiers);
  drain.add(world.save(1));
  drain.finish();
  ASSERT_TRUE(drain.fatal());
  EXPECT_EQ(to_string(*drain.fatal()), "/s: cannot be created: No space left on device");
}

// At a byte a second this would last for hours.
TEST(StoreDrain, StopsAtOnceAndLeavesOutWhatItHasNoTimeFor) {
  World world;
  {
    Drain drain(world.tiers, {.bytes_per_s = 1});
    for (int step = 1; step <= 4; ++step) drain.add(world.save(step));
    EXPECT_GE(drain.num_left_out(), 2);
  }
  EXPECT_FALSE(newest_whole(world.local, "/s")) << "what was begun is not taken for a checkpoint";
  EXPECT_EQ(newest_on_tiers(world.tiers)->manifest.state.step, 4);
}

}  // namespace
}  // namespace twinpod::store
