#include "spec/edit.hpp"

#include <gtest/gtest.h>

namespace twinpod::spec {
namespace {

Node edited(std::string_view text, const Setting& setting) {
  Node root = *parse_yaml(text, "t.yaml");
  const Result<void> done = apply_setting(root, setting);
  EXPECT_TRUE(done.has_value()) << to_string(done.error());
  return root;
}

Error refused(std::string_view text, const Setting& setting) {
  Node root = *parse_yaml(text, "t.yaml");
  const Result<void> done = apply_setting(root, setting);
  EXPECT_FALSE(done.has_value()) << setting.text;
  return done ? Error{} : done.error();
}

TEST(Edit, ValueIsReplaced) {
  EXPECT_EQ(edited("layout: {tp: 1, pp: 2}", "layout.tp=8").find("layout")->find("tp")->scalar, "8");
  EXPECT_EQ(edited("layout: {tp: 1, pp: 2}", "layout.tp=8").find("layout")->find("pp")->scalar, "2");
}

TEST(Edit, OtherWayToSayItGoesFromTheFile) {
  const Node data = *edited("data: {text: [docs], evaluation_share: 0.1}", "data.tokens=mine").find("data");
  EXPECT_EQ(data.find("text"), nullptr);
  EXPECT_EQ(data.find("tokens")->scalar, "mine");
  EXPECT_EQ(data.find("evaluation_share")->scalar, "0.1");
  EXPECT_EQ(edited("training: {global_batch: 8}", "training.global_batch_tokens=4096").find("training")->keys.size(),
            1U);
}

TEST(Edit, BothWaysOnTheCommandLineStay) {
  Node root = edited("data: {}", "data.text=[docs]");
  ASSERT_TRUE(apply_setting(root, "data.tokens=mine"));
  EXPECT_EQ(root.find("data")->keys.size(), 2U);
}

TEST(Edit, MissingMappingsAreMade) {
  EXPECT_EQ(edited("model: x", "cluster.scale_out.bandwidth=25 GB/s")
                .find("cluster")
                ->find("scale_out")
                ->find("bandwidth")
                ->scalar,
            "25 GB/s");
  EXPECT_EQ(edited("layout:", "layout.tp=8").find("layout")->find("tp")->scalar, "8");
}

TEST(Edit, ValueIsYamlInFlowStyle) {
  EXPECT_EQ(edited("", "layout={tp: 8, pp: 4}").find("layout")->find("pp")->scalar, "4");
  EXPECT_EQ(edited("", "a=[1, 2, 3]").find("a")->items.size(), 3U);
  EXPECT_EQ(edited("", "a=x=y").find("a")->scalar, "x=y");
}

TEST(Edit, NameBecomesTheBaseOfWhatIsSetBelowIt) {
  const Node root = edited("model: gpt3-175b", "model.layers=4");
  EXPECT_EQ(root.find("model")->find("base")->scalar, "gpt3-175b");
  EXPECT_EQ(root.find("model")->find("layers")->scalar, "4");
}

TEST(Edit, ErrorsOfTheValueNameTheOption) {
  const Node root = edited("layout: {tp: 1}", "layout.tp=0");
  EXPECT_EQ(*root.find("layout")->find("tp")->file, "--set layout.tp=0");
  EXPECT_EQ(root.find("layout")->find("tp")->line, 1);
  EXPECT_EQ(*edited("", Setting("layout.tp=0", "--tp 0")).find("layout")->find("tp")->file, "--tp 0");
}

TEST(Edit, WrongSettingsAreRefusedByTheirText) {
  for (const char* text : {"layout.tp", "=8", "layout..tp=8", ".tp=8", "layout.=8", "a={b", "a=&x 1"}) {
    const Error error = refused("", text);
    EXPECT_EQ(error.file, std::string("--set ") + text);
    EXPECT_EQ(error.line, 1);
  }
}

TEST(Edit, NothingCanBeSetBelowANumberOrAList) {
  EXPECT_NE(refused("layout: {tp: 8}", "layout.tp.x=1").message.find("`8`"), std::string::npos);
  EXPECT_NE(refused("a: [1]", "a.b=1").message.find("a list"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::spec
