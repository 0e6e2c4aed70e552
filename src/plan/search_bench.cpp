// How many layouts a search tries in a second on one core, and how long whole spaces take on all cores.
//
// A layout that does not fit costs only its memory, so the rate depends on how many fit; `timed` gives the device
// memory without end, so that every layout is timed, too. Calculon's exhaustive search, the rival, tries 222 layouts a
// second on two cores (138,624 layouts of GPT-3 on 64 A100 in 626 s).
#include <benchmark/benchmark.h>

#include "core/parallel.hpp"
#include "plan/search.hpp"
#include "spec/catalog.hpp"

namespace {

using namespace twinpod;

spec::Job job_of(const char* model, const char* cluster, int devices, double batch, bool endless_memory) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  spec::Job job;
  job.model = catalog.model(model).value();
  job.cluster = catalog.cluster(cluster).value();
  job.cluster.devices = devices;
  job.stack = catalog.stack("megatron-core-2023", job.cluster.device.family).value();
  job.training.sequence = job.model.max_sequence;
  job.training.global_batch = batch;
  if (endless_memory) {
    job.cluster.device.memory_bytes = 1e18;
    job.cluster.host_memory_bytes = 0;
  }
  return job;
}

// Everything that the closed form knows: all schedules, ZeRO stages, offloading, parameter servers.
void search_space(benchmark::State& state, const spec::Job& job, int threads) {
  const plan::Space space = plan::space_of(job, {}, plan::all_abilities());
  double tried = 0;
  double fit = 0;
  for (auto _ : state) {
    const plan::SearchResult found = plan::search(space, {.keep = 10, .num_threads = threads});
    tried += static_cast<double>(found.evaluated);
    fit = static_cast<double>(found.feasible) / static_cast<double>(found.evaluated);
  }
  const int cores = threads > 0 ? threads : num_hardware_threads();
  state.counters["layouts"] = tried / static_cast<double>(state.iterations());
  state.counters["fit"] = fit;
  state.counters["layouts_per_s_and_core"] = benchmark::Counter(tried / cores, benchmark::Counter::kIsRate);
}

void bounded_space(benchmark::State& state, const spec::Job& job) {
  const plan::Space space = plan::space_of(job, {}, plan::all_abilities());
  for (auto _ : state) benchmark::DoNotOptimize(plan::search(space, {.keep = 10, .bounded = true}));
}

#define TWINPOD_SEARCH(name, job, threads) \
  BENCHMARK_CAPTURE(search_space, name, job, threads)->Unit(benchmark::kMillisecond)->UseRealTime()

TWINPOD_SEARCH(gpt3_on_64_a100_one_core, job_of("gpt3-175b", "selene-4480", 64, 1024, false), 1);
TWINPOD_SEARCH(gpt3_on_64_a100_one_core_timed, job_of("gpt3-175b", "selene-4480", 64, 1024, true), 1);
TWINPOD_SEARCH(megatron_1t_on_4096_a100_one_core, job_of("megatron-1t", "selene-4480", 4096, 3072, false), 1);
TWINPOD_SEARCH(megatron_1t_on_4096_a100_one_core_timed, job_of("megatron-1t", "selene-4480", 4096, 3072, true), 1);
TWINPOD_SEARCH(megatron_1t_on_4096_a100_all_cores, job_of("megatron-1t", "selene-4480", 4096, 3072, false), 0);
TWINPOD_SEARCH(deepseek_v3_on_2048_h800_all_cores, job_of("deepseek-v3", "hgx-h800-2048", 2048, 15360, false), 0);
BENCHMARK_CAPTURE(bounded_space, megatron_1t_on_4096_a100_all_cores,
                  job_of("megatron-1t", "selene-4480", 4096, 3072, false))
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
