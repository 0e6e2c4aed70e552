// twinpod simulate --servers N --workers N --mode ...: many steps of a job with parameter servers, by the protocol's
// own code (sim/served.hpp).
//
//     Result<ServedCase> one = served_case(job, choice, {.steps = 20});
//     Result<sim::ServedRun> run = sim::run_served(one->input);
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/args.hpp"
#include "cli/job_request.hpp"
#include "cli/served_flags.hpp"
#include "core/error.hpp"
#include "sim/served.hpp"
#include "spec/job.hpp"

namespace twinpod::cli {

inline constexpr std::array kRunFlags = {
    Flag{"step-time", "TIME", "with --workers: what a worker's passes take (default: as they are predicted)", ""},
    Flag{"steps", "N", "with --workers: steps that each of them does (default 20)", ""},
    Flag{"kill", "WHO@TIME", "with --workers: server:1@2s or worker:0@500ms dies; with commas between them", ""},
};
// `--servers` alone means one step with servers in closed form, and is a flag of the job.
inline constexpr std::array kSimulateServedFlags = joined(without(kServedFlags, "servers"), kRunFlags);

bool wants_served_run(const Arguments& arguments);

// Elements of the attention of each layer, and of what stands beside it, in the order of the forward pass.
std::vector<std::int64_t> parameter_counts(const spec::Model& model);

struct ServedOptions {
  std::optional<double> step_s = {};  // none: as the worker's job is predicted
  std::int64_t steps = 20;
  std::vector<sim::Kill> kills = {};
};

struct ServedCase {
  spec::Job job;  // of one worker
  sim::ServedInput input;
  double alone_tokens_per_s = 0;  // of one worker that has no servers
  double reduce_s = 0;            // of an all-reduce between all workers, if there were no servers
};

// The job is for all workers together; each gets its share of the batch.
// Refused: a batch that cannot be shared (input), a cluster that is too small, a worker that does not fit (infeasible).
Result<ServedCase> served_case(const spec::Job& job, const ps::Choice& choice, const ServedOptions& options);

// Seconds of a worker's step without the update, which is the servers' part. The job is for all workers together.
Result<double> predicted_passes_s(const spec::Job& all, const ps::Choice& choice);

// All processes on one host, as `train --servers` has them, which copies at that rate.
sim::ServedInput on_this_host(const spec::Job& all, const ps::Choice& choice, double step_s, std::int64_t steps,
                              double copy_bytes_per_s);

// REQUIRES: wants_served_run.
Result<std::string> simulate_served(const Arguments& arguments);

}  // namespace twinpod::cli
