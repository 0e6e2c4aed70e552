// Checkpoints to and from files of safetensors that others made or will read.
//
//     export_weights({files, folder, manifest}, {.path = "model.safetensors"});       // whole tensors, whatever the
//     layout import_weights({"model.safetensors"}, files, "runs/b");                         // the first checkpoint of
//     a store
//
// Neither holds more than a part of a tensor in memory.
#pragma once

#include <string>
#include <vector>

#include "store/damage.hpp"
#include "store/tensor_values.hpp"

namespace twinpod::store {

// Tensors of the optimizer are those whose names begin so; all others are the weights.
inline constexpr std::string_view kOptimizerPrefix = "optimizer.";
bool is_weight(const std::string& tensor);

struct ExportRequest {
  std::string path;        // on this machine
  bool optimizer = false;  // not only the weights
  bool replace = false;    // what is there
  OnBytes on_bytes = {};
};
struct Exported {
  std::int64_t num_tensors = 0;
  std::int64_t bytes = 0;  // of the file
};
// The file is there whole, or not at all.
Result<Exported> export_weights(const ReadFrom& from, const ExportRequest& request);

// A checkpoint of step 0 with these files as its shards, byte for byte. Refused when a tensor is in two of them.
// What earlier saves left there without an end is removed. Returns its name.
Result<std::string> import_weights(const std::vector<std::string>& paths, Files& files, const std::string& root,
                                   const OnBytes& on_bytes = {});

}  // namespace twinpod::store
