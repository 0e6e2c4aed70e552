// A step of a job's Program on its cluster, simulated: what `train` holds its own step against.
//
//     const Result<sim::StepRun> run = predict_step(job, program);
//     run->step_s
#pragma once

#include "core/error.hpp"
#include "program/program.hpp"
#include "sim/step.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

// REQUIRES: a Program of the job.
Result<sim::StepRun> predict_step(const spec::Job& job, const program::Program& program);

}  // namespace twinpod::plan
