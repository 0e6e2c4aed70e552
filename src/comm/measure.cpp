#include "comm/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "comm/verify.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

constexpr double kBlockSeconds = 0.003;
constexpr int kMostIterations = 20000;

// Two buffers of a rank, each as long as the whole.
struct Memory {
  Communicator& communicator;
  bool shared = false;
  std::byte* input = nullptr;
  std::byte* output = nullptr;

  ~Memory() {
    for (std::byte* const memory : {input, output}) {
      if (memory != nullptr) shared ? release(communicator, memory) : std::free(memory);
    }
  }
};

std::size_t largest(const Communicator& communicator, const MeasureRequest& request) {
  std::size_t bytes = kLine;
  for (const Call& call : request.calls) bytes = std::max(bytes, bytes_of(communicator, call));
  return (bytes + kLine - 1) / kLine * kLine;
}

Result<void> get_memory(Memory& memory, std::size_t bytes) {
  for (std::byte** const place : {&memory.input, &memory.output}) {
    if (memory.shared) {
      const Result<void*> made = allocate(memory.communicator, bytes);
      if (!made) return tl::unexpected(made.error());
      *place = static_cast<std::byte*>(*made);
    } else {
      *place = static_cast<std::byte*>(std::aligned_alloc(kLine, bytes));
      if (*place == nullptr) return infeasible(fmt::format("no memory for {} bytes", bytes));
    }
    std::memset(*place, 0, bytes);  // first touch is not what is measured
  }
  return {};
}

Call with_buffers(const Call& call, const Communicator& communicator, const Memory& memory, bool in_place) {
  Call made = call;
  const std::size_t own = static_cast<std::size_t>(communicator.rank) * call.count * size_of(call.type);
  made.input = memory.input;
  made.output = memory.output;
  if (!in_place) return made;
  const bool part_of_output = call.verb == Verb::all_gather || call.verb == Verb::gather;
  const bool part_of_input = call.verb == Verb::reduce_scatter || call.verb == Verb::scatter;
  if (part_of_output) made.input = memory.output + own;
  if (part_of_input) made.output = memory.input + own;
  if (!part_of_output && !part_of_input) made.output = memory.input;
  return made;
}

// A number that all ranks agree on.
template <typename T>
Result<T> agree(Communicator& communicator, T value, ElementType type, ReduceOp op) {
  const Result<void> done = run(
      communicator, {.verb = Verb::all_reduce, .input = &value, .output = &value, .count = 1, .type = type, .op = op});
  if (!done) return tl::unexpected(done.error());
  return value;
}

Result<std::size_t> wrong_elements(Communicator& communicator, const Call& call) {
  const int ranks = communicator.size();
  fill_input(call, communicator.rank, ranks, const_cast<void*>(call.input));  // NOLINT: our own buffer
  if (Result<void> done = run(communicator, call); !done) return tl::unexpected(done.error());
  const auto wrong = static_cast<std::int64_t>(num_wrong(call, communicator.rank, ranks, call.output));
  const Result<std::int64_t> all = agree(communicator, wrong, ElementType::i64, ReduceOp::sum);
  if (!all) return tl::unexpected(all.error());
  return static_cast<std::size_t>(*all);
}

// A send goes forth and back, and takes half of that; all others are repeated as they are.
Result<void> repeat(Communicator& communicator, const Call& call, int times) {
  Call back = call;
  if (call.verb == Verb::send) std::swap(back.root, back.peer);
  for (int i = 0; i < times; ++i) {
    if (Result<void> done = perform(communicator, i % 2 == 0 ? call : back); !done) return done;
  }
  return {};
}

// Calls before a block that do not count, because whatever ran before has filled the caches with its own; as many as a
// peer makes (bench/comm).
int uncounted(const Communicator& communicator, const Call& call) {
  constexpr std::size_t kLarge = std::size_t{16} << 20U;  // bytes that take so long that two are enough
  return bytes_of(communicator, call) < kLarge ? 4 : 2;
}

Result<double> seconds_of_block(Communicator& communicator, const Call& call, int iterations) {
  const Result<void> warm = repeat(communicator, call, uncounted(communicator, call));
  if (!warm) return tl::unexpected(warm.error());
  // The first barrier may wake a rank; after the second, all are awake.
  for (int i = 0; i < 2; ++i) {
    const Result<void> together = run(communicator, {.verb = Verb::barrier});
    if (!together) return tl::unexpected(together.error());
  }
  const std::int64_t start = now_ns();
  if (Result<void> done = repeat(communicator, call, iterations); !done) return tl::unexpected(done.error());
  const double seconds = 1e-9 * static_cast<double>(now_ns() - start) / iterations;
  return agree(communicator, seconds, ElementType::f64, ReduceOp::max);
}

void keep_best(double& best, double seconds) { best = best == 0 ? seconds : std::min(best, seconds); }

Result<int> iterations_for(Communicator& communicator, const Call& call, const MeasureRequest& request) {
  constexpr int kTries = 6;
  const Result<double> warm = seconds_of_block(communicator, call, 2 * std::max(1, request.warmup));
  if (!warm) return tl::unexpected(warm.error());
  if (request.iterations > 0) return (request.iterations + 1) / 2 * 2;
  double best = 0;
  double spent = 0;
  for (int i = 0; i < kTries && spent < kBlockSeconds; ++i) {
    const Result<double> once = seconds_of_block(communicator, call, 2);
    if (!once) return tl::unexpected(once.error());
    keep_best(best, *once);
    spent += 2 * *once;
  }
  return std::clamp(static_cast<int>(kBlockSeconds / std::max(best, 1e-9)), 2, kMostIterations) / 2 * 2;
}

// On rank 0, while the others sleep in the barrier of the next block.
void ask_peers(const MeasureRequest& request, Measurement& row, int iterations) {
  for (const Peer& peer : request.peers) {
    const double seconds = peer.seconds(row, iterations);
    if (seconds >= 0) keep_best(row.peers[peer.name], seconds);
  }
}

Result<void> time_row(Communicator& communicator, const MeasureRequest& request, const Memory& memory,
                      Measurement& row) {
  const Call out_of_place = with_buffers(row.call, communicator, memory, false);
  const Call in_place = with_buffers(row.call, communicator, memory, true);
  const Result<int> iterations = iterations_for(communicator, out_of_place, request);
  if (!iterations) return tl::unexpected(iterations.error());
  const std::int64_t start = now_ns();
  double spent = 0;  // as all ranks see it, so that they stop together
  for (int block = 0; block < request.blocks && (block < 2 || spent < request.most_s); ++block) {
    const Result<double> seconds = seconds_of_block(communicator, out_of_place, *iterations);
    if (!seconds) return tl::unexpected(seconds.error());
    keep_best(row.time_s, *seconds);
    if (request.in_place && row.call.verb != Verb::send) {
      const Result<double> placed = seconds_of_block(communicator, in_place, *iterations);
      if (!placed) return tl::unexpected(placed.error());
      keep_best(row.in_place_time_s, *placed);
    }
    if (communicator.rank == 0) ask_peers(request, row, *iterations);
    const Result<double> since =
        agree(communicator, 1e-9 * static_cast<double>(now_ns() - start), ElementType::f64, ReduceOp::max);
    if (!since) return tl::unexpected(since.error());
    spent = *since;
  }
  return {};
}

Result<void> check_row(Communicator& communicator, const MeasureRequest& request, const Memory& memory,
                       Measurement& row) {
  const Result<std::size_t> wrong = wrong_elements(communicator, with_buffers(row.call, communicator, memory, false));
  if (!wrong) return tl::unexpected(wrong.error());
  row.wrong = *wrong;
  if (!request.in_place || row.call.verb == Verb::send) return {};
  const Result<std::size_t> placed = wrong_elements(communicator, with_buffers(row.call, communicator, memory, true));
  if (!placed) return tl::unexpected(placed.error());
  row.in_place_wrong = *placed;
  return {};
}

}  // namespace

Result<std::vector<Measurement>> measure(Communicator& communicator, const MeasureRequest& request) {
  Memory memory{communicator, request.shared};
  if (Result<void> got = get_memory(memory, largest(communicator, request)); !got) return tl::unexpected(got.error());
  std::vector<Measurement> rows;
  for (const Call& call : request.calls) {
    Measurement row{.call = call, .bytes = bytes_of(communicator, call), .algorithm = {}};
    const bool automatic = call.choice.method == Method::automatic;
    row.algorithm = name_of(automatic ? choice_for(communicator, call, request.shared) : call.choice);
    if (request.check) {
      if (Result<void> done = check_row(communicator, request, memory, row); !done) return tl::unexpected(done.error());
    }
    if (Result<void> done = time_row(communicator, request, memory, row); !done) return tl::unexpected(done.error());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace twinpod::comm
