// How long one step takes to simulate, everything included but the graph: Program, folding, ops and flows. The bars, on
// one core: GPT-3 175B on 1,024 devices 0.1 s; a trillion parameters on 16,384 devices 0.5 s, on 131,072 devices 3 s,
// and with one slow rank of 16,384 2 s. Seconds of ops are made up here; `twinpod simulate` has real ones.
#include <benchmark/benchmark.h>

#include "cluster/topology.hpp"
#include "program/generate.hpp"
#include "program/test_job.hpp"
#include "sim/step.hpp"
#include "spec/catalog.hpp"
#include "spec/node.hpp"
#include "spec/read.hpp"

namespace {

using namespace twinpod;

spec::Job gpt(int devices, int layers, int hidden, int tp, int pp, double batch) {
  spec::Job job = program::gpt_job(devices, tp, pp);
  job.model.layers = layers;
  job.model.hidden = hidden;
  job.model.ffn = 4 * hidden;
  job.model.vocab = 51200;
  job.model.max_sequence = 2048;
  job.model.attention = {.heads = hidden / 128, .kv_heads = hidden / 128, .head_dim = 128};
  job.training.sequence = 2048;
  job.training.global_batch = batch;
  job.cluster.devices_per_node = 8;
  job.cluster.scale_up_domain = 8;
  return job;
}

sim::StepTimes made_up_times(const program::Program& program) {
  sim::StepTimes times;
  for (const program::Block& block : program.blocks) {
    std::vector<sim::OpTime>& ops = times.ops.emplace_back();
    for (const program::Op& op : block.ops) {
      sim::OpTime time;
      const bool moves = op.kind == program::OpKind::collective || op.kind == program::OpKind::send;
      if (op.work >= 0) time.latency_s = 1e-5 + program.works[static_cast<std::size_t>(op.work)].flop() / 1.5e14;
      if (moves) {
        const bool inside = op.lane == program::Lane::tensor;
        time = {1e-5, op.bytes / (inside ? 250e9 : 40e9), inside ? 250e9 : 40e9, 1};
      }
      ops.push_back(time);
    }
  }
  return times;
}

cluster::Graph graph_of(int devices) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  const std::string text =
      "{name: tree, node: dgx-h100, devices: " + std::to_string(devices) +
      (devices > 16384 ? ", topology: {fabric: fat_tree, radix: 256}}" : ", topology: {fabric: rail_fat_tree}}");
  const spec::Cluster cluster = spec::read_cluster(spec::parse_yaml(text, "bench").value(), "bench", catalog).value();
  return cluster::build_graph(cluster).value();
}

void step(benchmark::State& state, const spec::Job& job, bool slow) {
  const cluster::Graph graph = graph_of(job.cluster.devices);
  for (auto _ : state) {
    const program::Program program = program::generate(job).value();
    const sim::StepTimes times = made_up_times(program);
    sim::StepInput input{program, times};
    input.graph = &graph;
    if (slow) input.slow = {{37, 1.3}};
    const auto run = sim::run_step(input);
    state.counters["step_s"] = run->step_s;
    state.counters["kinds"] = static_cast<double>(run->kinds.size());
    state.counters["events"] = static_cast<double>(run->events);
  }
}

// The same work for each rank on ever more of them: what a simulation costs grows with the kinds of ranks.
void devices(benchmark::State& state) {
  const int number = static_cast<int>(state.range(0));
  step(state, gpt(number, 32, 4096, 8, 8, number / 8), false);
}

BENCHMARK(devices)->RangeMultiplier(4)->Range(64, 1 << 20)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, gpt3_on_1024, gpt(1024, 96, 12288, 8, 8, 1536), false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, trillion_on_16384, gpt(16384, 128, 25600, 8, 64, 3072), false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, trillion_on_16384_slow_rank, gpt(16384, 128, 25600, 8, 64, 3072), true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, trillion_on_131072, gpt(131072, 128, 25600, 8, 64, 24576), false)
    ->Unit(benchmark::kMillisecond);

}  // namespace
