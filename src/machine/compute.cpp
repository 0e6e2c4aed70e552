// Products and memory, on all ranks at once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "kernel/gemm.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"

namespace twinpod::machine {
namespace {

using comm::Communicator;
using spec::Precision;

// Squares, and layers of small transformers: tokens by width, both ways, their weights' gradients, and a vocabulary.
constexpr std::array<ProductShape, 18> kShapes = {{{32, 32, 32},
                                                   {64, 64, 64},
                                                   {128, 128, 128},
                                                   {256, 256, 256},
                                                   {512, 512, 512},
                                                   {1024, 1024, 1024},
                                                   {512, 768, 256},
                                                   {1024, 256, 1024},
                                                   {256, 1024, 1024},
                                                   {2048, 384, 384},
                                                   {2048, 1536, 384},
                                                   {2048, 384, 1536},
                                                   {384, 1536, 2048},
                                                   {2048, 4096, 384},
                                                   {1024, 3072, 768},
                                                   {1024, 768, 3072},
                                                   {768, 3072, 1024},
                                                   {3072, 3072, 384}}};
constexpr std::array<ProductShape, 3> kQuickShapes = {{{128, 128, 128}, {512, 512, 512}, {512, 2048, 512}}};

constexpr std::array kAllWays = {Way::forward, Way::weight_gradient, Way::input_gradient};

std::span<const ProductShape> shapes_of(bool quick) {
  return quick ? std::span<const ProductShape>(kQuickShapes) : std::span<const ProductShape>(kShapes);
}

template <typename T>
void multiply(const ProductShape& shape, Way way, Ring& ring) {
  const auto area = [](int x, int y) { return static_cast<std::size_t>(x) * static_cast<std::size_t>(y); };
  const T* a = ring.next<T>(area(shape.m, shape.k));
  const T* b = ring.next<T>(area(shape.k, shape.n));
  kernel::Gemm gemm{.m = shape.m, .n = shape.n, .k = shape.k, .recombines = true};
  if (way == Way::weight_gradient) {
    gemm.transpose_a = gemm.accumulate = gemm.rounds_operands = true;
    kernel::gemm<T, float>(gemm, a, b, ring.next<float>(area(shape.m, shape.n)));
    return;
  }
  gemm.transpose_b = way == Way::forward;
  kernel::gemm<T>(gemm, a, b, ring.next<T>(area(shape.m, shape.n)));
}

void triad(float* a, const float* b, const float* c, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + 0.5F * c[i];
}

void on_threads(int threads, std::size_t count, const std::function<void(std::size_t, std::size_t)>& part) {
  std::vector<std::thread> others;
  const auto parts = static_cast<std::size_t>(threads);
  for (std::size_t t = 1; t < parts; ++t) others.emplace_back(part, count * t / parts, count * (t + 1) / parts);
  part(0, count / parts);
  for (std::thread& other : others) other.join();
}

std::size_t array_floats(const Machine& machine, int ranks, double most_bytes) {
  const double most = std::min(most_bytes, machine.memory_bytes / (24.0 * ranks));
  return static_cast<std::size_t>(std::max(1e6, std::min(2 * std::max(machine.cache_bytes, 32e6), most)) / 4);
}

}  // namespace

Result<void> time_product(Communicator& world, const RankRequest& request, const ProductShape& shape,
                          std::span<const Way> ways, Precision precision, Ring& ring, Machine& machine) {
  kernel::set_threads(request.threads);
  const Result<double> seconds = seconds_of_call(world, timing_of(world, request, machine), [&] {
    for (const Way way : ways) {
      precision == Precision::bf16 ? multiply<Bf16>(shape, way, ring) : multiply<float>(shape, way, ring);
    }
  });
  if (!seconds) return tl::unexpected(seconds.error());
  const int ranks = comm::size_of(world);
  machine.products.push_back(
      {precision, shape.m, shape.n, shape.k, ranks, request.threads, *seconds / static_cast<double>(ways.size())});
  return {};
}

Result<void> time_memory(Communicator& world, const RankRequest& request, double most_bytes, Machine& machine) {
  const Timing timing = timing_of(world, request, machine);
  const int ranks = comm::size_of(world);
  const std::size_t count = array_floats(machine, ranks, most_bytes);
  Ring ring(3 * count * sizeof(float));
  if (!ring.is_there()) return infeasible("no memory to measure its bandwidth");
  auto* const a = ring.next<float>(3 * count);
  const float* const b = a + count;
  const auto part = [&](std::size_t first, std::size_t last) {
    triad(a + first, b + first, b + count + first, last - first);
  };
  const Result<double> triads = seconds_of_call(world, timing, [&] { on_threads(request.threads, count, part); });
  if (!triads) return tl::unexpected(triads.error());
  // A line that is written is read before, so four arrays pass.
  machine.memory.push_back({"triad", ranks, request.threads, 4.0 * sizeof(float) * double(count) / *triads});
  const auto copied = [&](std::size_t first, std::size_t last) {
    std::memcpy(a + first, b + first, (last - first) * sizeof(float));
  };
  const Result<double> copies = seconds_of_call(world, timing, [&] { on_threads(request.threads, count, copied); });
  if (!copies) return tl::unexpected(copies.error());
  machine.memory.push_back({"copy", ranks, request.threads, 2.0 * sizeof(float) * double(count) / *copies});
  return {};
}

// Calls with next to nothing to do.
Result<void> time_overheads(Communicator& world, const RankRequest& request, Machine& machine) {
  const Timing timing = timing_of(world, request, machine);
  kernel::set_threads(request.threads);
  alignas(64) std::array<float, 64> a{}, b{}, c{};
  const Result<double> small = seconds_of_call(
      world, timing, [&] { kernel::gemm<float>({.m = 4, .n = 4, .k = 4}, a.data(), b.data(), c.data()); });
  if (!small) return tl::unexpected(small.error());
  machine.product_overhead_s = *small;
  void (*volatile kernel)(float*, const float*, const float*, std::size_t) = triad;
  const Result<double> tiny = seconds_of_call(world, timing, [&] { kernel(a.data(), b.data(), c.data(), a.size()); });
  if (!tiny) return tl::unexpected(tiny.error());
  machine.kernel_overhead_s = *tiny;
  return {};
}

namespace {

// Who shares a machine with others finds it slow for seconds at a time: no figure should have all of its blocks in such
// a time, so all figures are taken several times, one after the other.
int rounds_of(const RankRequest& request) { return request.quick ? 1 : 3; }

Result<void> measure_round(Communicator& world, const RankRequest& request, Machine& machine) {
  Ring ring(kRingBytes);
  if (!ring.is_there()) return infeasible("no memory for matrix products");
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const ProductShape& shape : shapes_of(request.quick)) {
      if (Result<void> done = time_product(world, request, shape, kAllWays, precision, ring, machine); !done) {
        return done;
      }
      request.step();
    }
  }
  if (Result<void> done = time_memory(world, request, machine.memory_bytes, machine); !done) return done;
  request.step();
  if (Result<void> done = time_overheads(world, request, machine); !done) return done;
  request.step();
  if (Result<void> done = time_kernels(world, request, machine); !done) return done;
  request.step();
  return {};
}

Machine without_figures(Machine machine) {
  machine.products.clear();
  machine.memory.clear();
  machine.kernels.clear();
  machine.links.clear();
  return machine;
}

// REQUIRES: figures of the same, in the same order.
void keep_best(Machine& best, const Machine& other) {
  const auto keep = [](double& seconds, double others) { seconds = std::min(seconds, others); };
  for (std::size_t i = 0; i < best.products.size(); ++i) keep(best.products[i].seconds, other.products[i].seconds);
  for (std::size_t i = 0; i < best.kernels.size(); ++i) keep(best.kernels[i].seconds, other.kernels[i].seconds);
  for (std::size_t i = 0; i < best.memory.size(); ++i) {
    best.memory[i].bytes_per_s = std::max(best.memory[i].bytes_per_s, other.memory[i].bytes_per_s);
  }
  keep(best.product_overhead_s, other.product_overhead_s);
  keep(best.kernel_overhead_s, other.kernel_overhead_s);
}

}  // namespace

int steps_of(const RankRequest& request) {
  return rounds_of(request) * (2 * static_cast<int>(shapes_of(request.quick).size()) + 3);
}

Result<void> measure_compute(Communicator& world, const RankRequest& request, Machine& machine) {
  kernel::flush_denormals();
  const int rounds = rounds_of(request);
  RankRequest part = request;
  part.blocks = (request.blocks + rounds - 1) / rounds;
  part.most_s = request.most_s / rounds;
  Machine best;
  for (int round = 0; round < rounds; ++round) {
    Machine found = without_figures(machine);
    if (Result<void> done = measure_round(world, part, found); !done) return done;
    if (round == 0) {
      best = std::move(found);
    } else {
      keep_best(best, found);
    }
  }
  append(machine, std::move(best));
  return {};
}

}  // namespace twinpod::machine
