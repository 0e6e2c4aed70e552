#include <gtest/gtest.h>

#include <algorithm>

#include "comm/communicator.hpp"
#include "machine/machine.hpp"

namespace twinpod::machine {
namespace {

spec::Job small_job(spec::Precision precision) {
  spec::Job job;
  job.model.layers = 2;
  job.model.hidden = 64;
  job.model.ffn = 96;
  job.model.vocab = 257;
  job.model.gated_mlp = true;
  job.model.norm = spec::Norm::rms_norm;
  job.model.norm_bias = false;
  job.model.attention = {.heads = 4, .kv_heads = 2, .head_dim = 16};
  job.cluster.devices = 1;
  job.training.sequence = 32;
  job.training.global_batch = 2;
  job.training.precision = precision;
  job.layout.micro_batch = 2;
  return job;
}

Machine measured(const spec::Job& job, int ranks) {
  Machine machine = topology_of_this_host();
  const Result<std::string> text = comm::run_threads(ranks, {}, [&](comm::Communicator& world) -> Result<std::string> {
    Machine own = machine;
    if (Result<void> done = measure_job(world, job, "processes", own); !done) return tl::unexpected(done.error());
    return to_text(own);
  });
  EXPECT_TRUE(text) << text.error().message;
  const Result<Machine> found = from_text(text ? *text : "");
  EXPECT_TRUE(found);
  if (found) {
    machine.ranks = found->ranks;
    append(machine, Machine(*found));
  }
  return machine;
}

bool has_product(const Machine& machine, int m, int n, int k) {
  return std::any_of(machine.products.begin(), machine.products.end(),
                     [&](const ProductTime& one) { return one.m == m && one.n == n && one.k == k; });
}

TEST(MeasureJob, TimesTheProductsOfTheJobAndNoOthers) {
  const Machine machine = measured(small_job(spec::Precision::fp32), 1);
  EXPECT_TRUE(has_product(machine, 64, 128, 64)) << "queries, keys and values of 64 tokens";
  EXPECT_TRUE(has_product(machine, 128, 64, 64)) << "their weights' gradient";
  EXPECT_TRUE(has_product(machine, 64, 192, 64)) << "gates and values of the MLP";
  EXPECT_TRUE(has_product(machine, 64, 257, 64)) << "logits";
  EXPECT_LE(machine.products.size(), 15U);
  EXPECT_EQ(machine.kernels.size(), 5U);
  EXPECT_TRUE(machine.links.empty());
}

TEST(MeasureJob, GivesAllThatACommandPredictsWith) {
  for (const spec::Precision precision : {spec::Precision::fp32, spec::Precision::bf16}) {
    const spec::Cluster cluster = cluster_of(measured(small_job(precision), 2));
    EXPECT_EQ(cluster.devices, 2);
    EXPECT_GT(cluster.device.peak_flop_per_s[static_cast<std::size_t>(precision)], 1e6);
    EXPECT_GT(cluster.device.memory_bytes_per_s, 1e6);
    EXPECT_GT(cluster.scale_up_bytes_per_s, 1e6);
    for (const char* const field : {"gemm_efficiency_bf16", "attention_forward", "attention_backward", "element_factor",
                                    "logit_bytes", "optimizer_bytes", "collective_latency_s"}) {
      ASSERT_TRUE(cluster.measured.numbers.contains(field)) << field;
      EXPECT_GT(cluster.measured.numbers.at(field), 0) << field;
    }
  }
}

TEST(MeasureJob, AJobForLargerMachinesTakesNoLonger) {
  spec::Job job = small_job(spec::Precision::fp32);
  job.model.hidden = 4096;
  job.model.ffn = 14336;
  job.model.vocab = 128256;
  job.model.attention = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  job.training.sequence = 8192;
  const Machine machine = measured(job, 1);
  for (const ProductTime& one : machine.products) EXPECT_LE(2.0 * one.m * one.n * one.k, 1e9);
  const auto attention = std::find_if(machine.kernels.begin(), machine.kernels.end(),
                                      [](const KernelTime& one) { return one.kernel == "attention"; });
  ASSERT_NE(attention, machine.kernels.end());
  EXPECT_LT(attention->work, 2e10);
}

}  // namespace
}  // namespace twinpod::machine
