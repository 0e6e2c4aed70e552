// Where the time of one estimate goes: a product, a layer, the step, the memory, the metrics. What a search asks for a
// layout is step_time and peak_memory; what the library calls an estimate has the metrics too, and must take at most 20
// us. (assessment_bench.cpp has what a command prints beyond that: every stage, warnings, the nearest layout that
// fits.)
#include <benchmark/benchmark.h>

#include "cluster/device_time.hpp"
#include "plan/layer_time.hpp"
#include "plan/memory.hpp"
#include "plan/metrics.hpp"
#include "spec/catalog.hpp"

namespace {

using namespace twinpod;

spec::Job job_of(const char* model, const char* cluster, int devices, const char* stack) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  spec::Job job;
  job.model = catalog.model(model).value();
  job.cluster = catalog.cluster(cluster).value();
  job.cluster.devices = devices;
  job.stack = catalog.stack(stack, job.cluster.device.family).value();
  job.training.sequence = job.model.max_sequence;
  job.training.tokens = 300e9;
  return job;
}

spec::Job gpt3() {
  spec::Job job = job_of("gpt3-175b", "dgx-superpod-a100-140", 1024, "megatron-2021");
  job.training.global_batch = 1536;
  job.layout.tp = 8;
  job.layout.pp = 8;
  job.layout.recompute = spec::Recompute::full;
  return job;
}

spec::Job llama3_405b() {
  spec::Job job = job_of("llama3.1-405b", "meta-24k-h100", 16384, "megatron-core-2024");
  job.training.sequence = 8192;
  job.training.global_batch = 2048;
  job.layout.tp = 8;
  job.layout.pp = 16;
  job.layout.sequence_parallel = true;
  job.layout.zero = 2;
  return job;
}

spec::Job deepseek_v3() {
  spec::Job job = job_of("deepseek-v3", "hgx-h800-2048", 2048, "megatron-core-2024");
  job.training.sequence = 4096;
  job.training.global_batch = 15360;
  job.training.precision = spec::Precision::fp8;
  job.layout.pp = 16;
  job.layout.ep = 64;
  job.layout.zero = 1;
  job.layout.schedule = spec::Schedule::dualpipe;
  job.layout.recompute = spec::Recompute::selective;
  return job;
}

void product(benchmark::State& state) {
  const spec::Job job = gpt3();
  const cluster::DeviceTime device(job.cluster.device, job.stack.physics);
  double rows = 2048;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rows);
    benchmark::DoNotOptimize(device.product(rows, 4608, 12288, 1, spec::Precision::bf16));
  }
}

void layer_time_of(benchmark::State& state, const spec::Job& job, model::LayerKind kind) {
  const model::Shard shard = model::shard_of(job);
  for (auto _ : state) benchmark::DoNotOptimize(plan::layer_time(job, shard, kind, false));
}

void step_time_of(benchmark::State& state, const spec::Job& job) {
  for (auto _ : state) benchmark::DoNotOptimize(plan::step_time(job));
}

void peak_memory_of(benchmark::State& state, const spec::Job& job) {
  for (auto _ : state) benchmark::DoNotOptimize(plan::peak_memory(job));
}

void estimate_of(benchmark::State& state, const spec::Job& job) {
  for (auto _ : state) {
    const plan::StepTime step = plan::step_time(job);
    benchmark::DoNotOptimize(plan::peak_memory(job));
    benchmark::DoNotOptimize(plan::metrics(job, step));
  }
}

BENCHMARK(product);
BENCHMARK_CAPTURE(layer_time_of, gpt3, gpt3(), model::LayerKind::dense);
BENCHMARK_CAPTURE(layer_time_of, deepseek_v3, deepseek_v3(), model::LayerKind::experts);
BENCHMARK_CAPTURE(step_time_of, gpt3, gpt3());
BENCHMARK_CAPTURE(step_time_of, llama3_405b, llama3_405b());
BENCHMARK_CAPTURE(step_time_of, deepseek_v3, deepseek_v3());
BENCHMARK_CAPTURE(peak_memory_of, gpt3, gpt3());
BENCHMARK_CAPTURE(peak_memory_of, llama3_405b, llama3_405b());
BENCHMARK_CAPTURE(peak_memory_of, deepseek_v3, deepseek_v3());
BENCHMARK_CAPTURE(estimate_of, gpt3, gpt3());
BENCHMARK_CAPTURE(estimate_of, llama3_405b, llama3_405b());
BENCHMARK_CAPTURE(estimate_of, deepseek_v3, deepseek_v3());

}  // namespace
