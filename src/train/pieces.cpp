#include "train/pieces.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/half.hpp"
#include "core/hash.hpp"
#include "core/rng.hpp"
#include "program/state.hpp"
#include "program/volume.hpp"

namespace twinpod::train {
namespace {

using program::Segment;

struct RoleName {
  const char* ending;
  Role role;
};
constexpr RoleName kRoleNames[] = {
    {"embedding.tokens", Role::tokens},
    {"embedding.positions", Role::positions},
    {"attention.norm.weight", Role::attention_norm},
    {"attention.norm.bias", Role::attention_norm_bias},
    {"attention.qkv.weight", Role::qkv},
    {"attention.qkv.bias", Role::qkv_bias},
    {"attention.output.weight", Role::attention_output},
    {"attention.output.bias", Role::attention_output_bias},
    {"mlp.norm.weight", Role::mlp_norm},
    {"mlp.norm.bias", Role::mlp_norm_bias},
    {"mlp.input.weight", Role::mlp_input},
    {"mlp.input.bias", Role::mlp_input_bias},
    {"mlp.output.weight", Role::mlp_output},
    {"mlp.output.bias", Role::mlp_output_bias},
    {"head.norm.weight", Role::head_norm},
    {"head.norm.bias", Role::head_norm_bias},
    {"head.weight", Role::head_table},
};

void find_roles(Piece& piece) {
  piece.roles.fill(-1);
  for (std::size_t i = 0; i < piece.tensors.size(); ++i) {
    for (const RoleName& name : kRoleNames) {
      if (!std::string_view(piece.tensors[i].name).ends_with(name.ending)) continue;
      const bool copy = piece.segment == Segment::head && name.role == Role::tokens;
      piece.roles[static_cast<std::size_t>(copy ? Role::head_table : name.role)] = piece.places.offsets[i];
    }
  }
}

// A number from the standard normal distribution for each index, the same on every rank that asks.
double normal_at(std::uint64_t key, std::uint64_t index) {
  std::uint64_t state = key + index * 0x9e3779b97f4a7c15U;
  const double u = (static_cast<double>(splitmix64(state) >> 11U) + 0.5) * 0x1p-53;
  const double v = static_cast<double>(splitmix64(state) >> 11U) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

void set(float& to, double value) { to = static_cast<float>(value); }
void set(double& to, double value) { to = value; }
void set(Bf16& to, double value) { to = to_bf16(static_cast<float>(value)); }

}  // namespace

Pieces pieces_of(const spec::Job& job, const program::Program& program, int kind) {
  Pieces pieces;
  pieces.shards = static_cast<std::int64_t>(program::shard_ranks(job));
  const auto add = [&](Segment segment, int layer, std::vector<model::Tensor> tensors) {
    Piece piece{segment, layer, std::move(tensors), {}, {}, pieces.elements};
    piece.places = model::flat_places(piece.tensors, job.layout.tp, pieces.shards);
    find_roles(piece);
    pieces.elements += piece.elements();
    pieces.chunks.back().push_back(std::move(piece));
  };
  const bool table = !job.model.tied_embeddings || job.layout.pp > 1;
  for (const program::Chunk& chunk : program.kinds[static_cast<std::size_t>(kind)].chunks) {
    const program::Shape& shape = program.shapes[static_cast<std::size_t>(chunk.shape)];
    pieces.chunks.emplace_back();
    if (shape.embedding) add(Segment::embedding, -1, model::embedding_tensors(job.model));
    for (int i = 0; i < static_cast<int>(shape.layers.size()); ++i)
      add(Segment::block, i, model::layer_tensors(job.model, chunk.first_layer + i));
    if (shape.head) add(Segment::head, -1, model::head_tensors(job.model, table));
  }
  return pieces;
}

std::vector<Owned> owned_by(const spec::Job& job, const Pieces& pieces, int dp_rank) {
  const std::int64_t shards = job.layout.zero > 0 ? pieces.shards : 1;
  const std::int64_t position = shards > 1 ? dp_rank : 0;
  const bool by_piece = program::overlaps_data(job) || program::scatters_each_pass(job);
  const std::int64_t each = pieces.elements / shards;
  std::vector<Owned> owned;
  for (const std::vector<Piece>& chunk : pieces.chunks) {
    for (const Piece& piece : chunk) {
      if (by_piece) {
        const std::int64_t part = piece.elements() / shards;
        owned.push_back({&piece, position * part, part, piece.offset / shards});
        continue;
      }
      const std::int64_t begin = std::max(piece.offset, position * each);
      const std::int64_t end = std::min(piece.offset + piece.elements(), (position + 1) * each);
      if (begin < end) owned.push_back({&piece, begin - piece.offset, end - begin, begin - position * each});
    }
  }
  return owned;
}

const Piece& piece_of(const std::vector<Piece>& chunk, Segment segment, int layer) {
  if (segment == Segment::embedding) return chunk.front();
  if (segment == Segment::head) return chunk.back();
  const std::size_t first = chunk.front().segment == Segment::embedding ? 1 : 0;
  return chunk[first + static_cast<std::size_t>(layer)];
}

template <typename T>
void initialize(const spec::Job& job, const Piece& piece, int tp_rank, std::uint64_t seed, T* values) {
  constexpr double kDeviation = 0.02;  // GPT-2's
  for (std::size_t i = 0; i < piece.tensors.size(); ++i) {
    const model::Tensor& tensor = piece.tensors[i];
    std::uint64_t key = fnv1a(tensor.name) ^ (seed * 0x9e3779b97f4a7c15U);
    key = splitmix64(key);
    const double deviation =
        tensor.init == model::Init::residual ? kDeviation / std::sqrt(2.0 * job.model.layers) : kDeviation;
    T* to = values + piece.places.offsets[i];
    for (const model::TensorBlock& block : model::blocks_of(tensor, job.layout.tp, tp_rank)) {
      for (std::int64_t row = block.first_row; row < block.first_row + block.rows; ++row) {
        for (std::int64_t c = block.first_column; c < block.first_column + block.columns; ++c) {
          double value = tensor.init == model::Init::ones ? 1 : 0;
          if (tensor.init == model::Init::normal || tensor.init == model::Init::residual)
            value = deviation * normal_at(key, static_cast<std::uint64_t>(row * tensor.columns + c));
          set(*to++, value);
        }
      }
    }
  }
}

template void initialize(const spec::Job&, const Piece&, int, std::uint64_t, float*);
template void initialize(const spec::Job&, const Piece&, int, std::uint64_t, double*);
template void initialize(const spec::Job&, const Piece&, int, std::uint64_t, Bf16*);

}  // namespace twinpod::train
