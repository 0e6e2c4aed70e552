#include "plan/questions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>

#include "core/thousands.hpp"
#include "model/arithmetic.hpp"
#include "plan/fits.hpp"
#include "plan/questions_narrow.hpp"
#include "plan/test_job.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::plan {
namespace {

using spec::Job;
using spec::TestCatalog;

// 175 billion parameters.
Job large_job(int devices = 128) {
  Job job = gpt_job(devices);
  job.model.layers = 96;
  job.model.hidden = 12288;
  job.model.ffn = 49152;
  job.model.attention = {.heads = 96, .kv_heads = 96, .head_dim = 128};
  job.training.global_batch = 768;
  return job;
}

Job long_run(int devices = 64) {
  Job job = gpt_job(devices);
  job.training.tokens = 300e9;
  return job;
}

// Every figure that a change could move, by name.
std::map<std::string, double> figures_of(const Job& job) {
  const spec::Cluster& c = job.cluster;
  std::map<std::string, double> figures = {{"memory", c.device.memory_bytes},
                                           {"memory_bandwidth", c.device.memory_bytes_per_s},
                                           {"host", c.device.host_bytes_per_s},
                                           {"device_price", c.device.usd_per_hour},
                                           {"price", c.usd_per_device_hour},
                                           {"scale_up", c.scale_up_bytes_per_s},
                                           {"scale_out", c.scale_out_bytes_per_s},
                                           {"scale_out_latency", c.scale_out_latency_s},
                                           {"devices", c.devices},
                                           {"power", c.device.power_w},
                                           {"batch", job.training.global_batch}};
  for (std::size_t i = 0; i < c.device.peak_flop_per_s.size(); ++i)
    figures["peak" + std::to_string(i)] = c.device.peak_flop_per_s[i];
  for (const spec::PhysicsField& field : spec::physics_fields())
    figures[std::string(field.name)] = job.stack.physics.*field.member;
  return figures;
}

// Names of the figures that a change moves, in the order of the alphabet.
std::vector<std::string> moved_by(const Change& change) {
  Job job = gpt_job();
  job.cluster.usd_per_device_hour = 2;
  job.cluster.device.usd_per_hour = 3;
  const TestCatalog files;
  const Result<Job> changed = apply(job, change, files.catalog());
  std::vector<std::string> moved;
  if (!changed) return moved;
  const std::map<std::string, double> before = figures_of(job);
  for (const auto& [name, value] : figures_of(*changed)) {
    if (value != before.at(name)) moved.push_back(name);
  }
  return moved;
}

using Names = std::vector<std::string>;

// ---- best_of ----

TEST(Questions, BestIsTheFirstOfTheSearch) {
  const Job job = gpt_job();
  const std::optional<Answer> best = best_of(job, {});
  const SearchResult found = search(space_of(job, {}, job.stack.abilities), {});
  ASSERT_TRUE(best);
  EXPECT_DOUBLE_EQ(best->metrics.step_time_s, found.ranked.front().step_time_s);
}

TEST(Questions, BestOfEachIsTheBestOfEachAlone) {
  const Job job = gpt_job();
  for (const Answer& together : best_of_each(job, {16, 32, 64}, {})) {
    Terms alone;
    alone.wishes.devices = {together.job.cluster.devices};
    EXPECT_DOUBLE_EQ(together.metrics.step_time_s, best_of(job, alone)->metrics.step_time_s);
  }
}

TEST(Questions, TermsKeepToTheirWishes) {
  Terms terms;
  terms.wishes.tp = {4};
  EXPECT_EQ(best_of(gpt_job(), terms)->job.layout.tp, 4);
}

TEST(Questions, AnythingFitsExactlyWhenThereIsABest) {
  for (const int devices : {8, 16, 24, 40, 48, 64, 128}) {
    EXPECT_EQ(anything_fits(large_job(devices), {}), best_of(large_job(devices), {}).has_value()) << devices;
  }
}

TEST(Questions, CostOfAStepIsPriceTimesDeviceHours) {
  Job job = gpt_job();
  job.cluster.usd_per_device_hour = 3600;
  const std::optional<Answer> best = best_of(job, {});
  EXPECT_DOUBLE_EQ(*usd_per_step(*best), 64 * best->metrics.step_time_s);
}

TEST(Questions, CostIsNotKnownWithoutAPrice) { EXPECT_FALSE(usd_per_million_tokens(*best_of(gpt_job(), {}))); }

TEST(Questions, EqualLayoutsHaveNoChanges) { EXPECT_TRUE(layout_changes({}, {}).empty()); }

TEST(Questions, ChangesOfALayoutNameBothValues) {
  spec::Layout to;
  to.tp = 8;
  to.recompute = spec::Recompute::full;
  EXPECT_EQ(layout_changes({}, to), (Names{"tp 1 → 8", "recompute none → full"}));
}

// ---- apply ----

TEST(Apply, FlopsMovesPeaksOnly) { EXPECT_EQ(moved_by({"flops", 2, ""}), (Names{"peak0", "peak1", "peak2", "peak3"})); }
TEST(Apply, MemoryMovesMemoryOnly) { EXPECT_EQ(moved_by({"memory", 2, ""}), Names{"memory"}); }
TEST(Apply, BandwidthMovesBandwidthOnly) {
  EXPECT_EQ(moved_by({"memory_bandwidth", 2, ""}), Names{"memory_bandwidth"});
}
TEST(Apply, NetworkMovesBothNetworks) { EXPECT_EQ(moved_by({"network", 2, ""}), (Names{"scale_out", "scale_up"})); }
TEST(Apply, ScaleUpMovesScaleUpOnly) { EXPECT_EQ(moved_by({"scale_up", 2, ""}), Names{"scale_up"}); }
TEST(Apply, ScaleOutMovesScaleOutOnly) { EXPECT_EQ(moved_by({"scale_out", 2, ""}), Names{"scale_out"}); }
TEST(Apply, HostMovesTheHostLinkOnly) { EXPECT_EQ(moved_by({"host", 2, ""}), Names{"host"}); }
TEST(Apply, PriceMovesPricesOnly) { EXPECT_EQ(moved_by({"price", 2, ""}), (Names{"device_price", "price"})); }

TEST(Apply, LatencyMovesLatenciesOfBothNetworks) {
  EXPECT_EQ(moved_by({"latency", 0.5, ""}), (Names{"collective_latency_s", "collective_step_s", "scale_out_latency"}));
}

TEST(Apply, MultipliesByTheFactor) {
  const TestCatalog files;
  EXPECT_DOUBLE_EQ(apply(gpt_job(), {"memory", 1.5, ""}, files.catalog())->cluster.device.memory_bytes, 120e9);
}

TEST(Apply, DeviceBringsItsFigures) {
  const TestCatalog files;
  EXPECT_EQ(apply(gpt_job(), {"device", 1, "dev"}, files.catalog())->cluster.device.name, "Dev 80");
}

TEST(Apply, DeviceBringsTheNumbersOfItsFamily) {
  const TestCatalog files;
  EXPECT_DOUBLE_EQ(apply(gpt_job(), {"device", 1, "dev"}, files.catalog())->stack.physics.gemm_efficiency_bf16, 0.8);
}

TEST(Apply, DeviceKeepsNumbersThatTheJobHasSet) {
  const TestCatalog files;
  Job job = gpt_job();
  job.stack.physics.pace = 1.3;
  EXPECT_DOUBLE_EQ(apply(job, {"device", 1, "dev"}, files.catalog())->stack.physics.pace, 1.3);
}

TEST(Apply, DeviceLeavesTheNetworks) {
  const TestCatalog files;
  EXPECT_DOUBLE_EQ(apply(gpt_job(), {"device", 1, "dev"}, files.catalog())->cluster.scale_out_bytes_per_s, 25e9);
}

TEST(Apply, DeviceBringsItsPrice) {
  const TestCatalog files;
  Job job = gpt_job();
  job.cluster.usd_per_device_hour = 99;
  EXPECT_DOUBLE_EQ(usd_per_device_hour(apply(job, {"device", 1, "dev"}, files.catalog())->cluster), 2.5);
}

TEST(Apply, RefusesADeviceThatLacksThePrecision) {
  const TestCatalog files;
  const Result<Job> changed = apply(gpt_job(), {"device", 1, "old"}, files.catalog());
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().message, "what if: Old does not compute in bf16");
}

TEST(Apply, RefusesAnUnknownDevice) {
  const TestCatalog files;
  EXPECT_FALSE(apply(gpt_job(), {"device", 1, "devv"}, files.catalog()));
}

TEST(Apply, RefusesFailuresAsNotModelled) {
  const TestCatalog files;
  const Result<Job> changed = apply(gpt_job(), {"failures", 0, ""}, files.catalog());
  ASSERT_FALSE(changed);
  EXPECT_NE(changed.error().message.find("not modelled yet"), std::string::npos);
}

TEST(Apply, RefusesAnUnknownKeyWithTheNearest) {
  const TestCatalog files;
  const Result<Job> changed = apply(gpt_job(), {"netwrok", 2, ""}, files.catalog());
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().hint, "did you mean network?");
}

TEST(Apply, RefusesMemoryOfNothing) {
  const TestCatalog files;
  EXPECT_FALSE(apply(gpt_job(), {"memory", 0, ""}, files.catalog()));
}

// ---- what_if ----

void expect_nothing_slower(const Job& job) {
  const TestCatalog files;
  const Result<std::vector<World>> worlds = what_if(job, default_changes(), files.catalog(), {});
  ASSERT_TRUE(worlds);
  for (const World& world : *worlds) {
    ASSERT_TRUE(world.speed_up);
    EXPECT_GE(*world.speed_up, 1) << (world.changes.empty() ? "today" : world.changes.front().key);
  }
}

TEST(Worlds, NothingBetterMakesADenseModelSlower) { expect_nothing_slower(gpt_job()); }
TEST(Worlds, NothingBetterMakesALargeModelSlower) { expect_nothing_slower(large_job()); }
TEST(Worlds, NothingBetterMakesAMixtureSlower) { expect_nothing_slower(mixture_job()); }

TEST(Worlds, NoNetworkIsFasterThanAPerfectOne) {
  const TestCatalog files;
  const Result<std::vector<World>> fast = what_if(large_job(), {{"network", 1000, ""}}, files.catalog(), {});
  const Result<std::vector<World>> perfect = what_if(large_job(), {{"perfect_network", 1, ""}}, files.catalog(), {});
  EXPECT_GE(*perfect->back().speed_up, *fast->back().speed_up);
}

TEST(Worlds, SeveralChangesAreTriedTogetherLast) {
  const TestCatalog files;
  const Result<std::vector<World>> worlds =
      what_if(gpt_job(), {{"network", 2, ""}, {"flops", 2, ""}}, files.catalog(), {});
  ASSERT_EQ(worlds->size(), 4U);
  EXPECT_EQ(worlds->back().changes.size(), 2U);
}

TEST(Worlds, ChangesTogetherHoldForTheNewDevice) {
  const TestCatalog files;
  const Result<std::vector<World>> worlds =
      what_if(gpt_job(), {{"memory", 2, ""}, {"device", 1, "dev"}}, files.catalog(), {});
  EXPECT_DOUBLE_EQ(worlds->back().best->job.cluster.device.memory_bytes, 160e9);
}

TEST(Worlds, OneChangeIsNotTriedTwice) {
  const TestCatalog files;
  EXPECT_EQ(what_if(gpt_job(), {{"network", 2, ""}}, files.catalog(), {})->size(), 2U);
}

TEST(Worlds, PriceChangesNoLayout) {
  const TestCatalog files;
  EXPECT_TRUE(what_if(gpt_job(), {{"price", 2, ""}}, files.catalog(), {})->back().layout_changes.empty());
}

TEST(Worlds, SaysThatTodayDoesNotFitWhereMoreMemoryDoes) {
  const TestCatalog files;
  const Result<std::vector<World>> worlds = what_if(large_job(8), {{"memory", 100, ""}}, files.catalog(), {});
  EXPECT_FALSE(worlds->front().best);
  EXPECT_TRUE(worlds->back().best);
  EXPECT_FALSE(worlds->back().speed_up);
}

TEST(Worlds, TextsAreForPeople) {
  EXPECT_EQ(change_text({"memory_bandwidth", 1.5, ""}), "memory bandwidth ×1.5");
  EXPECT_EQ(change_text({"device", 1, "h100-sxm"}), "device h100-sxm");
}

// ---- narrowed ----

std::vector<Answer> answers_on(const std::vector<int>& counts) {
  std::vector<Answer> answers;
  for (const int count : counts) {
    answers.emplace_back();
    answers.back().job.cluster.devices = count;
  }
  std::sort(answers.begin(), answers.end(),
            [](const Answer& a, const Answer& b) { return a.job.cluster.devices < b.job.cluster.devices; });
  return answers;
}

TEST(Narrowed, FindsEveryBoundaryGoingUp) {
  for (int last = 8; last < 8000; last += 248) {
    const auto holds = [&](const Answer& answer) { return answer.job.cluster.devices <= last; };
    const std::vector<Answer> found = narrowed(8, 8000, 8, answers_on, holds);
    EXPECT_EQ(found.empty() ? 8 : found.back().job.cluster.devices, last);
  }
}

TEST(Narrowed, FindsEveryBoundaryGoingDown) {
  for (int first = 8000; first > 8; first -= 248) {
    const auto holds = [&](const Answer& answer) { return answer.job.cluster.devices >= first; };
    const std::vector<Answer> found = narrowed(8000, 8, 8, answers_on, holds);
    EXPECT_EQ(found.empty() ? 8000 : found.back().job.cluster.devices, first);
  }
}

TEST(Narrowed, LooksBeyondAGap) {
  const auto holds = [](const Answer& answer) {
    return answer.job.cluster.devices < 80 || answer.job.cluster.devices == 160;
  };
  EXPECT_EQ(narrowed(8, 200, 8, answers_on, holds).back().job.cluster.devices, 160);
}

TEST(Narrowed, HasNothingBetweenNeighbours) {
  EXPECT_TRUE(narrowed(8, 16, 8, answers_on, [](const Answer&) { return true; }).empty());
}

// ---- scale_curve ----

TEST(ScaleCurve, MoreDevicesNeverRaiseTheTime) {
  const ScaleCurve curve = scale_curve(large_job(), {64, 128, 256, 512, 768}, {}, {});
  for (std::size_t i = 1; i < curve.points.size(); ++i) {
    EXPECT_LT(curve.points[i].best->metrics.step_time_s, curve.points[i - 1].best->metrics.step_time_s);
  }
}

TEST(ScaleCurve, TheSmallestIsItsOwnMeasure) {
  EXPECT_DOUBLE_EQ(scale_curve(gpt_job(), {64, 8, 16}, {}, {}).points.front().of_smallest, 1);
}

TEST(ScaleCurve, ComparesAllPointsWithOneDevice) {
  const ScaleCurve curve = scale_curve(gpt_job(), {8, 64, 256}, {}, {});
  for (const ScalePoint& point : curve.points) {
    const double alone = point.devices * curve.one_device_tokens_per_s;
    EXPECT_DOUBLE_EQ(point.scale_factor, point.best->metrics.tokens_per_s / alone);
  }
}

TEST(ScaleCurve, NoScaleFactorIsAboveThatOfItsOwnLayout) {
  for (const ScalePoint& point : scale_curve(gpt_job(), {8, 64, 256}, {}, {}).points)
    EXPECT_LE(point.scale_factor, point.best->metrics.scale_factor * (1 + 1e-12));
}

TEST(ScaleCurve, TheLastAboveTheThresholdHoldsIt) {
  const ScaleCurve curve = scale_curve(gpt_job(), {8, 512}, {.threshold = 0.7}, {});
  ASSERT_TRUE(curve.last_above);
  EXPECT_GE(curve.last_above->scale_factor, 0.7);
}

TEST(ScaleCurve, OneNodeMoreIsUnderTheThreshold) {
  const Job job = gpt_job();
  const ScaleCurve curve = scale_curve(job, {8, 512}, {.threshold = 0.7}, {});
  ASSERT_TRUE(curve.falls_under);
  const int next = curve.last_above->devices + job.cluster.devices_per_node;
  for (const Answer& answer : best_of_each(job, {next}, {}))
    EXPECT_LT(answer.metrics.tokens_per_s / (next * curve.one_device_tokens_per_s), 0.7);
}

TEST(ScaleCurve, SaysWhenTheListEndsBeforeTheThreshold) {
  const ScaleCurve curve = scale_curve(gpt_job(), {8, 16}, {.threshold = 0.01}, {});
  EXPECT_FALSE(curve.falls_under);
  EXPECT_EQ(curve.last_above->devices, 16);
}

TEST(ScaleCurve, SaysWhenNoPointHoldsTheThreshold) {
  EXPECT_FALSE(scale_curve(gpt_job(), {8, 16}, {.threshold = 2}, {}).last_above);
}

TEST(ScaleCurve, BatchStaysUnlessItIsToGrow) {
  for (const ScalePoint& point : scale_curve(gpt_job(), {8, 64}, {}, {}).points)
    EXPECT_DOUBLE_EQ(point.global_batch, 512);
}

TEST(ScaleCurve, BatchGrowsWithTheDevices) {
  const ScaleCurve curve = scale_curve(gpt_job(), {8, 64}, {.batch_grows = true}, {});
  EXPECT_DOUBLE_EQ(curve.points.front().global_batch, 512);
  EXPECT_NEAR(curve.points.back().global_batch, 4096, 205);
}

TEST(ScaleCurve, KeepsCountsOnWhichNothingFits) {
  const ScaleCurve curve = scale_curve(large_job(), {8, 128}, {}, {});
  EXPECT_FALSE(curve.points.front().best);
  EXPECT_TRUE(curve.points.back().best);
}

TEST(ScaleCurve, OfNoCountsIsEmpty) { EXPECT_TRUE(scale_curve(gpt_job(), {}, {}, {}).points.empty()); }

// ---- within_deadline ----

double time_on(const Job& job, int devices) {
  return *best_of_each(job, {devices}, {}).front().metrics.time_to_train_s;
}

// A deadline that lies between what 16 and 512 devices need.
double fair_deadline_s(const Job& job) { return 1.01 * time_on(job, 64); }

TEST(WithinDeadline, TheFewestMeetIt) {
  const Job job = long_run();
  const Result<DeadlineAnswer> answer = within_deadline(job, fair_deadline_s(job), {16, 512}, {});
  EXPECT_LE(time_on(job, answer->fewest->job.cluster.devices), fair_deadline_s(job));
}

TEST(WithinDeadline, OneNodeLessDoesNotMeetIt) {
  const Job job = long_run();
  const Result<DeadlineAnswer> answer = within_deadline(job, fair_deadline_s(job), {16, 512}, {});
  const int fewer = answer->fewest->job.cluster.devices - job.cluster.devices_per_node;
  for (const Answer& one : best_of_each(job, {fewer}, {}))
    EXPECT_GT(*one.metrics.time_to_train_s, fair_deadline_s(job));
}

TEST(WithinDeadline, TheCheapestCostsNoMoreThanAnyThatMeetsIt) {
  const Job job = long_run();
  const Result<DeadlineAnswer> answer = within_deadline(job, fair_deadline_s(job), {16, 64, 128, 512}, {});
  for (const Answer& one : answer->tried) {
    if (*one.metrics.time_to_train_s > answer->deadline_s) continue;
    EXPECT_LE(*answer->cheapest->metrics.device_hours, *one.metrics.device_hours);
  }
}

TEST(WithinDeadline, SaysHowNearTheBestComes) {
  const Job job = long_run();
  const Result<DeadlineAnswer> answer = within_deadline(job, fair_deadline_s(job), {8, 16}, {});
  EXPECT_FALSE(answer->fewest);
  EXPECT_EQ(answer->nearest->job.cluster.devices, 16);
}

TEST(WithinDeadline, SaysWhatWouldDo) {
  const Job job = long_run();
  const Result<DeadlineAnswer> answer = within_deadline(job, fair_deadline_s(job), {8, 16}, {});
  EXPECT_EQ(answer->beyond->job.cluster.devices, 64);
}

TEST(WithinDeadline, RefusesARunOfNoLength) {
  const Result<DeadlineAnswer> answer = within_deadline(gpt_job(), 1e6, {8, 16}, {});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::input);
}

TEST(WithinDeadline, IsInfeasibleWhereNothingFits) {
  Job job = large_job();
  job.training.tokens = 300e9;
  const Result<DeadlineAnswer> answer = within_deadline(job, 1e6, {8, 16}, {});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::infeasible);
}

// ---- largest_sequence ----

Job with_sequence(Job job, int sequence) {
  const double tokens = job.training.global_batch * job.training.sequence;
  job.training.sequence = sequence;
  job.training.global_batch = planned_batch(tokens, sequence, {job.cluster.devices});
  return job;
}

TEST(LargestSequence, Fits) {
  const Result<LargestSequence> answer = largest_sequence(gpt_job(8), {});
  EXPECT_FALSE(shortage(answer->best.job));
}

TEST(LargestSequence, IsAMultipleOf1024) { EXPECT_EQ(largest_sequence(gpt_job(8), {})->sequence % 1024, 0); }

TEST(LargestSequence, TheNextDoesNotFit) {
  const Job job = gpt_job(8);
  const Result<LargestSequence> answer = largest_sequence(job, {});
  ASSERT_TRUE(answer->too_long);
  EXPECT_FALSE(best_of(with_sequence(job, *answer->too_long), {}));
}

TEST(LargestSequence, IsNoShorterWithMoreMemory) {
  Job roomy = gpt_job(8);
  roomy.cluster.device.memory_bytes *= 2;
  EXPECT_GE(largest_sequence(roomy, {})->sequence, largest_sequence(gpt_job(8), {})->sequence);
}

TEST(LargestSequence, HasAboutAsManyTokensAStep) {
  const Result<LargestSequence> answer = largest_sequence(gpt_job(8), {});
  const double tokens = answer->best.metrics.tokens_per_step;
  EXPECT_NEAR(tokens, 512 * 2048, std::max<double>(answer->sequence, 0.06 * 512 * 2048));
}

TEST(LargestSequence, SaysWhyWhenNoneFits) { EXPECT_FALSE(largest_sequence(large_job(8), {})); }

// ---- largest_batch ----

TEST(LargestBatch, AtOnceFits) { EXPECT_FALSE(shortage(largest_batch(gpt_job(8), {})->at_once.job)); }

TEST(LargestBatch, OneSequenceMoreForEachRankDoesNotFit) {
  Job job = gpt_job(8);
  const spec::Layout layout = largest_batch(job, {})->at_once.job.layout;
  Terms terms;
  terms.wishes.dp = {layout.dp};
  terms.wishes.micro_batch = {layout.micro_batch + 1};
  job.training.global_batch = layout.dp * (layout.micro_batch + 1.0);
  EXPECT_FALSE(best_of(job, terms));
}

TEST(LargestBatch, KeepsToAWishForTheMicroBatch) {
  Terms terms;
  terms.wishes.micro_batch = {1, 2};
  EXPECT_EQ(largest_batch(gpt_job(8), terms)->at_once.job.layout.micro_batch, 2);
}

TEST(LargestBatch, DoublingBeyondEnoughBringsLittle) {
  const Result<LargestBatch> answer = largest_batch(gpt_job(), {});
  ASSERT_TRUE(answer->enough);
  const double before = answer->curve[*answer->enough].metrics.tokens_per_s;
  EXPECT_LE(answer->curve[*answer->enough + 1].metrics.tokens_per_s, 1.02 * before);
}

TEST(LargestBatch, DoublingBeforeEnoughBringsMore) {
  const Result<LargestBatch> answer = largest_batch(gpt_job(), {});
  for (std::size_t i = 1; i <= *answer->enough; ++i)
    EXPECT_GT(answer->curve[i].metrics.tokens_per_s, 1.02 * answer->curve[i - 1].metrics.tokens_per_s);
}

// ---- largest_model ----

TEST(ScaledModel, IsTheSameWithItsOwnHeads) {
  EXPECT_DOUBLE_EQ(model::parameters(scaled_model(gpt_model(), 16)).total, model::parameters(gpt_model()).total);
}

TEST(ScaledModel, KeepsItsProportions) {
  const spec::Model twice = scaled_model(gpt_model(), 32);
  EXPECT_EQ(twice.layers, 48);
  EXPECT_EQ(twice.hidden, 4096);
  EXPECT_EQ(twice.ffn, 16384);
  EXPECT_EQ(twice.attention.kv_heads, 32);
}

TEST(ScaledModel, KeepsGroupsOfKeyValueHeads) {
  spec::Model grouped = gpt_model();
  grouped.attention.kv_heads = 8;
  EXPECT_EQ(scaled_model(grouped, 32).attention.kv_heads, 8);
}

TEST(LargestModel, Fits) { EXPECT_FALSE(shortage(largest_model(gpt_job(8), {})->best.job)); }

TEST(LargestModel, TheNextDoesNotFit) {
  Job job = gpt_job(8);
  const Result<LargestModel> answer = largest_model(job, {});
  job.model = scaled_model(job.model, answer->best.job.model.attention.heads + 8);
  EXPECT_DOUBLE_EQ(*answer->too_large, model::parameters(job.model).total);
  EXPECT_FALSE(best_of(job, {}));
}

TEST(LargestModel, IsLargerOnMoreDevices) {
  EXPECT_GT(largest_model(gpt_job(64), {})->parameters, largest_model(gpt_job(8), {})->parameters);
}

// ---- side_by_side ----

TEST(SideBySide, KeepsTheOrderAndSaysWhyNot) {
  const std::vector<Contender> contenders = side_by_side({large_job(8), large_job(128)}, {});
  EXPECT_NE(contenders.front().why_not.find("nothing fits"), std::string::npos);
  EXPECT_TRUE(contenders.back().best);
}

// ---- why_nothing_fits ----

int fewest_of(const std::string& hint) {
  std::smatch match;
  if (!std::regex_search(hint, match, std::regex("fewest devices that do: ([0-9,]+)"))) return 0;
  std::string digits = match[1];
  std::erase(digits, ',');
  return std::stoi(digits);
}

TEST(WhyNothingFits, IsSilentWhenSomethingFits) { EXPECT_TRUE(why_nothing_fits(gpt_job(), {})); }

TEST(WhyNothingFits, IsInfeasible) {
  EXPECT_EQ(why_nothing_fits(large_job(8), {}).error().kind, ErrorKind::infeasible);
}

TEST(WhyNothingFits, TheDevicesThatItNamesDo) {
  const std::string hint = why_nothing_fits(large_job(8), {}).error().hint;
  EXPECT_EQ(best_of_each(large_job(8), {fewest_of(hint)}, {}).size(), 1U) << hint;
}

TEST(WhyNothingFits, OneNodeLessDoesNot) {
  const int fewest = fewest_of(why_nothing_fits(large_job(8), {}).error().hint);
  EXPECT_TRUE(best_of_each(large_job(8), {fewest - 8}, {}).empty());
}

// 40 devices are 5 nodes, and 5 divides nothing of this job: twice as many of them would not either.
TEST(WhyNothingFits, NamesMoreDevicesForANumberThatDividesBadly) {
  Job job = large_job(40);
  job.stack.abilities.uneven_stages = false;
  job.stack.abilities.zero = {0};
  const Result<void> fits = why_nothing_fits(job, {});
  ASSERT_FALSE(fits);
  EXPECT_NE(fewest_of(fits.error().hint) % 5, 0) << fits.error().hint;  // 0: it names none, too
}

TEST(WhyNothingFits, SaysHowMuchTheLeanestNeeds) {
  const Job job = large_job(8);
  const SearchResult all = search(space_of(job, {}, job.stack.abilities), {});
  const std::string message = why_nothing_fits(job, {}).error().message;
  EXPECT_NE(message.find(with_thousands(static_cast<double>(all.evaluated)) + " layouts tried"), std::string::npos)
      << message;
  EXPECT_NE(message.find("too much"), std::string::npos) << message;
}

TEST(WhyNothingFits, NamesTheSettingThatAWishRulesOut) {
  Job job = large_job(64);
  Terms terms;
  terms.wishes.recompute = {spec::Recompute::none};
  terms.wishes.zero = {0};
  job.cluster.device.memory_bytes = 60e9;
  job.training.sequence = 16384;
  job.training.global_batch = 96;
  terms.wishes.cp = {1};
  ASSERT_FALSE(best_of(job, terms));
  const std::string hint = why_nothing_fits(job, terms).error().hint;
  EXPECT_EQ(hint.find("with recompute"), 0U) << hint;
}

TEST(WhyNothingFits, NamesTheSettingThatTheStackRulesOut) {
  Job job = large_job(16);
  job.stack.name = "plain";
  job.stack.abilities.zero = {0};
  const std::string hint = why_nothing_fits(job, {}).error().hint;
  EXPECT_NE(hint.find("beyond what stack plain does"), std::string::npos) << hint;
}

TEST(WhyNothingFits, NamesAWishThatIsInTheWay) {
  Terms terms;
  terms.wishes.tp = {1};
  terms.wishes.pp = {1};
  terms.wishes.zero = {0};
  terms.abilities = spec::Abilities{};
  terms.abilities->zero = {0};
  const std::string hint = why_nothing_fits(large_job(), terms).error().hint;
  EXPECT_NE(hint.find("without what was asked of the layout"), std::string::npos) << hint;
}

TEST(WhyNothingFits, SaysWhenNothingDivides) {
  Job job = gpt_job(104);
  job.training.global_batch = 7;
  Terms terms;
  terms.wishes.pp = {1};
  terms.wishes.cp = {1};
  const Result<void> fits = why_nothing_fits(job, terms);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().message.find("no layout divides 104"), 0U) << fits.error().message;
}

TEST(WhyNothingFits, ADeadlineIsAnotherMatter) {
  Terms terms;
  terms.options.within_step_s = 1e-6;
  EXPECT_TRUE(why_nothing_fits(gpt_job(), terms));
}

TEST(WhyNothingFits, SpeaksOfTheMostDevicesAsked) {
  Terms terms;
  terms.wishes.devices = {8, 16};
  EXPECT_EQ(why_nothing_fits(large_job(128), terms).error().message.find("nothing fits on 16 "), 0U);
}

}  // namespace
}  // namespace twinpod::plan
