#include <gtest/gtest.h>

#include <cmath>

#include "cluster/measured_collective.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"
#include "spec/node.hpp"
#include "spec/read.hpp"

namespace twinpod::machine {
namespace {

// A machine whose times follow formulas, so that the fits have something to find.
Machine made_up(int ranks, int hosts) {
  Machine machine;
  machine.host = "here";
  machine.processor = "It's a processor";
  machine.memory_bytes = 8e9;
  machine.ranks = ranks;
  machine.hosts = hosts;
  machine.product_overhead_s = 1e-6;
  machine.kernel_overhead_s = 1e-8;
  for (const int m : {16, 64, 256, 1024}) {
    for (const int k : {16, 64, 256, 1024}) {
      const double seconds = 2e-6 + 2.0 * m * 256 * k / 1e11 * (1 + 30.0 / k);
      machine.products.push_back({spec::Precision::fp32, m, 256, k, ranks, 1, seconds});
    }
  }
  machine.memory = {{"triad", ranks, 1, 1e13}};
  for (const double size : {1.0, 4.0}) {
    machine.kernels.push_back({"attention", ranks, 1, size * 1e9, size * 0.02});
    machine.kernels.push_back({"attention_backward", ranks, 1, size * 1e9, size * 0.1});
    machine.kernels.push_back({"elements", ranks, 1, size * 1e6, size * 3e-7});
    machine.kernels.push_back({"optimizer", ranks, 1, size * 1e6, size * 2e-6});
    machine.kernels.push_back({"optimizer", ranks + 1, 1, size * 1e6, 1});  // of another number of ranks
  }
  const std::string transport = hosts > 1 ? "mpi" : "processes";
  for (const char* const verb : {"send", "all_reduce"}) {
    for (double bytes = 8; bytes < 1e8; bytes *= 8) {
      machine.links.push_back({transport, verb, 2, hosts > 1, bytes, 2e-6 + bytes / 1e10});
    }
  }
  machine.disk = {"/tmp", 1e9, 2e9, 1e-3};
  return machine;
}

Result<spec::Cluster> read_again(const std::string& text) {
  const Result<spec::Node> node = spec::parse_yaml(text, "here.yaml");
  if (!node) return tl::unexpected(node.error());
  return spec::read_cluster(*node, "here.yaml", spec::Catalog("catalog"));
}

TEST(Fit, FindsWhatMadeTheNumbers) {
  const std::vector<double> x = {1, 10, 100, 1000};
  std::vector<double> y;
  for (const double value : x) y.push_back(3 + 0.5 * value);
  std::array<Unknown, 2> unknowns = {{{1}, {1}}};
  const double error =
      fit(unknowns, y, [&](std::span<const Unknown> at, std::size_t i) { return at[0].value + at[1].value * x[i]; });
  EXPECT_NEAR(unknowns[0].value, 3, 0.05);
  EXPECT_NEAR(unknowns[1].value, 0.5, 0.01);
  EXPECT_LT(error, 0.01);
}

TEST(ClusterOfMachine, CountsKernelsAsTheClosedFormDoes) {
  const spec::Cluster cluster = cluster_of(made_up(2, 1));
  const double peak = cluster.device.peak_flop_per_s[static_cast<std::size_t>(spec::Precision::fp32)];
  const std::map<std::string, double>& numbers = cluster.measured.numbers;
  EXPECT_NEAR(numbers.at("attention_forward"), 1e9 / 0.02 / peak, 1e-6);
  EXPECT_NEAR(numbers.at("attention_backward"), 2.5e9 / 0.1 / peak, 1e-6);
  EXPECT_NEAR(numbers.at("element_factor"), 3e-7 * 1e13 / 1e6, 1e-6);
  EXPECT_NEAR(numbers.at("optimizer_bytes"), 2e-6 * 1e13 / 1e6, 1e-6);
  EXPECT_FALSE(numbers.contains("logit_bytes"));  // not timed
  EXPECT_NEAR(cluster.measured.errors.at("optimizer"), 0, 1e-9);
}

TEST(MachineText, KeepsKernels) {
  const Result<Machine> again = from_text(to_text(made_up(2, 1)));
  ASSERT_TRUE(again);
  ASSERT_EQ(again->kernels.size(), made_up(2, 1).kernels.size());
  EXPECT_EQ(again->kernels.front().kernel, "attention");
  EXPECT_EQ(again->kernels.front().seconds, 0.02);
}

TEST(ClusterOfMachine, FitsProductsAndMessages) {
  const spec::Cluster cluster = cluster_of(made_up(2, 1));
  EXPECT_LT(cluster.measured.errors.at("products"), 0.1);
  EXPECT_LT(cluster.measured.errors.at("messages"), 0.02);
  EXPECT_NEAR(cluster.measured.message_inside_s, 2e-6, 1e-7);
  EXPECT_NEAR(cluster.scale_up_bytes_per_s, 1e10, 3e8);
  EXPECT_EQ(cluster.devices, 2);
}

TEST(ClusterOfMachine, TheFileReadsAsTheSameCluster) {
  const Machine machine = made_up(2, 1);
  const spec::Cluster cluster = cluster_of(machine);
  const Result<spec::Cluster> again = read_again(cluster_file(machine, cluster));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->device.name, "It's a processor, 1 core");
  EXPECT_EQ(again->devices, 2);
  EXPECT_NEAR(again->scale_up_bytes_per_s / cluster.scale_up_bytes_per_s, 1, 1e-3);
  EXPECT_EQ(again->measured.numbers.size(), cluster.measured.numbers.size());
  EXPECT_NEAR(*cluster::measured_s(again->measured, "all_reduce", 2, 64) / 2e-6, 1, 1e-2);
  EXPECT_NEAR(again->storage_read_bytes_per_s, 2e9, 1e6);
}

TEST(ClusterOfMachine, HostsAreJoinedByAScaleOutNetwork) {
  const Machine machine = made_up(2, 2);
  const Result<spec::Cluster> again = read_again(cluster_file(machine, cluster_of(machine)));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->devices_per_node, 1);
  EXPECT_NEAR(again->scale_out_bytes_per_s / 1e10, 1, 0.03);
  EXPECT_NEAR(again->scale_out_latency_s + again->measured.message_between_s, 2e-6, 1e-7);
}

TEST(ClusterOfMachine, OneRankNeedsNoNetwork) {
  Machine machine = made_up(1, 1);
  machine.links.clear();
  const Result<spec::Cluster> again = read_again(cluster_file(machine, cluster_of(machine)));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->measured.has_messages());
}

TEST(MachineText, ComesBackAsItWas) {
  const Machine machine = made_up(2, 1);
  const Result<Machine> again = from_text(to_text(machine));
  ASSERT_TRUE(again);
  EXPECT_EQ(to_text(*again), to_text(machine));
  EXPECT_FALSE(from_text("no"));
}

TEST(MeasureDisk, RefusesAFolderThatIsNotThere) {
  Machine machine;
  const Result<void> done = measure_disk("/no/such/folder", 1e6, machine);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("/no/such/folder"), std::string::npos);
}

TEST(MeasureDisk, GivesRates) {
  Machine machine;
  const Result<void> done = measure_disk(".", 1e6, machine);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_GT(machine.disk.write_bytes_per_s, 0);
  EXPECT_GT(machine.disk.fsync_s, 0);
}

TEST(Topology, ThisHostHasCoresAndMemory) {
  const Machine machine = topology_of_this_host();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 1e6);
  EXPECT_FALSE(machine.host.empty());
}

}  // namespace
}  // namespace twinpod::machine
