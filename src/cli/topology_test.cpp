#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"

namespace twinpod::cli {

namespace {

Result<std::string> answer(const std::vector<std::string>& texts) {
  const std::vector<Flag> flags = all_flags(kTopology);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  EXPECT_TRUE(arguments.has_value());
  return kTopology.run(*arguments);
}

nlohmann::json json_of(std::vector<std::string> texts) {
  texts.emplace_back("--json");
  const Result<std::string> text = answer(texts);
  EXPECT_TRUE(text.has_value()) << to_string(text.error());
  return text ? nlohmann::json::parse(*text) : nlohmann::json();
}

std::string refusal(const std::vector<std::string>& texts) {
  const Result<std::string> text = answer(texts);
  EXPECT_FALSE(text.has_value());
  EXPECT_TRUE(text || text.error().kind == ErrorKind::input);
  return text ? "" : text.error().message;
}

TEST(TopologyCommand, SlicesAndDevicesChangeTheMachine) {
  EXPECT_EQ(json_of({"tpu-v4-4096", "--slice", "4x4x8"})["devices"], 128);
  EXPECT_EQ(json_of({"h100-superpod", "--devices", "4096"})["switches"]["core"], 64);
}

TEST(TopologyCommand, ASliceAndANumberOfDevicesContradictEachOther) {
  EXPECT_EQ(refusal({"tpu-v4-4096", "--slice", "4x4x8", "--devices", "256"}),
            "--slice 4x4x8 and --devices 256 both say how large it is");
}

TEST(TopologyCommand, RoutesAreGivenByNumberOrName) {
  const nlohmann::json by_number = json_of({"tpu-v5e-256", "--routes", "0,17"});
  EXPECT_EQ(by_number["routes"][0]["links"].size(), 2U);
  EXPECT_EQ(json_of({"tpu-v5e-256", "--routes", "chip(0,0),chip(1,1)"})["routes"], by_number["routes"]);
}

TEST(TopologyCommand, CutsAreAvoided) {
  const nlohmann::json json =
      json_of({"tpu-v5e-256", "--routes", "0,1", "--cut", "chip(0,0)-chip(0,1)", "--routing", "dimension_order"});
  EXPECT_EQ(json["routes"][0]["links"].size(), 3U);
  EXPECT_EQ(json["faults"][0], "chip(0,0)-chip(0,1) cut, 1 cable");
}

TEST(TopologyCommand, WrongInputIsRefused) {
  EXPECT_EQ(refusal({}), "topology takes one cluster");
  EXPECT_EQ(refusal({"dgx-b200", "--cut", "gpu3-node0/nvswitch0"}), "no route from gpu0 to gpu3");
  EXPECT_EQ(refusal({"dgx-a100", "--routes", "0,8"}), "`8` is no device");
  EXPECT_EQ(refusal({"dgx-a100", "--slow", "gpu0-node0/nvswitch0=2"}),
            "--slow gpu0-node0/nvswitch0=2: expected a link and a factor above 0 and up to 1");
  EXPECT_EQ(refusal({"no-such-cluster.xml"}),
            "cannot be read: No such file or directory; expected a topology that NCCL wrote");
}

TEST(TopologyCommand, PicturesAreWrittenToTheirFile) {
  const std::string path = ::testing::TempDir() + "twinpod_topology_test.svg";
  ASSERT_TRUE(answer({"dgx-superpod-a100-140", "--svg", path}).has_value());
  std::ifstream file(path);
  std::string first;
  std::getline(file, first);
  EXPECT_TRUE(first.starts_with("<svg")) << first;
  std::remove(path.c_str());
}

}  // namespace
}  // namespace twinpod::cli
