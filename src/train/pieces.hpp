// The parameters of a rank: the pieces of its chunks (embedding, layers, head), each a part of one flat buffer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/tensors.hpp"
#include "program/program.hpp"
#include "spec/job.hpp"

namespace twinpod::train {

// What a tensor is for.
enum class Role : std::uint8_t {
  tokens,  // table of the embedding
  positions,
  attention_norm,
  attention_norm_bias,
  qkv,
  qkv_bias,
  attention_output,
  attention_output_bias,
  mlp_norm,
  mlp_norm_bias,
  mlp_input,
  mlp_input_bias,
  mlp_output,
  mlp_output_bias,
  head_norm,
  head_norm_bias,
  head_table,  // its own, or a copy of the embedding's on another stage
};
inline constexpr int kNumRoles = 17;

struct Piece {
  program::Segment segment = program::Segment::block;
  int layer = -1;  // of the chunk; -1: embedding or head
  std::vector<model::Tensor> tensors;
  model::FlatPlaces places;
  std::array<std::int64_t, kNumRoles> roles{};  // where in the piece, in elements; -1: there is none
  std::int64_t offset = 0;                      // of the piece in the rank's flat buffer
  std::int64_t elements() const { return places.elements; }
  std::int64_t at(Role role) const { return roles[static_cast<std::size_t>(role)]; }
};

struct Pieces {
  std::vector<std::vector<Piece>> chunks;  // in the order of the model
  std::int64_t elements = 0;
  std::int64_t shards = 1;  // that ZeRO divides each piece into
};

// A part of a rank's flat buffer that it updates.
struct Owned {
  const Piece* piece = nullptr;
  std::int64_t first = 0;  // in the piece
  std::int64_t count = 0;
  std::int64_t place = 0;  // in the optimizer's state, and in shards
};

// What the data-parallel rank updates of these pieces: all, or with ZeRO its part. The pieces must outlive it.
std::vector<Owned> owned_by(const spec::Job& job, const Pieces& pieces, int dp_rank);

// Of the ranks of a stage. `copies_table`: embedding and head are tied, but on different stages.
Pieces pieces_of(const spec::Job& job, const program::Program& program, int kind);

// The chunk's piece of a segment and layer.
const Piece& piece_of(const std::vector<Piece>& chunk, program::Segment segment, int layer);

// The same numbers whatever the layout: an element's value depends on its tensor's name, its place in the whole tensor
// and the seed.
template <typename T>
void initialize(const spec::Job& job, const Piece& piece, int tp_rank, std::uint64_t seed, T* values);

}  // namespace twinpod::train
