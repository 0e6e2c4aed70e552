#include "validate/validation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "core/hash.hpp"
#include "plan/estimate.hpp"
#include "plan/test_job.hpp"

namespace twinpod::validate {
namespace {

const spec::Catalog& catalog() {
  static const spec::Catalog shared(TWINPOD_CATALOG_DIR);
  return shared;
}

// Every training run of the catalog, predicted by the parameters that are shipped.
const std::vector<Case>& predicted_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> loaded = load_cases(catalog(), read_catalog_runs(catalog()).value()).value();
    predict(loaded, catalog().parameters().value());
    return loaded;
  }();
  return cases;
}

bool is_dense_and_documented(const Case& one) { return one.documented() && !one.mixture(); }

PublishedRun some_run() {
  PublishedRun run;
  run.id = "one";
  run.kind = "llm_training";
  run.framework = "Megatron-LM";
  run.date = "2021-04";
  run.model = "GPT";
  run.device = "A100-SXM4-80GB";
  run.precision = "FP16";
  run.recompute = "full";
  run.grade = "A";
  run.layers = 24;
  run.hidden = 2304;
  run.heads = 24;
  run.ffn = 9216;
  run.vocab = 51200;
  run.seq = 2048;
  run.devices = 32;
  run.devices_per_node = 8;
  run.tp = 1;
  run.pp = 1;
  run.mbs = 16;
  run.gbs = 512;
  run.iter_time_s = 3.0;
  return run;
}

Case case_of(const PublishedRun& run) { return load_cases(catalog(), {run}).value().at(0); }

TEST(Folds, AGroupIsNeverSplit) {
  std::map<std::string, int> fold_of_group;
  for (const Case& one : predicted_cases()) {
    const auto [found, is_new] = fold_of_group.emplace(one.group, one.fold);
    EXPECT_EQ(found->second, one.fold) << one.run.id;
  }
  EXPECT_GT(fold_of_group.size(), 600U);
}

TEST(Folds, SiblingsAreRowsThatDifferInScaleOnly) {
  const Case one = case_of(some_run());
  PublishedRun sibling = some_run();
  sibling.id = "another";
  sibling.devices = 512;
  sibling.gbs = 8192;
  sibling.iter_time_s = 3.3;
  sibling.source = "another table";
  EXPECT_EQ(case_of(sibling).group, one.group);
}

TEST(Folds, AnotherLayoutModelOrDeviceIsAnotherGroup) {
  const std::string group = case_of(some_run()).group;
  const auto changed = [](auto change) {
    PublishedRun run = some_run();
    change(run);
    return case_of(run).group;
  };
  EXPECT_NE(changed([](PublishedRun& r) { r.tp = 2; }), group);
  EXPECT_NE(changed([](PublishedRun& r) { r.pp = 2; }), group);
  EXPECT_NE(changed([](PublishedRun& r) { r.cp = 2; }), group);
  EXPECT_NE(changed([](PublishedRun& r) { r.mbs = 8; }), group);
  EXPECT_NE(changed([](PublishedRun& r) { r.seq = 4096; }), group);
  EXPECT_NE(changed([](PublishedRun& r) { r.layers = 30; }), group);
  EXPECT_NE(changed([](PublishedRun& r) { r.hidden = 4608; }), group);
  EXPECT_NE(changed([](PublishedRun& r) { r.device = "A100-SXM4-40GB"; }), group);
  EXPECT_NE(changed([](PublishedRun& r) { r.device = "H100-SXM5-80GB", r.precision = "FP8"; }), group);
}

// Which rows were never used for fitting must not depend on the version of the program: this row's group, its hash and
// its fold are what they were when catalog/parameters.yaml was written.
TEST(Folds, AreTheSameInEveryVersion) {
  const Case one = case_of(some_run());
  EXPECT_EQ(one.group, "megatron-2021|24|2304|24|9216|2048|1|1|0|16|A100-SXM4-80GB|false");
  EXPECT_EQ(fnv1a(one.group), 1284169176752096942U);
  EXPECT_EQ(one.fold, 2);
}

TEST(Folds, AreOfSimilarSize) {
  std::array<int, kFolds> rows{};
  int all = 0;
  for (const Case& one : predicted_cases()) {
    if (!one.covered() || !one.documented()) continue;
    ++rows[static_cast<std::size_t>(one.fold)];
    ++all;
  }
  for (const int count : rows) {
    EXPECT_GT(count, all / 10);
    EXPECT_LT(count, all * 3 / 10);
  }
}

TEST(LoadCases, LeavesOutWhatIsNoTrainingRun) {
  PublishedRun memory = some_run();
  memory.kind = "memory";
  EXPECT_EQ(load_cases(catalog(), {some_run(), memory}).value().size(), 1U);
}

TEST(LoadCases, SaysWhyARowIsNotCovered) {
  PublishedRun run = some_run();
  run.iter_time_s = 0;
  EXPECT_EQ(case_of(run).not_covered, "no step time");
  run = some_run();
  run.device = "Abacus 9000";
  EXPECT_FALSE(case_of(run).covered());
  EXPECT_NE(case_of(run).not_covered.find("Abacus 9000"), std::string::npos);
}

TEST(SamplesOf, AreCoveredAndDocumented) {
  PublishedRun poor = some_run();
  poor.grade = "C";
  PublishedRun silent = some_run();
  silent.iter_time_s = 0;
  const std::vector<Case> cases = load_cases(catalog(), {some_run(), poor, silent}).value();
  const std::vector<Sample> samples = samples_of(cases, [](const Case&) { return true; });
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].measured_s, 3.0);
  EXPECT_TRUE(samples_of(cases, [](const Case&) { return false; }).empty());
}

TEST(Statistics, OfKnownNumbers) {
  const Statistics s = statistics({0.1, -0.2, 0.3, -0.4, 0.5});
  EXPECT_EQ(s.count, 5);
  EXPECT_DOUBLE_EQ(s.median, 0.3);
  EXPECT_DOUBLE_EQ(s.mean, 0.3);
  EXPECT_DOUBLE_EQ(s.p90, 0.46);  // between 0.4 and 0.5, at 3.6 of 4 steps
  EXPECT_DOUBLE_EQ(s.bias, 0.1);
}

TEST(Statistics, OfAnEvenNumberTakeTheMiddle) { EXPECT_DOUBLE_EQ(statistics({0.4, 0.1, -0.2, 0.3}).median, 0.25); }

TEST(Statistics, OfOneAndOfNone) {
  EXPECT_DOUBLE_EQ(statistics({-0.25}).median, 0.25);
  EXPECT_DOUBLE_EQ(statistics({-0.25}).p90, 0.25);
  EXPECT_DOUBLE_EQ(statistics({-0.25}).bias, -0.25);
  EXPECT_EQ(statistics({}).count, 0);
  EXPECT_EQ(statistics({}).median, 0);
}

TEST(Errors, AreRelativeAndSigned) {
  Case one = case_of(some_run());
  one.predicted_s = 3.3;
  EXPECT_NEAR(errors({one}, [](const Case&) { return true; }).at(0), 0.1, 1e-12);
  one.predicted_s = 2.7;
  EXPECT_NEAR(errors({one}, [](const Case&) { return true; }).at(0), -0.1, 1e-12);
  EXPECT_TRUE(errors({one}, [](const Case&) { return false; }).empty());
}

// Rows of three stacks in all folds, measured with some scatter.
std::vector<Case> small_validation() {
  std::vector<Case> cases;
  for (int i = 0; i < 30; ++i) {
    Case one;
    one.run = some_run();
    one.made.job = plan::gpt_job();
    one.made.job.model.layers = 12 + i;
    one.made.job.stack.name = "stack " + std::to_string(i % 3);
    one.fold = i % kFolds;
    one.run.iter_time_s = plan::step_time(one.made.job).total_s * (1 + 0.02 * (i % 7));
    cases.push_back(one);
  }
  return cases;
}

// One number for all, and one stack's own.
spec::Parameters small_shape() {
  spec::Parameters shape;
  shape.shared = {{"pace", 1}};
  shape.by_stack["stack 1"] = {{"pace", 1}};
  return shape;
}

// What is measured in a fold may say nothing about what is predicted for it.
TEST(CrossValidation, ARowsOwnFoldDoesNotHelpToPredictIt) {
  std::vector<Case> once = small_validation();
  std::vector<Case> again = small_validation();
  for (Case& one : again) {
    if (one.fold == 2) one.run.iter_time_s *= 3;
  }
  cross_validate(once, small_shape(), {});
  cross_validate(again, small_shape(), {});
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_GT(once[i].predicted_s, 0);
    if (once[i].fold == 2) {
      EXPECT_EQ(once[i].predicted_s, again[i].predicted_s);
    } else {
      EXPECT_NE(once[i].predicted_s, again[i].predicted_s);
    }
  }
}

TEST(CrossValidation, AnUnseenStackIsPredictedWithoutItsRows) {
  std::vector<Case> once = small_validation();
  std::vector<Case> again = small_validation();
  for (Case& one : again) {
    if (one.made.job.stack.name == "stack 1") one.run.iter_time_s *= 3;
  }
  leave_stack_out(once, small_shape(), {});
  leave_stack_out(again, small_shape(), {});
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_GT(once[i].predicted_s, 0);
    if (once[i].made.job.stack.name == "stack 1") {
      EXPECT_EQ(once[i].predicted_s, again[i].predicted_s);
    }
  }
}

TEST(CrossValidation, TellsHowFarItIs) {
  std::vector<Case> cases = small_validation();
  std::vector<int> done;
  cross_validate(cases, small_shape(), {.iterations = 1}, [&](int now, int total) {
    done.push_back(now);
    EXPECT_EQ(total, kFolds);
  });
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3, 4, 5}));
}

// The gate: the suite fails when the error of what is shipped grows.
TEST(ShippedParameters, PredictDenseRunsOfGradesAAndB) {
  const Statistics s = statistics(errors(predicted_cases(), is_dense_and_documented));
  EXPECT_GT(s.count, 1250);
  EXPECT_LE(s.median, 0.045);
  EXPECT_LE(s.mean, 0.06);
  EXPECT_LE(s.p90, 0.13);
  EXPECT_NEAR(s.bias, 0, 0.02);
}

TEST(ShippedParameters, PredictTheReferenceRuns) {
  const std::vector<std::string> ids = reference_ids(catalog()).value();
  const std::set<std::string> reference(ids.begin(), ids.end());
  const Statistics s =
      statistics(errors(predicted_cases(), [&](const Case& one) { return reference.count(one.run.id) > 0; }));
  EXPECT_EQ(s.count, 40);
  EXPECT_LE(s.median, 0.04);
  EXPECT_LE(s.p90, 0.09);
}

TEST(ShippedParameters, PredictMixturesOfExperts) {
  const Statistics s =
      statistics(errors(predicted_cases(), [](const Case& one) { return one.documented() && one.mixture(); }));
  EXPECT_GT(s.count, 100);
  EXPECT_LE(s.median, 0.15);
}

// Rows that no fit of what is shipped has seen.
TEST(ShippedParameters, PredictTheHeldOutFoldAsWell) {
  const Statistics s = statistics(errors(
      predicted_cases(), [](const Case& one) { return is_dense_and_documented(one) && one.fold == kHeldOutFold; }));
  EXPECT_GT(s.count, 150);
  EXPECT_LE(s.median, 0.055);
  EXPECT_LE(s.p90, 0.15);
}

TEST(ShippedParameters, AreAHundredAtMost) { EXPECT_LE(spec::count(catalog().parameters().value()), 100); }

void expect_within_bounds(const spec::FieldValues& values, const std::string& scope) {
  for (const auto& [name, value] : values) {
    const spec::PhysicsField* field = spec::find_physics_field(name);
    ASSERT_NE(field, nullptr) << scope << ": " << name;
    EXPECT_GE(value, field->low) << scope << ": " << name;
    EXPECT_LE(value, field->high) << scope << ": " << name;
  }
}

TEST(ShippedParameters, AreWithinTheirBounds) {
  const spec::Parameters parameters = catalog().parameters().value();
  expect_within_bounds(parameters.shared, "shared");
  for (const auto& scopes : {parameters.by_device, parameters.by_trait, parameters.by_stack}) {
    for (const auto& [name, values] : scopes) expect_within_bounds(values, name);
  }
}

TEST(ShippedParameters, BelongToDevicesTraitsAndStacksThatExist) {
  const spec::Parameters parameters = catalog().parameters().value();
  std::set<std::string> families;
  for (const std::string& name : catalog().names(spec::Shelf::devices)) {
    families.insert(catalog().device(name).value().family);
  }
  std::set<std::string> stacks;
  std::set<std::string> traits;
  for (const std::string& name : catalog().names(spec::Shelf::stacks)) {
    const spec::Stack stack = catalog().stack(name, "a100").value();
    stacks.insert(name);
    traits.insert(stack.traits.begin(), stack.traits.end());
  }
  for (const auto& [name, values] : parameters.by_device) EXPECT_TRUE(families.count(name)) << name;
  for (const auto& [name, values] : parameters.by_trait) EXPECT_TRUE(traits.count(name)) << name;
  for (const auto& [name, values] : parameters.by_stack) EXPECT_TRUE(stacks.count(name)) << name;
}

}  // namespace
}  // namespace twinpod::validate
