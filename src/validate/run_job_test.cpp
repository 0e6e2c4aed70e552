#include "validate/run_job.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/estimate.hpp"
#include "plan/memory.hpp"
#include "validate/validation.hpp"

namespace twinpod::validate {
namespace {

const spec::Catalog& catalog() {
  static const spec::Catalog shared(TWINPOD_CATALOG_DIR);
  return shared;
}

Library& library() {
  static Library shared(catalog());
  return shared;
}

// Every training run of the catalog, with its job where the arithmetic covers it.
const std::vector<Case>& catalog_cases() {
  static const std::vector<Case> cases = load_cases(catalog(), read_catalog_runs(catalog()).value()).value();
  return cases;
}

PublishedRun framework(const std::string& text, const std::string& date, const std::string& device = "H100-SXM5-80GB") {
  PublishedRun run;
  run.framework = text;
  run.date = date;
  run.device = device;
  return run;
}

// A 7.5-billion-parameter GPT on 64 A100 that states everything.
PublishedRun stated_run() {
  PublishedRun run = framework("Megatron-LM", "2021-04", "A100-SXM4-80GB");
  run.id = "mine";
  run.kind = "llm_training";
  run.model = "GPT";
  run.precision = "FP16";
  run.recompute = "full";
  run.layers = 36;
  run.hidden = 4096;
  run.heads = 32;
  run.vocab = 51200;
  run.seq = 2048;
  run.devices = 64;
  run.devices_per_node = 8;
  run.tp = 4;
  run.pp = 1;
  run.mbs = 4;
  run.gbs = 512;
  run.iter_time_s = 3;
  return run;
}

spec::Job job_for(const PublishedRun& run) { return job_of(run, library()).value().job; }

std::string family_of(const PublishedRun& run) { return library().stack(stack_of(run), "h100").value().family; }

TEST(StackOf, EveryStackThatARowNamesIsInTheCatalog) {
  const std::vector<std::string> known = catalog().names(spec::Shelf::stacks);
  for (const Case& one : catalog_cases()) {
    const std::string stack = stack_of(one.run);
    EXPECT_TRUE(std::binary_search(known.begin(), known.end(), stack)) << one.run.id << ": " << stack;
  }
}

struct NamedStack {
  const char* framework;
  const char* date;
  const char* stack;
};

TEST(StackOf, FrameworksOfTheCatalogGoToTheirOwnStack) {
  const NamedStack cases[] = {
      {"Megatron-LM", "2020-09", "megatron-2021"},
      {"Megatron-LM", "2021-04", "megatron-2021"},
      {"Megatron-LM", "2022-05", "megatron-2022"},
      {"Megatron-LM fork", "2023-11", "megatron-2022"},
      {"Megatron-LM", "2024-02", "megatron-core-2023"},
      {"Megatron-DeepSpeed", "2022-02", "megatron-deepspeed-2022"},
      {"Megatron-DeepSpeed", "2023-12", "megatron-deepspeed-2023"},
      {"DeepSpeed ZeRO-3 in Megatron-LM", "2021-04", "deepspeed-zero3"},
      {"HF + DeepSpeed ZeRO-3", "2021-05", "deepspeed-zero3"},
      {"GPT-NeoX", "2022-02", "megatron-deepspeed-2022"},
      {"Megatron-Core r0.8.0", "2024-07", "megatron-core-2024"},
      {"Megatron-LM/NeMo", "2025-01", "megatron-core-2024"},
      {"NeMo 24.07", "2024-07", "megatron-core-2024"},
      {"NeMo 24.03.01", "2024-05", "megatron-core-2024"},
      {"NeMo 24.11", "24.11", "nemo-2025"},
      {"NeMo 25.05", "25.05", "nemo-2025"},
      {"Primus Megatron", "2025-06", "nemo-2025"},
      {"NeMo AutoModel (PyTorch FSDP2, TE, DeepEP)", "2025-10", "nemo-automodel"},
      {"Megatron-Bridge 25.09", "2025-10", "megatron-bridge-2025"},
      {"Megatron-Bridge (NeMo 26.02)", "2026-03", "megatron-bridge-2025"},
      {"Megatron-Bridge 26.04.01", "2026-05", "megatron-bridge-2025"},
      {"Megatron-Bridge 26.06.01", "2026-07", "megatron-bridge"},
      {"MegaScale", "2024-02", "megascale"},
      {"InternEvo v0.2.1", "2023-12", "internevo"},
      {"torchtitan", "2024-07", "torchtitan-eager"},
      {"torchtitan", "2025-02", "torchtitan"},
      {"llm-foundry/Composer FSDP, torch 2.1", "2023-10", "fsdp-2023"},
      {"LLM Foundry", "2023-06", "fsdp-2023"},
      {"PyTorch FSDP", "2023-04", "fsdp-2023"},
      {"MaxText", "2024-08", "xla-gpu"},
      {"paxml", "24.10", "xla-gpu"},
      {"NeuronX Distributed / NeMo-Megatron", "2023-11", "neuron"},
  };
  for (const NamedStack& c : cases) EXPECT_EQ(stack_of(framework(c.framework, c.date)), c.stack) << c.framework;
}

TEST(StackOf, OnTpuTheSameFrameworksAreOneProgramAStep) {
  for (const char* text : {"MaxText", "maxtext", "T5X/Pathways", "Levanter"}) {
    EXPECT_EQ(stack_of(framework(text, "2023-11", "TPU v5e")), "maxtext") << text;
  }
}

TEST(StackOf, MlperfRowsAreTunedRuns) {
  PublishedRun run = framework("NeMo 23.09", "2023-11");
  run.model = "GPT-3 175B (MLPerf v3.1)";
  EXPECT_EQ(stack_of(run), "nemo-mlperf");
}

TEST(StackOf, EagerRunsOfACompiledFrameworkAreSaidInTheNameOrTheRemark) {
  PublishedRun run = framework("torchtitan", "2025-02");
  run.remark = "Eager, no compile";
  EXPECT_EQ(stack_of(run), "torchtitan-eager");
  run.remark = "";
  run.id = "titan-8b-eager";
  EXPECT_EQ(stack_of(run), "torchtitan-eager");
}

TEST(StackOf, UnseenFrameworksGoToASensibleFamily) {
  EXPECT_EQ(family_of(framework("PyTorch FSDP2 + torchao", "2026-01")), "fsdp");
  EXPECT_EQ(family_of(framework("DeepSpeed ZeRO-3 offload-free", "2025-01")), "deepspeed");
  EXPECT_EQ(family_of(framework("MaxText v2", "2026-01")), "xla");
  EXPECT_EQ(family_of(framework("Megatron-Core 0.14", "2026-01")), "megatron-core");
  EXPECT_EQ(family_of(framework("a cluster's own trainer", "2025-01")), "megatron-core");
  EXPECT_EQ(family_of(framework("a cluster's own trainer", "2021-01")), "megatron");
  EXPECT_EQ(family_of(framework("", "")), "megatron-core");
}

TEST(StackOf, WhateverRunsOnATpuIsCompiled) {
  for (const char* text : {"JAX/Flax", "EasyLM", "AXLearn", "PyTorch/XLA FSDP", "Mesh TensorFlow", ""}) {
    EXPECT_EQ(stack_of(framework(text, "2024-01", "TPU v4")), "maxtext") << text;
  }
}

TEST(StackOf, JaxOnAGpuIsCompiledToo) {
  EXPECT_EQ(stack_of(framework("JAX Toolbox (Pax)", "2024-01")), "xla-gpu");
  EXPECT_EQ(stack_of(framework("AXLearn, JAX", "2025-01")), "xla-gpu");
}

TEST(StackOf, ARowWithoutADateIsTakenForACurrentOne) { EXPECT_EQ(stack_of(framework("torchtitan", "")), "torchtitan"); }

TEST(WhyNotCovered, SaysWhatIsMissing) {
  EXPECT_EQ(why_not_covered(stated_run()), "");
  const auto without = [](auto change) {
    PublishedRun run = stated_run();
    change(run);
    return why_not_covered(run);
  };
  EXPECT_EQ(without([](PublishedRun& r) { r.kind = "memory"; }), "not a training run");
  EXPECT_EQ(without([](PublishedRun& r) { r.iter_time_s = 0; }), "no step time");
  EXPECT_EQ(without([](PublishedRun& r) { r.hidden = 0; }), "no model dimensions");
  EXPECT_EQ(without([](PublishedRun& r) { r.gbs = 0; }), "no device count or batch");
  EXPECT_EQ(without([](PublishedRun& r) { r.tp = 0; }), "no layout");
  EXPECT_NE(without([](PublishedRun& r) { r.task = "lora"; }), "");
  EXPECT_NE(without([](PublishedRun& r) { r.model = "Mamba 2"; }), "");
  EXPECT_NE(without([](PublishedRun& r) { r.precision = "INT8"; }), "");
}

TEST(WhyNotCovered, ZeRO3NeedsNoTensorAxis) {
  PublishedRun run = stated_run();
  run.tp = 0;
  run.zero_stage = 3;
  EXPECT_EQ(why_not_covered(run), "");
}

TEST(KnownModel, IsFoundByItsNameInAnySpelling) {
  PublishedRun run;
  run.model = "Llama3 70B";
  ASSERT_NE(library().known_model(run), nullptr);
  EXPECT_EQ(library().known_model(run)->hidden, 8192);
  run.model = "DeepSeek-V3 (w/ MTP)";
  ASSERT_NE(library().known_model(run), nullptr);
  EXPECT_EQ(library().known_model(run)->experts.count, 256);
}

TEST(KnownModel, TheLongestNameWins) {
  PublishedRun run;
  run.model = "DeepSeek-V2-Lite";
  ASSERT_NE(library().known_model(run), nullptr);
  EXPECT_EQ(library().known_model(run)->layers, 27);
}

TEST(KnownModel, AnotherWidthIsAnotherModel) {
  PublishedRun run;
  run.model = "Llama3 70B";
  run.hidden = 4096;
  EXPECT_EQ(library().known_model(run), nullptr);
  run.model = "nobody's own";
  EXPECT_EQ(library().known_model(run), nullptr);
}

TEST(RunJob, WhatARowStatesIsTaken) {
  PublishedRun run = stated_run();
  run.pp = 2;
  run.vpp = 3;
  run.cp = 2;
  run.sp = 1;
  run.zero_stage = 2;
  run.intra_gbs = 600;
  run.inter_gbps_per_device = 200;
  const RunJob made = job_of(run, library()).value();
  const spec::Job& job = made.job;
  EXPECT_EQ(job.layout.tp, 4);
  EXPECT_EQ(job.layout.pp, 2);
  EXPECT_EQ(job.layout.virtual_stages, 3);
  EXPECT_EQ(job.layout.cp, 2);
  EXPECT_EQ(job.layout.zero, 2);
  EXPECT_EQ(job.layout.micro_batch, 4);
  EXPECT_TRUE(job.layout.sequence_parallel);
  EXPECT_EQ(job.layout.recompute, spec::Recompute::full);
  EXPECT_EQ(job.training.precision, spec::Precision::fp16);
  EXPECT_EQ(job.cluster.devices, 64);
  EXPECT_DOUBLE_EQ(job.cluster.scale_up_bytes_per_s, 300e9);  // printed for both directions
  EXPECT_DOUBLE_EQ(job.cluster.scale_out_bytes_per_s, 25e9);
  EXPECT_FALSE(made.assumed_micro_batch || made.assumed_recompute || made.assumed_stages);
}

TEST(RunJob, PrecisionsAreReadFromTheirText) {
  const auto precision = [](const char* text) {
    PublishedRun run = stated_run();
    run.device = "GB200 (per GPU, NVL72)";
    run.precision = text;
    return job_for(run).training.precision;
  };
  EXPECT_EQ(precision("BF16 (amp)"), spec::Precision::bf16);
  EXPECT_EQ(precision("FP16"), spec::Precision::fp16);
  EXPECT_EQ(precision("FP16/BF16 mixed"), spec::Precision::bf16);
  EXPECT_EQ(precision("MXFP8"), spec::Precision::fp8);
  EXPECT_EQ(precision("NVFP4"), spec::Precision::fp4);
  EXPECT_EQ(precision("FP32"), spec::Precision::fp32);
  EXPECT_EQ(precision(""), spec::Precision::bf16);
  EXPECT_EQ(precision("BF16, FP32 gradients"), spec::Precision::bf16);
}

TEST(RunJob, SchedulesAreReadFromTheirText) {
  const auto schedule = [](const char* text) {
    PublishedRun run = stated_run();
    run.pp = 4;
    run.schedule = text;
    return job_for(run).layout.schedule;
  };
  EXPECT_EQ(schedule("1F1B"), spec::Schedule::one_f_one_b);
  EXPECT_EQ(schedule("ZB-1p"), spec::Schedule::zb_1p);
  EXPECT_EQ(schedule("ZB-2p"), spec::Schedule::zb_2p);
  EXPECT_EQ(schedule("ZB-V"), spec::Schedule::zb_v);
  EXPECT_EQ(schedule("DualPipe"), spec::Schedule::dualpipe);
  EXPECT_EQ(schedule("GPipe"), spec::Schedule::gpipe);
}

TEST(RunJob, InterleavingThatIsNotCountedIsAssumed) {
  PublishedRun run = stated_run();
  run.pp = 4;  // 9 layers a stage
  run.schedule = "interleaved 1F1B";
  const RunJob made = job_of(run, library()).value();
  EXPECT_TRUE(made.assumed_stages);
  EXPECT_EQ(made.job.layout.virtual_stages, 3);
}

TEST(RunJob, AMicroBatchThatIsNotStatedIsOneInAPipeline) {
  PublishedRun run = stated_run();
  run.mbs = 0;
  run.pp = 2;
  const RunJob made = job_of(run, library()).value();
  EXPECT_TRUE(made.assumed_micro_batch);
  EXPECT_EQ(made.job.layout.micro_batch, 1);
}

// 32 sequences for each of the 16 replicas: 16 divide them and fit, for full recomputation leaves little behind.
TEST(RunJob, WithoutAPipelineItIsTheLargestThatDividesAndFits) {
  PublishedRun run = stated_run();
  run.mbs = 0;
  EXPECT_EQ(job_for(run).layout.micro_batch, 16);
  run.gbs = 16 * 12;
  EXPECT_EQ(job_for(run).layout.micro_batch, 4);
  run.recompute = "none";
  run.gbs = 512;
  const spec::Job job = job_for(run);
  EXPECT_LT(job.layout.micro_batch, 16);
  EXPECT_TRUE(job.layout.micro_batch == 1 || plan::peak_memory(job).needed() <= job.cluster.device.memory_bytes);
}

TEST(RunJob, RecomputeThatIsNotStatedIsNoneWhereTheJobFits) {
  PublishedRun run = stated_run();
  run.recompute = "";
  run.mbs = 1;
  run.layers = 4;
  const RunJob made = job_of(run, library()).value();
  EXPECT_TRUE(made.assumed_recompute);
  EXPECT_EQ(made.job.layout.recompute, spec::Recompute::none);
}

TEST(RunJob, ElseAsFewLayersAreRecomputedAsMakeItFit) {
  PublishedRun run = stated_run();
  run.recompute = "";
  run.mbs = 16;
  const spec::Job job = job_for(run);
  EXPECT_EQ(job.layout.recompute, spec::Recompute::full);
  EXPECT_GT(job.layout.recompute_layers, 1);
  EXPECT_LE(job.layout.recompute_layers, 36);
  spec::Job fewer = job;
  fewer.layout.recompute_layers -= 1;
  EXPECT_GT(plan::peak_memory(fewer).needed(), plan::peak_memory(job).needed());
  EXPECT_GT(plan::peak_memory(fewer).needed(), job.cluster.device.memory_bytes);
}

TEST(RunJob, RecomputeIsReadFromItsText) {
  const auto recompute = [](const char* text) {
    PublishedRun run = stated_run();
    run.recompute = text;
    return job_for(run).layout;
  };
  EXPECT_EQ(recompute("none").recompute, spec::Recompute::none);
  EXPECT_EQ(recompute("selective").recompute, spec::Recompute::selective);
  EXPECT_EQ(recompute("full").recompute, spec::Recompute::full);
  EXPECT_EQ(recompute("full").recompute_layers, 0);
  EXPECT_EQ(recompute("some layers").recompute_layers, 18);
  EXPECT_TRUE(recompute("selective + offload").offload_activations);
}

TEST(RunJob, AsynchronousTensorParallelismIsSaidInTheNameOrTheRemark) {
  PublishedRun run = stated_run();
  run.framework = "torchtitan";
  run.date = "2025-02";
  EXPECT_FALSE(job_for(run).layout.async_tp);
  run.remark = "compiled, Async TP";
  EXPECT_TRUE(job_for(run).layout.async_tp);
}

TEST(RunJob, ShardGroupsAreReadFromTheirText) {
  const auto group = [](const char* text) {
    PublishedRun run = stated_run();
    run.sharding = text;
    return job_for(run).layout.shard_group;
  };
  EXPECT_EQ(group("FSDP 256 within slice, DP 4 over DCN"), 256);
  EXPECT_EQ(group("FSDP2 group 64"), 64);
  EXPECT_EQ(group("ZeRO-1 optimizer shards over 8-GPU group"), 8);
  EXPECT_EQ(group("ZeRO-1"), 0);
}

TEST(RunJob, ATpuRunIsOneBatchForEachChipOnOneTorus) {
  PublishedRun run = stated_run();
  run.device = "TPU v5e";
  run.framework = "MaxText";
  run.devices = 256;
  run.gbs = 1024;
  run.tp = 1;
  run.mbs = 0;
  run.precision = "BF16";
  const RunJob made = job_of(run, library()).value();
  EXPECT_EQ(made.job.stack.name, "maxtext");
  EXPECT_EQ(made.job.layout.micro_batch, 4);
  EXPECT_EQ(made.job.layout.zero, 3);
  EXPECT_EQ(made.job.cluster.scale_up_domain, 256);
  EXPECT_EQ(made.job.cluster.device.compute_units, 0);
  EXPECT_FALSE(made.assumed_micro_batch);
  EXPECT_EQ(plan::step_time(made.job).micro_batches, 1);
}

TEST(RunJob, SlicesOfATpuPodAreDomainsOfTheirOwn) {
  PublishedRun run = stated_run();
  run.device = "TPU v5e";
  run.framework = "MaxText";
  run.devices = 1024;
  run.gbs = 1024;
  run.tp = 1;
  run.sharding = "FSDP 256 within slice, DP 4 over DCN";
  const spec::Job job = job_for(run);
  EXPECT_EQ(job.cluster.scale_up_domain, 256);
  EXPECT_EQ(job.layout.shard_group, 256);
}

TEST(RunJob, ARackOfSeventyTwoIsOneDomain) {
  PublishedRun run = stated_run();
  run.device = "GB200 (per GPU, NVL72)";
  run.intra_link = "NVLink5 NVL72";
  run.devices = 144;
  run.devices_per_node = 4;
  run.tp = 1;
  run.gbs = 576;
  EXPECT_EQ(job_for(run).cluster.scale_up_domain, 72);
}

TEST(RunJob, ExpertsOfARowThatDoesNotSayAreSpreadOverANode) {
  PublishedRun run = stated_run();
  run.model = "Mixtral 8x7B";
  run.layers = 32;
  run.ffn = 14336;
  run.experts = 8;
  run.topk = 2;
  run.tp = 1;
  EXPECT_EQ(job_for(run).layout.ep, 8);
  run.ep = 2;
  EXPECT_EQ(job_for(run).layout.ep, 2);
}

TEST(RunJob, AnUnknownDeviceIsRefused) {
  PublishedRun run = stated_run();
  run.device = "Abacus 9000";
  EXPECT_FALSE(job_of(run, library()));
}

TEST(RunJob, ARowWithoutHeadsOfATinyModelIsPredicted) {
  PublishedRun run = stated_run();
  run.model = "tiny";
  run.heads = run.kv_heads = run.head_dim = 0;
  run.hidden = 64;
  const Result<RunJob> made = job_of(run, library());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->job.model.attention.heads, 1);
  EXPECT_EQ(made->job.model.attention.head_dim, 64);
}

TEST(RunJob, ExpertsWithoutTheirWidthAreRefused) {
  PublishedRun run = stated_run();
  run.model = "unheard of";
  run.experts = 8;
  run.topk = 2;
  run.ffn = 0;
  EXPECT_FALSE(job_of(run, library()));
}

TEST(RunJob, ALayoutLargerThanItsDevicesIsRefused) {
  PublishedRun run = stated_run();
  run.pp = 64;
  const Result<RunJob> made = job_of(run, library());
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("tp 4 x pp 64 x cp 1 do not divide 64 devices"), std::string::npos);
}

TEST(CatalogRows, EveryCoveredOneIsPredicted) {
  int covered = 0;
  for (const Case& one : catalog_cases()) {
    if (!one.covered()) continue;
    ++covered;
    const double seconds = plan::step_time(one.made.job).total_s;
    EXPECT_TRUE(std::isfinite(seconds) && seconds > 0 && seconds < 1e5) << one.run.id << ": " << seconds;
  }
  EXPECT_GT(covered, 1400);
}

TEST(CatalogRows, HaveALinkWhereverTheyTalk) {
  for (const Case& one : catalog_cases()) {
    if (!one.covered()) continue;
    const spec::Cluster& cluster = one.made.job.cluster;
    if (std::min(cluster.devices, cluster.scale_up_domain) > 1) {
      EXPECT_GT(cluster.scale_up_bytes_per_s, 0) << one.run.id;
    }
    if (cluster.devices > cluster.scale_up_domain) {
      EXPECT_GT(cluster.scale_out_bytes_per_s, 0) << one.run.id;
    }
  }
}

TEST(CatalogRows, OfGradesAAndBAreCoveredButForAFew) {
  std::map<std::string, int> reasons;
  int documented = 0;
  for (const Case& one : catalog_cases()) {
    if (!one.documented()) continue;
    ++documented;
    if (!one.covered()) ++reasons[one.not_covered];
  }
  int left_out = 0;
  for (const auto& [reason, count] : reasons) left_out += count;
  EXPECT_LT(left_out, documented / 20);
}

}  // namespace
}  // namespace twinpod::validate
