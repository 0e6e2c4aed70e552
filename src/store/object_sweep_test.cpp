// Saving to an object store that dies, or loses an answer, at every operation: what was acknowledged is found whole,
// and the next save removes what the dead one left.
#include <gtest/gtest.h>

#include "store/checkpoints.hpp"
#include "store/simulated_objects.hpp"
#include "store/test_checkpoints.hpp"
#include "store/tiers.hpp"

namespace twinpod::store {
namespace {

const TestLayout kLayout = {.tp = 2};

// Returns the last step whose save said that it was done.
std::int64_t save_three(Files& files) {
  std::int64_t acknowledged = 0;
  for (std::int64_t step = 1; step <= 3; ++step) {
    if (!save_step(files, "/s", step, kLayout)) continue;
    acknowledged = step;
    (void)prune_checkpoints(files, "/s", 2);
  }
  return acknowledged;
}

std::string problem_after(SimulatedObjects& objects, std::int64_t acknowledged) {
  const Result<WholeCheckpoint> found = newest_whole(objects, "/s");
  if (!found) return acknowledged == 0 ? "" : to_string(found.error());
  if (found->manifest.state.step < acknowledged) return fmt::format("step {} is gone", acknowledged);
  const std::string wrong = check_step(objects, "/s/" + found->name, found->manifest, {});
  if (!wrong.empty()) return wrong;
  const Result<Bytes> latest = read_whole(objects, "/s/latest", 100);
  if (!latest) return acknowledged == 0 ? "" : "latest is gone";
  std::string name(text_of(*latest));
  name.pop_back();
  return verify_checkpoint(objects, "/s/" + name) ? "" : "latest names " + name + ", which is not whole";
}

std::string problem_of_next_save(SimulatedObjects& objects) {
  const Result<std::string> name = save_step(objects, "/s", 99, kLayout);
  if (!name) return "cannot be saved to: " + to_string(name.error());
  const Result<int> pruned = prune_checkpoints(objects, "/s", 2);
  if (!pruned) return "cannot be pruned: " + to_string(pruned.error());
  if (objects.num_uploads() > 0) return fmt::format("{} uploads are left", objects.num_uploads());
  const Result<std::vector<CheckpointInfo>> infos = list_checkpoints(objects, "/s");
  if (!infos) return to_string(infos.error());
  for (const CheckpointInfo& info : *infos) {
    if (!info.complete) return info.name + " is left: " + info.problem;
  }
  return problem_after(objects, 99);
}

std::int64_t num_operations() {
  SimulatedObjects objects;
  save_three(objects);
  return objects.operations();
}

TEST(StoreObjectSweep, KilledAtAnyOperationNothingIsLostAndNothingStays) {
  const std::int64_t last = num_operations();
  ASSERT_GT(last, 50);
  for (std::int64_t at = 1; at <= last + 1; ++at) {
    SimulatedObjects objects;
    objects.crash_at(at);
    const std::int64_t acknowledged = save_three(objects);
    objects.restart();
    ASSERT_EQ(problem_after(objects, acknowledged), "") << "killed at " << at;
    ASSERT_EQ(problem_of_next_save(objects), "") << "killed at " << at;
  }
}

TEST(StoreObjectSweep, AnOperationThatFailsOrLosesItsAnswerCostsOneSaveAtMost) {
  const std::int64_t last = num_operations();
  for (const Outcome outcome : {Outcome::not_done, Outcome::done_without_answer}) {
    for (std::int64_t at = 1; at <= last; ++at) {
      SimulatedObjects objects;
      objects.fail_at(at, outcome);
      const std::int64_t acknowledged = save_three(objects);
      ASSERT_GE(acknowledged, 2) << at;
      objects.restart();
      ASSERT_EQ(problem_after(objects, acknowledged), "") << "failed at " << at;
      ASSERT_EQ(problem_of_next_save(objects), "") << "failed at " << at;
    }
  }
}

TEST(StoreObjectSweep, ACopyToAnObjectStoreIsTheSameAndDoneAgainAfterAKill) {
  SimulatedObjects source;
  ASSERT_TRUE(save_step(source, "/s", 1, kLayout));
  const auto copy = [&](SimulatedObjects& objects) {
    return copy_checkpoint({.name = "a", .files = &source, .root = "/s"},
                           {.name = "b", .files = &objects, .root = "/s"}, "checkpoint-000001");
  };
  SimulatedObjects measured;
  ASSERT_TRUE(copy(measured));
  for (std::int64_t at = 1; at <= measured.operations(); ++at) {
    SimulatedObjects objects;
    objects.crash_at(at);
    const bool acknowledged = copy(objects).has_value();
    objects.restart();
    ASSERT_EQ(problem_after(objects, acknowledged ? 1 : 0), "") << at;
    ASSERT_TRUE(copy(objects)) << at;
    ASSERT_EQ(problem_after(objects, 1), "") << at;
  }
}

}  // namespace
}  // namespace twinpod::store
