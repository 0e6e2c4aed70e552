#include "spec/parameters.hpp"

#include <gtest/gtest.h>

#include "spec/stack.hpp"

namespace twinpod::spec {
namespace {

Result<Parameters> read(std::string_view text) {
  const Result<Node> root = parse_yaml(text, "p.yaml");
  EXPECT_TRUE(root.has_value());
  return read_parameters(*root, "p.yaml");
}

constexpr std::string_view kFile =
    "shared:\n  tp_hidden: 0.25\n  wave_weight: 1.234\ndevice:\n  a100:\n    gemm_efficiency_bf16: 0.8\n"
    "trait:\n  lean:\n    tp_hidden: 0.5\nstack:\n  mine:\n    pace: 0.95\n    wave_weight: 2\n";

TEST(Parameters, NarrowerScopeWins) {
  const Result<Parameters> parameters = read(kFile);
  ASSERT_TRUE(parameters.has_value()) << to_string(parameters.error());
  Stack stack{};
  stack.name = "mine";
  stack.traits = {"lean"};
  const Physics physics = resolve(*parameters, "a100", stack);
  EXPECT_EQ(physics.gemm_efficiency_bf16, 0.8);
  EXPECT_EQ(physics.tp_hidden, 0.5) << "the trait's, not the shared one";
  EXPECT_EQ(physics.wave_weight, 2) << "the stack's, not the shared one";
  EXPECT_EQ(physics.pace, 0.95);
  EXPECT_EQ(physics.gemm_depth, default_physics().gemm_depth) << "the prior";
}

TEST(Parameters, OfOthersDoNotReach) {
  Stack stack{};
  stack.name = "other";
  const Physics physics = resolve(*read(kFile), "h100", stack);
  EXPECT_EQ(physics.gemm_efficiency_bf16, default_physics().gemm_efficiency_bf16);
  EXPECT_EQ(physics.tp_hidden, 0.25);
}

TEST(Parameters, EachEntryIsOneFreeParameter) { EXPECT_EQ(count(*read(kFile)), 6); }

TEST(Parameters, TextIsSortedAndReadsBackTheSame) {
  EXPECT_EQ(write_parameters(*read(kFile)), kFile);
  EXPECT_EQ(write_parameters(*read("shared: {wave_weight: 1.23456789}")), "shared:\n  wave_weight: 1.235\n");
  EXPECT_EQ(write_parameters(Parameters{}), "");
}

TEST(Parameters, UnknownFieldNamesTheNearest) {
  const Error error = read("shared:\n  wave_weigth: 1.6\n").error();
  EXPECT_EQ(to_string(error), "p.yaml:2:3: shared has no key `wave_weigth`\n  did you mean `wave_weight`?");
}

TEST(Parameters, ImplausibleValueIsRefused) {
  EXPECT_EQ(read("device:\n  a100: {gemm_efficiency_bf16: 1.2}\n").error().line, 2);
  EXPECT_EQ(read("shared: {wave_weight: many}").error().line, 1);
  EXPECT_EQ(read("sharde: {wave_weight: 1}").error().hint, "did you mean `shared`?");
}

}  // namespace
}  // namespace twinpod::spec
