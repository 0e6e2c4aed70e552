#include "ps/throughput.hpp"

#include <gtest/gtest.h>

namespace twinpod::ps {
namespace {

WorkerStep step(int worker, double begin_s, double end_s, double waited_s = 0) {
  return {.worker = worker, .begin_s = begin_s, .end_s = end_s, .waited_s = waited_s};
}

TEST(PsThroughput, CountsTheTimeInWhichAllWork) {
  ServedReport report;
  // Worker 1 begins at 1 and is through at 4; worker 0 does a step a second from 0 to 6.
  for (int i = 0; i < 6; ++i) report.steps.push_back(step(0, i, i + 1));
  report.steps.push_back(step(1, 1, 2.5));
  report.steps.push_back(step(1, 2.5, 4));
  report.tokens = 80;
  report.seconds = 6;
  EXPECT_DOUBLE_EQ(steady_tokens_per_second(report), 10 * (3 + 2) / 3.0);
  report.steps.push_back(step(1, 4, 4.5));  // half of worker 0's fifth step is inside
  report.tokens = 90;
  EXPECT_DOUBLE_EQ(steady_tokens_per_second(report), 10 * (3.5 + 3) / 3.5);
}

TEST(PsThroughput, WorkersThatNeverMetAreTakenTogether) {
  ServedReport report;
  report.steps = {step(0, 0, 1), step(1, 2, 3)};
  report.tokens = 30;
  report.seconds = 3;
  EXPECT_DOUBLE_EQ(steady_tokens_per_second(report), 10);
  EXPECT_EQ(steady_tokens_per_second({}), 0);
}

TEST(PsThroughput, SharesAndMeans) {
  ServedReport report;
  report.steps = {step(0, 0, 4, 1), step(1, 0, 4, 3)};
  report.staleness_histogram = {2, 0, 2};
  EXPECT_DOUBLE_EQ(waiting_share(report), 0.5);
  EXPECT_DOUBLE_EQ(mean_staleness(report), 1);
}

}  // namespace
}  // namespace twinpod::ps
