// Before the first step: groups, memory, parameters.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "layout/mesh.hpp"
#include "program/state.hpp"
#include "program/volume.hpp"
#include "train/segments.hpp"

namespace twinpod::train {
namespace {

using layout::Axis;
using layout::Group;
using program::BufferKind;

template <typename T>
constexpr bool kHasMaster = !std::is_same_v<T, Sum<T>>;

Sizes sizes_of(const spec::Job& job, int tp_rank) {
  const spec::Model& model = job.model;
  const int tp = job.layout.tp;
  Sizes sizes;
  sizes.tokens = std::int64_t{job.layout.micro_batch} * job.training.sequence;
  sizes.rows = job.layout.sequence_parallel ? sizes.tokens / tp : sizes.tokens;
  sizes.hidden = model.hidden;
  sizes.attention = {job.layout.micro_batch, job.training.sequence, model.attention.heads / tp,
                     model.attention.kv_heads / tp, model.attention.head_dim};
  sizes.queries = std::int64_t{sizes.attention.heads} * model.attention.head_dim;
  sizes.keys = std::int64_t{sizes.attention.kv_heads} * model.attention.head_dim;
  sizes.ffn = model.ffn / tp;
  sizes.gated = model.gated_mlp;
  sizes.norm = {sizes.rows, sizes.hidden, 1e-5, model.norm == spec::Norm::rms_norm};
  const std::int64_t rows = (std::int64_t{model.vocab} + tp - 1) / tp;
  sizes.vocabulary.first = std::min<std::int64_t>(model.vocab, tp_rank * rows);
  sizes.vocabulary.count = std::min<std::int64_t>(model.vocab - sizes.vocabulary.first, rows);
  return sizes;
}

template <typename T>
Result<void> make_groups(Rank<T>& rank) {
  const layout::Mesh& mesh = rank.program.mesh;
  for (int g = 0; g < layout::kNumGroups; ++g) {
    const auto which = static_cast<Group>(g);
    const bool used = which == Group::tensor || which == Group::data || which == Group::shard || which == Group::ends;
    if (which == Group::world && mesh.ranks() > 1) rank.groups[static_cast<std::size_t>(g)] = &rank.world;
    if (!used || layout::size(mesh, which) <= 1) continue;
    const std::vector<int> members = layout::members(mesh, which, rank.rank);
    const bool alone = std::find(members.begin(), members.end(), rank.rank) == members.end() || members.size() < 2;
    const int color = alone ? -1 : *std::min_element(members.begin(), members.end());
    Result<comm::Group> group = comm::split(rank.world, color, layout::position(mesh, which, rank.rank));
    if (!group) return tl::unexpected(group.error());
    if (*group == nullptr) continue;
    rank.groups[static_cast<std::size_t>(g)] = group->get();
    rank.owned_groups.push_back(std::move(*group));
  }
  return {};
}

// Shared memory where other ranks of this host read it, else private memory in huge pages.
template <typename T>
Result<std::byte*> take(Rank<T>& rank, BufferKind kind, std::int64_t bytes, bool shared) {
  if (!shared) return static_cast<std::byte*>(rank.memory.take(bytes, kind));
  const Result<void*> memory = comm::allocate(rank.world, static_cast<std::size_t>(bytes));
  if (!memory) return tl::unexpected(memory.error());
  rank.memory.count(bytes, kind);
  return static_cast<std::byte*>(*memory);
}

// Shared, if other copies of the model reduce or gather it and sharing costs no huge pages: products gain more from
// those than collectives lose without.
template <typename T>
Result<std::byte*> take_for_copies(Rank<T>& rank, BufferKind kind, std::int64_t bytes) {
  void* const memory = rank.copies > 1 ? comm::allocate_huge(rank.world, static_cast<std::size_t>(bytes)) : nullptr;
  if (memory == nullptr) return take(rank, kind, bytes, false);
  rank.memory.count(bytes, kind);
  rank.shared_memory.push_back(memory);
  return static_cast<std::byte*>(memory);
}

enum class Share { no, yes, with_copies };

template <typename T, typename E>
Result<void> take_elements(Rank<T>& rank, BufferKind kind, std::int64_t count, Share share, E*& out) {
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(E));
  const Result<std::byte*> memory =
      share == Share::with_copies ? take_for_copies(rank, kind, bytes) : take(rank, kind, bytes, share == Share::yes);
  if (!memory) return tl::unexpected(memory.error());
  out = reinterpret_cast<E*>(*memory);  // NOLINT: raw memory
  std::fill_n(out, count, E{});
  return {};
}

// Gradients of what every tensor-parallel rank holds, which sequence parallelism sums in one piece.
std::int64_t packed_elements(const spec::Job& job) {
  if (!job.layout.sequence_parallel || job.layout.tp == 1) return 0;
  const auto whole = [&](const std::vector<model::Tensor>& tensors) {
    return model::flat_places(tensors, job.layout.tp, 1).whole;
  };
  return whole(model::embedding_tensors(job.model)) + whole(model::head_tensors(job.model, false)) +
         job.model.layers * whole(model::layer_tensors(job.model, 0));
}

std::int64_t largest_tensor(const spec::Job& job) {
  std::int64_t most = 0;
  for (const std::vector<model::Tensor>& tensors :
       {model::embedding_tensors(job.model), model::layer_tensors(job.model, 0),
        model::head_tensors(job.model, true)}) {
    for (const model::Tensor& tensor : tensors) most = std::max(most, model::local_elements(tensor, job.layout.tp));
  }
  return most;
}

// Where things lie in the memory that the Program calls the runtime's, in bytes.
struct RuntimePlaces {
  std::int64_t bias = 0;  // behind what the attention kernels work in
  std::int64_t packed = 0;
  std::int64_t turned = 0;  // the next three only where the fusion is off
  std::int64_t angles = 0;
  std::int64_t scratch = 0;
  std::int64_t bytes = 0;
};

template <typename T>
RuntimePlaces runtime_places(const spec::Job& job) {
  const Sizes sizes = sizes_of(job, 0);
  RuntimePlaces places;
  places.bytes = static_cast<std::int64_t>(kernel::attention_workspace_bytes<T>(sizes.attention));
  const auto place = [&](std::int64_t elements, std::size_t each) {
    const std::int64_t offset = places.bytes;
    places.bytes += (elements * static_cast<std::int64_t>(each) + 63) / 64 * 64;
    return offset;
  };
  const spec::Recipe& recipe = job.training.recipe;
  const bool turns = job.model.positions == spec::Positions::rotary && !spec::fuses(recipe, spec::Fusion::rotary);
  const bool steps = !spec::fuses(recipe, spec::Fusion::optimizer);
  places.bias = place(job.model.hidden, sizeof(T));
  places.turned = place(turns ? sizes.tokens * (sizes.queries + sizes.keys) : 0, sizeof(T));
  places.angles = place(turns ? sizes.attention.sequence * job.model.attention.head_dim : 0, sizeof(Sum<T>));
  places.scratch = place(steps ? largest_tensor(job) : 0, sizeof(Sum<T>));
  places.packed = places.bytes;
  places.bytes += packed_elements(job) * static_cast<std::int64_t>(sizeof(Sum<T>));
  return places;
}

template <typename T>
void place_runtime(Rank<T>& rank) {
  const RuntimePlaces places = runtime_places<T>(rank.job);
  // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): raw memory
  rank.bias = reinterpret_cast<T*>(rank.kernel_room + places.bias);
  rank.packed = reinterpret_cast<Sum<T>*>(rank.kernel_room + places.packed);
  rank.turned = reinterpret_cast<T*>(rank.kernel_room + places.turned);
  rank.angles = reinterpret_cast<Sum<T>*>(rank.kernel_room + places.angles);
  rank.scratch = reinterpret_cast<Sum<T>*>(rank.kernel_room + places.scratch);
  // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
  if (places.scratch > places.angles) kernel::fill_rotary_table<Sum<T>>(rotary_shape(rank), rank.angles);
}

// Where activations lie in their buffers.
template <typename T>
void place_activations(Rank<T>& rank) {
  const spec::Job& job = rank.job;
  const model::Shard shard = model::shard_of(job);
  const bool fuses_attention = rank.fuses(spec::Fusion::attention);
  rank.places = model::workspace_of(job.model, shard, sizeof(T), fuses_attention);
  rank.head_places = model::kept_of_head(job.model, shard, sizeof(T), rank.fuses(spec::Fusion::cross_entropy));
  for (const bool again : {false, true}) {
    rank.layer_places[again ? 1 : 0] =
        model::kept_of_layer(job.model, shard, {job.layout.recompute, again, sizeof(T), fuses_attention});
  }
}

template <typename T>
Result<void> take_residents(Rank<T>& rank) {
  const spec::Job& job = rank.job;
  const std::int64_t all = rank.pieces.elements;
  const std::int64_t shard = all / rank.pieces.shards;
  const bool adam = job.training.optimizer == spec::Optimizer::adam;
  const bool tensor = job.layout.tp > 1;
  place_activations(rank);
  std::vector<Result<void>> done;
  const Share of_tensor = tensor ? Share::yes : Share::no;
  done.push_back(take_elements(rank, BufferKind::parameters, rank.shards_parameters ? shard : all, Share::with_copies,
                               rank.parameters));
  done.push_back(take_elements(rank, BufferKind::gradients, rank.shards_gradients ? shard : all, Share::with_copies,
                               rank.gradients));
  if (kHasMaster<T>)
    done.push_back(take_elements(rank, BufferKind::optimizer, rank.owned_elements, Share::no, rank.master));
  if (job.training.optimizer != spec::Optimizer::sgd)
    done.push_back(take_elements(rank, BufferKind::optimizer, rank.owned_elements, Share::no, rank.mean));
  if (adam) done.push_back(take_elements(rank, BufferKind::optimizer, rank.owned_elements, Share::no, rank.square));
  done.push_back(take_elements(rank, BufferKind::working, rank.places.bytes, of_tensor, rank.workspace));
  const std::int64_t transfer = rank.sizes.rows * rank.sizes.hidden;
  for (T*& slot : rank.transfers) {
    if (job.layout.pp > 1) done.push_back(take_elements(rank, BufferKind::communication, transfer, Share::no, slot));
  }
  done.push_back(take_elements(rank, BufferKind::runtime, runtime_bytes<T>(job), of_tensor, rank.kernel_room));
  for (const Result<void>& one : done) {
    if (!one) return one;
  }
  place_runtime(rank);
  return {};
}

// ZeRO-3 keeps a part of each piece; the rest is made and dropped.
template <typename T>
void initialize_piece(Rank<T>& rank, const Piece& piece, std::uint64_t seed) {
  if (!rank.shards_parameters) {
    initialize<T>(rank.job, piece, rank.tp_rank, seed, rank.parameters + piece.offset);
    return;
  }
  std::vector<T> whole(static_cast<std::size_t>(piece.elements()));
  initialize<T>(rank.job, piece, rank.tp_rank, seed, whole.data());
  const std::int64_t part = piece.elements() / rank.pieces.shards;
  std::copy_n(whole.begin() + rank.dp_rank * part, part, rank.parameters + piece.offset / rank.pieces.shards);
}

template <typename T>
void initialize_master(Rank<T>& rank, const Owned& own, std::uint64_t seed) {
  if constexpr (kHasMaster<T>) {
    std::vector<Sum<T>> whole(static_cast<std::size_t>(own.piece->elements()));
    initialize<Sum<T>>(rank.job, *own.piece, rank.tp_rank, seed, whole.data());
    std::copy_n(whole.begin() + own.first, own.count, rank.master + own.place);
  }
}

}  // namespace

template <typename T>
std::int64_t runtime_bytes(const spec::Job& job) {
  return runtime_places<T>(job).bytes;
}

template <typename T>
Rank<T>::Rank(const spec::Job& job_, const program::Program& program_, comm::Communicator& world_)
    : job(job_), program(program_), world(world_), rank(comm::rank_of(world_)) {
  kind = program::kind_of_rank(program, rank);
  tp_rank = layout::coordinate(program.mesh, rank, Axis::tp);
  dp_rank = layout::coordinate(program.mesh, rank, Axis::dp);
  copies = spec::data_parallel(job);
  copy = dp_rank;
  sizes = sizes_of(job, tp_rank);
  pieces = pieces_of(job, program, kind);
  shards_gradients = program::scatters_each_pass(job);
  shards_parameters = shards_gradients && job.layout.zero == 3;
}

template <typename T>
Rank<T>::~Rank() {
  for (comm::Handle& handle : sending) (void)handle.wait();
  const auto give_back = [&](bool shared, void* area) {
    if (shared && area != nullptr) comm::release(world, area);
  };
  give_back(job.layout.tp > 1, workspace);
  give_back(job.layout.tp > 1, kernel_room);
  for (void* const area : shared_memory) comm::release(world, area);
}

template <typename T>
Result<void> set_up(Rank<T>& rank, std::uint64_t seed) {
  rank.seed = seed;
  if (const Result<void> done = make_groups(rank); !done) return done;
  rank.owned_elements = rank.pieces.elements / (rank.job.layout.zero > 0 ? rank.pieces.shards : 1);
  rank.owned = owned_by(rank.job, rank.pieces, rank.dp_rank);
  if (const Result<void> done = take_residents(rank); !done) return done;
  for (const std::vector<Piece>& chunk : rank.pieces.chunks) {
    for (const Piece& piece : chunk) initialize_piece(rank, piece, seed);
  }
  for (const Owned& own : rank.owned) initialize_master(rank, own, seed);
  const auto all = static_cast<std::size_t>(rank.program.micro_batches * rank.sizes.tokens);
  rank.tokens.assign(all, 0);
  rank.labels.assign(all, 0);
  return {};
}

#define TWINPOD_INSTANTIATE(T)                              \
  template struct Rank<T>;                                  \
  template std::int64_t runtime_bytes<T>(const spec::Job&); \
  template Result<void> set_up(Rank<T>&, std::uint64_t)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
