// Seconds of the ops of a Program, out of the closed form: what the step engine runs on (sim/op_time.hpp).
//
//     const Result<program::Program> program = program::generate(job);
//     const sim::StepTimes times = op_times(job, *program);
//     times.ops[block][index].seconds()
//
// The closed form knows how long a layer's pass takes and what of its communication shows; the Program knows which ops
// that are. Each op gets its share, so that an engine that runs the Program where nothing contends comes to
// step_time().
#pragma once

#include "program/program.hpp"
#include "sim/op_time.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

// REQUIRES: a job that passed layout::check, and its Program.
sim::StepTimes op_times(const spec::Job& job, const program::Program& program);

// What the device alone needs for the work of an op.
double work_s(const spec::Job& job, const program::Work& work);

}  // namespace twinpod::plan
