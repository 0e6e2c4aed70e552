#include <gtest/gtest.h>

#include "spec/node.hpp"

namespace twinpod::spec {
namespace {

// Kinds, texts, quotes and keys; not the places.
bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.keys != b.keys || a.items.size() != b.items.size()) return false;
  if (a.kind == Node::Kind::scalar && a.scalar != b.scalar) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!same(a.items[i], b.items[i])) return false;
  }
  return true;
}

void expect_comes_back(const std::string& text) {
  const Result<Node> node = parse_yaml(text, "a.yaml");
  ASSERT_TRUE(node) << to_string(node.error());
  const Result<Node> again = parse_yaml(to_yaml(*node), "b.yaml");
  ASSERT_TRUE(again) << to_string(again.error()) << to_yaml(*node);
  EXPECT_TRUE(same(*node, *again)) << to_yaml(*node);
}

TEST(ToYaml, ADocumentComesBack) {
  expect_comes_back("model: gpt2\nlayout: {tp: 2}\ntraining:\n  tokens: 15 T\n  learning_rate: 1e-3\n  x: -1\n");
  expect_comes_back("a: [x, 'y, z', \"q\\\"q\", \"tab\\there\", 'a: b', '#c', '- d', '', '[', ' e ', 'ü\\n']\n");
  expect_comes_back("a:\n  - b: null\n    'c, d': ~\n  - []\n  - {}\nnotes: |\n  two\n  lines\n");
}

TEST(ToYaml, ANumberStaysOneAndAQuotedOneStaysText) {
  const Result<Node> node = parse_yaml("{a: 8, b: '8', c: 15 T}", "a.yaml");
  ASSERT_TRUE(node);
  EXPECT_EQ(to_yaml(*node), "{a: 8, b: \"8\", c: 15 T}");
}

}  // namespace
}  // namespace twinpod::spec
