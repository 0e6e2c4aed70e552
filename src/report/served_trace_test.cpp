// Workers and servers of a run, side by side in a trace.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/served_report.hpp"
#include "report/trace_check.hpp"

namespace twinpod::report {
namespace {

using Event = nlohmann::json;

// Two workers push one shard; the second push is the update, and answers the first worker.
ps::ServedReport small_report() {
  ps::ServedReport report;
  for (const int worker : {0, 1}) {
    report.steps.push_back({.worker = worker, .begin_s = 0, .end_s = 1e-3, .waited_s = 2e-4, .computed_s = 7e-4});
    report.steps.push_back(
        {.worker = worker, .clock = 1, .begin_s = 1e-3, .end_s = 2e-3, .waited_s = 3e-4, .computed_s = 8e-4});
  }
  report.worker_waited_s = {5e-4, 5e-4};
  ps::Handled first{.server = 1, .kind = ps::Kind::push, .worker = 0, .sent_ns = 900'000};
  first.begin_ns = 910'000;
  first.end_ns = 930'000;
  first.pushed_bytes = 64;
  ps::Handled last = first;
  last.worker = 1;
  last.sent_ns = 905'000;
  last.begin_ns = 940'000;
  last.end_ns = 990'000;
  last.updates = 2;
  last.answers = 1;
  last.pulled_bytes = 64;
  ps::Handled next{.server = 1, .kind = ps::Kind::pull, .worker = 0, .clock = 1, .sent_ns = 1'000'000};
  next.begin_ns = 1'001'000;
  next.end_ns = 1'002'500;
  next.answers = 1;
  next.staleness = 1;
  report.server_messages = {first, last, next};
  return report;
}

std::vector<Event> events_of(const Event& trace, const std::string& phase, int process) {
  std::vector<Event> found;
  for (const Event& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase && event.at("pid") == process) found.push_back(event);
  }
  return found;
}

TEST(ServedTrace, HoldsTheFormat) { EXPECT_EQ(trace_fault(Event::parse(served_trace(small_report()))), ""); }

TEST(ServedTrace, AServersMessagesAreSlicesOfItsOwnThread) {
  const Event trace = Event::parse(served_trace(small_report()));
  const std::vector<Event> slices = events_of(trace, "X", 2);
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[0].at("name"), "push");
  EXPECT_EQ(slices[1].at("name"), "update");
  EXPECT_EQ(slices[2].at("name"), "answer");
  EXPECT_EQ(slices[1].at("tid"), 2);
  EXPECT_DOUBLE_EQ(slices[1].at("ts").get<double>(), 940);
  EXPECT_DOUBLE_EQ(slices[1].at("dur").get<double>(), 50);
  const Event wanted = Event::parse(
      R"({"step": 1, "shard": 0, "worker": 1, "waited_s": 3.5e-05, "updates": 2, "pushed_bytes": 64,
          "answers": 1, "pulled_bytes": 64, "staleness": 0})");
  EXPECT_EQ(slices[1].at("args"), wanted);
}

TEST(ServedTrace, ACurveShowsHowManyMessagesWait) {
  std::vector<std::pair<double, int>> curve;
  for (const Event& event : events_of(Event::parse(served_trace(small_report())), "C", 2)) {
    EXPECT_EQ(event.at("name"), "server 1: messages waiting");
    curve.emplace_back(event.at("ts").get<double>(), event.at("args").at("messages").get<int>());
  }
  const std::vector<std::pair<double, int>> wanted = {{900, 1}, {905, 2}, {910, 1}, {940, 0}, {1000, 1}, {1001, 0}};
  EXPECT_EQ(curve, wanted);
}

TEST(ServedTrace, OfOneClockHasTheStepsAndMessagesOfIt) {
  const Event trace = Event::parse(served_trace(small_report(), 1));
  EXPECT_EQ(events_of(trace, "X", 1).size(), 6U) << "two workers that wait, compute and push";
  ASSERT_EQ(events_of(trace, "X", 2).size(), 1U);
  EXPECT_EQ(events_of(trace, "X", 2)[0].at("args").at("step"), 2);
}

TEST(ServedTrace, WithoutMessagesThereAreOnlyWorkers) {
  ps::ServedReport report = small_report();
  report.server_messages.clear();
  const Event trace = Event::parse(served_trace(report));
  EXPECT_EQ(events_of(trace, "X", 1).size(), 12U);
  EXPECT_TRUE(events_of(trace, "M", 2).empty());
}

}  // namespace
}  // namespace twinpod::report
