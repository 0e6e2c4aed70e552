// The best few layouts of a search, simulated op by op: what the closed form cannot see is what contends.
//
//     const Result<std::vector<Finalist>> finalists = simulate_finalists(job, the_best_three);
//     finalists->front().simulated_s        // fastest by simulation first
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "plan/search.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

struct Finalist {
  Candidate candidate;
  std::size_t rank = 0;  // among the candidates, from 1
  double simulated_s = 0;
  std::string full_link;  // where transfers are in each other's way longest; empty: nowhere
  double full_s = 0;
};

// `job` is on the cluster that was searched; each candidate brings its layout and devices.
Result<std::vector<Finalist>> simulate_finalists(const spec::Job& job, const std::vector<Candidate>& candidates);

}  // namespace twinpod::plan
