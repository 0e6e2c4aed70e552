// How long one estimate takes in the library: step time alone, with memory, and all that a command prints.
#include <benchmark/benchmark.h>

#include "layout/check.hpp"
#include "plan/assessment.hpp"
#include "plan/fits.hpp"
#include "spec/read.hpp"

namespace {

using namespace twinpod;

spec::Job job_of(const char* model, const char* cluster, const std::vector<spec::Setting>& sets) {
  spec::Request request;
  request.model = model;
  request.cluster = cluster;
  request.sets = sets;
  return spec::read_job(request, spec::Catalog(TWINPOD_CATALOG_DIR)).value();
}

spec::Job dense_job() {
  return job_of("gpt3-175b", "dgx-superpod-a100-140", {"devices=1024", "layout.tp=8", "layout.pp=8"});
}

spec::Job mixture_job() {
  return job_of("deepseek-v3", "h100-superpod",
                {"devices=2048", "layout.pp=16", "layout.ep=64", "layout.recompute=full"});
}

void step_time_of(benchmark::State& state, const spec::Job& job) {
  for (auto _ : state) benchmark::DoNotOptimize(plan::step_time(job));
}

void estimate_of(benchmark::State& state, const spec::Job& job) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(layout::check(job));
    benchmark::DoNotOptimize(plan::peak_memory(job));
    benchmark::DoNotOptimize(plan::step_time(job));
  }
}

void assessment_of(benchmark::State& state, const spec::Job& job) {
  for (auto _ : state) benchmark::DoNotOptimize(plan::assess(job, {}));
}

void nearest_fitting_of(benchmark::State& state, const spec::Job& job) {
  for (auto _ : state) benchmark::DoNotOptimize(plan::nearest_fitting(job));
}

BENCHMARK_CAPTURE(step_time_of, gpt3, dense_job());
BENCHMARK_CAPTURE(step_time_of, deepseek_v3, mixture_job());
BENCHMARK_CAPTURE(estimate_of, gpt3, dense_job());
BENCHMARK_CAPTURE(estimate_of, deepseek_v3, mixture_job());
BENCHMARK_CAPTURE(assessment_of, gpt3, dense_job());
BENCHMARK_CAPTURE(assessment_of, deepseek_v3, mixture_job());
BENCHMARK_CAPTURE(nearest_fitting_of, gpt3, dense_job());

}  // namespace
