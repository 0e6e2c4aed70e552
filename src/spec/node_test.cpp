#include "spec/node.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace twinpod::spec {
namespace {

Node parsed(std::string_view text) {
  Result<Node> root = parse_yaml(text, "t.yaml");
  EXPECT_TRUE(root.has_value()) << to_string(root.error());
  return root.value_or(Node{});
}

Error refused(std::string_view text) {
  const Result<Node> root = parse_yaml(text, "t.yaml");
  EXPECT_FALSE(root.has_value()) << text.substr(0, 100);
  return root ? Error{} : root.error();
}

TEST(Node, EveryValueKnowsItsLineAndColumn) {
  const Node root = parsed("layout:\n  tp: 8\n  list: [1, two]\n");
  const Node* tp = root.find("layout")->find("tp");
  EXPECT_EQ(tp->scalar, "8");
  EXPECT_EQ(tp->line, 2);
  EXPECT_EQ(tp->column, 7);
  EXPECT_EQ(tp->key_line, 2);
  EXPECT_EQ(tp->key_column, 3);
  EXPECT_EQ(root.find("layout")->find("list")->items[1].column, 13);
}

TEST(Node, KeysKeepTheOrderOfTheFile) { EXPECT_EQ(parsed("b: 1\na: 2\n").keys, (std::vector<std::string>{"b", "a"})); }

TEST(Node, AbsentKeyIsNullptrAlsoOfAScalar) {
  EXPECT_EQ(parsed("a: 1").find("b"), nullptr);
  EXPECT_EQ(parsed("a: 1").find("a")->find("b"), nullptr);
}

TEST(Node, NothingIsNullAndQuotedNothingIsText) {
  const Node root = parsed("a:\nb: ~\nc: null\nd: ''\ne: 'null'\n");
  for (const char* key : {"a", "b", "c"}) EXPECT_EQ(root.find(key)->kind, Node::Kind::null) << key;
  for (const char* key : {"d", "e"}) EXPECT_EQ(root.find(key)->kind, Node::Kind::scalar) << key;
  EXPECT_TRUE(root.find("d")->quoted);
}

TEST(Node, EmptyFileIsNullInLineOne) {
  for (const char* text : {"", "\n\n", "# only a comment\n"}) {
    EXPECT_EQ(parsed(text).kind, Node::Kind::null);
    EXPECT_EQ(parsed(text).line, 1);
  }
}

TEST(Node, JsonIsRead) {
  const Node root = parsed("{\"a\":1,\n\t\"b\" : [true, null, \"x\\u00e9\\/\"]}");
  EXPECT_EQ(root.find("a")->scalar, "1");
  EXPECT_FALSE(root.find("a")->quoted);
  EXPECT_EQ(root.find("b")->items[1].kind, Node::Kind::null);
  EXPECT_EQ(root.find("b")->items[2].scalar, "x\xc3\xa9/");
}

TEST(Node, RepeatedKeyIsRefusedWhereItStandsAgain) {
  const Error error = refused("a: 1\nb: 2\na: 3\n");
  EXPECT_EQ(error.file, "t.yaml");
  EXPECT_EQ(error.line, 3);
  EXPECT_EQ(error.column, 1);
  EXPECT_NE(error.message.find("`a`"), std::string::npos);
  EXPECT_NE(error.hint.find("line 1"), std::string::npos);
}

TEST(Node, AnchorsAliasesAndTagsAreRefused) {
  EXPECT_EQ(refused("a: &x 1\nb: 2\n").line, 1);
  EXPECT_EQ(refused("a: 1\nb: *x\n").line, 2);
  EXPECT_EQ(refused("a: !!int 1\n").line, 1);
  EXPECT_EQ(refused("&k a: 1\n").line, 1);
}

TEST(Node, BillionLaughsIsRefusedAtItsFirstAnchor) {
  EXPECT_EQ(refused("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n").line, 1);
}

TEST(Node, SecondDocumentIsRefused) { EXPECT_EQ(refused("a: 1\n---\nb: 2\n").line, 2); }

TEST(Node, ListAsKeyIsRefused) { EXPECT_EQ(refused("? [a, b]\n: 1\n").line, 1); }

TEST(Node, TabThatIndentsIsNamed) {
  const Error error = refused("a:\n\tb: 1\n");
  EXPECT_EQ(error.line, 2);
  EXPECT_NE(error.message.find("tab"), std::string::npos);
}

TEST(Node, SyntaxErrorsHaveAPlace) {
  for (const char* text : {"a: [1, 2\n", "a: 'x\n", "a: 1\n  b: 2\n", "{a: 1", "a: @x\n", "%YAML 9.9\n---\na\n"}) {
    const Error error = refused(text);
    EXPECT_GE(error.line, 1) << text;
    EXPECT_GE(error.column, 1) << text;
  }
}

TEST(Node, BytesThatAreNoTextHaveALine) {
  const Error error = refused("a: 1\nb: \xff\xfe\n");
  EXPECT_EQ(error.line, 2);
  EXPECT_EQ(error.column, 4);
}

TEST(Node, DeepNestingIsRefused) {
  EXPECT_EQ(refused(std::string(100000, '[')).line, 1);
  const std::string within = std::string(kMaxDepth, '[') + std::string(kMaxDepth, ']');
  EXPECT_TRUE(parse_yaml(within, "t.yaml").has_value());
  EXPECT_FALSE(parse_yaml("[" + within + "]", "t.yaml").has_value());
}

TEST(Node, TooManyValuesAreRefused) {
  std::string text = "[";
  for (std::size_t i = 0; i < kMaxNodes; ++i) text += "1,";
  EXPECT_NE(refused(text + "]").message.find("more than"), std::string::npos);
}

TEST(Node, ManyKeysAreCheckedWithoutComparingAllPairs) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(parsed(text).keys.size(), 50000U);
  EXPECT_EQ(refused(text + "k7: 2\n").line, 50001);
}

TEST(Node, TooLargeTextIsRefused) {
  EXPECT_NE(refused(std::string(kMaxFileBytes + 1, 'a')).message.find("larger"), std::string::npos);
}

TEST(Node, FileThatCannotBeOpenedIsNamed) {
  const Result<Node> root = parse_yaml_file("/nowhere/x.yaml");
  ASSERT_FALSE(root.has_value());
  EXPECT_EQ(root.error().file, "/nowhere/x.yaml");
}

TEST(Node, FolderAndDeviceAreNoFiles) {
  EXPECT_FALSE(parse_yaml_file("/tmp").has_value());
  EXPECT_FALSE(parse_yaml_file("/dev/zero").has_value());
}

TEST(Node, FileIsReadWhole) {
  const std::string path = testing::TempDir() + "twinpod_node_test.yaml";
  std::ofstream(path) << "a: 1\nb: [2, 3]\n";
  const Result<Node> root = parse_yaml_file(path);
  std::remove(path.c_str());
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->find("b")->items.size(), 2U);
}

}  // namespace
}  // namespace twinpod::spec
