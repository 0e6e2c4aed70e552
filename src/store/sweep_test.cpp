// Everything that can go wrong with a disk, at every operation of saving and pruning. What was acknowledged is always
// found whole. Each sweep is shown to find a fault that is put in on purpose. The long ones, with more seeds, run with
// --gtest_also_run_disabled_tests --gtest_filter='StoreSweep.*'.
#include <gtest/gtest.h>

#include <map>

#include "store/checkpoints.hpp"
#include "store/simulated_files.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

const TestLayout kLayout = {.tp = 2};
constexpr std::int64_t kSteps = 3;
constexpr int kKeep = 2;

// Saves and prunes; returns the last step whose save said that it was done.
std::int64_t run(Files& files) {
  std::int64_t acknowledged = 0;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    if (!save_step(files, "/s", step, kLayout)) continue;
    acknowledged = step;
    (void)prune_checkpoints(files, "/s", kKeep);
  }
  return acknowledged;
}

std::int64_t num_operations() {
  SimulatedFiles files;
  run(files);
  return files.operations();
}

// "" when the newest whole checkpoint is at least the acknowledged one, all its elements are right, and `latest` names
// a complete one.
std::string examine(Files& files, std::int64_t acknowledged) {
  const Result<WholeCheckpoint> found = newest_whole(files, "/s");
  if (!found) return acknowledged == 0 ? "" : to_string(found.error());
  if (found->manifest.state.step < acknowledged) return fmt::format("step {} is gone", acknowledged);
  const std::string wrong = check_step(files, "/s/" + found->name, found->manifest, {});
  if (!wrong.empty()) return wrong;
  const Result<Bytes> latest = read_whole(files, "/s/latest", 100);
  if (!latest) return acknowledged == 0 ? "" : "latest is gone";
  std::string name(text_of(*latest));
  if (name.empty()) return "latest is empty";
  name.pop_back();
  const Result<Manifest> named = verify_checkpoint(files, "/s/" + name);
  return named ? "" : "latest names " + name + ", which is not whole";
}

// After all of that, saving works.
std::string save_again(SimulatedFiles& files) {
  const Result<std::string> name = save_step(files, "/s", 99, kLayout);
  if (!name) return "cannot be saved to: " + to_string(name.error());
  const Result<int> pruned = prune_checkpoints(files, "/s", kKeep);
  if (!pruned) return "cannot be pruned: " + to_string(pruned.error());
  files.restart(Loss::all, 0);
  return examine(files, 99);
}

// A process that was killed leaves names that were never synced. The next one prunes, and then the power fails.
std::string prune_again(SimulatedFiles& files, std::int64_t acknowledged, std::uint64_t seed) {
  (void)prune_checkpoints(files, "/s", 1);
  files.restart(seed == 0 ? Loss::all : Loss::some, seed);
  return examine(files, acknowledged);
}

struct Sweep {
  int cases = 0;
  int violations = 0;
  std::string first;
  void add(const std::string& problem, const std::string& where) {
    ++cases;
    if (problem.empty()) return;
    if (violations++ == 0) first = where + ": " + problem;
  }
  // Of those that are put in, one is enough.
  bool found_lie(Lie lie) const { return lie != Lie::none && violations > 0; }
};

Sweep crash_sweep(Lie lie, std::uint64_t seeds) {
  Sweep sweep;
  const std::int64_t last = num_operations();
  for (std::int64_t at = 1; at <= last + 1 && !sweep.found_lie(lie); ++at) {
    for (std::uint64_t seed = 0; seed < seeds + 4; ++seed) {
      const Loss loss = seed < 2 ? Loss::none : seed < 4 ? Loss::all : Loss::some;
      SimulatedFiles files;
      files.lie(lie);
      files.crash_at(at);
      const std::int64_t acknowledged = run(files);
      files.restart(loss, seed * 1000003 + static_cast<std::uint64_t>(at));
      std::string problem = examine(files, acknowledged);
      if (problem.empty() && seed % 2 == 0) problem = save_again(files);
      if (problem.empty() && seed % 2 == 1) problem = prune_again(files, acknowledged, seed / 2);
      sweep.add(problem, fmt::format("crash at operation {}, seed {}", at, seed));
    }
  }
  return sweep;
}

TEST(StoreSweep, ACrashAtAnyOperationLosesNothingThatWasAcknowledged) {
  const Sweep sweep = crash_sweep(Lie::none, 4);
  EXPECT_EQ(sweep.violations, 0) << sweep.first;
  EXPECT_GT(sweep.cases, 500);
}

TEST(StoreSweep, DISABLED_ACrashAtAnyOperationForManySeeds) {
  const Sweep sweep = crash_sweep(Lie::none, 200);
  EXPECT_EQ(sweep.violations, 0) << sweep.first;
  fmt::print("{} crashes\n", sweep.cases);
}

TEST(StoreSweep, WouldFindAFolderThatIsNotSynced) { EXPECT_GT(crash_sweep(Lie::sync_folder, 1).violations, 0); }

TEST(StoreSweep, WouldFindAFileThatIsNotSynced) { EXPECT_GT(crash_sweep(Lie::sync, 1).violations, 0); }

Sweep error_sweep(Lie lie) {
  Sweep sweep;
  const std::int64_t last = num_operations();
  for (std::int64_t at = 1; at <= last && !sweep.found_lie(lie); ++at) {
    for (const int code : {ENOSPC, EIO, kShortWrite}) {
      for (const bool lasting : {false, true}) {
        SimulatedFiles files;
        files.lie(lie);
        files.fail({at, code, lasting});
        const std::int64_t acknowledged = run(files);
        files.restart(Loss::all, 0);  // what was acknowledged is on the disk
        std::string problem = examine(files, acknowledged);
        // One error costs one save at most.
        if (problem.empty() && !lasting && acknowledged < kSteps - 1) problem = "saves after the error failed, too";
        if (problem.empty()) problem = save_again(files);
        sweep.add(problem, fmt::format("{} at operation {}{}", code, at, lasting ? " and all later" : ""));
      }
    }
  }
  return sweep;
}

TEST(StoreSweep, AnErrorOfAnyOperationIsReportedAndCostsNothingOlder) {
  const Sweep sweep = error_sweep(Lie::none);
  EXPECT_EQ(sweep.violations, 0) << sweep.first;
  EXPECT_GT(sweep.cases, 500);
}

TEST(StoreSweep, WouldFindASyncThatIsTriedAgain) { EXPECT_GT(error_sweep(Lie::sync_again).violations, 0); }

class Rot {
 public:
  Rot(SimulatedFiles& files, std::string folder) : files_(files), folder_(std::move(folder)) {
    names_ = files.list(folder_).value();
  }

  // Damages a file by seed; returns what it did, "" when the bytes happen to be the same.
  std::string damage(Rng& rng) {
    const std::string name = names_[rng.below(names_.size())];
    Bytes& bytes = *files_.contents(folder_ + "/" + name);
    changed_ = &bytes;
    before_ = bytes;
    const std::size_t at = rng.below(bytes.size());
    std::string what;
    switch (rng.below(6)) {
      case 0:
        bytes[at] ^= std::byte{1} << static_cast<int>(rng.below(8));
        what = "bit of";
        break;
      case 1:
        bytes.resize(at);
        what = "cut";
        break;
      case 2:
        bytes.resize(bytes.size() + 1 + rng.below(200));
        what = "longer";
        break;
      case 3:
        swap_extents(bytes, rng);
        what = "swapped in";
        break;
      case 4:
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(bytes.size() - at, 32),
                    std::byte{0});
        what = "zeros in";
        break;
      default:
        bytes = *files_.contents(folder_ + "/" + names_[rng.below(names_.size())]);
        what = "another file as";
    }
    return bytes == before_ ? "" : fmt::format("{} {} at byte {}", what, name, at);
  }

  void repair() { *changed_ = before_; }

 private:
  static void swap_extents(Bytes& bytes, Rng& rng) {
    const std::size_t extents = bytes.size() / kTestExtentBytes;
    if (extents < 2) return;
    const auto a = static_cast<std::ptrdiff_t>(rng.below(extents) * kTestExtentBytes);
    const auto b = static_cast<std::ptrdiff_t>(rng.below(extents) * kTestExtentBytes);
    if (a != b) std::swap_ranges(bytes.begin() + a, bytes.begin() + a + kTestExtentBytes, bytes.begin() + b);
  }

  SimulatedFiles& files_;
  std::string folder_;
  std::vector<std::string> names_;
  Bytes* changed_ = nullptr;
  Bytes before_;
};

void damage_sweep(int num_damages) {
  SimulatedFiles files;
  ASSERT_TRUE(save_step(files, "/s", 1, kLayout));
  const std::string newest = save_step(files, "/s", 2, kLayout).value();
  const Manifest good = read_manifest(files, "/s/" + newest).value();
  Rot rot(files, "/s/" + newest);
  Rng rng(2026);
  int damages = 0;
  while (damages < num_damages) {
    const std::string what = rot.damage(rng);
    if (!what.empty()) {
      ++damages;
      const Result<WholeCheckpoint> found = newest_whole(files, "/s");
      ASSERT_TRUE(found) << what;
      ASSERT_EQ(found->manifest.state.step, 1) << what;
    }
    rot.repair();
  }
  EXPECT_EQ(newest_whole(files, "/s")->manifest, good) << "repaired";
}

TEST(StoreSweep, EveryDamageIsSeenAndTheOlderCheckpointIsTaken) { damage_sweep(2000); }

TEST(StoreSweep, DISABLED_EveryOfManyDamagesIsSeen) { damage_sweep(100000); }

// Loading looks at less than verifying: what it returns is right all the same.
TEST(StoreSweep, DamagedElementsAreNeverLoaded) {
  SimulatedFiles files;
  const std::string newest = save_step(files, "/s", 2, kLayout).value();
  const Manifest good = read_manifest(files, "/s/" + newest).value();
  Rot rot(files, "/s/" + newest);
  Rng rng(7);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string what = rot.damage(rng);
    const std::string wrong = check_step(files, "/s/" + newest, good, {.dp = 2, .zero = true});
    EXPECT_EQ(wrong.find("element"), std::string::npos) << what << " " << wrong;
    refused += wrong.empty() ? 0 : 1;
    rot.repair();
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace twinpod::store
