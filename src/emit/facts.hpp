// What every launch says of a job, whatever the engine: nodes, copies, steps, and a few values that a plan does not
// choose but a run needs.
#pragma once

#include <cstdint>
#include <string>

#include "spec/job.hpp"

namespace twinpod::emit {

struct World {
  int nodes = 1;
  int devices_per_node = 1;
  int dp = 1;
};
// REQUIRES: devices that fill whole nodes, or one node in part; check() sees to it.
World world_of(const spec::Job& job);

std::int64_t steps(const spec::Job& job);  // of the whole run; 0: the job does not say how many tokens

// "512 ranks = tp 8 × pp 4 × cp 1 × dp 16" and "512 sequences = micro-batch 1 × dp 16 × 32 micro-batches".
std::string ranks_text(const spec::Job& job);
std::string batch_text(const spec::Job& job);

// Comment lines at the head of a file, each with "# " before it: what the file is, how it was made, the two texts
// above.
std::string head_comment(const spec::Job& job, const std::string& what);

// Peak learning rate that GPT-3 used for a model of that size (Brown 2020, arXiv 2005.14165, table 2.1). A plan says
// nothing about it; it is where a run can start from.
double usual_learning_rate(const spec::Model& model);

// Base of the rotary angles of a catalog model, from its released config; 0: not known.
int rotary_base(const spec::Model& model);

// Bytes of a gradient while it is accumulated: the job's, else as its stack does.
double gradient_bytes(const spec::Job& job);

}  // namespace twinpod::emit
