#include "report/program_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/generate.hpp"
#include "report/test_job.hpp"

namespace twinpod::report {
namespace {

struct Made {
  spec::Job job;
  program::Program program;
  program::Order order;
  program::Slots slots;

  explicit Made(spec::Job of) : job(std::move(of)) {
    job.training.global_batch = 32;
    program = *program::generate(job);
    order = *program::order_of(job);
    slots = *program::run_slots(order, {});
  }
  ProgramView view() const {
    ProgramView view{job, program, order, slots, {}, {}};
    for (int k = 0; k < static_cast<int>(program.kinds.size()); ++k)
      view.memory.push_back(program::memory_of(program, k));
    return view;
  }
};

spec::Job job_of(spec::Schedule schedule) {
  spec::Job job = pipeline_job();
  job.layout.schedule = schedule;
  return job;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ProgramText, HasALineForEachStage) {
  const Made made(job_of(spec::Schedule::one_f_one_b));
  const std::string text = program_summary(made.view());
  EXPECT_NE(text.find("one step on 64 ranks, 4 stages of 1 chunk, 8 micro-batches of 1, schedule 1f1b"),
            std::string::npos)
      << text;
  EXPECT_EQ(count_of(text, "27.3 %"), 4U) << text;
}

TEST(ProgramText, SpellsOutEachBlockOnceAndTheListOfEachStage) {
  const Made made(job_of(spec::Schedule::one_f_one_b));
  const std::string text = program_text(made.view(), -1);
  EXPECT_EQ(count_of(text, "\nblock "), made.program.blocks.size());
  EXPECT_EQ(count_of(text, "\nstage "), 4U);
  EXPECT_LT(count_of(program_text(made.view(), 1), "\nblock "), made.program.blocks.size());
}

TEST(PipelineText, ShowsEveryPassOnceAndColoursOnlyWhenAsked) {
  const Made made(job_of(spec::Schedule::zb_1p));
  const std::string text = pipeline_text(made.view(), false);
  for (const char* pass : {"F7 ", "B7 ", "W7 "}) EXPECT_EQ(count_of(text, pass), 4U) << pass << text;
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(pipeline_text(made.view(), true).find("\033[30;48;5;"), std::string::npos);
}

TEST(PipelineText, WritesOddChunksInSmallLetters) {
  const Made made(job_of(spec::Schedule::zb_v));
  const std::string text = pipeline_text(made.view(), false);
  EXPECT_EQ(count_of(text, "f7 "), 4U) << text;
  EXPECT_NE(text.find("small letters: odd chunks"), std::string::npos);
}

TEST(PipelineSvg, HasABoxForEveryPass) {
  for (const spec::Schedule schedule : {spec::Schedule::one_f_one_b, spec::Schedule::zb_v, spec::Schedule::dualpipe}) {
    const Made made(job_of(schedule));
    const std::string svg = pipeline_svg(made.view());
    std::size_t passes = 0;
    for (const auto& list : made.order.stages) passes += list.size();
    const std::size_t legend =
        (made.program.splits_backward ? 3U : 2U) * static_cast<std::size_t>(made.order.chunks) + 1;
    EXPECT_EQ(count_of(svg, "<rect "), passes + legend + 4 + 1) << spec::name_of(schedule);  // rows, background
    EXPECT_EQ(count_of(svg, "<svg"), 1U);
  }
}

TEST(ProgramMemoryText, NamesTheOpAtThePeak) {
  const Made made(job_of(spec::Schedule::one_f_one_b));
  const std::string text = program_memory_text(made.view());
  EXPECT_NE(text.find("of layer 5, micro-batch 0"), std::string::npos) << text;
}

}  // namespace
}  // namespace twinpod::report
