// How long a Program takes to make and to check: a trillion parameters on up to 131,072 ranks.
#include <benchmark/benchmark.h>

#include "program/check.hpp"
#include "program/generate.hpp"
#include "program/test_job.hpp"

namespace twinpod::program {
namespace {

// GPT 1 T (Narayanan 2021): 128 layers of width 25,600; tp 8, pp 64, 100 micro-batches.
spec::Job trillion_job(int devices, spec::Schedule schedule) {
  spec::Job job = gpt_job(devices, 8, 64);
  job.model.layers = 128;
  job.model.hidden = 25600;
  job.model.ffn = 4 * 25600;
  job.model.vocab = 51200;
  job.model.attention = {.heads = 160, .kv_heads = 160, .head_dim = 160};
  job.layout.schedule = schedule;
  job.layout.sequence_parallel = true;
  job.layout.zero = 1;
  const int batches = schedule == spec::Schedule::dualpipe ? 128 : 100;
  job.training.global_batch = spec::data_parallel(job) * batches;
  job.training.sequence = 2048;
  return job;
}

void make(benchmark::State& state, spec::Schedule schedule) {
  const spec::Job job = trillion_job(static_cast<int>(state.range(0)), schedule);
  for (auto unused : state) {
    Result<Program> program = generate(job);
    benchmark::DoNotOptimize(program);
  }
}
void BM_generate_1f1b(benchmark::State& state) { make(state, spec::Schedule::one_f_one_b); }
void BM_generate_zb_1p(benchmark::State& state) { make(state, spec::Schedule::zb_1p); }
void BM_generate_dualpipe(benchmark::State& state) { make(state, spec::Schedule::dualpipe); }
BENCHMARK(BM_generate_1f1b)->Arg(1024)->Arg(16384)->Arg(131072)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_generate_zb_1p)->Arg(131072)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_generate_dualpipe)->Arg(131072)->Unit(benchmark::kMillisecond);

void BM_check(benchmark::State& state) {
  const Result<Program> program = generate(trillion_job(131072, spec::Schedule::one_f_one_b));
  for (auto unused : state) {
    Result<void> sound = check(*program);
    benchmark::DoNotOptimize(sound);
  }
}
BENCHMARK(BM_check)->Unit(benchmark::kMillisecond);

void BM_memory(benchmark::State& state) {
  const Result<Program> program = generate(trillion_job(131072, spec::Schedule::one_f_one_b));
  for (auto unused : state) {
    Result<void> fits = check_memory(*program);
    benchmark::DoNotOptimize(fits);
  }
}
BENCHMARK(BM_memory)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace twinpod::program
