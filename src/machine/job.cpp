// This machine as one job sees it: its products, its kernels, its messages, and no more.
#include <algorithm>
#include <array>
#include <set>

#include "kernel/processor.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"
#include "model/arithmetic.hpp"

namespace twinpod::machine {
namespace {

using comm::Communicator;

constexpr int kBlocks = 8;
constexpr double kMostSeconds = 0.04;  // for a figure
constexpr double kMemoryBytes = 32e6;  // of an array

// Rates do not change beyond that, but seconds do.
constexpr double kMostFlop = 1e9;
constexpr double kMostElements = 4e6;

struct TimedProduct {
  int m, n, k;
  Way way;
  auto operator<=>(const TimedProduct&) const = default;
};

TimedProduct smaller(double m, double n, double k, Way way) {
  std::array<double, 3> sizes = {m, n, k};
  const auto is_too_much = [&] {
    const auto [a, b, c] = sizes;
    return 2 * a * b * c > kMostFlop || std::max({a * b, b * c, a * c}) > kMostElements;
  };
  while (is_too_much()) *std::max_element(sizes.begin(), sizes.end()) /= 2;
  const auto whole = [](double size) { return std::max(1, static_cast<int>(size)); };
  return {whole(sizes[0]), whole(sizes[1]), whole(sizes[2]), way};
}

// As they are executed: weights are stored as (outputs x inputs).
std::set<TimedProduct> products_of(const spec::Job& job) {
  const model::Shard shard = model::shard_of(job);
  const model::LayerWork layer = model::layer_work(job.model, shard, model::LayerKind::dense, false);
  std::set<TimedProduct> all;
  const auto add = [&](const model::Gemm& gemm) {
    all.insert(smaller(gemm.m, gemm.n, gemm.k, Way::forward));
    all.insert(smaller(gemm.m, gemm.k, gemm.n, Way::input_gradient));
    all.insert(smaller(gemm.n, gemm.k, gemm.m, Way::weight_gradient));
  };
  for (const model::Gemm& gemm : layer.attention_gemms) add(gemm);
  for (const model::Gemm& gemm : layer.mlp_gemms) add(gemm);
  add(model::head_work(job.model, shard).logits);
  return all;
}

KernelShape kernels_of(const spec::Job& job) {
  const double ranks = static_cast<double>(job.layout.tp) * job.layout.pp;
  const int sharing = job.layout.zero > 0 ? spec::data_parallel(job) : 1;
  return {job.model, model::shard_of(job),
          static_cast<std::int64_t>(model::parameters(job.model).total / ranks / sharing)};
}

// About what a step touches: what the products of all layers read and write, and the optimizer's state.
std::size_t step_bytes(const spec::Job& job, const KernelShape& kernels) {
  constexpr double kStateBytes = 8;  // of a parameter
  const model::LayerWork layer = model::layer_work(job.model, kernels.shard, model::LayerKind::dense, false);
  double elements = 0;
  for (const model::GemmList* list : {&layer.attention_gemms, &layer.mlp_gemms}) {
    for (const model::Gemm& gemm : *list) elements += gemm.m * (gemm.k + gemm.n) + 2 * gemm.n * gemm.k;
  }
  const double layers = std::max(1.0, static_cast<double>(job.model.layers) / job.layout.pp);
  const double element_bytes = job.training.precision == spec::Precision::bf16 ? 2 : 4;
  return static_cast<std::size_t>(layers * elements * element_bytes + kStateBytes * double(kernels.parameters));
}

// Many ranks on one machine have to share its memory.
std::size_t ring_bytes(const Machine& machine) {
  constexpr double kLeast = 64e6;
  const double share = machine.memory_bytes * machine.hosts / (16.0 * machine.ranks);
  return static_cast<std::size_t>(std::clamp(share, kLeast, static_cast<double>(kRingBytes)));
}

Result<void> measure_transfers(Communicator& world, const std::string& transport, Machine& machine) {
  machine.ranks = comm::size_of(world);
  if (machine.ranks < 2) return {};
  if (transport == "mpi") {
    if (Result<void> done = measure_messages(world, transport, true, machine); !done) return done;
  }
  return measure_step_links(world, transport, machine);
}

}  // namespace

Result<void> measure_job(Communicator& world, const spec::Job& job, const std::string& transport, Machine& machine) {
  kernel::flush_denormals();
  machine.threads = 1;
  if (Result<void> done = measure_transfers(world, transport, machine); !done) return done;
  const RankRequest request{.threads = 1, .quick = true, .blocks = kBlocks, .most_s = kMostSeconds, .typical = true};
  const spec::Precision precision = job.training.precision;
  Ring ring(ring_bytes(machine));
  if (!ring.is_there()) return infeasible("no memory to measure this machine");
  const KernelShape kernels = kernels_of(job);
  ring.turn_within(step_bytes(job, kernels));
  for (const TimedProduct& one : products_of(job)) {
    const std::array ways = {one.way};
    const ProductShape shape{one.m, one.n, one.k};
    if (Result<void> done = time_product(world, request, shape, ways, precision, ring, machine); !done) return done;
  }
  if (Result<void> done = time_kernels_of(world, request, kernels, precision, ring, machine); !done) return done;
  if (Result<void> done = time_overheads(world, request, machine); !done) return done;
  return time_memory(world, request, kMemoryBytes, machine);
}

Result<void> measure_surroundings(Communicator& world, const spec::Job& job, double flop_per_s,
                                  const std::string& transport, Machine& machine) {
  constexpr int kSide = 512;
  machine.threads = 1;
  if (Result<void> done = measure_transfers(world, transport, machine); !done) return done;
  const double flop = 2.0 * kSide * kSide * kSide;
  machine.products.push_back({job.training.precision, kSide, kSide, kSide, comm::size_of(world), 1, flop / flop_per_s});
  const RankRequest request{.threads = 1, .quick = true, .blocks = kBlocks, .most_s = kMostSeconds, .typical = true};
  return time_memory(world, request, kMemoryBytes, machine);
}

}  // namespace twinpod::machine
