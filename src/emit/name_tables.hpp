// The tables behind known_names.hpp, one function for each program.
#pragma once

#include <span>

#include "emit/known_names.hpp"

namespace twinpod::emit {

std::span<const KnownName> megatron_names();
std::span<const KnownName> torchtitan_names();
std::span<const KnownName> nemo_names();
std::span<const KnownName> torchrun_names();
std::span<const KnownName> slurm_names();

}  // namespace twinpod::emit
