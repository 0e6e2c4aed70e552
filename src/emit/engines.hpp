// The writers, one for each engine. REQUIRES: check() let the job pass.
#pragma once

#include <string>

#include "emit/emit.hpp"

namespace twinpod::emit {

std::string megatron_script(const spec::Job& job);
std::string torchtitan_script(const spec::Job& job);
std::string nemo_recipe(const spec::Job& job);  // Python

// A batch script around the launch of an engine.
std::string slurm_script(const spec::Job& job, const Launch& launch, const std::string& text);

// twinpod's own job file, which read_job_text() turns into the same job.
std::string job_file(const spec::Job& job, const spec::Catalog* catalog);

}  // namespace twinpod::emit
