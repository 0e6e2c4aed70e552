#include "plan/range.hpp"

#include <gtest/gtest.h>

namespace twinpod::plan {
namespace {

constexpr std::string_view kText = R"(
- {device: a100, stack: megatron-2021, kind: pipeline, count: 12, max_devices: 3072, p10: 0.95, p90: 1.06}
- {device: a100, stack: megatron-2021, kind: tensor, count: 2, max_devices: 64, p10: 0.99, p90: 1.01}
- {stack: megatron-2021, count: 14, max_devices: 3072, p10: 0.94, p90: 1.07}
- {device: a100, count: 600, max_devices: 4096, p10: 0.92, p90: 1.09}
- {count: 1300, max_devices: 12288, p10: 0.9, p90: 1.1}
)";

Accuracy small_accuracy() { return *read_accuracy_text(kText, "accuracy.yaml"); }

spec::Job pipeline_job() {
  spec::Job job;
  job.cluster.device.family = "a100";
  job.cluster.devices = 64;
  job.stack.name = "megatron-2021";
  job.layout.pp = 8;
  return job;
}

TEST(Range, ComesFromRunsOfTheSameDeviceStackAndKind) {
  const Range range = range_of(small_accuracy(), pipeline_job());
  EXPECT_DOUBLE_EQ(range.low, 0.95);
  EXPECT_DOUBLE_EQ(range.high, 1.06);
  EXPECT_TRUE(range.validated());
  EXPECT_EQ(range.basis, "12 runs of megatron-2021 on a100, pipeline");
}

TEST(Range, FewRunsFallBackToTheWiderOfStackAndDeviceAndSaySo) {
  spec::Job job = pipeline_job();
  job.layout.pp = 1;
  job.layout.tp = 8;
  const Range range = range_of(small_accuracy(), job);
  EXPECT_DOUBLE_EQ(range.low, 0.92);
  EXPECT_EQ(range.outside, "2 runs of megatron-2021 on a100, tensor, and at least 5 are needed");
  EXPECT_EQ(range.basis, "600 runs on a100");
}

TEST(Range, AnUnknownStackFallsBackToTheDevice) {
  spec::Job job = pipeline_job();
  job.stack.name = "home-made";
  const Range range = range_of(small_accuracy(), job);
  EXPECT_EQ(range.basis, "600 runs on a100");
  EXPECT_DOUBLE_EQ(range.low, 0.92);
  EXPECT_DOUBLE_EQ(range.high, 1.09);
}

TEST(Range, AnUnknownStackAndDeviceFallBackToAllRuns) {
  spec::Job job = pipeline_job();
  job.stack.name = "home-made";
  job.cluster.device.family = "abacus";
  const Range range = range_of(small_accuracy(), job);
  EXPECT_EQ(range.basis, "1300 runs");
  EXPECT_EQ(range.outside, "0 runs of home-made on abacus, pipeline, and at least 5 are needed");
}

TEST(Range, FarLargerClustersLieOutside) {
  spec::Job job = pipeline_job();
  job.cluster.devices = 100000;
  EXPECT_EQ(range_of(small_accuracy(), job).outside,
            "100,000 devices, and the largest of 12 runs of megatron-2021 on a100, pipeline had 3,072");
}

TEST(Range, WithoutAnyRowsItIsEmptyAndSaysSo) {
  const Range range = range_of({}, pipeline_job());
  EXPECT_EQ(range.count, 0);
  EXPECT_FALSE(range.validated());
}

TEST(Range, ThatBeginsAtThePredictionSaysWhy) {
  const Accuracy accuracy = {{.device = "a100",
                              .stack = "megatron-2021",
                              .kind = "pipeline",
                              .count = 12,
                              .max_devices = 3072,
                              .p10 = 1.03,
                              .p90 = 1.15}};
  EXPECT_EQ(range_of(accuracy, pipeline_job()).basis,
            "12 runs of megatron-2021 on a100, pipeline; nearly all took as long as predicted or longer");
}

TEST(Range, ThatEndsAtThePredictionSaysWhy) {
  const Accuracy accuracy = {{.device = "a100",
                              .stack = "megatron-2021",
                              .kind = "pipeline",
                              .count = 12,
                              .max_devices = 3072,
                              .p10 = 0.9,
                              .p90 = 0.98}};
  EXPECT_EQ(range_of(accuracy, pipeline_job()).basis,
            "12 runs of megatron-2021 on a100, pipeline; nearly all took as long as predicted or less");
}

TEST(Range, AlwaysHoldsThePredictionItself) {
  Accuracy accuracy = small_accuracy();
  accuracy[0].p10 = 1.02;
  accuracy[0].p90 = 1.06;
  EXPECT_DOUBLE_EQ(range_of(accuracy, pipeline_job()).low, 1);
}

TEST(LayoutKinds, AreToldApart) {
  spec::Job job;
  job.cluster.devices = 1;
  EXPECT_EQ(name_of(layout_kind(job)), "single-device");
  job.cluster.devices = 8;
  EXPECT_EQ(name_of(layout_kind(job)), "data-only");
  job.layout.tp = 2;
  EXPECT_EQ(name_of(layout_kind(job)), "tensor");
  job.layout.pp = 2;
  EXPECT_EQ(name_of(layout_kind(job)), "pipeline");
  job.layout.zero = 3;
  EXPECT_EQ(name_of(layout_kind(job)), "sharded");
  job.model.experts.count = 8;
  EXPECT_EQ(name_of(layout_kind(job)), "experts");
}

TEST(Accuracy, IsReadBackAsItWasWritten) {
  const Accuracy accuracy = small_accuracy();
  const Result<Accuracy> again = read_accuracy_text(write_accuracy(accuracy), "copy.yaml");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(write_accuracy(*again), write_accuracy(accuracy));
}

TEST(Accuracy, UnknownKeysAreRefusedWithTheirPlace) {
  const Result<Accuracy> result = read_accuracy_text("- {count: 1, p10: 1, p90: 1, p50: 1}\n", "accuracy.yaml");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().line, 1);
  EXPECT_EQ(result.error().file, "accuracy.yaml");
}

}  // namespace
}  // namespace twinpod::plan
