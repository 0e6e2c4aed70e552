// A Program: one training step spelled out, for each kind of rank an ordered list of ops on lanes.
//
//     const Result<Program> program = generate(job);               // program/generate.hpp
//     for_each_op(*program, 3, [](const PlacedOp& op) { ... });    // all ops of the ranks of stage 3, in order
//
// It says what is done, in which order, and what waits for what. It says nothing of seconds: work is shapes and bytes.
// A simulator and a trainer interpret the same Program.
//
// A Program holds kinds of ranks, never ranks. All ranks of a pipeline stage do the same, so a kind is a stage. What a
// stage does with one micro-batch is a **block**, a list of ops; the list of a kind is a list of **instances**: which
// block, for which micro-batch and chunk. Stages with alike layers share blocks, all micro-batches do. A step of a
// trillion parameters on 131,072 ranks is a few dozen blocks and some ten thousand instances.
//
// What the order means, for every executor:
//   - A lane runs its ops in the order of the list: those of an instance before those of the next one. Lanes run beside
//     each other.
//   - An op starts when its lane is free, the ops that it waits for (in its own block) have ended, and, if it is an
//     `entry`, what Instance::from names has ended: for a recv the matching send; else all ops of that instance.
//   - A send is buffered: it starts without its receiver and takes its lane until the bytes have arrived. A recv takes
//     no time and no lane; it marks where the arrival is waited for.
//   - A collective starts when all members of its group have come to it. Push and pull go to the parameter servers; a
//     pull starts when the servers have updated what all have pushed.
//   - Buffers exist from the start of the op that creates them to the end of the op that frees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collective/names.hpp"
#include "layout/mesh.hpp"
#include "model/segment.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

// What cannot overlap with itself: computation; communication inside layers (tp, sp, cp, ep), between stages, between
// copies of the model; traffic with the host and with storage; checkpoints on their way to slower tiers.
enum class Lane : std::uint8_t { compute, tensor, pipe, data, host, drain };
inline constexpr int kNumLanes = 6;

enum class OpKind : std::uint8_t { compute, collective, send, recv, push, pull, read, write };

enum class Phase : std::uint8_t {
  forward,
  backward,        // gradients of inputs and weights
  backward_input,  // the two halves of it, which zero-bubble schedules run apart
  backward_weight,
  recompute,  // forward again, in the backward pass
  update,     // optimizer, and what belongs to the step as a whole
};

// Where in the model an op belongs.
enum class Segment : std::uint8_t {
  embedding,
  attention,  // norm, projections, attention
  mlp,        // norm and MLP; in a layer of experts: norm, router and shared experts
  experts,    // routed experts; with router and shared experts where nothing is exchanged between them
  combine,    // tokens back in their order
  block,      // attention and MLP side by side behind one norm
  head,       // last norm, logits and loss
  optimizer,
  input,       // training data
  checkpoint,  // parameters and optimizer state as they are saved
  boundary,    // between two steps
};

enum class ElementType : std::uint8_t { fp32, bf16, fp8, token };

// To whom a send goes or from whom a recv comes: along the model (the chunks of Kind say which stage that is), or
// around the context-parallel ring.
enum class Peer : std::uint8_t { none, next_chunk, previous_chunk, next_in_ring, previous_in_ring };

// Where reads come from and writes go to. `storage` is the file system of the whole cluster.
enum class Tier : std::uint8_t { none, host_memory, storage, peer_memory, local_disk, object_store };
inline constexpr int kNumTiers = 6;

// A product as it is executed: (m x k)(k x n), `groups` times.
struct Product {
  model::Gemm gemm;
  bool experts = false;  // of routed experts: one for each expert of the rank
  bool wide = false;     // never below 16 bits: the head
  bool operator==(const Product&) const;
};

// Physical work of a compute op. A device turns it into seconds (cluster/device_time.hpp); plan/layer_kernels.cpp does
// it for whole layers.
struct Work {
  std::vector<Product> products;    // forward, or gradients of inputs and of weights, in executed shape
  int weight_products = 0;          // how many at the end of `products` are gradients of weights
  model::AttentionWork attention;   // of the forward pass
  double attention_share = 0;       // of it that is done here: 0 none, 1 all; a round of a ring does its part
  bool attention_backward = false;  // its backward pass, which recomputes scores when fused
  bool attention_fused = true;      // scores never reach memory, and what the causal mask hides is skipped
  double element_bytes = 0;         // moved by norms, residuals, activation functions, rotary embedding
  int kernels = 0;                  // how many kernels that are
  double permute_bytes = 0;         // moved by sorting tokens for experts
  double cast_elements = 0;         // inputs of products that are cast to 8 or 4 bits
  double logit_elements = 0;        // that the loss passes over; forward and backward half of the passes each
  double table_bytes = 0;           // moved by the look-up of the embedding
  double parameters = 0;            // that the optimizer updates
  bool on_host = false;             // the update runs there
  double flop() const;              // as published utilisation counts them: backward attention as twice its forward
};

// Kinds of memory, as plan/memory.hpp has them.
enum class BufferKind : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,    // what the forward pass leaves for the backward pass
  working,        // of the layer or head at work; plan counts it to the activations
  communication,  // gathered parameters, buckets, transfers
  update,         // temporaries of the optimizer
  runtime,        // context and libraries
};
inline constexpr int kNumBufferKinds = 8;

struct Buffer {
  BufferKind kind = BufferKind::activations;
  Segment segment = Segment::block;
  int layer = -1;  // of the chunk; -1: none
  double bytes = 0;
  bool operator==(const Buffer&) const = default;
};

struct Range {
  int first = 0;
  int count = 0;
};

struct Op {
  OpKind kind = OpKind::compute;
  Lane lane = Lane::compute;
  Phase phase = Phase::forward;
  Segment segment = Segment::block;
  collective::Verb verb = collective::Verb::all_reduce;  // of a collective
  layout::Group group = layout::Group::tensor;           // of a collective, and of a send in a ring
  ElementType element = ElementType::bf16;
  Peer peer = Peer::none;
  Tier tier = Tier::none;
  bool entry = false;     // waits for Instance::from
  std::uint8_t half = 0;  // in a block of a pair: which of its two micro-batches
  int layer = -1;         // of the chunk, from 0; -1: none
  int round = 0;          // of a ring; of a bucket: which
  int piece = -1;         // of a bucket: the one unit of the chunk whose parameters it holds (embedding, layers, head,
                          // in the order of the model); -1: it holds several
  int work = -1;          // of a compute op: index into Program::works
  double share = 1;       // of that work, when it is not done all
  // Bytes: of the whole buffer that is gathered, scattered or reduced; of what one rank sends, pushes, reads.
  // All-to-all: what one rank sends to others, and of that what leaves its scale-up domain.
  double bytes = 0;
  double outside_bytes = 0;
  Range waits;    // into Block::waits: ops of the block, by index
  Range creates;  // into Block::buffers: buffers of the shape, by index
  Range frees;
  Range uses;  // further ones that must be there
};

// Consecutive layers that a stage works through at one time, as far as their ops and buffers depend on them. A buffer
// lives once for each micro-batch of a chunk.
struct Layer {
  bool experts = false;
  bool windowed = false;
  bool recomputed = false;  // with full recompute
  bool predicts = false;    // a multi-token prediction module, behind the last layer
  bool operator==(const Layer&) const = default;
};

struct Shape {
  std::vector<Layer> layers;
  bool embedding = false;
  bool head = false;
  std::vector<Buffer> buffers;
};

// Ops in the order of the list; an op waits only for ops before it.
struct Block {
  Phase phase = Phase::forward;  // of the first half
  bool pair = false;             // forward of one micro-batch beside the backward pass of another (DualPipe)
  int shapes[2] = {-1, -1};      // index into Program::shapes, by half
  std::vector<Op> ops;
  std::vector<int> waits;
  std::vector<int> buffers;
};

// An instance of another list, or of this one.
struct Source {
  int kind = -1;  // -1: none
  int instance = -1;
};

struct Instance {
  int block = 0;
  int micro_batch[2] = {-1, -1};  // by half; -1: of the step as a whole
  int chunk[2] = {-1, -1};
  Source from[2];  // whose send the recv takes; of the same kind: the instance that comes before it in the model
};

// A chunk of a stage: where it stands in the model.
struct Chunk {
  int shape = -1;
  int first_layer = 0;
  int position = 0;         // 0: begins with the embedding
  int next_stage = -1;      // that holds position + 1; -1: this is the last
  int previous_stage = -1;  // that holds position - 1
  int next_chunk = -1;      // which chunk of that stage
  int previous_chunk = -1;
};

struct Kind {
  int stage = 0;
  std::vector<Chunk> chunks;
  std::vector<Buffer> residents;  // there for the whole step
  double parameters = 0;          // that a rank works on, before ZeRO shards them
  double expert_parameters = 0;   // of those: routed experts
  std::vector<Instance> instances;
};

// What the parameter servers do in a step: they add up what the domains push, and update.
struct Servers {
  int count = 0;
  double parameters = 0;  // of one server
  double domains = 0;     // that push to each
};

struct Program {
  layout::Mesh mesh;
  int micro_batches = 0;
  int chunks = 1;                // of a stage
  bool splits_backward = false;  // some backward passes run in halves
  // The norm of all gradients is looked at after the update, which is taken back if need be (Zero Bubble, section 4):
  // no stage waits for the others at the end, and the next step begins where this one's stages end, one after the
  // other.
  bool validates_later = false;
  double memory_bytes = 0;  // of a device; 0: not known
  Servers servers;
  std::vector<Work> works;
  std::vector<Shape> shapes;
  std::vector<Block> blocks;
  std::vector<Kind> kinds;
  int ranks_of_kind() const { return mesh.ranks() / mesh.pp; }
};

std::string_view name_of(Lane lane);
std::string_view name_of(OpKind kind);
std::string_view name_of(Phase phase);
std::string_view name_of(Segment segment);
std::string_view name_of(ElementType element);
std::string_view name_of(Tier tier);
std::string_view name_of(BufferKind kind);

// An op of an instance of a kind's list, with what its template leaves open.
struct PlacedOp {
  const Op* op = nullptr;
  const Block* block = nullptr;
  int kind = 0;
  int instance = 0;
  int index = 0;  // in the block
  int micro_batch = -1;
  int chunk = -1;
  int layer = -1;  // of the model
};

PlacedOp placed(const Program& program, int kind, int instance, int index);

// All ops of a kind, in the order of its list.
template <typename F>
void for_each_op(const Program& program, int kind, F&& f) {
  const Kind& one = program.kinds[static_cast<std::size_t>(kind)];
  for (int i = 0; i < static_cast<int>(one.instances.size()); ++i) {
    const Block& block = program.blocks[static_cast<std::size_t>(one.instances[static_cast<std::size_t>(i)].block)];
    for (int k = 0; k < static_cast<int>(block.ops.size()); ++k) f(placed(program, kind, i, k));
  }
}

// "forward attention of layer 3, micro-batch 5, chunk 1", for messages and pictures.
std::string op_text(const PlacedOp& op);

int kind_of_rank(const Program& program, int rank);

// The rank that a send goes to or a recv comes from.
int peer_rank(const Program& program, const PlacedOp& op, int rank);

// Every rank's list, spelled out: for tests on small meshes.
struct RankOp {
  PlacedOp op;
  int peer = -1;             // of a send or recv
  std::vector<int> members;  // of a collective, this rank among them
};
std::vector<std::vector<RankOp>> expand(const Program& program);

// What all ranks of a kind move and compute in a step, for tests and tables.
struct Totals {
  double flop = 0;
  double parameters_updated = 0;
  double bytes[kNumLanes] = {};
  double ops = 0;
};
Totals totals(const Program& program, int kind);

}  // namespace twinpod::program
