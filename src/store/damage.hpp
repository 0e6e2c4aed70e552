// Everything that is wrong with a checkpoint, by name. verify_checkpoint() of load.hpp stops at the first.
//
//     Result<std::vector<Damage>> damages = find_damages(files, "runs/a/checkpoint-000012");
//     for (const Damage& damage : *damages) to_string(damage);
//     // "shard-00003.safetensors: bytes 1048576 to 2097151 (extent 1) are damaged, of layers.0.qkv, layers.0.norm"
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

struct Damage {
  std::string file;                  // in the checkpoint's folder
  std::int64_t begin = 0;            // bytes begin to end - 1
  std::int64_t end = 0;              // equal to begin: none in particular
  std::int64_t extent = -1;          // -1: none in particular
  std::string problem;               // "are damaged", "cannot be opened: ..."
  std::vector<std::string> tensors;  // with elements in there
};

std::string to_string(const Damage& damage);

// Told how many more bytes were looked at.
using OnBytes = std::function<void(std::int64_t bytes)>;

// Reads every byte, whatever it meets. A manifest that cannot be read is the one damage there is.
std::vector<Damage> find_damages(Files& files, const std::string& folder, const OnBytes& on_bytes = {});

// Tensors with elements in bytes begin to end - 1 of a shard.
std::vector<std::string> tensors_in(const Manifest& manifest, int shard, std::int64_t begin, std::int64_t end);

}  // namespace twinpod::store
