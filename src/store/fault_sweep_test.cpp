// A disk that is full, or an error of any operation, costs the saves that it befalls and no other: once it is over, the
// next save succeeds, and nothing of those that failed is left. On every kind of tier.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "store/direct_files.hpp"
#include "store/drain.hpp"
#include "store/faulty_files.hpp"
#include "store/memory_files.hpp"
#include "store/simulated_objects.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

const TestLayout kLayout = {.tp = 2};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Files>(const std::string& root)> make;
  bool on_disk = false;
};

const std::vector<Kind> kKinds = {
    {"memory", [](const std::string&) { return std::make_unique<MemoryFiles>(); }},
    {"simulated disk", [](const std::string&) { return std::make_unique<SimulatedFiles>(); }},
    {"object store", [](const std::string&) { return std::make_unique<SimulatedObjects>(); }},
    {"folder", [](const std::string& root) { return std::make_unique<PosixFiles>(root); }, true},
    {"folder, direct",
     [](const std::string& root) { return std::make_unique<DirectFiles>(DirectOptions{.root = root}); }, true},
    {"folder, direct without a ring",
     [](const std::string& root) { return std::make_unique<DirectFiles>(DirectOptions{.ring = false, .root = root}); },
     true},
};

// A tier of a kind, which goes with the test.
struct Place {
  explicit Place(const Kind& kind) {
    root = kind.on_disk ? testing::TempDir() + "fault_sweep/s" : "/s";
    if (kind.on_disk) std::filesystem::remove_all(testing::TempDir() + "fault_sweep");
    if (kind.on_disk) std::filesystem::create_directories(root);
    files = kind.make(root);
  }
  std::string root;
  std::unique_ptr<Files> files;
};

// Two saves with pruning and then one that the fault befalls; returns the operations of that one.
std::int64_t save_with_fault(Place& place, FaultyFiles& faulty, IoFault fault, bool& saved) {
  for (const int step : {1, 2}) EXPECT_TRUE(save_step(faulty, place.root, step, kLayout));
  const std::int64_t before = faulty.operations();
  if (fault.at > 0) fault.at += before;
  faulty.fail(fault);
  saved = save_step(faulty, place.root, 3, kLayout).has_value();
  if (saved) (void)prune_checkpoints(faulty, place.root, 2);
  faulty.fail({});
  return faulty.operations() - before;
}

// "" when the newest is that of the step, every element is right, and nothing but whole checkpoints is there.
std::string problem_of(Files& files, const std::string& root, std::int64_t step) {
  const Result<WholeCheckpoint> found = newest_whole(files, root);
  if (!found) return to_string(found.error());
  if (found->manifest.state.step != step) return fmt::format("the newest is of step {}", found->manifest.state.step);
  const std::string wrong = check_step(files, root + "/" + found->name, found->manifest, {});
  if (!wrong.empty()) return wrong;
  const Result<std::vector<CheckpointInfo>> infos = list_checkpoints(files, root);
  for (const CheckpointInfo& info : *infos) {
    if (!info.complete) return info.name + " is left: " + info.problem;
  }
  if (files.exists(root + "/latest.partial").value_or(true)) return "latest.partial is left";
  return "";
}

void fail_at(const Kind& kind, const IoFault& fault) {
  Place place(kind);
  FaultyFiles faulty(*place.files);
  bool saved = false;
  save_with_fault(place, faulty, fault, saved);
  SCOPED_TRACE(fmt::format("{} at operation {}{}", fault.code == EIO ? "EIO" : "ENOSPC", fault.at,
                           fault.lasting ? " and all later ones" : ""));
  // As training does it: what could not be removed then is removed before the next.
  ASSERT_TRUE(clear_unfinished(faulty, place.root));
  ASSERT_TRUE(save_step(faulty, place.root, 4, kLayout));
  ASSERT_TRUE(prune_checkpoints(faulty, place.root, 2));
  ASSERT_EQ(problem_of(faulty, place.root, 4), "");
}

// A real disk syncs for long: of that a sample, unless all of it is asked for.
void sweep(const Kind& kind, bool all) {
  std::int64_t operations = 0;
  {
    Place place(kind);
    FaultyFiles faulty(*place.files);
    bool saved = false;
    operations = save_with_fault(place, faulty, {}, saved);
    ASSERT_TRUE(saved);
  }
  ASSERT_GT(operations, 20);
  constexpr std::int64_t kSampled = 7;
  const bool sample = kind.on_disk && !all;
  for (std::int64_t at = 1; at <= operations; at += sample ? kSampled : 1) {
    for (const int code : {ENOSPC, EIO}) {
      for (const bool lasting : {false, true}) {
        if (sample && lasting == (code == EIO)) continue;
        fail_at(kind, {.at = at, .code = code, .lasting = lasting});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

class StoreFaultSweep : public testing::TestWithParam<std::size_t> {};

TEST_P(StoreFaultSweep, WhenTheFaultIsOverTheNextSaveSucceedsAndNothingIsLeft) {
  SCOPED_TRACE(kKinds[GetParam()].name);
  sweep(kKinds[GetParam()], false);
}

TEST_P(StoreFaultSweep, DISABLED_EveryOperationOfARealDisk) {
  SCOPED_TRACE(kKinds[GetParam()].name);
  sweep(kKinds[GetParam()], true);
}

INSTANTIATE_TEST_SUITE_P(EveryKind, StoreFaultSweep, testing::Range(std::size_t{0}, kKinds.size()));

// A memory that holds three checkpoints and no more, as a disk with a filler file: it was full for ever.
TEST(StoreFull, WhatASaveThatFailedHadWrittenIsFree) {
  MemoryFiles measured;
  ASSERT_TRUE(save_step(measured, "/s", 1, kLayout));
  const std::int64_t one = measured.bytes();
  MemoryFiles files(3 * one);
  for (const int step : {1, 2}) ASSERT_TRUE(save_step(files, "/s", step, kLayout));
  ASSERT_TRUE(files.make_folder("/other"));
  ASSERT_TRUE(write_new_file(files, "/other/filler", Bytes(static_cast<std::size_t>(one / 2))));
  for (int step = 3; step < 10; ++step) ASSERT_FALSE(save_step(files, "/s", step, kLayout)) << step;
  ASSERT_TRUE(files.remove("/other/filler"));
  for (int step = 10; step < 70; ++step) {
    ASSERT_TRUE(save_step(files, "/s", step, kLayout)) << step;
    ASSERT_TRUE(prune_checkpoints(files, "/s", 2)) << step;
  }
}

// Of a drain, whichever of its tiers fails: the others have all, and it has the next.
TEST(StoreDrainFaults, ATierThatFailedHasTheNextOne) {
  const auto run = [](const IoFault& fault, std::int64_t& operations) {
    MemoryFiles memory;
    MemoryFiles local_below;
    SimulatedObjects objects;
    FaultyFiles local(local_below);
    const std::vector<Tier> tiers = {{.name = "memory", .files = &memory, .root = "/s", .keep = 1},
                                     {.name = "local", .files = &local, .root = "/s"},
                                     {.name = "objects", .files = &objects, .root = "/s"}};
    Drain drain(tiers);
    for (int step = 1; step <= 3; ++step) {
      if (step == 2) local.fail({fault.at == 0 ? 0 : local.operations() + fault.at, fault.code, fault.lasting});
      const std::int64_t before = local.operations();
      drain.add(save_step(memory, "/s", step, kLayout).value());
      drain.finish();
      if (step == 2) operations = local.operations() - before;
      local.fail({});
      const std::string problem = problem_of(objects, "/s", step);
      if (!problem.empty()) return "objects: " + problem;
    }
    return problem_of(local, "/s", 3);
  };
  std::int64_t operations = 0;
  std::int64_t unused = 0;
  ASSERT_EQ(run({}, operations), "");
  ASSERT_GT(operations, 20);
  for (std::int64_t at = 1; at <= operations; ++at) {
    for (const int code : {ENOSPC, EIO}) {
      for (const bool lasting : {false, true}) ASSERT_EQ(run({at, code, lasting}, unused), "") << at << " " << code;
    }
  }
}

TEST(StoreDrainFaults, ACopyThatCannotBeReadComesFromAnotherTier) {
  MemoryFiles memory_below;
  FaultyFiles memory(memory_below);
  MemoryFiles local;
  MemoryFiles shared;
  const std::vector<Tier> tiers = {{.name = "memory", .files = &memory, .root = "/s"},
                                   {.name = "local", .files = &local, .root = "/s"},
                                   {.name = "shared", .files = &shared, .root = "/s"}};
  const std::string name = save_step(memory_below, "/s", 1, kLayout).value();
  ASSERT_TRUE(copy_checkpoint(tiers[0], tiers[1], name));
  memory.only("shard-00001");
  memory.fail({.at = 1, .code = EIO, .lasting = true});
  Drain drain(tiers);
  drain.add(name);
  drain.finish();
  EXPECT_EQ(problem_of(shared, "/s", 1), "");
}

}  // namespace
}  // namespace twinpod::store
