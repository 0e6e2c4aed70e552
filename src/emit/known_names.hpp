// Every flag, key and directive that this module writes for another program, with where it was read.
//
// The tests hold the emitted texts to this list (a name that is not here cannot be written), and docs/emit.md to it
// (its tables are names_as_markdown()).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace twinpod::emit {

struct KnownName {
  std::string_view name;     // "--num-layers", "config.training.steps", "cfg.train.train_iters"
  std::string_view source;   // file in the project
  std::string_view meaning;  // what we use it for
};

// Programs: "megatron", "torchtitan", "nemo", "torchrun", "slurm".
std::span<const KnownName> known_names(std::string_view program);

// Release or commit at which the names of a program were read.
std::string_view seen_at(std::string_view program);

bool is_known(std::string_view program, std::string_view name);

// The rows of a program's table in docs/emit.md.
std::string names_as_markdown(std::string_view program);

}  // namespace twinpod::emit
