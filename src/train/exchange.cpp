// What ranks send to each other: the collectives and transfers of a Program on the trainer's buffers.
#include <algorithm>
#include <type_traits>

#include "kernel/elementwise.hpp"
#include "train/rank.hpp"

namespace twinpod::train {
namespace {

using collective::Verb;
using layout::Group;
using program::OpKind;
using program::Phase;
using program::PlacedOp;
using program::Segment;

template <typename E>
constexpr comm::ElementType type_of() {
  if (std::is_same_v<E, double>) return comm::ElementType::f64;
  return std::is_same_v<E, Bf16> ? comm::ElementType::bf16 : comm::ElementType::f32;
}

template <typename E>
comm::Call call_of(Verb verb, const E* input, E* output, std::int64_t count) {
  comm::Call call;
  call.verb = verb;
  call.input = input;
  call.output = output;
  call.count = static_cast<std::size_t>(count);
  call.type = type_of<E>();
  return call;
}

// All in one buffer: sums stay, gathered parts come, scattered sums go to the rank's own part.
template <typename E>
comm::Call in_place(Verb verb, E* buffer, std::int64_t count, int ranks, int position) {
  if (verb == Verb::all_reduce) return call_of<E>(verb, buffer, buffer, count);
  const std::int64_t part = count / ranks;
  E* own = buffer + position * part;
  if (verb == Verb::all_gather) return call_of<E>(verb, own, buffer, part);
  return call_of<E>(verb, buffer, own, part);
}

// In a rehearsal what is timed is the call, not who comes late to it.
template <typename T>
Result<void> run_call(Rank<T>& rank, comm::Communicator& group, const comm::Call& call) {
  if (rank.rehearses) {
    const Clock::time_point begin = Clock::now();
    if (Result<void> together = comm::run(group, {.verb = Verb::barrier}); !together) return together;
    rank.waited_s += seconds_since(begin);
  }
  return comm::run(group, call);
}

template <typename E, typename T>
Result<void> run_in_place(Rank<T>& rank, comm::Communicator& group, Verb verb, E* buffer, std::int64_t count) {
  return run_call(rank, group, in_place<E>(verb, buffer, count, comm::size_of(group), comm::rank_of(group)));
}

// ---- inside of layers ----

template <typename T>
Result<void> gather_gradient(Rank<T>& rank, comm::Communicator& group) {
  const std::int64_t part = rank.sizes.rows * rank.sizes.hidden;
  rank.flow.gathered = true;
  return run_call(
      rank, group,
      call_of<T>(Verb::all_gather, rank.space(rank.places.gradient), rank.space(rank.places.gathered), part));
}

template <typename T>
Result<void> tensor_forward(Rank<T>& rank, const PlacedOp& op, const Place& place, comm::Communicator& group) {
  const std::int64_t whole = rank.sizes.tokens * rank.sizes.hidden;
  const Verb verb = op.op->verb;
  if (op.op->segment == Segment::embedding)
    return run_in_place<T>(rank, group, verb, rank.space(rank.places.stream), whole);
  if (op.op->segment == Segment::head && rank.flow.scored) {
    Result<void> done =
        run_in_place<Sum<T>>(rank, group, verb, statistics_of(rank, place), 3 * rank.sizes.tokens * rank.job.layout.tp);
    if (done) combine_statistics(rank, place);
    return done;
  }
  if (verb != Verb::all_gather) return run_in_place<T>(rank, group, verb, rank.space(rank.places.delta), whole);
  enter_norm(rank, op, place);
  return run_in_place<T>(rank, group, verb, normed_rows(rank, op, place), whole);
}

template <typename T>
Result<void> tensor_collective(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  comm::Communicator& group = *rank.group(Group::tensor);
  const bool forwards = op.op->phase == Phase::forward || op.op->phase == Phase::recompute;
  if (forwards) return tensor_forward(rank, op, place, group);
  if (op.op->verb == Verb::all_gather) return gather_gradient(rank, group);
  Result<void> done =
      run_in_place<T>(rank, group, op.op->verb, rank.space(rank.places.inward), rank.sizes.tokens * rank.sizes.hidden);
  if (done) undo_norm(rank);
  return done;
}

// ---- between copies of the model ----

// Starts it, or does it at once where the caller needs it at once.
template <typename T>
Result<void> begin_call(Rank<T>& rank, const PlacedOp& op, comm::Communicator& group, const comm::Call& call) {
  if (op.op->phase == Phase::update) return run_call(rank, group, call);
  Result<comm::Handle> handle = comm::start(group, call);
  if (!handle) return tl::unexpected(handle.error());
  rank.handles[static_cast<std::size_t>(op.index)] = std::move(*handle);
  return {};
}

// A piece and, behind the head's own, the embedding's when its table is tied.
template <typename T>
std::vector<const Piece*> sharded_pieces(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  const std::vector<Piece>& chunk = chunk_of(rank, place);
  std::vector<const Piece*> list = {&piece_of(chunk, op.op->segment, op.op->layer)};
  const bool tied = op.op->segment == Segment::head && list[0]->at(Role::head_table) < 0;
  if (tied) list.push_back(&rank.pieces.chunks.front().front());
  return list;
}

template <typename T>
Result<void> gather_shards(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  comm::Communicator& group = *rank.group(op.op->group);
  const std::vector<const Piece*> list = sharded_pieces(rank, op, place);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Piece& piece = *list[i];
    const std::int64_t part = piece.elements() / rank.pieces.shards;
    const comm::Call call = call_of<T>(Verb::all_gather, rank.parameters + piece.offset / rank.pieces.shards,
                                       rank.gathered.at(&piece), part);
    const bool last = i + 1 == list.size();
    const Result<void> done = last ? begin_call(rank, op, group, call) : run_call(rank, group, call);
    if (!done) return done;
  }
  return {};
}

template <typename T>
Result<void> scatter_gradients(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  comm::Communicator& group = *rank.group(op.op->group);
  const std::vector<const Piece*> list = sharded_pieces(rank, op, place);
  Sum<T>* buffer = rank.unscattered.at(list[0]);
  for (const Piece* piece : list) {
    const Result<void> done = run_in_place<Sum<T>>(rank, group, Verb::reduce_scatter, buffer, piece->elements());
    if (!done) return done;
    const std::int64_t part = piece->elements() / rank.pieces.shards;
    kernel::add<Sum<T>>(part, rank.gradients + piece->offset / rank.pieces.shards, buffer + rank.dp_rank * part);
    buffer += piece->elements();
  }
  return {};
}

// Gradients or parameters of one piece, beside the passes, or of all pieces.
template <typename T>
Result<void> reduce_or_gather(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  comm::Communicator& group = *rank.group(op.op->group);
  std::int64_t first = 0;
  std::int64_t count = rank.pieces.elements;
  const bool gathers = op.op->verb == Verb::all_gather;
  if (op.op->phase != Phase::update) {
    const Piece& piece = chunk_of(rank, place)[static_cast<std::size_t>(op.op->piece)];
    first = piece.offset;
    count = piece.elements();
  }
  const int ranks = comm::size_of(group);
  const int position = comm::rank_of(group);
  const comm::Call call = gathers ? in_place<T>(op.op->verb, rank.parameters + first, count, ranks, position)
                                  : in_place<Sum<T>>(op.op->verb, rank.gradients + first, count, ranks, position);
  return begin_call(rank, op, group, call);
}

// ---- at the end of a step ----

template <typename T>
Result<void> sum_tied_tables(Rank<T>& rank) {
  const std::vector<Piece>& chunk = rank.pieces.chunks.front();
  const bool begins = chunk.front().segment == Segment::embedding;
  const Piece& piece = begins ? chunk.front() : rank.pieces.chunks.back().back();
  const std::int64_t offset = piece.at(begins ? Role::tokens : Role::head_table);
  const int tp = rank.job.layout.tp;
  const std::int64_t rows = (std::int64_t{rank.job.model.vocab} + tp - 1) / tp;
  return run_in_place<Sum<T>>(rank, *rank.group(Group::ends), Verb::all_reduce, rank.gradients + piece.offset + offset,
                              rows * rank.job.model.hidden);
}

// Calls f(gradient, packed place, count) for what every tensor-parallel rank holds and this rank updates.
template <typename T, typename F>
void for_each_whole(Rank<T>& rank, F&& f) {
  std::map<const Piece*, std::int64_t> begins;
  std::int64_t sum = 0;
  for (const std::vector<Piece>& chunk : rank.pieces.chunks) {
    for (const Piece& piece : chunk) {
      begins[&piece] = sum;
      sum += piece.places.whole;
    }
  }
  for (const Owned& own : rank.owned) {
    const std::int64_t count = std::min(own.first + own.count, own.piece->places.whole) - own.first;
    if (count <= 0) continue;
    Sum<T>* gradient =
        rank.shards_gradients ? rank.gradients + own.place : rank.gradients + own.piece->offset + own.first;
    f(gradient, rank.packed + begins.at(own.piece) + own.first, count);
  }
}

template <typename T>
Result<void> sum_whole(Rank<T>& rank, std::int64_t count) {
  for_each_whole(rank,
                 [](const Sum<T>* gradient, Sum<T>* packed, std::int64_t n) { std::copy_n(gradient, n, packed); });
  Result<void> done = run_in_place<Sum<T>>(rank, *rank.group(Group::tensor), Verb::all_reduce, rank.packed, count);
  for_each_whole(rank,
                 [](Sum<T>* gradient, const Sum<T>* packed, std::int64_t n) { std::copy_n(packed, n, gradient); });
  return done;
}

template <typename T>
Result<void> sum_norm_and_loss(Rank<T>& rank) {
  Sum<T> both[2] = {static_cast<Sum<T>>(rank.reduced[0]), static_cast<Sum<T>>(rank.reduced[1])};
  Result<void> done = run_in_place<Sum<T>>(rank, *rank.group(Group::world), Verb::all_reduce, both, 2);
  rank.reduced[0] = both[0];
  rank.reduced[1] = both[1];
  return done;
}

template <typename T>
Result<void> data_collective(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  const Group group = op.op->group;
  const bool of_piece = op.op->segment != Segment::optimizer;
  if (group == Group::ends) return sum_tied_tables(rank);
  if (group == Group::tensor) return sum_whole(rank, static_cast<std::int64_t>(op.op->bytes / 4));
  if (group == Group::world) {
    rank.reduced[0] = squares(rank);
    rank.reduced[1] = rank.tp_rank == 0 ? rank.loss_sum : 0;
    return sum_norm_and_loss(rank);
  }
  if (!of_piece) return reduce_or_gather(rank, op, place);
  return op.op->verb == Verb::all_gather ? gather_shards(rank, op, place) : scatter_gradients(rank, op, place);
}

// ---- between stages ----

template <typename T>
int tag_of(const Rank<T>& rank, int chunk, int micro_batch, bool back) {
  return ((micro_batch * rank.program.chunks) + chunk) * 2 + (back ? 1 : 0);
}

template <typename T>
Result<void> send_on(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  const bool back = op.op->phase != Phase::forward;
  if (rank.rehearses) return {};
  const auto direction = static_cast<std::size_t>(back ? 1 : 0);
  const auto slot = 2 * direction + static_cast<std::size_t>(rank.next_transfer[direction]);
  rank.next_transfer[direction] = 1 - rank.next_transfer[direction];
  if (const Result<void> free = rank.sending[slot].wait(); !free) return free;
  const std::int64_t count = rank.sizes.rows * rank.sizes.hidden;
  T* out = rank.transfers[slot];
  if (back) {
    std::copy_n(rank.space(rank.places.gradient), count, out);
  } else {
    write_stream(rank, out);
  }
  Result<comm::Handle> handle = comm::start_send(rank.world, out, static_cast<std::size_t>(count) * sizeof(T),
                                                 program::peer_rank(rank.program, op, rank.rank),
                                                 tag_of(rank, place.chunk, place.micro_batch, back));
  if (!handle) return tl::unexpected(handle.error());
  rank.sending[slot] = std::move(*handle);
  return {};
}

template <typename T>
Result<void> receive(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  const bool back = op.op->phase != Phase::forward;
  const program::Chunk& chunk =
      rank.program.kinds[static_cast<std::size_t>(rank.kind)].chunks[static_cast<std::size_t>(place.chunk)];
  T* into = rank.space(back ? rank.places.gradient : rank.places.stream);
  const std::int64_t count = rank.sizes.rows * rank.sizes.hidden;
  const int tag = tag_of(rank, back ? chunk.next_chunk : chunk.previous_chunk, place.micro_batch, back);
  if (!rank.rehearses) {
    const Result<std::size_t> done = comm::receive(rank.world, into, static_cast<std::size_t>(count) * sizeof(T),
                                                   program::peer_rank(rank.program, op, rank.rank), tag);
    if (!done) return tl::unexpected(done.error());
  }
  rank.flow = {};
  rank.flow.stream = into;
  rank.flow.has_gradient = back;
  return {};
}

}  // namespace

template <typename T>
Result<void> communicate(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  switch (op.op->kind) {
    case OpKind::send:
      return send_on(rank, op, place);
    case OpKind::recv:
      return receive(rank, op, place);
    case OpKind::collective:
      return op.op->lane == program::Lane::tensor ? tensor_collective(rank, op, place)
                                                  : data_collective(rank, op, place);
    default:
      return {};
  }
}

template Result<void> communicate(Rank<float>&, const PlacedOp&, const Place&);
template Result<void> communicate(Rank<double>&, const PlacedOp&, const Place&);
template Result<void> communicate(Rank<Bf16>&, const PlacedOp&, const Place&);

}  // namespace twinpod::train
