// How long it takes to read a whole job from its file, with its device, node, cluster, model, stack and parameters. A
// new catalog each time: a command starts with nothing in memory.
#include <benchmark/benchmark.h>

#include "spec/read.hpp"

namespace {

void read_example(benchmark::State& state) {
  twinpod::spec::Request request;
  request.file = TWINPOD_SOURCE_DIR "/examples/gpt3-175b.yaml";
  for ([[maybe_unused]] auto _ : state) {
    const twinpod::spec::Catalog catalog(TWINPOD_CATALOG_DIR);
    benchmark::DoNotOptimize(twinpod::spec::read_job(request, catalog));
  }
}

void refuse_unknown_name(benchmark::State& state) {
  twinpod::spec::Request request;
  request.model = "gpt3-157b";
  request.cluster = "dgx-superpod-a100-140";
  for ([[maybe_unused]] auto _ : state) {
    const twinpod::spec::Catalog catalog(TWINPOD_CATALOG_DIR);
    benchmark::DoNotOptimize(twinpod::spec::read_job(request, catalog));
  }
}

BENCHMARK(read_example)->Unit(benchmark::kMillisecond);
BENCHMARK(refuse_unknown_name)->Unit(benchmark::kMillisecond);

}  // namespace
