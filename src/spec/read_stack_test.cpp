#include <gtest/gtest.h>

#include <algorithm>

#include "spec/read.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

Result<Job> job_with(const std::string& abilities) {
  const TestCatalog files;
  return read_job_text("model: tiny\ncluster: pod\nstack:\n  base: other\n  abilities: " + abilities + "\n", "job.yaml",
                       files.catalog());
}

std::string refusal(const std::string& abilities) {
  const Result<Job> job = job_with(abilities);
  return job ? "" : to_string(job.error());
}

TEST(ReadStack, AbilitiesAreReadByTheirNames) {
  const Abilities a =
      job_with(
          "{schedules: [gpipe, zb-v], recompute: [none, full], zero: [0, 1], tensor_parallel: false, "
          "pipeline_parallel: false, context_parallel: false, expert_parallel: false, sequence_parallel: false, "
          "uneven_stages: false, offload_optimizer: true, offload_activations: true, parameter_server: true}")
          .value()
          .stack.abilities;
  EXPECT_EQ(a.schedules, (std::vector<Schedule>{Schedule::gpipe, Schedule::zb_v}));
  EXPECT_EQ(a.recompute, (std::vector<Recompute>{Recompute::none, Recompute::full}));
  EXPECT_EQ(a.zero, (std::vector<int>{0, 1}));
  EXPECT_FALSE(a.tensor_parallel || a.pipeline_parallel || a.context_parallel || a.expert_parallel);
  EXPECT_FALSE(a.sequence_parallel || a.uneven_stages);
  EXPECT_TRUE(a.offload_optimizer && a.offload_activations && a.parameter_server);
}

TEST(ReadStack, AbilitiesThatAreNotWrittenKeepTheirValues) {
  const Abilities a = job_with("{zero: [0]}").value().stack.abilities;
  EXPECT_EQ(a.schedules, Abilities{}.schedules);
  EXPECT_TRUE(a.context_parallel);
}

TEST(ReadStack, MistakesInAbilitiesAreNamedAtTheirPlace) {
  EXPECT_EQ(refusal("{uneven_stage: true}"),
            "job.yaml:5:15: abilities has no key `uneven_stage`\n  did you mean `uneven_stages`?");
  EXPECT_EQ(refusal("{recompute: [selectiv]}"),
            "job.yaml:5:27: recompute holds `selectiv`; expected some of none, selective, full\n"
            "  did you mean `selective`?");
  EXPECT_EQ(refusal("all"), "job.yaml:5:14: abilities is `all`; expected a mapping");
}

template <typename T>
bool contains(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

TEST(ReadStack, EveryStackOfTheCatalogCanDoWhatItDoesByDefault) {
  const Catalog catalog(TWINPOD_CATALOG_DIR);
  for (const std::string& name : catalog.names(Shelf::stacks)) {
    const Stack stack = catalog.stack(name, "").value();
    const Abilities& a = stack.abilities;
    EXPECT_TRUE(contains(a.zero, stack.default_zero)) << name;
    EXPECT_TRUE(!stack.default_sequence_parallel || a.sequence_parallel) << name;
    EXPECT_TRUE(!stack.interleaves_by_default || contains(a.schedules, Schedule::interleaved)) << name;
    EXPECT_TRUE(!stack.selective_by_default || contains(a.recompute, Recompute::selective)) << name;
  }
}

}  // namespace
}  // namespace twinpod::spec
