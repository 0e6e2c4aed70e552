// Products and memory, on all ranks at once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>

#include "kernel/product.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"

namespace twinpod::machine {
namespace {

using comm::Communicator;
using spec::Precision;

// Short blocks, many of them: on a machine that does other things too, some are undisturbed.
constexpr double kBlockSeconds = 0.003;
constexpr int kBlocks = 15;
constexpr int kLeastBlocks = 4;
constexpr double kMostSeconds = 0.4;
constexpr std::size_t kAlignment = 64;

// Of a rank with one thread and a core of its own: the time that it had the core, so that other work on the machine
// does not count. Otherwise that of the wall.
double now_s(bool own_core) {
  timespec time{};
  clock_gettime(own_core ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool has_own_core(const Communicator& world, const RankRequest& request, const Machine& machine) {
  return request.threads == 1 && comm::size_of(world) <= machine.cores * machine.hosts;
}

struct Shape {
  int m, n, k;
};
// Squares, and layers of small transformers: tokens by width, both ways, and the four times as wide middle.
constexpr std::array<Shape, 18> kShapes = {{{32, 32, 32},
                                            {64, 64, 64},
                                            {128, 128, 128},
                                            {256, 256, 256},
                                            {512, 512, 512},
                                            {1024, 1024, 1024},
                                            {128, 512, 512},
                                            {128, 2048, 512},
                                            {128, 512, 2048},
                                            {512, 512, 128},
                                            {512, 2048, 512},
                                            {512, 512, 2048},
                                            {1024, 768, 768},
                                            {1024, 3072, 768},
                                            {1024, 768, 3072},
                                            {2048, 64, 512},
                                            {256, 1024, 4096},
                                            {64, 4096, 1024}}};
constexpr std::array<Shape, 3> kQuickShapes = {{{128, 128, 128}, {512, 512, 512}, {512, 2048, 512}}};

std::span<const Shape> shapes_of(bool quick) {
  return quick ? std::span<const Shape>(kQuickShapes) : std::span<const Shape>(kShapes);
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

Memory memory_of(std::size_t bytes) {
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Memory memory(static_cast<char*>(std::aligned_alloc(kAlignment, whole)));
  if (memory) std::memset(memory.get(), 0, whole);  // zeros: no product of them is slow
  return memory;
}

// Seconds of one call on the slowest rank, in the best of some blocks; all ranks call at once.
Result<double> best_seconds(Communicator& world, bool own_core, const std::function<void()>& call) {
  call();
  const double start = now_s(own_core);
  call();
  Result<double> once = largest_of_ranks(world, now_s(own_core) - start);
  if (!once) return once;
  const int calls = std::clamp(static_cast<int>(kBlockSeconds / *once), 1, 20000);
  double best = *once;
  double spent = 0;  // the same on all ranks, so that they stop together
  for (int block = 0; block < kBlocks && (block < kLeastBlocks || spent < kMostSeconds); ++block) {
    if (Result<void> together = comm::run(world, {.verb = comm::Verb::barrier}); !together) {
      return tl::unexpected(together.error());
    }
    const double begin = now_s(own_core);
    for (int i = 0; i < calls; ++i) call();
    const Result<double> seconds = largest_of_ranks(world, (now_s(own_core) - begin) / calls);
    if (!seconds) return seconds;
    best = std::min(best, *seconds);
    spent += calls * *seconds;
  }
  return best;
}

// Nothing if the processor cannot do it.
Result<void> time_product(Communicator& world, const RankRequest& request, const Shape& shape, Precision precision,
                          Machine& machine) {
  const bool own_core = has_own_core(world, request, machine);
  kernel::set_threads(request.threads);
  const Result<kernel::Product> product = kernel::make_product({shape.m, shape.n, shape.k, precision});
  if (!product) return {};
  const std::size_t bytes = precision == Precision::bf16 ? 2 : 4;
  const auto area = [&](int x, int y) { return bytes * static_cast<std::size_t>(x) * static_cast<std::size_t>(y); };
  const Memory a = memory_of(area(shape.m, shape.k));
  const Memory b = memory_of(area(shape.k, shape.n));
  const Memory c = memory_of(area(shape.m, shape.n));
  if (!a || !b || !c) return infeasible("no memory for a matrix product");
  const Result<double> seconds =
      best_seconds(world, own_core, [&] { kernel::multiply(*product, a.get(), b.get(), c.get()); });
  if (!seconds) return tl::unexpected(seconds.error());
  const int ranks = comm::size_of(world);
  machine.products.push_back({precision, shape.m, shape.n, shape.k, ranks, request.threads, *seconds});
  return {};
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

// Arrays that no cache holds, where there is memory for them.
std::size_t array_floats(const Machine& machine, int ranks) {
  const double most = machine.memory_bytes / (24.0 * ranks);
  return static_cast<std::size_t>(std::max(1e6, std::min(2 * std::max(machine.cache_bytes, 32e6), most)) / 4);
}

Result<void> time_memory(Communicator& world, const RankRequest& request, Machine& machine) {
  const bool own_core = has_own_core(world, request, machine);
  const int ranks = comm::size_of(world);
  const std::size_t count = array_floats(machine, ranks);
  const Memory memory = memory_of(3 * count * sizeof(float));
  if (!memory) return infeasible("no memory to measure its bandwidth");
  auto* const a = reinterpret_cast<float*>(memory.get());
  const float* const b = a + count;
  const auto part = [&](std::size_t first, std::size_t last) {
    triad(a + first, b + first, b + count + first, last - first);
  };
  const Result<double> triads = best_seconds(world, own_core, [&] { on_threads(request.threads, count, part); });
  if (!triads) return tl::unexpected(triads.error());
  // A line that is written is read before, so four arrays pass.
  machine.memory.push_back({"triad", ranks, request.threads, 4.0 * sizeof(float) * double(count) / *triads});
  const auto copied = [&](std::size_t first, std::size_t last) {
    std::memcpy(a + first, b + first, (last - first) * sizeof(float));
  };
  const Result<double> copies = best_seconds(world, own_core, [&] { on_threads(request.threads, count, copied); });
  if (!copies) return tl::unexpected(copies.error());
  machine.memory.push_back({"copy", ranks, request.threads, 2.0 * sizeof(float) * double(count) / *copies});
  return {};
}

// Calls with next to nothing to do.
Result<void> time_overheads(Communicator& world, const RankRequest& request, Machine& machine) {
  const bool own_core = has_own_core(world, request, machine);
  kernel::set_threads(request.threads);
  alignas(kAlignment) std::array<float, 64> a{}, b{}, c{};
  const Result<kernel::Product> product = kernel::make_product({4, 4, 4});
  if (!product) return tl::unexpected(product.error());
  const Result<double> small =
      best_seconds(world, own_core, [&] { kernel::multiply(*product, a.data(), b.data(), c.data()); });
  if (!small) return tl::unexpected(small.error());
  machine.product_overhead_s = *small;
  void (*volatile kernel)(float*, const float*, const float*, std::size_t) = triad;
  const Result<double> tiny = best_seconds(world, own_core, [&] { kernel(a.data(), b.data(), c.data(), a.size()); });
  if (!tiny) return tl::unexpected(tiny.error());
  machine.kernel_overhead_s = *tiny;
  return {};
}

}  // namespace

Result<double> largest_of_ranks(Communicator& world, double value) {
  const Result<void> done = comm::run(world, {.verb = comm::Verb::all_reduce,
                                              .input = &value,
                                              .output = &value,
                                              .count = 1,
                                              .type = comm::ElementType::f64,
                                              .op = comm::ReduceOp::max});
  if (!done) return tl::unexpected(done.error());
  return value;
}

int steps_of(const RankRequest& request) { return 2 * static_cast<int>(shapes_of(request.quick).size()) + 2; }

Result<void> measure_compute(Communicator& world, const RankRequest& request, Machine& machine) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const Shape& shape : shapes_of(request.quick)) {
      if (Result<void> done = time_product(world, request, shape, precision, machine); !done) return done;
      request.step();
    }
  }
  if (Result<void> done = time_memory(world, request, machine); !done) return done;
  request.step();
  if (Result<void> done = time_overheads(world, request, machine); !done) return done;
  request.step();
  return {};
}

}  // namespace twinpod::machine
