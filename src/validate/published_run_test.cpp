#include "validate/published_run.hpp"

#include <gtest/gtest.h>

#include <set>

#include "spec/test_catalog.hpp"

namespace twinpod::validate {
namespace {

constexpr const char* kGood =
    "- {id: a, kind: llm_training, model: M, layers: 24, hidden: 2048, tp: 8, iter_time_s: 1.5, sp: true, zero_stage: "
    "1}\n";

// The rows of a file with this text.
Result<std::vector<PublishedRun>> runs_in(const std::string& text) {
  const spec::TestCatalog files;
  return read_runs(files.write("runs/mine.yaml", text));
}

Error refusal_of(const std::string& text) {
  const Result<std::vector<PublishedRun>> runs = runs_in(text);
  return runs ? Error{} : runs.error();
}

TEST(PublishedRuns, ARowIsReadAsItIsPrinted) {
  const PublishedRun run = runs_in(kGood).value().at(0);
  EXPECT_EQ(run.id, "a");
  EXPECT_EQ(run.kind, "llm_training");
  EXPECT_EQ(run.layers, 24);
  EXPECT_EQ(run.tp, 8);
  EXPECT_EQ(run.sp, 1);
  EXPECT_EQ(run.zero_stage, 1);
  EXPECT_EQ(run.line, 1);
}

TEST(PublishedRuns, WhatIsNotStatedIsNotGuessed) {
  const PublishedRun run = runs_in("- {id: a, mbs: null, framework: null}\n").value().at(0);
  EXPECT_EQ(run.mbs, 0);
  EXPECT_EQ(run.framework, "");
  EXPECT_EQ(run.sp, -1);
  EXPECT_EQ(run.zero_stage, -1);
  EXPECT_EQ(run.gated_mlp, -1);
  EXPECT_EQ(run.measured_s(), 0);
}

TEST(PublishedRuns, AMeasuredStepCountsMoreThanADerivedOne) {
  EXPECT_EQ(runs_in("- {id: a, iter_time_s: 2, iter_time_s_derived: 3}\n").value().at(0).measured_s(), 2);
  EXPECT_EQ(runs_in("- {id: a, iter_time_s_derived: 3}\n").value().at(0).measured_s(), 3);
}

TEST(PublishedRuns, NotesAreARemarkWhereThereIsNone) {
  EXPECT_EQ(runs_in("- {id: a, notes: eager}\n").value().at(0).remark, "eager");
  EXPECT_EQ(runs_in("- {id: a, notes: eager, remark: compiled}\n").value().at(0).remark, "compiled");
}

TEST(PublishedRuns, KeysOfOtherReadersAreLeftAlone) {
  EXPECT_TRUE(runs_in("- {id: a, evidence: seen, tokens_per_s_per_device: 12, remark: it is so}\n"));
}

TEST(PublishedRuns, ANumberThatIsNoneIsRefusedWhereItStands) {
  const Error error = refusal_of(std::string(kGood) + "- {id: b, layers: many}\n");
  EXPECT_EQ(error.message, "layers: found 'many', expected a number that is not negative");
  EXPECT_EQ(error.line, 2);
  EXPECT_EQ(error.column, 19);
  EXPECT_EQ(error.file.substr(error.file.size() - 14), "runs/mine.yaml");
}

TEST(PublishedRuns, ANegativeNumberIsRefused) {
  EXPECT_EQ(refusal_of("- {id: b, tp: -8}\n").line, 1);
  EXPECT_EQ(refusal_of("- id: b\n  tp: 8\n  iter_time_s: -1\n").line, 3);
}

TEST(PublishedRuns, ANumberThatIsNotFiniteIsRefused) {
  for (const char* value : {"nan", "inf", ".inf", "1e999"}) {
    EXPECT_EQ(refusal_of(std::string("- {id: b, hidden: ") + value + "}\n").line, 1) << value;
  }
}

TEST(PublishedRuns, AListWhereANumberBelongsIsRefused) { EXPECT_EQ(refusal_of("- {id: b, tp: [1, 2]}\n").line, 1); }

TEST(PublishedRuns, AZeroStageBeyondThreeIsRefused) {
  const Error error = refusal_of(std::string(kGood) + kGood + "- {id: b, zero_stage: 4}\n");
  EXPECT_EQ(error.message, "zero_stage: found '4', expected 0 to 3");
  EXPECT_EQ(error.line, 3);
}

TEST(PublishedRuns, ASwitchIsTrueOrFalse) {
  const Error error = refusal_of("- {id: b, sp: perhaps}\n");
  EXPECT_EQ(error.message, "sp: found 'perhaps', expected true or false");
  EXPECT_EQ(refusal_of("- {id: b, gated_mlp: 2}\n").line, 1);
}

TEST(PublishedRuns, ARunNeedsAnId) {
  const Error error = refusal_of(std::string(kGood) + "- {kind: llm_training, layers: 2}\n");
  EXPECT_EQ(error.message, "a run needs an id");
  EXPECT_EQ(error.line, 2);
}

TEST(PublishedRuns, ARowThatIsNoMappingIsRefused) {
  EXPECT_EQ(refusal_of(std::string(kGood) + "- just words\n").line, 2);
  EXPECT_EQ(refusal_of(std::string(kGood) + "- [1, 2]\n").line, 2);
}

TEST(PublishedRuns, AFileThatIsNoListIsRefused) {
  EXPECT_EQ(refusal_of("id: a\n").message, "expected a list of runs");
  EXPECT_FALSE(refusal_of("- {id: a\n").message.empty());
}

TEST(PublishedRuns, AFileThatDoesNotExistIsRefused) { EXPECT_FALSE(read_runs("no/such/file.yaml")); }

TEST(PublishedRuns, TheCatalogsRowsHaveIdsOfTheirOwn) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  const std::vector<PublishedRun> runs = read_catalog_runs(catalog).value();
  EXPECT_GT(runs.size(), 1700U);
  std::set<std::string> ids;
  for (const PublishedRun& run : runs) {
    EXPECT_TRUE(ids.insert(run.id).second) << run.id;
    EXPECT_FALSE(run.kind.empty()) << run.id;
    EXPECT_FALSE(run.source.empty()) << run.id;
    EXPECT_TRUE(run.grade == "A" || run.grade == "B" || run.grade == "C") << run.id;
  }
}

TEST(PublishedRuns, TheReferenceNamesFortyOfThem) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  const std::vector<std::string> reference = reference_ids(catalog).value();
  EXPECT_EQ(reference.size(), 40U);
  std::set<std::string> ids;
  const std::vector<PublishedRun> runs = read_catalog_runs(catalog).value();
  for (const PublishedRun& run : runs) ids.insert(run.id);
  for (const std::string& id : reference) EXPECT_TRUE(ids.count(id)) << id;
}

TEST(PublishedRun, CountsAreWholeNumbersOfPossibleSize) {
  for (const char* wrong : {"tp: 0.5", "layers: 2000000000", "tp: 1e12", "mbs: 0.5", "heads: 1e9"}) {
    const auto runs = runs_in(std::string("- {id: a, ") + wrong + "}\n");
    ASSERT_FALSE(runs.has_value()) << wrong;
    EXPECT_EQ(runs.error().line, 1) << wrong;
  }
}

}  // namespace
}  // namespace twinpod::validate
