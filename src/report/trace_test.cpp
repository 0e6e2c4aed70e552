#include "report/trace.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "plan/op_times.hpp"
#include "program/generate.hpp"
#include "report/test_job.hpp"
#include "report/trace_check.hpp"
#include "sim/step.hpp"

namespace twinpod::report {
namespace {

struct Traced {
  program::Program program;
  sim::StepRun run;
  nlohmann::json trace;
};

Traced traced(const spec::Job& job, const std::map<int, double>& slow = {}) {
  Traced result{program::generate(job).value(), {}, {}};
  const sim::StepTimes times = plan::op_times(job, result.program);
  sim::StepInput input{result.program, times};
  input.slow = slow;
  result.run = sim::run_step(input).value();
  std::ostringstream out;
  write_trace({result.program, sim::timeline_of(result.run), result.run.kind_of_rank}, out);
  result.trace = nlohmann::json::parse(out.str());
  return result;
}

int num_events(const nlohmann::json& trace, const std::string& phase) {
  int count = 0;
  for (const auto& event : trace.at("traceEvents")) count += event.at("ph") == phase ? 1 : 0;
  return count;
}

int num_ops(const Traced& traced, bool recvs) {
  int count = 0;
  for (const sim::RankKind& kind : traced.run.kinds) {
    program::for_each_op(traced.program, kind.program_kind, [&](const program::PlacedOp& op) {
      count += (op.op->kind == program::OpKind::recv) == recvs ? 1 : 0;
    });
  }
  return count;
}

std::vector<std::string> process_names(const nlohmann::json& trace) {
  std::vector<std::string> names;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("name") == "process_name") names.push_back(event.at("args").at("name"));
  }
  return names;
}

TEST(Trace, HoldsTheFormat) { EXPECT_EQ(trace_fault(traced(pipeline_job()).trace), ""); }

TEST(Trace, HoldsTheFormatWhenASlowRankSplitsItsKind) {
  const Traced one = traced(pipeline_job(), {{17, 1.3}});
  EXPECT_GT(one.run.kinds.size(), 4U);
  EXPECT_EQ(trace_fault(one.trace), "");
}

TEST(Trace, ShowsFoldedRanksOnceWithTheirCount) {
  EXPECT_EQ(process_names(traced(pipeline_job()).trace),
            (std::vector<std::string>{"stage 0, rank 0 and 15 like it", "stage 1, rank 16 and 15 like it",
                                      "stage 2, rank 32 and 15 like it", "stage 3, rank 48 and 15 like it"}));
}

TEST(Trace, HasASliceForEachOpButRecvs) {
  const Traced one = traced(pipeline_job());
  EXPECT_EQ(num_events(one.trace, "X"), num_ops(one, false));
}

TEST(Trace, DrawsAnArrowForEachRecv) {
  const Traced one = traced(pipeline_job());
  const int collectives_over_stages = num_events(one.trace, "s") - num_ops(one, true);
  EXPECT_GT(num_ops(one, true), 0);
  EXPECT_GE(collectives_over_stages, 0);
  EXPECT_LE(collectives_over_stages, 4);
}

TEST(Trace, JoinsTheMembersOfACollectiveThatASlowRankSplit) {
  EXPECT_GT(num_events(traced(pipeline_job(), {{17, 1.3}}).trace, "s"),
            10 * num_events(traced(pipeline_job()).trace, "s") / 9);
}

TEST(Trace, MemoryComesBackToWhatIsResident) {
  const Traced one = traced(pipeline_job());
  double resident = 0;
  for (const program::Buffer& buffer : one.program.kinds[0].residents) resident += buffer.bytes;
  double last = 0;
  double highest = 0;
  for (const auto& event : one.trace.at("traceEvents")) {
    if (event.at("ph") != "C" || event.at("pid") != 1) continue;
    last = event.at("args").at("bytes").get<double>();
    highest = std::max(highest, last);
    EXPECT_GE(last, resident - 1);
  }
  EXPECT_NEAR(last, resident, 1);
  EXPECT_GT(highest, 1.01 * resident);
}

TEST(Trace, SlicesSayWhatTheyWorkOnAndWhatIsExposed) {
  const Traced one = traced(pipeline_job());
  double exposed = 0;
  for (const auto& event : one.trace.at("traceEvents")) {
    if (event.value("cat", "") != "collective" || event.at("ph") != "X") continue;
    const auto& args = event.at("args");
    EXPECT_GT(args.at("bytes").get<double>(), 0);
    EXPECT_LE(args.at("exposed_s").get<double>(), event.at("dur").get<double>() * 1e-6 + 2e-9);
    exposed += args.at("exposed_s").get<double>();
  }
  EXPECT_GT(exposed, 0);
}

TEST(Trace, OfManyOpsHasASliceForEachPassOnALane) {
  spec::Job job = pipeline_job();
  job.training.global_batch = 8192;
  const Traced one = traced(job);
  EXPECT_GT(num_ops(one, false), 400'000);
  EXPECT_LT(num_events(one.trace, "X"), num_ops(one, false) / 5);
  EXPECT_EQ(num_events(one.trace, "s"), num_events(one.trace, "f"));
  EXPECT_GE(num_events(one.trace, "s"), num_ops(one, true));
  EXPECT_EQ(trace_fault(one.trace), "");
}

TEST(Trace, NamesTheFileThatCannotBeWritten) {
  const Traced one = traced(pipeline_job());
  const program::Timeline timeline = sim::timeline_of(one.run);
  const Result<void> wrote = write_trace({one.program, timeline, one.run.kind_of_rank}, "/no/such/folder/t.json");
  ASSERT_FALSE(wrote);
  EXPECT_NE(wrote.error().message.find("/no/such/folder/t.json"), std::string::npos);
}

// The check itself: each of these breaks one rule.
nlohmann::json slice(double ts, double dur) {
  return {{"ph", "X"}, {"name", "a"}, {"cat", "c"}, {"pid", 1},
          {"tid", 1},  {"ts", ts},    {"dur", dur}, {"args", nlohmann::json::object()}};
}
nlohmann::json flow(const char* phase, double ts) {
  nlohmann::json event = {{"ph", phase}, {"name", "a"}, {"cat", "c"}, {"id", 1}, {"pid", 1}, {"tid", 1}, {"ts", ts}};
  if (*phase == 'f') event["bp"] = "e";
  return event;
}
std::string fault_of(const nlohmann::json& events) { return trace_fault({{"traceEvents", events}}); }

TEST(TraceCheck, RefusesWhatTheFormatForbids) {
  EXPECT_EQ(fault_of({slice(0, 5), slice(5, 2), flow("s", 1), flow("f", 6)}), "");
  EXPECT_EQ(fault_of({slice(0, 5), slice(1, 2)}), "");  // nested
  EXPECT_NE(fault_of({slice(0, 5), slice(4, 2)}), "");
  EXPECT_NE(fault_of({slice(4, 5), slice(0, 2)}), "");
  EXPECT_NE(fault_of({slice(0, 5), flow("s", 1)}), "");
  EXPECT_NE(fault_of({slice(0, 5), flow("s", 1), flow("f", 7)}), "");
  EXPECT_NE(fault_of({slice(0, 5), flow("s", 3), flow("f", 1)}), "");
  nlohmann::json without = slice(0, 5);
  without.erase("dur");
  EXPECT_NE(fault_of(nlohmann::json::array({without})), "");
}

}  // namespace
}  // namespace twinpod::report
