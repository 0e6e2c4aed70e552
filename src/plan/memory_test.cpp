#include "plan/memory.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "model/activation.hpp"
#include "model/arithmetic.hpp"
#include "plan/test_job.hpp"

namespace twinpod::plan {
namespace {

using spec::Precision;
using spec::Recompute;
using spec::Schedule;

spec::Model gpt(int layers, int hidden, int heads) {
  spec::Model model;
  model.layers = layers;
  model.hidden = hidden;
  model.ffn = 4 * hidden;
  model.vocab = 51200;
  model.attention.heads = model.attention.kv_heads = heads;
  model.attention.head_dim = hidden / heads;
  model.attention.bias = model.mlp_bias = true;
  model.tied_embeddings = true;
  model.dropout = 0.1;
  return model;
}

spec::Model mixture() {
  spec::Model model = gpt(32, 4096, 32);
  model.gated_mlp = true;
  model.dropout = 0;
  model.experts.count = 64;
  model.experts.per_token = 6;
  model.experts.ffn = 1408;
  model.experts.shared = 2;
  model.experts.first_dense_layers = 1;
  return model;
}

// 175B on 8 x 8 x dp devices, Megatron of 2022: unfused attention, fp32 gradients.
spec::Job job_of(int tp, int pp, int dp) {
  spec::Job job;
  job.model = gpt(96, 12288, 96);
  job.layout.tp = tp;
  job.layout.pp = pp;
  job.cluster.devices = tp * pp * dp;
  job.cluster.device.memory_bytes = 80e9;
  job.training.sequence = 2048;
  job.training.global_batch = 64.0 * dp;
  job.training.precision = Precision::bf16;
  job.stack.fused_attention = false;
  job.stack.gradient_bytes = 4;
  return job;
}

double layer_bytes(const spec::Job& job) {
  return model::layer_activation_bytes(job.model, model::shard_of(job), model::LayerKind::dense,
                                       model::activation_rules(job));
}

double mask_bytes(const spec::Job& job) { return model::embedding_activation_bytes(job.model, model::shard_of(job)); }

TEST(StageActivations, TheFirstStageHoldsAllLayersWorthUnderOneForwardOneBackward) {
  for (const int p : {1, 4, 8, 16}) {
    const spec::Job job = job_of(8, p, 1);
    const StageActivations first = stage_activations(job, 0);
    EXPECT_DOUBLE_EQ(first.stored, 96 * layer_bytes(job) + p * mask_bytes(job)) << p;
  }
}

TEST(StageActivations, InterleavingMultipliesThemByKorthikantisFactor) {
  spec::Job job = job_of(8, 8, 1);
  job.model.dropout = 0;
  const double plain = stage_activations(job, 0).stored;
  job.layout.schedule = Schedule::interleaved;
  for (const int m : {2, 3, 6}) {
    job.layout.virtual_stages = m;
    EXPECT_DOUBLE_EQ(stage_activations(job, 0).stored, plain * (1 + 7.0 / (8 * m))) << m;
  }
}

TEST(StageActivations, ZeroBubbleWithTwiceTheMemoryHoldsTwice) {
  spec::Job job = job_of(8, 8, 1);
  job.layout.schedule = Schedule::zb_1p;
  const double once = stage_activations(job, 1).stored;
  job.layout.schedule = Schedule::zb_2p;
  EXPECT_DOUBLE_EQ(stage_activations(job, 1).stored, 2 * once);
}

TEST(StageActivations, PartialRecomputeLiesBetweenNoneAndFull) {
  spec::Job job = job_of(8, 8, 1);
  const double none = stage_activations(job, 0).stored;
  job.layout.recompute = Recompute::full;
  const double full = stage_activations(job, 0).stored;
  job.layout.recompute_layers = 6;  // of 12
  EXPECT_NEAR(stage_activations(job, 0).stored, (none + full) / 2, 1e-6 * none);
  job.layout.recompute_layers = 50;
  EXPECT_DOUBLE_EQ(stage_activations(job, 0).stored, full);
}

TEST(StageActivations, OffloadLeavesTheLayerAtWorkAndTheOneOnItsWay) {
  spec::Job job = job_of(8, 1, 1);
  job.layout.offload_activations = true;
  EXPECT_DOUBLE_EQ(stage_activations(job, 0).stored, 2 * layer_bytes(job));
}

TEST(RankParameters, OfAllRanksAreTheModelsAndTheTiedCopy) {
  const spec::Job job = job_of(1, 8, 1);
  double total = 0;
  for (int stage = 0; stage < 8; ++stage) total += rank_parameters(job, stage, 12, 0).total();
  EXPECT_DOUBLE_EQ(total, model::parameters(job.model).total + 51200.0 * 12288);
}

TEST(RankParameters, OfExpertsAreSplitByExpertParallelism) {
  spec::Job job = job_of(1, 1, 8);
  job.model = mixture();
  const RankParameters alone = rank_parameters(job, 0, 32, 31);
  job.layout.ep = 8;
  const RankParameters split = rank_parameters(job, 0, 32, 31);
  EXPECT_DOUBLE_EQ(split.experts, alone.experts / 8);
  EXPECT_DOUBLE_EQ(split.dense, alone.dense);
  EXPECT_NEAR(alone.total(), model::parameters(job.model).total, 1);
}

TEST(RankParameters, TheLastStageHasThePredictionModules) {
  spec::Job job = job_of(1, 4, 1);
  job.model = mixture();
  const double without = rank_parameters(job, 3, 8, 8).total();
  job.model.mtp_layers = 1;
  EXPECT_NEAR(rank_parameters(job, 3, 8, 8).total() - without, model::parameters(job.model).mtp, 1);
  const double first = rank_parameters(job, 0, 8, 7).total();
  job.model.mtp_layers = 0;
  EXPECT_EQ(rank_parameters(job, 0, 8, 7).total(), first);
}

struct Policy {
  const char* name;
  std::function<void(spec::Job&)> set;
  double parameter, gradient, optimizer;
};

TEST(ParameterBytes, FollowThePrecisionAndTheOptimizer) {
  const auto precision = [](Precision p) { return [p](spec::Job& job) { job.training.precision = p; }; };
  const auto optimizer = [](spec::Optimizer o) { return [o](spec::Job& job) { job.training.optimizer = o; }; };
  const std::vector<Policy> policies = {
      {"fp32", precision(Precision::fp32), 4, 4, 8},
      {"tf32", precision(Precision::tf32), 4, 4, 8},
      {"fp16", precision(Precision::fp16), 2, 4, 12},
      {"bf16", precision(Precision::bf16), 2, 4, 12},
      {"fp8, both copies and the 16-bit one", precision(Precision::fp8), 4, 4, 12},
      {"fp8 parameters",
       [](spec::Job& job) {
         job.training.precision = Precision::fp8;
         job.stack.fp8_gather = true;
       },
       2, 4, 12},
      {"fp8 parameters on a device that needs no transpose",
       [](spec::Job& job) {
         job.training.precision = Precision::fp8;
         job.stack.fp8_gather = true;
         job.cluster.device.peak_flop_per_s[static_cast<std::size_t>(Precision::fp4)] = 9e15;
       },
       1, 4, 12},
      {"pure bf16", [](spec::Job& job) { job.training.pure_low_precision = true; }, 2, 2, 4},
      {"16-bit gradients", [](spec::Job& job) { job.training.gradient_bytes = 2; }, 2, 2, 12},
      {"momentum", optimizer(spec::Optimizer::sgd_momentum), 2, 4, 8},
      {"plain descent", optimizer(spec::Optimizer::sgd), 2, 4, 4},
      {"adafactor", optimizer(spec::Optimizer::adafactor), 2, 4, 4.04}};
  for (const Policy& policy : policies) {
    spec::Job job = job_of(8, 8, 1);
    policy.set(job);
    const double count = rank_parameters(job, 0, 12, 0).total();
    const MemoryUse use = stage_memory(job, 0);
    EXPECT_NEAR(use.parameters, policy.parameter * count, 1) << policy.name;
    EXPECT_NEAR(use.gradients, policy.gradient * count, 1) << policy.name;
    EXPECT_NEAR(use.optimizer, policy.optimizer * count, 1) << policy.name;
  }
}

TEST(Zero, EachStageShardsOneMore) {
  spec::Job job = job_of(8, 1, 16);
  const double count = rank_parameters(job, 0, 96, 0).total();
  const double expected[4][3] = {
      {2, 4, 12}, {2, 4, 12.0 / 16}, {2, 4.0 / 16, 12.0 / 16}, {2.0 / 16, 4.0 / 16, 12.0 / 16}};
  for (int zero = 0; zero <= 3; ++zero) {
    job.layout.zero = zero;
    const MemoryUse use = stage_memory(job, 0);
    EXPECT_NEAR(use.parameters, expected[zero][0] * count, 1) << zero;
    EXPECT_NEAR(use.gradients, expected[zero][1] * count, 1) << zero;
    EXPECT_NEAR(use.optimizer, expected[zero][2] * count, 1) << zero;
  }
}

TEST(Zero, ShardsOfAGroupAreNoSmallerThanTheGroupAllows) {
  spec::Job job = job_of(1, 1, 64);
  job.layout.zero = 1;
  const double all = stage_memory(job, 0).optimizer;
  job.layout.shard_group = 8;
  EXPECT_DOUBLE_EQ(stage_memory(job, 0).optimizer, 8 * all);
}

TEST(Zero, ShardsThatAreTheMasterCopyNeedNoSecondOne) {
  spec::Job job = job_of(1, 1, 64);
  job.layout.zero = 3;
  const MemoryUse second = stage_memory(job, 0);
  job.stack.memory.fp32_parameters = true;
  const MemoryUse master = stage_memory(job, 0);
  const double owned = rank_parameters(job, 0, 96, 0).total() / 64;
  EXPECT_NEAR(second.parameters + second.optimizer, 14 * owned, 1);
  EXPECT_NEAR(master.parameters + master.optimizer, 12 * owned, 1);
}

TEST(Zero, APipelineKeepsGatheredParametersAndTheirGradientsWhole) {
  spec::Job job = job_of(8, 8, 16);
  job.layout.zero = 3;
  job.stack.memory.fp32_parameters = true;
  const double count = rank_parameters(job, 3, 12, 0).total();
  const MemoryUse use = stage_memory(job, 3);
  EXPECT_NEAR(use.parameters, (2 + 4.0 / 16) * count, 1);
  EXPECT_NEAR(use.gradients, 4 * count, 1);
  EXPECT_NEAR(use.optimizer, 8.0 / 16 * count, 1);
}

TEST(Zero, ContextParallelRanksHoldShardsToo) {
  spec::Job job = job_of(1, 1, 64);
  job.layout.zero = 1;
  const double apart = stage_memory(job, 0).optimizer;
  job.layout.cp = 4;  // of the same 64 devices
  EXPECT_DOUBLE_EQ(stage_memory(job, 0).optimizer, apart);
}

TEST(Offload, OptimizerStateAndItsUpdateLeaveTheDevice) {
  spec::Job job = job_of(8, 8, 2);
  job.stack.memory.update_bytes = 12;
  job.stack.memory.flatten_bytes = 6;
  job.layout.offload_optimizer = true;
  const MemoryUse use = stage_memory(job, 0);
  EXPECT_EQ(use.optimizer, 0);
  EXPECT_EQ(use.update, 0);
  EXPECT_GT(use.gradients, 0);
  job.layout.pp = 1;
  job.layout.zero = 2;
  EXPECT_EQ(stage_memory(job, 0).gradients, 0);  // they follow the state
}

TEST(DualPipe, KeepsTwoCopiesOfTheModel) {
  spec::Job job = job_of(8, 8, 2);
  const MemoryUse once = stage_memory(job, 2);
  job.layout.schedule = Schedule::dualpipe;
  const MemoryUse twice = stage_memory(job, 2);
  EXPECT_DOUBLE_EQ(twice.parameters, 2 * once.parameters);
  EXPECT_DOUBLE_EQ(twice.gradients, 2 * once.gradients);
}

TEST(Update, TakesThePlaceOfActivationsFirst) {
  spec::Job job = job_of(8, 8, 1);
  job.cluster.device.memory_bytes = 0;  // not known: the cache is not bounded
  job.stack.memory.reserve = 0;
  const MemoryUse without = stage_memory(job, 0);
  const double owned = rank_parameters(job, 0, 12, 0).total();
  const double transient = without.activations + without.communication;
  job.stack.memory.update_bytes = 2;
  const MemoryUse small = stage_memory(job, 0);
  EXPECT_EQ(small.update, 0);
  EXPECT_DOUBLE_EQ(small.cache, 2 * owned);
  job.stack.memory.update_bytes = 100;
  const MemoryUse large = stage_memory(job, 0);
  EXPECT_NEAR(large.update, 100 * owned - transient, 1);
  EXPECT_NEAR(large.cache, transient, 1);
}

TEST(Cache, TakesOnlyWhatIsFree) {
  spec::Job job = job_of(8, 8, 1);
  job.stack.memory.reserve = 0.5;
  const MemoryUse need = stage_memory(job, 0);
  job.cluster.device.memory_bytes = need.needed() + 1e9;
  EXPECT_NEAR(stage_memory(job, 0).total(), job.cluster.device.memory_bytes, 1);
  job.cluster.device.memory_bytes = need.needed() - 1e9;
  EXPECT_EQ(stage_memory(job, 0).cache, 0);
  EXPECT_GT(stage_memory(job, 0).total(), job.cluster.device.memory_bytes);
}

TEST(MemoryUse, CountersNestAndThePartsAddUp) {
  const MemoryUse use = peak_memory(job_of(8, 8, 4));
  EXPECT_LE(use.allocated(), use.reserved());
  EXPECT_LE(use.reserved(), use.total());
  EXPECT_DOUBLE_EQ(use.total(), use.parameters + use.gradients + use.optimizer + use.activations + use.communication +
                                    use.update + use.cache + use.runtime);
}

TEST(PeakMemory, IsThatOfTheFullestStage) {
  for (const bool experts : {false, true}) {
    for (const int p : {1, 2, 3, 8, 16}) {
      for (const Schedule s :
           {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_1p, Schedule::zb_2p, Schedule::dualpipe}) {
        spec::Job job = job_of(1, p, 2);
        if (experts) job.model = mixture();
        job.layout.schedule = s;
        double fullest = 0;
        for (int stage = 0; stage < p; ++stage) fullest = std::max(fullest, stage_memory(job, stage).needed());
        EXPECT_DOUBLE_EQ(peak_memory(job).needed(), fullest) << p;
      }
    }
  }
}

TEST(Memory, OfGpt3InFp32IsFourTimesItsParametersBeforeActivations) {
  spec::Job job = job_of(1, 1, 1);
  job.model.vocab = 50257;
  job.training.precision = Precision::fp32;
  const MemoryUse use = peak_memory(job);
  EXPECT_NEAR(use.parameters, 700e9, 5e9);
  EXPECT_DOUBLE_EQ(use.parameters + use.gradients + use.optimizer, 4 * use.parameters);
}

// Layouts for the properties below: all that divide a small cluster.
std::vector<spec::Job> many_jobs() {
  std::vector<spec::Job> jobs;
  for (const bool experts : {false, true}) {
    for (const int tp : {1, 2, 4}) {
      for (const int pp : {1, 4}) {
        for (const int cp : {1, 2}) {
          for (const int zero : {0, 1, 2, 3}) {
            for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
              for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8}) {
                spec::Job job = job_of(tp, pp, 8);
                job.model = experts ? mixture() : gpt(32, 4096, 32);
                job.cluster.device.memory_bytes = 0;
                job.layout.cp = cp;
                job.layout.ep = experts ? 4 : 1;
                job.layout.etp = experts ? 1 : 0;
                job.layout.zero = zero;
                job.layout.recompute = recompute;
                job.training.precision = precision;
                job.stack.memory.update_bytes = 6;
                job.stack.memory.flatten_bytes = 2;
                jobs.push_back(job);
              }
            }
          }
        }
      }
    }
  }
  return jobs;
}

// The peak of the job after a change is no more than before it, up to `slack` of it.
void expect_no_more(const std::function<bool(spec::Job&)>& change, double slack = 0) {
  int tried = 0;
  for (const spec::Job& job : many_jobs()) {
    spec::Job changed = job;
    if (!change(changed)) continue;
    const double before = peak_memory(job).total();
    EXPECT_LE(peak_memory(changed).total(), before * (1 + slack + 1e-12))
        << "tp " << job.layout.tp << " pp " << job.layout.pp << " cp " << job.layout.cp << " zero " << job.layout.zero
        << " experts " << job.model.experts.count << " recompute " << static_cast<int>(job.layout.recompute)
        << " precision " << static_cast<int>(job.training.precision);
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

TEST(MemoryProperty, NoPartIsEverNegative) {
  for (const spec::Job& job : many_jobs()) {
    for (int stage = 0; stage < job.layout.pp; ++stage) {
      const MemoryUse use = stage_memory(job, stage);
      for (const double part : {use.parameters, use.gradients, use.optimizer, use.activations, use.communication,
                                use.update, use.cache, use.runtime}) {
        EXPECT_GE(part, 0);
      }
    }
  }
}

TEST(MemoryProperty, ShardingMoreNeverTakesMore) {
  expect_no_more([](spec::Job& job) { return job.layout.zero < 3 && ++job.layout.zero > 0; });
}

TEST(MemoryProperty, RecomputingMoreNeverTakesMore) {
  expect_no_more([](spec::Job& job) {
    if (job.layout.recompute == Recompute::full) return false;
    job.layout.recompute = job.layout.recompute == Recompute::none ? Recompute::selective : Recompute::full;
    return true;
  });
}

TEST(MemoryProperty, MoreTensorParallelismNeverTakesMore) {
  expect_no_more([](spec::Job& job) {
    job.layout.tp *= 2;
    job.cluster.devices *= 2;
    return true;
  });
}

TEST(MemoryProperty, SequenceParallelismNeverTakesMore) {
  expect_no_more([](spec::Job& job) { return job.layout.tp > 1 && (job.layout.sequence_parallel = true); }, 0.002);
}

TEST(MemoryProperty, MoreContextParallelismNeverTakesMore) {
  expect_no_more([](spec::Job& job) {
    job.layout.cp *= 2;
    job.cluster.devices *= 2;
    return true;
  });
}

TEST(MemoryProperty, FusedAttentionNeverTakesMore) {
  expect_no_more(
      [](spec::Job& job) { return job.layout.recompute == Recompute::none && (job.stack.fused_attention = true); });
}

TEST(MemoryProperty, OffloadNeverTakesMore) {
  expect_no_more([](spec::Job& job) { return job.layout.offload_optimizer = true; });
  expect_no_more([](spec::Job& job) { return job.layout.offload_activations = true; });
}

TEST(MemoryProperty, ASmallerMicroBatchNeverTakesMore) {
  expect_no_more([](spec::Job& job) {
    job.layout.micro_batch = 2;
    const double two = peak_memory(job).total();
    job.layout.micro_batch = 1;
    EXPECT_LE(peak_memory(job).total(), two);
    return true;
  });
}

TEST(MemoryProperty, MoreDataParallelRanksNeverTakeMore) {
  expect_no_more([](spec::Job& job) {
    job.cluster.devices *= 2;
    job.training.global_batch *= 2;
    return true;
  });
}

TEST(MemoryProperty, MoreExpertParallelismNeverTakesMore) {
  expect_no_more([](spec::Job& job) { return job.layout.ep > 1 && (job.layout.ep = 8) > 0; });
}

// In a pipeline gradients are summed on the device, whatever ZeRO stage its optimizer on the host has.
TEST(OffloadedMemory, AnOffloadedOptimizerLeavesGradientsInAPipeline) {
  spec::Job job = gpt_job(64);
  job.layout.offload_optimizer = true;
  job.layout.pp = 4;
  job.layout.zero = 2;
  EXPECT_GT(peak_memory(job).gradients, 0);
  job.layout.pp = 1;
  EXPECT_EQ(peak_memory(job).gradients, 0);
  EXPECT_GT(peak_memory(job).elsewhere, 0);
}

}  // namespace
}  // namespace twinpod::plan
