// The elements of a checkpoint's tensors as numbers: what a tensor holds, and how two checkpoints differ.
//
//     Result<TensorSummary> summary = summary_of(files, folder, manifest, *find_tensor(manifest, "embedding"));
//     Result<Difference> difference = difference_of({files, folder, manifest_a}, {files, other, manifest_b});
//
// A tensor is read in parts, so its size does not matter, nor how it was cut into regions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

// A checkpoint that is to be read.
struct ReadFrom {
  Files& files;
  std::string folder;
  const Manifest& manifest;
};

// Elements begin to end - 1 of the flat tensor.
Result<void> load_elements(const ReadFrom& from, const StoredTensor& tensor, std::int64_t begin, std::int64_t end,
                           Bytes& bytes);
// How many are read at once: enough for a disk, few enough for any memory.
std::int64_t elements_at_once(const std::string& dtype);

// The tensor's bytes in row-major order, one part after the other, each of whole elements. An error of the body ends
// it.
using OnPart = std::function<Result<void>(std::span<const std::byte> bytes)>;
Result<void> for_each_part(const ReadFrom& from, const StoredTensor& tensor, const OnPart& body);

// All but the counts of those elements that are finite.
struct TensorSummary {
  std::int64_t elements = 0;
  std::int64_t num_nan = 0;
  std::int64_t num_infinite = 0;
  double min = 0;
  double max = 0;
  double mean = 0;
  double norm = 0;  // root of the sum of squares
};
Result<TensorSummary> summary_of(const ReadFrom& from, const StoredTensor& tensor);

struct TensorDifference {
  std::string name;
  std::string problem;             // why elements cannot be compared: "only in A", "[2,3] and [3,2]"; empty: they can
  std::int64_t elements = 0;       // that were compared
  std::int64_t num_different = 0;  // bytes of theirs differ
  std::int64_t num_apart = 0;      // of those, where one is not finite; the maxima are of the others
  double max_absolute = 0;
  double max_relative = 0;  // to the larger of the two
};
struct StateDifference {
  std::string key;  // "step", "values.learning_rate"
  std::string a;    // empty: it has none
  std::string b;
};
struct Difference {
  std::vector<TensorDifference> tensors;  // that differ, by name
  std::vector<StateDifference> state;
  std::int64_t num_same = 0;  // tensors that do not
};
Result<Difference> difference_of(const ReadFrom& a, const ReadFrom& b);

// Numbers of a type, from its bytes; what a double cannot hold is rounded.
std::vector<double> numbers_of(const std::string& dtype, std::span<const std::byte> bytes);

}  // namespace twinpod::store
