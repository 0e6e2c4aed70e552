// Makes the Program of a job: what every rank does in one training step.
//
//     const Result<Program> program = generate(job);
//     program->kinds[3].instances.size()     // what the ranks of stage 3 do, block by block
//
// Volumes and segments are those of the closed form (program/volume.hpp, model/segment.hpp); docs/program.md says what
// is emitted when. Nothing is checked here beyond the layout: that is for program/check.hpp.
#pragma once

#include "core/error.hpp"
#include "layout/mesh.hpp"
#include "program/program.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

// Refuses a job that layout::check refuses, and a schedule file that does not spell out a whole step.
Result<Program> generate(const spec::Job& job, const layout::AxisOrder& order = layout::kUsualOrder);

}  // namespace twinpod::program
