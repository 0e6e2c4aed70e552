#include <gtest/gtest.h>

#include "spec/node.hpp"
#include "spec/read.hpp"

namespace twinpod::spec {
namespace {

Result<Cluster> read(const std::string& measured) {
  const std::string text =
      "devices: 2\nscale_up: {bandwidth: 1 GB/s}\n"
      "device: {family: f, peak: {bf16: 1 TFLOP/s}, memory: 1 GB, memory_bandwidth: 1 GB/s}\n"
      "measured:\n" +
      measured;
  const Result<Node> node = parse_yaml(text, "here.yaml");
  if (!node) return tl::unexpected(node.error());
  return read_cluster(*node, "here.yaml", Catalog("catalog"));
}

TEST(Measured, IsRead) {
  const Result<Cluster> cluster = read(
      "  numbers: {collective_latency_s: 3e-7}\n  message: {inside: 0.4 us}\n"
      "  collectives: [{verb: all_reduce, ranks: 2, bytes: [8, 1 KiB], seconds: [1 us, 2e-6], error: 5 %}]\n");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->measured.numbers.at("collective_latency_s"), 3e-7);
  EXPECT_EQ(cluster->measured.message_inside_s, 4e-7);
  ASSERT_EQ(cluster->measured.collectives.size(), 1U);
  EXPECT_EQ(cluster->measured.collectives[0].bytes, (std::vector<double>{8, 1024}));
}

TEST(Measured, RefusalsNameTheLine) {
  struct Case {
    const char* text;
    const char* expected;
  };
  for (const Case& one :
       {Case{"  numbers: {gemm_deepth: 1}\n", "gemm_depth"},
        Case{"  collectives: [{verb: all_redcue, ranks: 2, bytes: [8], seconds: [1]}]\n", "all_reduce"},
        Case{"  collectives: [{verb: send, ranks: 2, bytes: [8, 8], seconds: [1, 2]}]\n", "rise"},
        Case{"  collectives: [{verb: send, ranks: 2, bytes: [8], seconds: [1, 2]}]\n", "as many"},
        Case{"  collectives: [{verb: send, ranks: 2, bytes: [8], seconds: [0]}]\n", "above 0"},
        Case{"  errors: {products: much}\n", "share"}}) {
    const Result<Cluster> cluster = read(one.text);
    ASSERT_FALSE(cluster) << one.text;
    const std::string all = cluster.error().message + cluster.error().hint;
    EXPECT_NE(all.find(one.expected), std::string::npos) << all;
  }
}

}  // namespace
}  // namespace twinpod::spec
