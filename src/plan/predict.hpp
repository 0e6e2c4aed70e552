// A step of a job's Program, simulated: what `simulate` shows, what ranks the planner's best, and what `train` holds
// its own step against.
//
//     const Result<Prediction> prediction = predict_step(job, program);
//     prediction->run.step_s; cluster::link_name(prediction->graph, prediction->run.full_links.front().link)
#pragma once

#include <map>
#include <vector>

#include "cluster/topology.hpp"
#include "core/error.hpp"
#include "program/program.hpp"
#include "sim/step.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

struct Prediction {
  cluster::Graph graph;
  sim::StepRun run;
};

// Where a step runs, if not on the job's cluster as it should be.
struct Surroundings {
  const cluster::Graph* graph = nullptr;  // none: communication is never in each other's way
  cluster::Routing routing = cluster::Routing::rail;
  std::vector<int> device_of_rank = {};  // empty: rank r is on device r
  std::map<int, double> slow = {};       // ranks that compute so many times as long
};

// REQUIRES: a Program of the job.
Result<Prediction> predict_step(const spec::Job& job, const program::Program& program);
// With seconds of ops that were found out otherwise, such as by trying them.
Result<Prediction> predict_step(const spec::Job& job, const program::Program& program,
                                const program::OpSeconds& seconds);
Result<sim::StepRun> predict_step(const spec::Job& job, const program::Program& program, const Surroundings& where);

}  // namespace twinpod::plan
