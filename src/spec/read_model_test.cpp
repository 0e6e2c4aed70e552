#include <gtest/gtest.h>

#include "spec/read.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

constexpr const char* kDense = "layers: 4\nhidden: 64\nffn: 256\nvocab: 1000\nmax_sequence: 128\n";

Result<Model> read(const std::string& text, const TestCatalog& files) {
  const Result<Node> root = parse_yaml(text, "model.yaml");
  EXPECT_TRUE(root.has_value()) << text;
  return read_model(*root, "model.yaml", files.catalog());
}

Model accepted(const std::string& text) {
  const TestCatalog files;
  const Result<Model> model = read(text, files);
  EXPECT_TRUE(model.has_value()) << to_string(model.error());
  return model.value_or(Model{});
}

Error refused(const std::string& text) {
  const TestCatalog files;
  const Result<Model> model = read(text, files);
  EXPECT_FALSE(model.has_value()) << text;
  return model ? Error{} : model.error();
}

TEST(ReadModel, HeadsFollowFromTheRest) {
  const Model model = accepted(std::string(kDense) + "attention: {heads: 4}\n");
  EXPECT_EQ(model.attention.kv_heads, 4);
  EXPECT_EQ(model.attention.head_dim, 16);
  EXPECT_TRUE(model.norm_bias);
}

TEST(ReadModel, RmsNormHasNoBias) {
  EXPECT_FALSE(accepted(std::string(kDense) + "attention: {heads: 4}\nnorm: rms_norm\n").norm_bias);
  EXPECT_EQ(refused(std::string(kDense) + "attention: {heads: 4}\nnorm: rms_norm\nnorm_bias: true\n").line, 8);
}

TEST(ReadModel, ExpertsTakeTheDenseWidthUnlessTheySayTheirOwn) {
  EXPECT_EQ(accepted(std::string(kDense) + "attention: {heads: 4}\nexperts: {count: 8, per_token: 2}\n").experts.ffn,
            256);
}

TEST(ReadModel, NameOfTheCatalogIsAModel) {
  const Model model = accepted("tiny");
  EXPECT_EQ(model.name, "Tiny");
  EXPECT_EQ(model.entry, "tiny");
  EXPECT_EQ(model.published_parameters, 264448);
}

TEST(ReadModel, BaseIsChangedByWhatIsWritten) {
  const Model model = accepted("base: tiny\nlayers: 8\n");
  EXPECT_EQ(model.layers, 8);
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(model.entry, "") << "it is no longer the catalog's";
  EXPECT_EQ(model.published_parameters, 0);
}

TEST(ReadModel, WhatFollowedInTheBaseFollowsFromWhatIsWritten) {
  const Model wide = accepted("base: tiny\nhidden: 96\nattention: {heads: 6}\n");
  EXPECT_EQ(wide.attention.kv_heads, 6);
  EXPECT_EQ(wide.attention.head_dim, 16);
  EXPECT_EQ(wide.ffn, 384);
  EXPECT_EQ(accepted("base: tiny\nattention: {heads: 8}\n").attention.head_dim, 8);
  const Model own = accepted("base: tiny\nhidden: 128\nffn: 200\nattention: {kv_heads: 2, head_dim: 16}\n");
  EXPECT_EQ(own.attention.kv_heads, 2);
  EXPECT_EQ(own.attention.head_dim, 16);
  EXPECT_EQ(own.ffn, 200);
}

TEST(ReadModel, UnknownNameIsRefusedWhereItStands) {
  const Error error = refused("tinny");
  EXPECT_EQ(to_string(error),
            "model.yaml:1:1: there is no model `tinny`\n  did you mean `tiny`? `twinpod show models` lists all 1");
}

TEST(ReadModel, MissingDimensionsAreNamed) {
  EXPECT_NE(refused("hidden: 64\n").message.find("`layers`"), std::string::npos);
  EXPECT_NE(refused(kDense).message.find("attention.heads"), std::string::npos);
}

TEST(ReadModel, ContradictionsAreRefusedAtTheirKey) {
  const std::string dense = kDense;  // five lines
  struct Case {
    const char* text;
    int column;
  };
  for (const Case& c : {Case{"attention: {heads: 4, kv_heads: 3}", 23}, Case{"attention: {heads: 4, kv_heads: 8}", 23},
                        Case{"attention: {heads: 5}", 13}, Case{"attention: {heads: 4, global_every: 2}", 23},
                        Case{"attention: {heads: 4, q_rank: 8}", 23}}) {
    const Error error = refused(dense + c.text + "\n");
    EXPECT_EQ(error.line, 6) << c.text;
    EXPECT_EQ(error.column, c.column) << c.text;
  }
  for (const char* text : {"experts: {count: 8, per_token: 9}", "experts: {count: 8}", "experts: {per_token: 2}",
                           "experts: {count: 8, per_token: 2, first_dense_layers: 4}",
                           "experts: {count: 8, per_token: 2, shared_ffn: 64}"}) {
    EXPECT_EQ(refused(dense + "attention: {heads: 4}\n" + text + "\n").line, 7) << text;
  }
}

TEST(ReadModel, ImpossibleSizesAreRefused) {
  for (const char* text :
       {"layers: 0", "layers: -1", "hidden: 99999999999", "vocab: 1.5", "dropout: 2", "dropout: .nan"}) {
    EXPECT_EQ(refused(std::string("base: tiny\n") + text + "\n").line, 2) << text;
  }
}

TEST(ReadModel, PathIsRelativeToTheFileThatNamesIt) {
  const TestCatalog files;
  files.write("jobs/m/config.json",
              R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 10})");
  Node name;
  name.kind = Node::Kind::scalar;
  for (const char* path : {"m/config.json", "m/", "./m"}) {
    name.scalar = path;
    const Result<Model> model = read_model(name, files.folder() + "/jobs/job.yaml", files.catalog());
    ASSERT_TRUE(model.has_value()) << to_string(model.error());
    EXPECT_EQ(model->layers, 2);
  }
}

TEST(ReadModel, MissingFileIsRefusedWhereItIsNamed) {
  const Error error = refused("base: nowhere/config.json\nlayers: 2\n");
  EXPECT_EQ(error.file, "model.yaml");
  EXPECT_EQ(error.line, 1);
  EXPECT_EQ(error.column, 7);
}

TEST(ReadModel, FilesThatNameEachOtherEnd) {
  const TestCatalog files;
  const std::string path = files.write("loop.yaml", "base: loop.yaml\nlayers: 3\n");
  EXPECT_NE(read("base: " + path, files).error().message.find("name each other"), std::string::npos);
}

TEST(ReadModel, ErrorInAnotherFileNamesThatFile) {
  const TestCatalog files;
  const std::string path = files.write("m.yaml", "base: tiny\nlayer: 3\n");
  const Error error = read(path, files).error();
  EXPECT_EQ(error.file, path);
  EXPECT_EQ(error.line, 2);
}

}  // namespace
}  // namespace twinpod::spec
