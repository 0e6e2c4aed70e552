// From a job with its layout to a launch for the engines that people run on GPUs, and to twinpod's own job file.
//
//     const Result<Launch> launch = launch_named("slurm:torchtitan");
//     const Result<std::string> script = emit(job, *launch);      // the whole file, to be written to run.sh
//
// Megatron-LM and torchtitan become a bash script, NeMo (Megatron-Bridge) a Python recipe, Slurm a batch script around
// any of them. What twinpod cannot know (data, tokenizer, where the engine lies) is a variable of the script, and the
// script says what to set. Every flag and key that is written stands in known_names.hpp with the source it was read in;
// docs/emit.md has the same tables and says which defaults of an engine are relied on.
#pragma once

#include <string>
#include <string_view>

#include "core/error.hpp"
#include "spec/catalog.hpp"
#include "spec/job.hpp"

namespace twinpod::emit {

enum class Engine { megatron, torchtitan, nemo, twinpod };

struct Launch {
  Engine engine = Engine::megatron;
  bool slurm = false;  // a Slurm batch script around it
  double run_s = 0;    // of the whole run, as estimated: Slurm's time limit; 0: none is written
};

// "megatron", "torchtitan", "nemo", "twinpod", "slurm" (around megatron), "slurm:megatron", "slurm:torchtitan",
// "slurm:nemo". An unknown name is an input error with the nearest known one.
Result<Launch> launch_named(std::string_view name);

// "megatron", ...
std::string_view name_of(Engine engine);

// What a search must keep to so that the engine can run what it finds. Some rules join two fields (ZeRO 3 in a
// pipeline, say) and are in check() only.
spec::Abilities abilities(Engine engine);

// Refuses, as infeasible, what the engine cannot run, with the nearest that it can.
Result<void> check(const spec::Job& job, Engine engine);

// The text of the launch; what check() refuses is refused. The catalog serves the job file alone: with it, a stack that
// the job changed is written with its changes, without it by its name.
Result<std::string> emit(const spec::Job& job, const Launch& launch, const spec::Catalog* catalog = nullptr);

}  // namespace twinpod::emit
