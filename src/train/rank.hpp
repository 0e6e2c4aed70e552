// One rank at work: it holds its part of the model and runs its list of a Program, op by op.
//
//     Rank<float> rank(job, program, world);
//     if (Result<void> ready = set_up(rank, seed); !ready) ...
//     rank.tokens / rank.labels = the step's micro-batches
//     Result<StepResult> step = run_step(rank, {.adamw = {.rate = 1e-3}});
//
// Which buffers exist when, what is sent to whom and in which order is said by the Program; here is only how. T is the
// element type of parameters and activations (kernel/real.hpp).
//
// How values flow: a segment leaves what it adds to the residual stream in the workspace (`delta`), and the norm of the
// next segment adds it up. With tensor parallelism a collective of the Program stands in between. In the backward pass
// `gradient` is that of the stream; a segment leaves the gradient of its norm's output (`inward`), and when that is
// summed the norm is undone.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "kernel/attention.hpp"
#include "kernel/norm.hpp"
#include "kernel/optimizer.hpp"
#include "kernel/vocabulary.hpp"
#include "model/kept.hpp"
#include "program/program.hpp"
#include "program/timeline.hpp"
#include "spec/job.hpp"
#include "train/memory.hpp"
#include "train/pieces.hpp"

namespace twinpod::train {

template <typename T>
using Sum = kernel::Sum<T>;

// A norm whose backward pass waits for the sum of its output's gradient.
template <typename T>
struct PendingNorm {
  const T* input = nullptr;
  const Sum<T>* mean = nullptr;
  const Sum<T>* scale = nullptr;
  const Piece* piece = nullptr;
  Role weight = Role::head_norm;
  Role bias = Role::head_norm_bias;
};

// Where a pass through a chunk stands.
template <typename T>
struct Flow {
  T* stream = nullptr;      // the residual stream on this rank
  T* delta = nullptr;       // to be added to it
  const T* bias = nullptr;  // likewise
  kernel::Dropout dropout;  // of both
  bool normed = false;      // the segment's norm is done: its output had to be gathered
  bool gathered = false;    // the gradient of the stream was gathered
  bool scored = false;      // head: logits are there
  bool has_gradient = false;
  PendingNorm<T> norm;
};

// Activations of a micro-batch in a chunk.
struct KeptBuffers {
  std::vector<std::byte*> stored;   // by layer
  std::vector<std::byte*> working;  // by layer
  std::byte* head = nullptr;
};

// Sizes on this rank.
struct Sizes {
  std::int64_t tokens = 0;  // of a micro-batch
  std::int64_t rows = 0;    // of the residual stream
  std::int64_t hidden = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t ffn = 0;
  bool gated = false;
  kernel::AttentionShape attention;
  kernel::NormShape norm;
  kernel::Vocabulary vocabulary;
};

struct StepSettings {
  bool sgd = false;
  kernel::AdamW adamw;
  kernel::Sgd momentum;
  double clip = 0;      // largest norm of all gradients; 0: any
  bool record = false;  // the Timeline
  bool updates = true;  // false: parameters stay, and gradients are for somebody else (served.hpp)
};

struct StepResult {
  double loss = 0;  // mean over the tokens of all ranks
  double gradient_norm = 0;
  double seconds = 0;
};

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <typename T>
struct Rank {
  Rank(const spec::Job& job_, const program::Program& program_, comm::Communicator& world_);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  const spec::Job& job;
  const program::Program& program;
  comm::Communicator& world;
  int rank = 0;
  int kind = 0;
  int tp_rank = 0;
  int dp_rank = 0;
  int copies = 1;  // of the model, in all processes of the run, and
  int copy = 0;    // which of them this is: dropout counts samples by it
  Sizes sizes;
  Memory memory;
  std::array<comm::Communicator*, layout::kNumGroups> groups{};  // null: alone in it
  std::vector<comm::Group> owned_groups;

  Pieces pieces;
  std::vector<Owned> owned;
  std::int64_t owned_elements = 0;
  bool shards_parameters = false;         // ZeRO-3: gathered for each pass
  bool shards_gradients = false;          // ZeRO-2 and 3: scattered after each pass
  std::vector<void*> shared_memory = {};  // of what follows, what copies of the model can reach
  T* parameters = nullptr;                // all, or shards
  Sum<T>* gradients = nullptr;            // all, or shards
  Sum<T>* master = nullptr;               // owned; the parameters themselves when they are of the same type
  Sum<T>* mean = nullptr;                 // owned
  Sum<T>* square = nullptr;               // owned; null with momentum only
  std::map<const Piece*, T*> gathered;
  std::map<const Piece*, Sum<T>*> unscattered;
  std::map<const Piece*, int> passes;  // backward, of this step

  std::byte* workspace = nullptr;
  model::Workspace places;
  model::KeptHead head_places;
  std::array<model::KeptLayer, 2> layer_places;  // of layers that are recomputed in full, and of the others
  std::byte* kernel_room = nullptr;
  Sum<T>* packed = nullptr;               // gradients of what every tensor-parallel rank holds
  T* bias = nullptr;                      // of a piece that is gone
  T* turned = nullptr;                    // rotary positions in plain passes: heads with their pairs exchanged,
  Sum<T>* angles = nullptr;               // cosines and sines
  Sum<T>* scratch = nullptr;              // of the optimizer in plain passes
  std::array<T*, 4> transfers{};          // to the next stage, twice; back, twice
  std::array<comm::Handle, 4> sending{};  // from those
  std::array<int, 2> next_transfer{};

  std::map<std::int64_t, KeptBuffers> kept;               // by chunk and micro-batch
  std::map<std::pair<std::int64_t, int>, void*> buffers;  // by that and the shape's buffer
  std::vector<comm::Handle> handles;                      // of the instance at work, by op
  std::vector<comm::Handle> unfinished;                   // of earlier ones
  Flow<T> flow;

  std::vector<std::int32_t> tokens;  // of the step, micro-batch by micro-batch
  std::vector<std::int32_t> labels;
  std::uint64_t seed = 0;
  bool drops = false;      // dropout is for steps, not for evaluation
  bool rehearses = false;  // passes for their seconds (rehearse.hpp): between stages nothing is sent
  double waited_s = 0;     // in the op at work, for others that come to its collective; only known in rehearsals
  StepSettings settings;
  StepResult result;
  double loss_sum = 0;
  double reduced[2] = {0, 0};
  std::function<void()> before_update = {};  // parameters and optimizer state are as they were until it returns
  program::RankTimeline timeline;
  Clock::time_point begin;

  T* space(std::int64_t offset) { return reinterpret_cast<T*>(workspace + offset); }  // NOLINT: raw memory
  comm::Communicator* group(layout::Group which) { return groups[static_cast<std::size_t>(which)]; }
  bool fuses(spec::Fusion fusion) const { return spec::fuses(job.training.recipe, fusion); }
  bool sequence_parallel() const { return job.layout.sequence_parallel && job.layout.tp > 1; }
};

// Bytes that the Program calls the runtime's: of kernels, and of what is packed for one collective.
template <typename T>
std::int64_t runtime_bytes(const spec::Job& job);

template <typename T>
Result<void> set_up(Rank<T>& rank, std::uint64_t seed);

template <typename T>
Result<StepResult> run_step(Rank<T>& rank, const StepSettings& settings);

// An instance of the rank's list, without the layers from `layers` on.
template <typename T>
Result<void> run_instance(Rank<T>& rank, int index, int layers = std::numeric_limits<int>::max());
// Frees what no op of the list has freed, and waits for what is still on its way.
template <typename T>
Result<void> end_passes(Rank<T>& rank);
template <typename T>
void begin_step(Rank<T>& rank);

// Mean loss of the step's tokens, without a backward pass and without an update.
template <typename T>
Result<double> evaluate(Rank<T>& rank);

// ---- inside of the trainer ----

// Which micro-batch of which chunk an op works on.
struct Place {
  int chunk = -1;
  int micro_batch = -1;
  std::int64_t key() const { return (std::int64_t{chunk} << 32U) + micro_batch; }
};

template <typename T>
const std::vector<Piece>& chunk_of(const Rank<T>& rank, const Place& place) {
  return rank.pieces.chunks[static_cast<std::size_t>(place.chunk)];
}

template <typename T>
T* weights_of(Rank<T>& rank, const Piece& piece);
template <typename T>
Sum<T>* gradients_of(Rank<T>& rank, const Piece& piece);

// Segments (segments.cpp).
template <typename T>
void compute(Rank<T>& rank, const program::PlacedOp& op, const Place& place);
template <typename T>
void enter_norm(Rank<T>& rank, const program::PlacedOp& op, const Place& place);
template <typename T>
void undo_norm(Rank<T>& rank);
// The residual stream with all that was still to be added, for the next stage.
template <typename T>
void write_stream(Rank<T>& rank, T* out);
// The output of the segment's norm, all rows of it.
template <typename T>
T* normed_rows(Rank<T>& rank, const program::PlacedOp& op, const Place& place);
// Of the rows of logits: 3 numbers of each row for each tensor-parallel rank.
template <typename T>
Sum<T>* statistics_of(Rank<T>& rank, const Place& place);
template <typename T>
void combine_statistics(Rank<T>& rank, const Place& place);

// Communication (exchange.cpp).
template <typename T>
Result<void> communicate(Rank<T>& rank, const program::PlacedOp& op, const Place& place);

// Optimizer (update.cpp).
template <typename T>
void update(Rank<T>& rank);
template <typename T>
double squares(Rank<T>& rank);

}  // namespace twinpod::train
