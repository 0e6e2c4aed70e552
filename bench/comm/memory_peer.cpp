// What memory allows, timed on request for `twinpod bench comm --against memory`: see cli/bench_peers.hpp.
//
// Two processes, each on a core of its own, read and write as many bytes of shared memory as the two ranks of a
// collective have to, out of place, and never wait for each other. Each kind of traffic is tried with stores through
// the caches and past them; the faster one is the limit.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 20U;
constexpr std::size_t kLeastBytes = std::size_t{1} << 20U;  // below, it is the caches that decide
constexpr std::size_t kLarge = std::size_t{16} << 20U;      // bytes that take so long that two calls before are enough

struct Order {
  std::string verb, type, op;
  std::size_t bytes = 0;
  int iterations = 0;
};

struct Shared {
  std::atomic<int> arrived = 0;  // counted on and on
};

// Buffers 0 and 1 are the inputs of the two ranks, 2 and 3 their outputs.
struct Memory {
  std::byte* base = nullptr;
  Shared* shared = nullptr;
  float* buffer(int index, std::size_t offset) const {
    return reinterpret_cast<float*>(base + static_cast<std::size_t>(index) * kBufferBytes + offset);
  }
};

// What one rank moves: from one or two sources, added up, into one or two targets.
struct Traffic {
  std::vector<const float*> sources;
  std::vector<float*> targets;
  std::size_t bytes = 0;
};

// A send goes forth and back in turn.
std::vector<Traffic> traffic_of(const Order& order, const Memory& memory, int rank, int turn) {
  const std::size_t half = order.bytes / 2 / 4096 * 4096;
  const std::size_t own = static_cast<std::size_t>(rank) * half;
  const int other = 1 - rank;
  const auto in = [&](int index, std::size_t offset) -> const float* { return memory.buffer(index, offset); };
  const auto out = [&](int index, std::size_t offset) { return memory.buffer(2 + index, offset); };
  if (order.verb == "all_reduce") return {{{in(0, own), in(1, own)}, {out(rank, own), out(other, own)}, half}};
  if (order.verb == "reduce_scatter") return {{{in(0, own), in(1, own)}, {out(rank, 0)}, half}};
  if (order.verb == "all_gather") return {{{in(0, 0)}, {out(rank, 0)}, half}, {{in(1, 0)}, {out(rank, half)}, half}};
  if (order.verb == "broadcast") return {{{in(0, 0)}, {out(rank, 0)}, 2 * half}};
  if (order.verb == "send") return {{{in(turn, own)}, {out(1 - turn, own)}, half}};
  return {};
}

void move_cached(const Traffic& traffic) {
  const std::size_t count = traffic.bytes / sizeof(float);
  if (traffic.sources.size() == 1) {
    std::memcpy(traffic.targets[0], traffic.sources[0], traffic.bytes);
    return;
  }
  const float* const a = traffic.sources[0];
  const float* const b = traffic.sources[1];
  float* const first = traffic.targets[0];
  float* const second = traffic.targets.back();
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) first[i] = second[i] = a[i] + b[i];
}

#ifdef __x86_64__
void move_past_caches(const Traffic& traffic) {
  constexpr std::size_t kLanes = 4;
  constexpr std::size_t kLine = 16;
  constexpr std::size_t kAhead = 256;
  const bool adds = traffic.sources.size() == 2;
  const float* const a = traffic.sources[0];
  const float* const b = traffic.sources.back();
  for (std::size_t i = 0; i < traffic.bytes / sizeof(float); i += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(a + i + kAhead), _MM_HINT_T0);
    if (adds) _mm_prefetch(reinterpret_cast<const char*>(b + i + kAhead), _MM_HINT_T0);
    __m128 line[kLine / kLanes];
    for (std::size_t j = 0; j < kLine / kLanes; ++j) {
      line[j] = _mm_load_ps(a + i + j * kLanes);
      if (adds) line[j] = _mm_add_ps(line[j], _mm_load_ps(b + i + j * kLanes));
    }
    for (float* const target : traffic.targets) {
      for (std::size_t j = 0; j < kLine / kLanes; ++j) _mm_stream_ps(target + i + j * kLanes, line[j]);
    }
  }
  _mm_sfence();
}
#else
void move_past_caches(const Traffic& traffic) { move_cached(traffic); }
#endif

void meet(Shared& shared, int& meetings) {
  ++meetings;
  shared.arrived.fetch_add(1);
  while (shared.arrived.load() < 2 * meetings) sched_yield();
}

double seconds(const Order& order, const Memory& memory, int rank, int& meetings) {
  const std::vector<Traffic> traffic[] = {traffic_of(order, memory, rank, 0), traffic_of(order, memory, rank, 1)};
  if (traffic[0].empty() || order.type != "f32" || order.bytes < kLeastBytes || order.bytes > kBufferBytes) return -1;
  double best = -1;
  for (const auto move : {move_cached, move_past_caches}) {
    const auto repeat = [&](int times) {
      for (int i = 0; i < times; ++i) {
        for (const Traffic& part : traffic[i % 2]) move(part);
      }
    };
    repeat(order.bytes < kLarge ? 4 : 2);
    meet(*memory.shared, meetings);
    const auto start = std::chrono::steady_clock::now();
    repeat(order.iterations);
    const std::chrono::duration<double> own = std::chrono::steady_clock::now() - start;
    meet(*memory.shared, meetings);  // who is done must not leave the memory to the other while it still measures
    const double once = own.count() / std::max(1, order.iterations);
    best = best < 0 ? once : std::min(best, once);
  }
  return best;
}

[[noreturn]] void be_rank(int rank, const Memory& memory, int from, int to) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank, &core);
  sched_setaffinity(0, sizeof core, &core);
  std::FILE* const orders = fdopen(from, "r");
  int meetings = 0;
  char line[256];
  while (std::fgets(line, sizeof line, orders) != nullptr) {
    Order order;
    std::istringstream(line) >> order.verb >> order.bytes >> order.type >> order.op >> order.iterations;
    const double result = seconds(order, memory, rank, meetings);
    if (write(to, &result, sizeof result) != sizeof result) break;
  }
  _exit(0);
}

}  // namespace

int main() {
  void* const mapped =
      mmap(nullptr, 4 * kBufferBytes + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 1;
  Memory memory{static_cast<std::byte*>(mapped)};
  memory.shared = new (memory.base + 4 * kBufferBytes) Shared;
  int down[2], up[2];
  for (int rank = 0; rank < 2; ++rank) {
    int orders[2], results[2];
    if (pipe(orders) != 0 || pipe(results) != 0) return 1;
    if (fork() == 0) {
      if (rank == 1) close(down[0]);
      close(orders[1]);
      be_rank(rank, memory, orders[0], results[1]);
    }
    close(orders[0]);
    close(results[1]);
    down[rank] = orders[1];
    up[rank] = results[0];
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    line += "\n";
    double slowest = 0;
    for (const int file : down) {
      if (write(file, line.data(), line.size()) < 0) return 1;
    }
    for (const int file : up) {
      double one = -1;
      if (read(file, &one, sizeof one) != sizeof one) one = -1;
      slowest = one < 0 || slowest < 0 ? -1 : std::max(slowest, one);
    }
    std::printf("%.9g\n", slowest);
    std::fflush(stdout);
  }
  for (const int file : down) close(file);
  while (wait(nullptr) > 0) {
  }
  return 0;
}
