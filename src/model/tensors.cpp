#include "model/tensors.hpp"

#include <algorithm>
#include <numeric>

namespace twinpod::model {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

Tensor vector_of(std::string name, std::int64_t width, Init init, Split split = Split::none) {
  return {std::move(name), {width}, 1, split, init, false};
}

void add_norm(std::vector<Tensor>& list, const spec::Model& model, const std::string& name) {
  if (!model.norm_weight) return;
  list.push_back(vector_of(name + ".weight", model.hidden, Init::ones));
  if (model.norm == spec::Norm::layer_norm && model.norm_bias)
    list.push_back(vector_of(name + ".bias", model.hidden, Init::zeros));
}

// What every rank holds whole comes first, so that it can be summed in one piece.
std::vector<Tensor> in_order(std::vector<Tensor> list) {
  std::stable_partition(list.begin(), list.end(), [](const Tensor& tensor) { return tensor.split == Split::none; });
  return list;
}

}  // namespace

std::int64_t Tensor::rows() const { return std::accumulate(parts.begin(), parts.end(), std::int64_t{0}); }

std::vector<TensorBlock> blocks_of(const Tensor& tensor, int tp, int tp_rank) {
  std::vector<TensorBlock> blocks;
  std::int64_t before = 0;
  for (const std::int64_t rows : tensor.parts) {
    TensorBlock block{before, rows, 0, tensor.columns};
    if (tensor.split == Split::rows) {
      block.rows = rows / tp;
      block.first_row = before + tp_rank * block.rows;
    } else if (tensor.split == Split::columns) {
      block.columns = tensor.columns / tp;
      block.first_column = tp_rank * block.columns;
    } else if (tensor.split == Split::vocabulary) {
      const std::int64_t each = (rows + tp - 1) / tp;
      block.first_row = std::min(rows, tp_rank * each);
      block.rows = std::min(rows - block.first_row, each);
    }
    blocks.push_back(block);
    before += rows;
  }
  return blocks;
}

std::int64_t local_elements(const Tensor& tensor, int tp) {
  std::int64_t sum = 0;
  for (const TensorBlock& block : blocks_of(tensor, tp, 0)) sum += block.rows * block.columns;
  return sum;
}

std::vector<Tensor> embedding_tensors(const spec::Model& model) {
  std::vector<Tensor> list;
  list.push_back({"embedding.tokens", {model.vocab}, model.hidden, Split::vocabulary, Init::normal, true});
  if (model.positions == spec::Positions::learned)
    list.push_back({"embedding.positions", {model.max_sequence}, model.hidden, Split::none, Init::normal, true});
  return in_order(std::move(list));
}

std::vector<Tensor> layer_tensors(const spec::Model& model, int layer) {
  const spec::Attention& a = model.attention;
  const std::string own = "layers." + std::to_string(layer) + ".";
  const std::int64_t queries = std::int64_t{a.heads} * a.head_dim;
  const std::int64_t keys = std::int64_t{a.kv_heads} * a.head_dim;
  const std::vector<std::int64_t> qkv = {queries, keys, keys};
  const std::vector<std::int64_t> inner =
      model.gated_mlp ? std::vector<std::int64_t>{model.ffn, model.ffn} : std::vector<std::int64_t>{model.ffn};
  std::vector<Tensor> list;
  add_norm(list, model, own + "attention.norm");
  list.push_back({own + "attention.qkv.weight", qkv, model.hidden, Split::rows, Init::normal, true});
  if (a.bias || a.qkv_bias) list.push_back({own + "attention.qkv.bias", qkv, 1, Split::rows, Init::zeros, false});
  list.push_back({own + "attention.output.weight", {model.hidden}, queries, Split::columns, Init::residual, true});
  if (a.bias) list.push_back(vector_of(own + "attention.output.bias", model.hidden, Init::zeros));
  add_norm(list, model, own + "mlp.norm");
  list.push_back({own + "mlp.input.weight", inner, model.hidden, Split::rows, Init::normal, true});
  if (model.mlp_bias) list.push_back({own + "mlp.input.bias", inner, 1, Split::rows, Init::zeros, false});
  list.push_back({own + "mlp.output.weight", {model.hidden}, model.ffn, Split::columns, Init::residual, true});
  if (model.mlp_bias) list.push_back(vector_of(own + "mlp.output.bias", model.hidden, Init::zeros));
  return in_order(std::move(list));
}

std::vector<Tensor> head_tensors(const spec::Model& model, bool table) {
  std::vector<Tensor> list;
  add_norm(list, model, "head.norm");
  if (table) {
    const char* name = model.tied_embeddings ? "embedding.tokens" : "head.weight";
    list.push_back({name, {model.vocab}, model.hidden, Split::vocabulary, Init::normal, true});
  }
  return in_order(std::move(list));
}

FlatPlaces flat_places(const std::vector<Tensor>& tensors, int tp, std::int64_t shards) {
  FlatPlaces places;
  for (const Tensor& tensor : tensors) {
    places.offsets.push_back(places.elements);
    places.elements += round_up(local_elements(tensor, tp), kFlatAlignment);
    if (tensor.split == Split::none) places.whole = places.elements;
  }
  places.elements = round_up(places.elements, kFlatAlignment * shards);
  return places;
}

}  // namespace twinpod::model
