// The models that torchtitan has a flavor for, by their names in the catalog.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "spec/model.hpp"

namespace twinpod::emit {

// One flavor of torchtitan, with the shape that it has there; a test holds the shape to the catalog's.
struct Flavor {
  std::string_view entry;    // in our catalog
  std::string_view module;   // torchtitan.models.MODULE
  std::string_view config;   // function of its config_registry that the run starts from
  std::string_view flavor;   // for model_registry()
  std::string_view backend;  // attn_backend for model_registry(); empty: its default
  bool own_config;           // the function builds this very model, and in 16 bits: model_registry() need not be called
  int layers;
  int hidden;
  int heads;
  int kv_heads;
  int ffn;
  int vocab;
  int experts;
  int expert_ffn;
};

std::span<const Flavor> flavors();
const Flavor* flavor_of(const spec::Model& model);  // nullptr: torchtitan has none

// Where a flavor for the model belongs, and its values: "add a flavor to torchtitan/models/llama3/__init__.py with
// ...".
std::string new_flavor_text(const spec::Model& model);

}  // namespace twinpod::emit
