#include <gtest/gtest.h>

#include "spec/read.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

Result<Cluster> read(const std::string& text) {
  const TestCatalog files;
  const Result<Node> root = parse_yaml(text, "cluster.yaml");
  EXPECT_TRUE(root.has_value()) << text;
  return read_cluster(*root, "cluster.yaml", files.catalog());
}

Cluster accepted(const std::string& text) {
  const Result<Cluster> cluster = read(text);
  EXPECT_TRUE(cluster.has_value()) << to_string(cluster.error());
  return cluster.value_or(Cluster{});
}

Error refused(const std::string& text) {
  const Result<Cluster> cluster = read(text);
  EXPECT_FALSE(cluster.has_value()) << text;
  return cluster ? Error{} : cluster.error();
}

TEST(ReadCluster, NodeAndNumberAreEnough) {
  const Cluster cluster = accepted("{node: box, devices: 16}");
  EXPECT_EQ(cluster.devices, 16);
  EXPECT_EQ(cluster.node, "box");
  EXPECT_EQ(cluster.device.entry, "dev");
}

TEST(ReadCluster, BaseIsChangedByWhatIsWritten) {
  const Cluster cluster = accepted("{base: pod, devices: 32, scale_out: {bandwidth: 50 GB/s}}");
  EXPECT_EQ(cluster.devices, 32);
  EXPECT_EQ(cluster.scale_out_bytes_per_s, 50e9);
  EXPECT_EQ(cluster.scale_out_latency_s, 2e-6) << "of the base";
  EXPECT_EQ(cluster.entry, "");
}

TEST(ReadCluster, DeviceOfTheBaseIsChangedInPlace) {
  const Cluster cluster = accepted("{base: pod, device: {memory: 96 GB}}");
  EXPECT_EQ(cluster.device.memory_bytes, 96e9);
  EXPECT_EQ(cluster.device.memory_bytes_per_s, 2e12);
  EXPECT_EQ(accepted("{node: box, devices: 8, device: {base: old, memory: 32 GB}}").device.memory_bytes, 32e9);
}

TEST(ReadCluster, EverythingCanBeWrittenOut) {
  const Cluster cluster = accepted(
      "devices: 4\ndevice: {family: f, peak: {bf16: 1 TFLOP/s}, memory: 1 GB, memory_bandwidth: 1 GB/s}\n"
      "devices_per_node: 2\nscale_up: {kind: mesh, bandwidth: 10 GB/s}\nscale_out: {bandwidth: 1 GB/s}\n");
  EXPECT_EQ(cluster.scale_up, ScaleUpKind::mesh);
  EXPECT_EQ(cluster.scale_up_domain, 2);
}

TEST(ReadCluster, OneDeviceNeedsNoNetwork) {
  const Cluster cluster = accepted("{device: dev, devices: 1}");
  EXPECT_EQ(cluster.devices_per_node, 1);
  EXPECT_EQ(cluster.scale_up_domain, 1);
}

TEST(ReadCluster, DomainIsThatOfTheTorus) {
  EXPECT_EQ(accepted("{node: box, devices: 256, domain: 256}").scale_up_domain, 256);
}

TEST(ReadCluster, NetworksThatAreMissingAreRefused) {
  EXPECT_NE(refused("{device: dev, devices: 8}").message.find("scale_up"), std::string::npos);
  const Error error = refused("device: dev\ndevices: 16\nscale_up: {bandwidth: 300 GB/s}\n");
  EXPECT_NE(error.message.find("scale_out"), std::string::npos);
  EXPECT_EQ(error.line, 2);
}

TEST(ReadCluster, MissingPartsAreNamed) {
  EXPECT_NE(refused("{devices: 8}").message.find("`device`"), std::string::npos);
  EXPECT_NE(refused("{node: box}").message.find("`devices`"), std::string::npos);
  EXPECT_NE(refused("[1]").message.find("a list"), std::string::npos);
}

TEST(ReadCluster, ImpossibleValuesAreRefusedWhereTheyStand) {
  for (const char* text :
       {"devices: 0", "devices: 1e3", "scale_out: {oversubscription: 0.5}", "scale_out: {latency: -1 us}",
        "storage: {read: 1 GB}", "price: {usd_per_hour: 1}", "domain: 0", "scale_up: {kind: ring}"}) {
    const Error error = refused(std::string("base: pod\n") + text + "\n");
    EXPECT_EQ(error.line, 2) << text;
    EXPECT_EQ(error.file, "cluster.yaml") << text;
  }
}

TEST(ReadCluster, UnknownNamesAreRefusedWhereTheyStand) {
  EXPECT_EQ(refused("devices: 8\nnode: bx\n").line, 2);
  EXPECT_EQ(refused("devices: 8\ndevice: deev\n").line, 2);
  EXPECT_EQ(refused("devices: 8\nnode: {device: deev, devices: 1, scale_up: {kind: none}}\n").line, 2);
}

}  // namespace
}  // namespace twinpod::spec
