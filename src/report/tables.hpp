// An estimate for people: one screen of text.
//
//     std::fputs(estimate_text(job, plan::assess(job, accuracy), {}).c_str(), stdout);
#pragma once

#include <string>
#include <vector>

#include "plan/assessment.hpp"
#include "spec/job.hpp"

namespace twinpod::report {

struct EstimateOptions {
  bool explain = false;  // print the formula of each figure
  bool stages = false;   // print the memory of every stage
};

std::string estimate_text(const spec::Job& job, const plan::Assessment& assessment, const EstimateOptions& options);

// "32 devices of the cluster stay idle", or nothing.
std::string idle_line(const spec::Job& job);

// "dp 16 × tp 8 × pp 8, micro-batch 1, ..."
std::string layout_text(const spec::Job& job);

// "80 GiB = 85.9 GB" of memory that is a whole number of GiB; else nothing.
std::string in_gib(double bytes);

// Three lines: the model and its devices, the layout, the batch and the stack.
std::string job_text(const spec::Job& job);

// Values rounded to so many decimals that still add up to their rounded sum: the largest remainders are rounded up.
std::vector<double> rounded_to_add_up(const std::vector<double>& values, int decimals);

// A bar of `width` blocks for a share of 1.
std::string bar(double share, int width);

}  // namespace twinpod::report
