// The parameters of a model as tensors: names, shapes, how tensor parallelism divides them, how they begin.
//
//     for (const Tensor& tensor : layer_tensors(model, 3)) ...      // "layers.3.attention.qkv.weight", 3 h x h, rows
//     blocks_of(tensor, 2, 1)                                       // which rows and columns rank 1 of 2 holds
//
// A piece of the model (embedding, a layer, head) lies in one flat buffer, its tensors one behind the other
// (flat_places). First come those that every rank of a tensor-parallel group holds whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/model.hpp"

namespace twinpod::model {

enum class Split {
  none,        // every rank holds all of it
  rows,        // of each part: outputs of a product
  columns,     // inputs of a product
  vocabulary,  // rows, as even as possible; every rank has room for the largest share
};

enum class Init { zeros, ones, normal, residual };  // residual: normal, smaller by sqrt(2 layers)

// [rows, columns], rows in parts that are divided each for itself: queries, keys and values.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> parts;
  std::int64_t columns = 1;
  Split split = Split::none;
  Init init = Init::normal;
  bool decays = true;  // biases and norms do not
  std::int64_t rows() const;
};

// Rows and columns of the whole tensor that a rank holds, in the order in which it holds them.
struct TensorBlock {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
};
std::vector<TensorBlock> blocks_of(const Tensor& tensor, int tp, int tp_rank);

// Room that each rank has for it.
std::int64_t local_elements(const Tensor& tensor, int tp);

std::vector<Tensor> embedding_tensors(const spec::Model& model);
std::vector<Tensor> layer_tensors(const spec::Model& model, int layer);
// `table`: with the matrix of the logits, also when it is a copy of the embedding's.
std::vector<Tensor> head_tensors(const spec::Model& model, bool table);

// Where each tensor begins in the flat buffer of its piece, in elements. The buffer is divided evenly by `shards`.
inline constexpr std::int64_t kFlatAlignment = 16;  // elements: 64 bytes of fp32
struct FlatPlaces {
  std::vector<std::int64_t> offsets;
  std::int64_t whole = 0;     // elements at the front that every tensor-parallel rank holds
  std::int64_t elements = 0;  // with what fills it up
};
FlatPlaces flat_places(const std::vector<Tensor>& tensors, int tp, std::int64_t shards);

}  // namespace twinpod::model
