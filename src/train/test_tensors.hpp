// Whole tensors out of, and into, the parts that ranks hold: for tests that look at every parameter.
//
//     const Tensors gradients = gradients_of<double>(job);      // of one step, whatever the layout
//     gradients.at("layers.0.mlp.norm.bias")
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/hash.hpp"
#include "kernel/product.hpp"
#include "train/test_job.hpp"

namespace twinpod::train {

using Tensors = std::map<std::string, std::vector<double>>;

// Each parameter of a model once.
inline std::vector<model::Tensor> tensors_of(const spec::Model& model) {
  std::vector<model::Tensor> all = model::embedding_tensors(model);
  const auto add = [&](const std::vector<model::Tensor>& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (int layer = 0; layer < model.layers; ++layer) add(model::layer_tensors(model, layer));
  add(model::head_tensors(model, !model.tied_embeddings));
  return all;
}

inline std::size_t elements_of(const model::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.rows() * tensor.columns);
}

// Where in the whole tensor each element of a rank's part lies.
inline std::vector<std::size_t> whole_places(const model::Tensor& tensor, int tp, int tp_rank) {
  std::vector<std::size_t> places;
  for (const model::TensorBlock& block : model::blocks_of(tensor, tp, tp_rank)) {
    for (std::int64_t r = block.first_row; r < block.first_row + block.rows; ++r)
      for (std::int64_t c = block.first_column; c < block.first_column + block.columns; ++c)
        places.push_back(static_cast<std::size_t>(r * tensor.columns + c));
  }
  return places;
}

// Calls f(tensor, place in the whole tensor, place in the piece) for a part of a piece.
template <typename T, typename F>
void for_each_element(const Rank<T>& rank, const Piece& piece, std::int64_t first, std::int64_t count, F&& f) {
  for (std::size_t i = 0; i < piece.tensors.size(); ++i) {
    const std::vector<std::size_t> whole = whole_places(piece.tensors[i], rank.job.layout.tp, rank.tp_rank);
    const std::int64_t offset = piece.places.offsets[i];
    const std::int64_t begin = std::max(first, offset);
    const std::int64_t end = std::min(first + count, offset + static_cast<std::int64_t>(whole.size()));
    for (std::int64_t j = begin; j < end; ++j) f(piece.tensors[i], whole[static_cast<std::size_t>(j - offset)], j);
  }
}

// Calls f(tensor, place in the whole tensor, parameter) for all that the rank stores.
template <typename T, typename F>
void for_each_parameter(Rank<T>& rank, F&& f) {
  const std::int64_t shards = rank.shards_parameters ? rank.pieces.shards : 1;
  for (const std::vector<Piece>& chunk : rank.pieces.chunks) {
    for (const Piece& piece : chunk) {
      const std::int64_t part = piece.elements() / shards;
      const std::int64_t first = shards > 1 ? rank.dp_rank * part : 0;
      T* values = rank.parameters + piece.offset / shards;
      for_each_element(rank, piece, first, part, [&](const model::Tensor& tensor, std::size_t whole, std::int64_t j) {
        f(tensor, whole, values[j - first]);
      });
    }
  }
}

// What each parameter is moved by, the same on every rank that holds it.
inline std::vector<double> random_direction(const model::Tensor& tensor, std::uint64_t seed) {
  Rng rng(fnv1a(tensor.name) + seed);
  std::vector<double> direction(elements_of(tensor));
  for (double& element : direction) element = 2 * rng.uniform() - 1;
  return direction;
}

inline Tensors random_directions(const spec::Model& model, std::uint64_t seed) {
  Tensors all;
  for (const model::Tensor& tensor : tensors_of(model)) all[tensor.name] = random_direction(tensor, seed);
  return all;
}

// Far from how models begin, where biases are 0 and attention is nearly even, but not so far that rounding is magnified
// from layer to layer. The same numbers in float and double.
template <typename T>
void shake(Rank<T>& rank) {
  const double scale = 1.2 / std::sqrt(rank.job.model.hidden);
  const Tensors by = random_directions(rank.job.model, 11);
  for_each_parameter(rank, [&](const model::Tensor& tensor, std::size_t whole, T& value) {
    const double rounded = static_cast<float>(value);
    value = static_cast<T>(static_cast<float>(rounded + scale * by.at(tensor.name)[whole]));
  });
}

// Adds what this rank answers for to the whole. Copies of an element must be the same.
template <typename T>
void collect_gradients(const Rank<T>& rank, Tensors& all) {
  for (const Owned& own : rank.owned) {
    const Sum<T>* values = rank.shards_gradients ? rank.gradients + own.place - own.first  // NOLINT: within, with j
                                                 : rank.gradients + own.piece->offset;
    for_each_element(rank, *own.piece, own.first, own.count,
                     [&](const model::Tensor& tensor, std::size_t whole, std::int64_t j) {
                       std::vector<double>& sum = all[tensor.name];
                       if (sum.empty()) sum.assign(elements_of(tensor), NAN);
                       const auto value = static_cast<double>(values[j]);
                       if (!std::isnan(sum[whole])) {
                         EXPECT_EQ(sum[whole], value) << tensor.name << " differs on rank " << rank.rank;
                       }
                       sum[whole] = value;
                     });
  }
}

// Sets up the ranks of a job and runs the body on each, as threads.
template <typename T>
void on_ranks(spec::Job job, const std::function<Result<void>(Rank<T>&)>& body) {
  job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<T>(job));
  const Result<program::Program> program = program::generate(job);
  ASSERT_TRUE(program) << program.error().message;
  const auto each = [&](comm::Communicator& world) -> Result<std::string> {
    kernel::set_threads(1);  // more would wait for each other
    Rank<T> rank(job, *program, world);
    if (Result<void> ready = set_up(rank, 7); !ready) return tl::unexpected(ready.error());
    shake(rank);
    fill_batch(rank, 0);
    if (Result<void> done = body(rank); !done) return tl::unexpected(done.error());
    return std::string();
  };
  const Result<std::string> done = comm::run_threads(job.cluster.devices, {.timeout_s = 20}, each);
  EXPECT_TRUE(done) << done.error().message;
}

// A step that changes no parameter.
template <typename T>
Result<void> run_still_step(Rank<T>& rank) {
  StepSettings settings;
  settings.adamw.rate = 0;
  const Result<StepResult> done = run_step(rank, settings);
  if (!done) return tl::unexpected(done.error());
  return {};
}

template <typename T>
Tensors gradients_of(const spec::Job& job) {
  Tensors all;
  std::mutex mutex;
  on_ranks<T>(job, [&](Rank<T>& rank) -> Result<void> {
    // Twice, as the second must not see what the first one left.
    for (int i = 0; i < 2; ++i) {
      if (Result<void> done = run_still_step(rank); !done) return done;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    collect_gradients(rank, all);
    return {};
  });
  for (const model::Tensor& tensor : tensors_of(job.model)) {
    EXPECT_EQ(all[tensor.name].size(), elements_of(tensor)) << tensor.name;
    for (const double value : all[tensor.name]) EXPECT_TRUE(std::isfinite(value)) << tensor.name << ": " << value;
  }
  return all;
}

// The largest difference of two tensors, relative to the largest number.
inline double apart(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double largest = 1e-30;
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!(std::abs(found[i] - expected[i]) <= std::numeric_limits<double>::max())) return INFINITY;
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  }
  return worst / largest;
}

}  // namespace twinpod::train
