// What `twinpod simulate --checkpoint-every` says about checkpoints: what training pays, and what storage bears.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/checkpoint.hpp"

namespace twinpod::report {

std::string checkpoint_text(const sim::CheckpointRun& run);
void add_checkpoint(const sim::CheckpointRun& run, nlohmann::ordered_json& json);

}  // namespace twinpod::report
