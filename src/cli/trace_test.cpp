// Traces of jobs of the catalog, as `twinpod simulate --trace` writes them.
#include <gtest/gtest.h>

#include <cstdio>

#include "cli/command.hpp"
#include "core/files.hpp"
#include "report/trace_check.hpp"

namespace twinpod::cli {
namespace {

nlohmann::json trace_of(std::vector<std::string> texts) {
  const std::string file = testing::TempDir() + "twinpod_trace_test.json";
  texts.insert(texts.end(), {"--trace", file});
  const std::vector<Flag> flags = all_flags(kSimulate);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  EXPECT_TRUE(arguments) << to_string(arguments.error());
  const Result<std::string> answer = kSimulate.run(*arguments);
  EXPECT_TRUE(answer) << to_string(answer.error());
  const Result<std::string> text = read_file(file);
  std::remove(file.c_str());
  return nlohmann::json::parse(text.value_or("{}"));
}

TEST(SimulateTrace, OfGpt3OnASuperPodHoldsTheFormat) {
  EXPECT_EQ(report::trace_fault(trace_of({"gpt3-175b", "--on", "dgx-superpod-a100-140", "--devices", "1024", "--tp",
                                          "8", "--pp", "8", "--recompute", "full", "--stack", "megatron-2022"})),
            "");
}

TEST(SimulateTrace, OfLlama3HoldsTheFormat) {
  EXPECT_EQ(report::trace_fault(
                trace_of({"llama3-70b", "--on", "h100-superpod", "--devices", "512", "--tp", "4", "--pp", "4"})),
            "");
}

TEST(SimulateTrace, OfMixtralHoldsTheFormat) {
  EXPECT_EQ(report::trace_fault(trace_of({TWINPOD_CATALOG_DIR "/../examples/mixtral-8x7b.yaml"})), "");
}

TEST(SimulateTrace, OfATpuJobHoldsTheFormat) {
  EXPECT_EQ(report::trace_fault(trace_of(
                {"llama3-8b", "--on", "tpu-v4-4096", "--devices", "64", "--recompute", "full", "--zero", "3"})),
            "");
}

TEST(SimulateTrace, OfALaptopHoldsTheFormat) {
  EXPECT_EQ(report::trace_fault(trace_of({TWINPOD_CATALOG_DIR "/../examples/gpt2-laptop.yaml"})), "");
}

}  // namespace
}  // namespace twinpod::cli
