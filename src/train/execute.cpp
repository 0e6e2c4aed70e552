// Runs the list of a rank: buffers come and go as the Program says, ops run in its order.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "program/state.hpp"
#include "train/rank.hpp"

namespace twinpod::train {
namespace {

using program::Block;
using program::Buffer;
using program::BufferKind;
using program::Instance;
using program::Op;
using program::OpKind;
using program::Phase;
using program::PlacedOp;
using program::Range;
using program::Segment;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Gathered parameters of a piece, or its gradients before they are scattered. Those of a tied table lie behind the
// head's own.
template <typename T>
void set_communication(Rank<T>& rank, const PlacedOp& op, const Buffer& buffer, const Place& place, void* memory) {
  const Piece& piece = piece_of(chunk_of(rank, place), buffer.segment, buffer.layer);
  const bool tied = buffer.segment == Segment::head && piece.at(Role::head_table) < 0;
  const Piece& table = rank.pieces.chunks.front().front();
  if (op.op->lane == program::Lane::data) {
    T* values = static_cast<T*>(memory);
    rank.gathered[&piece] = values;
    if (tied) rank.gathered[&table] = values + piece.elements();
    return;
  }
  auto* values = static_cast<Sum<T>*>(memory);
  const std::int64_t count = piece.elements() + (tied ? table.elements() : 0);
  std::fill_n(values, count, Sum<T>{0});
  rank.unscattered[&piece] = values;
}

template <typename T>
void create(Rank<T>& rank, const PlacedOp& op, int index, const Place& place) {
  const program::Shape& shape = rank.program.shapes[at(op.block->shapes[op.op->half])];
  const Buffer& buffer = shape.buffers[at(index)];
  // Tests train in double, whose Programs speak of fp32.
  const double times = sizeof(T) == sizeof(double) ? 2 : 1;
  void* memory = rank.memory.take(static_cast<std::int64_t>(buffer.bytes * times), buffer.kind);
  rank.buffers[{place.key(), index}] = memory;
  if (buffer.kind == BufferKind::communication) return set_communication(rank, op, buffer, place, memory);
  if (place.chunk < 0) return;
  KeptBuffers& kept = rank.kept[place.key()];
  kept.stored.resize(shape.layers.size());
  kept.working.resize(shape.layers.size());
  auto* bytes = static_cast<std::byte*>(memory);
  if (buffer.segment == Segment::head) {
    kept.head = bytes;
  } else {
    (buffer.kind == BufferKind::activations ? kept.stored : kept.working)[at(buffer.layer)] = bytes;
  }
}

template <typename T>
void free(Rank<T>& rank, int index, const Place& place) {
  const auto found = rank.buffers.find({place.key(), index});
  if (found == rank.buffers.end()) return;
  rank.memory.give(found->second);
  rank.buffers.erase(found);
}

template <typename T, typename F>
void for_each_buffer(const PlacedOp& op, const Range& range, F&& f) {
  for (int i = range.first; i < range.first + range.count; ++i) f(op.block->buffers[at(i)]);
}

template <typename T>
Result<void> wait_for(Rank<T>& rank, const PlacedOp& op) {
  for (int i = op.op->waits.first; i < op.op->waits.first + op.op->waits.count; ++i) {
    if (Result<void> done = rank.handles[at(op.block->waits[at(i)])].wait(); !done) return done;
  }
  return {};
}

template <typename T>
Result<void> wait_for_all(Rank<T>& rank) {
  for (comm::Handle& handle : rank.unfinished) {
    if (Result<void> done = handle.wait(); !done) return done;
  }
  rank.unfinished.clear();
  return {};
}

template <typename T>
Result<void> run_op(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  for_each_buffer<T>(op, op.op->creates, [&](int index) { create(rank, op, index, place); });
  if (Result<void> ready = wait_for(rank, op); !ready) return ready;
  const double start = rank.settings.record ? seconds_since(rank.begin) : 0;
  rank.waited_s = 0;
  Result<void> done;
  if (op.op->kind == OpKind::compute) {
    compute(rank, op, place);
  } else {
    done = communicate(rank, op, place);
  }
  if (rank.settings.record) {
    const double end = seconds_since(rank.begin);
    rank.timeline.ops.push_back({start + rank.waited_s, end, end});
  }
  for_each_buffer<T>(op, op.op->frees, [&](int index) { free(rank, index, place); });
  return done;
}

bool is_matrix(Role role) {
  return role == Role::tokens || role == Role::qkv || role == Role::attention_output || role == Role::mlp_input ||
         role == Role::mlp_output || role == Role::head_table;
}

// Matrices are overwritten by the first backward pass; the rest is only ever added to.
template <typename T>
void clear_gradients(Rank<T>& rank) {
  if (rank.shards_gradients) {
    std::fill_n(rank.gradients, rank.pieces.elements / rank.pieces.shards, Sum<T>{0});
    return;
  }
  for (const std::vector<Piece>& chunk : rank.pieces.chunks) {
    for (const Piece& piece : chunk) {
      for (int r = 0; r < kNumRoles; ++r) {
        const std::int64_t offset = piece.roles[at(r)];
        if (offset < 0 || is_matrix(static_cast<Role>(r))) continue;
        const auto tensor = std::find(piece.places.offsets.begin(), piece.places.offsets.end(), offset);
        const auto which = static_cast<std::size_t>(tensor - piece.places.offsets.begin());
        std::fill_n(rank.gradients + piece.offset + offset,
                    model::local_elements(piece.tensors[which], rank.job.layout.tp), Sum<T>{0});
      }
    }
  }
}

template <typename T>
double mean_loss(const Rank<T>& rank, double sum) {
  return sum / (rank.job.training.global_batch * rank.job.training.sequence);
}

}  // namespace

template <typename T>
Result<void> run_instance(Rank<T>& rank, int index, int layers) {
  const Instance& instance = rank.program.kinds[at(rank.kind)].instances[at(index)];
  const Block& block = rank.program.blocks[at(instance.block)];
  const Place place{instance.chunk[0], instance.micro_batch[0]};
  rank.handles.clear();
  rank.handles.resize(block.ops.size());
  rank.flow = {};
  if (block.phase == Phase::update) {
    if (Result<void> done = wait_for_all(rank); !done) return done;
  }
  for (int i = 0; i < static_cast<int>(block.ops.size()); ++i) {
    const PlacedOp op = program::placed(rank.program, rank.kind, index, i);
    if (op.op->layer >= layers) continue;
    if (Result<void> done = run_op(rank, op, place); !done) return done;
  }
  for (comm::Handle& handle : rank.handles) rank.unfinished.push_back(std::move(handle));
  return {};
}

template <typename T>
void begin_step(Rank<T>& rank) {
  rank.passes.clear();
  rank.drops = false;
  rank.loss_sum = 0;
  rank.reduced[0] = rank.reduced[1] = 0;
  rank.result = {};
  rank.timeline = {rank.rank, 1, rank.kind, {}};
  rank.begin = Clock::now();
}

template <typename T>
Result<void> end_passes(Rank<T>& rank) {
  if (Result<void> done = wait_for_all(rank); !done) return done;
  while (!rank.buffers.empty()) {
    const auto [key, index] = rank.buffers.begin()->first;
    free(rank, index, {static_cast<int>(key >> 32U), static_cast<int>(key & 0xffffffff)});
  }
  rank.kept.clear();
  return {};
}

template <typename T>
Result<StepResult> run_step(Rank<T>& rank, const StepSettings& settings) {
  rank.settings = settings;
  begin_step(rank);
  rank.drops = true;
  clear_gradients(rank);
  const auto instances = static_cast<int>(rank.program.kinds[at(rank.kind)].instances.size());
  for (int i = 0; i < instances; ++i) {
    if (Result<void> done = run_instance(rank, i); !done) return tl::unexpected(done.error());
  }
  if (Result<void> done = wait_for_all(rank); !done) return tl::unexpected(done.error());
  rank.kept.clear();
  rank.result.loss = mean_loss(rank, rank.reduced[1]);
  rank.result.seconds = seconds_since(rank.begin);
  return rank.result;
}

template <typename T>
Result<double> evaluate(Rank<T>& rank) {
  rank.settings = {};
  begin_step(rank);
  const program::Kind& kind = rank.program.kinds[at(rank.kind)];
  for (int i = 0; i < static_cast<int>(kind.instances.size()); ++i) {
    const Instance& instance = kind.instances[at(i)];
    if (rank.program.blocks[at(instance.block)].phase != Phase::forward) continue;
    if (Result<void> done = run_instance(rank, i); !done) return tl::unexpected(done.error());
    // No backward pass will free what this one leaves.
    if (Result<void> done = end_passes(rank); !done) return tl::unexpected(done.error());
  }
  double sum = rank.tp_rank == 0 ? rank.loss_sum : 0;
  if (comm::Communicator* world = rank.group(layout::Group::world)) {
    const comm::Call call{.verb = collective::Verb::all_reduce,
                          .input = &sum,
                          .output = &sum,
                          .count = 1,
                          .type = comm::ElementType::f64};
    if (Result<void> done = comm::run(*world, call); !done) return tl::unexpected(done.error());
  }
  return mean_loss(rank, sum);
}

#define TWINPOD_INSTANTIATE(T)                                         \
  template Result<StepResult> run_step(Rank<T>&, const StepSettings&); \
  template Result<void> run_instance(Rank<T>&, int, int);              \
  template Result<void> end_passes(Rank<T>&);                          \
  template void begin_step(Rank<T>&);                                  \
  template Result<double> evaluate(Rank<T>&)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
