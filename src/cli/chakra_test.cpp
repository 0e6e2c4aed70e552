// Chakra files of jobs of the catalog: written by `twinpod simulate --chakra`, read back, and simulated as a workload.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "chakra/archive.hpp"
#include "chakra/export.hpp"
#include "chakra/test_trace.hpp"
#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "core/files.hpp"
#include "plan/op_times.hpp"
#include "program/check.hpp"
#include "program/generate.hpp"
#include "sim/step.hpp"

namespace twinpod::cli {
namespace {

using Texts = std::vector<std::string>;

struct TestFolder {
  std::string path = testing::TempDir() + "cli_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  TestFolder() { std::filesystem::remove_all(path); }
  ~TestFolder() { std::filesystem::remove_all(path); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
};

Texts joined(Texts texts, const Texts& more) {
  texts.insert(texts.end(), more.begin(), more.end());
  return texts;
}

Result<std::string> answer(const Texts& texts) {
  const std::vector<Flag> flags = all_flags(kSimulate);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  if (!arguments) return tl::unexpected(arguments.error());
  return kSimulate.run(*arguments);
}

nlohmann::json json_answer(const Texts& texts) {
  const Result<std::string> text = answer(joined(texts, {"--json"}));
  EXPECT_TRUE(text) << to_string(text.error());
  return nlohmann::json::parse(text.value_or("{}"));
}

spec::Job job_of(const Texts& texts) {
  const std::vector<Flag> flags = all_flags(kSimulate);
  const Arguments arguments = parse_arguments(flags, texts).value();
  return spec::read_job(request_of("simulate", arguments, arguments.value_or("on", "")).value(), catalog_of(arguments))
      .value();
}

double step_s(const spec::Job& job, const program::Program& program) {
  const sim::StepTimes times = plan::op_times(job, program);
  const sim::StepInput input{program, times};
  return sim::run_step(input).value().step_s;
}

void expect_same_program(const Texts& texts) {
  const TestFolder folder;
  const Result<std::string> wrote = answer(joined(texts, {"--chakra", folder.path}));
  ASSERT_TRUE(wrote) << to_string(wrote.error());
  const Result<program::Program> again = chakra::read_chakra(folder.path);
  ASSERT_TRUE(again) << to_string(again.error());
  const spec::Job job = job_of(texts);
  const program::Program program = program::generate(job).value();
  EXPECT_TRUE(chakra::shared_bytes(*again) == chakra::shared_bytes(program));
  ASSERT_EQ(again->kinds.size(), program.kinds.size());
  for (std::size_t k = 0; k < program.kinds.size(); ++k) {
    EXPECT_TRUE(chakra::kind_bytes(again->kinds[k]) == chakra::kind_bytes(program.kinds[k]));
    const int kind = static_cast<int>(k);
    EXPECT_EQ(program::memory_of(*again, kind).peak_bytes, program::memory_of(program, kind).peak_bytes);
  }
  EXPECT_EQ(step_s(job, *again), step_s(job, program));
}

TEST(SimulateChakra, Gpt3OnASuperPodComesBackAsTheSameProgram) {
  expect_same_program({"gpt3-175b", "--on", "dgx-superpod-a100-140", "--devices", "1024", "--tp", "8", "--pp", "8",
                       "--recompute", "full", "--stack", "megatron-2022", "--global-batch", "256"});
}

TEST(SimulateChakra, Llama3ComesBackAsTheSameProgram) {
  expect_same_program({"llama3-70b", "--on", "h100-superpod", "--devices", "512", "--tp", "4", "--pp", "4"});
}

TEST(SimulateChakra, MixtralComesBackAsTheSameProgram) {
  expect_same_program({TWINPOD_CATALOG_DIR "/../examples/mixtral-8x7b.yaml"});
}

TEST(SimulateChakra, ATpuJobComesBackAsTheSameProgram) {
  expect_same_program({"llama3-8b", "--on", "tpu-v4-4096", "--devices", "64", "--recompute", "full", "--zero", "3"});
}

TEST(SimulateChakra, ALaptopComesBackAsTheSameProgram) {
  expect_same_program({TWINPOD_CATALOG_DIR "/../examples/gpt2-laptop.yaml"});
}

// The engine and the runner of workloads know nothing of each other. Without tensor parallelism no communication is
// partly hidden, which a file cannot say.
TEST(SimulateWorkload, OurOwnFilesTakeAboutAsLongAsTheStep) {
  const TestFolder folder;
  const Texts job = {"gpt3-6.7b", "--on", "dgx-superpod-a100-140", "--devices", "16",
                     "--pp",      "8",    "--global-batch",        "64",        "--no-network"};
  const double step = json_answer(joined(job, {"--chakra", folder.path, "--all-ranks"}))["step_time_s"];
  const auto run = json_answer({"--workload", folder.path, "--on", "dgx-superpod-a100-140", "--devices", "16"});
  EXPECT_EQ(run["ranks"], 16);
  EXPECT_NEAR(run["step_time_s"].get<double>() / step, 1, 0.03);
}

TEST(SimulateWorkload, AFileOfAnotherProgramStandsForAllDevices) {
  const TestFolder folder;
  std::filesystem::create_directories(folder.path);
  const std::string file = folder.path + "/other.et";
  using namespace chakra;
  const std::string reduce = attribute("comm_type", 0) + attribute("comm_size", 1'000'000'000);
  ASSERT_TRUE(write_file(file, metadata() + node(1, kComp, {}, duration(2000)) + node(2, kColl, {1}, reduce)));
  const auto on_8 = json_answer({"--workload", file, "--on", "h100-superpod", "--devices", "8"});
  const auto on_64 = json_answer({"--workload", file, "--on", "h100-superpod", "--devices", "64"});
  EXPECT_EQ(on_64["ranks"], 64);
  EXPECT_GT(on_8["step_time_s"].get<double>(), 0.002 + 2 * 1e9 * 7 / 8 / 450e9);
  EXPECT_GT(on_64["step_time_s"].get<double>(), on_8["step_time_s"].get<double>());
}

TEST(SimulateWorkload, RefusesWhatDoesNotGoWithIt) {
  EXPECT_EQ(answer({"--workload", "x"}).error().message, "--workload needs a cluster");
  EXPECT_EQ(answer({"--workload", "x", "--on", "dgx-h100", "--tp", "2"}).error().message,
            "--tp does not go with --workload");
  EXPECT_EQ(answer({"gpt2", "--workload", "x", "--on", "dgx-h100"}).error().kind, ErrorKind::input);
  EXPECT_EQ(answer({"--workload", "/no/such.et", "--on", "dgx-h100"}).error().message,
            "cannot be read: No such file or directory; expected a Chakra trace");
}

}  // namespace
}  // namespace twinpod::cli
