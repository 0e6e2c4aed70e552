// The fitted numbers: for each scope (shared, a device family, a stack) the Physics fields that leave their prior.
//
//     shared: {wave_weight: 1.6}
//     device: {a100: {gemm_efficiency_bf16: 0.85}}
//     stack:  {megatron-2021: {pace: 0.96}}
//
// Each entry of this file is one free parameter of the model; there are no others.
#pragma once

#include <map>
#include <string>

#include "core/error.hpp"
#include "spec/node.hpp"
#include "spec/physics.hpp"

namespace twinpod::spec {

struct Stack;

using FieldValues = std::map<std::string, double>;  // field of Physics -> value

struct Parameters {
  FieldValues shared;
  std::map<std::string, FieldValues> by_device;  // family -> values
  std::map<std::string, FieldValues> by_trait;   // trait of stacks -> values
  std::map<std::string, FieldValues> by_stack;   // stack -> values
};

int count(const Parameters& parameters);

// Priors, then what is shared, the device's, the stack's traits in their order, what the stack fixes, the stack's own.
Physics resolve(const Parameters& parameters, const std::string& device_family, const Stack& stack);

// REQUIRES: each name is a field of Physics; read_parameters() lets in no other.
void set_fields(const FieldValues& values, Physics& physics);

// Refuses names that are no fields of Physics and values outside the field's bounds.
Result<Parameters> read_parameters(const Node& root, const std::string& file);

// The text of a parameters file, in the order of the names, four significant digits.
std::string write_parameters(const Parameters& parameters);

}  // namespace twinpod::spec
