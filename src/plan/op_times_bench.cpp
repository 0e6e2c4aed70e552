// How long it takes to time the ops of a step: a trillion parameters in 64 stages with 100 micro-batches.
#include <benchmark/benchmark.h>

#include "plan/op_times.hpp"
#include "plan/test_job.hpp"
#include "program/generate.hpp"

namespace twinpod::plan {
namespace {

// GPT 1 T (Narayanan 2021): 128 layers of width 25,600.
spec::Job trillion_job(spec::Schedule schedule, int pp) {
  spec::Job job = gpt_job(131072);
  job.model.layers = 128;
  job.model.hidden = 25600;
  job.model.ffn = 4 * 25600;
  job.model.attention = {.heads = 160, .kv_heads = 160, .head_dim = 160};
  job.layout.tp = 8;
  job.layout.pp = pp;
  job.layout.schedule = schedule;
  job.layout.sequence_parallel = true;
  job.layout.zero = pp > 1 ? 1 : 3;
  job.training.global_batch = spec::data_parallel(job) * (schedule == spec::Schedule::dualpipe ? 128.0 : 100.0);
  return job;
}

void time_ops(benchmark::State& state, spec::Schedule schedule, int pp) {
  const spec::Job job = trillion_job(schedule, pp);
  const Result<program::Program> program = program::generate(job);
  if (!program) {
    state.SkipWithError(program.error().message.c_str());
    return;
  }
  for (auto unused : state) {
    sim::StepTimes times = op_times(job, *program);
    benchmark::DoNotOptimize(times);
  }
}

void BM_op_times_1f1b(benchmark::State& state) { time_ops(state, spec::Schedule::one_f_one_b, 64); }
void BM_op_times_zb_1p(benchmark::State& state) { time_ops(state, spec::Schedule::zb_1p, 64); }
void BM_op_times_dualpipe(benchmark::State& state) { time_ops(state, spec::Schedule::dualpipe, 64); }
void BM_op_times_zero_3(benchmark::State& state) { time_ops(state, spec::Schedule::one_f_one_b, 1); }
BENCHMARK(BM_op_times_1f1b)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_op_times_zb_1p)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_op_times_dualpipe)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_op_times_zero_3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace twinpod::plan
