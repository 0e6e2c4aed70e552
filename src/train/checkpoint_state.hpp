// What a checkpoint says about its run beside tensors, and whether another job may go on from it.
//
//     manifest.state.values = facts_of(job, samples);
//     Result<void> same = check_facts(manifest.state.values, facts_of(other_job, samples), "runs/a/checkpoint-000012");
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/samples.hpp"
#include "spec/job.hpp"
#include "store/manifest.hpp"

namespace twinpod::train {

using Values = std::map<std::string, std::string>;

// What must be the same for a run to go on: the model, the optimizer, and what decides which samples a step has. The
// keys are those of a job file.
Values facts_of(const spec::Job& job, const data::Samples& samples);

// Refused with all that differs. `checkpoint` is for messages.
Result<void> check_facts(const Values& stored, const Values& facts, const std::string& checkpoint);

// Weights that nobody trained here (`twinpod checkpoint import`): any job whose tensors they are may begin with them,
// with a new optimizer.
bool is_imported(const store::TrainingState& state);

// How far a run is.
struct Position {
  int step = 0;                // steps that are done
  double elapsed_s = 0;        // in all of its runs
  double reached = 0;          // the target that was, and ended it; 0: none
  std::vector<double> losses;  // of the last steps
};

// A position as a state of a checkpoint, beside values of the run; and back. Of imported weights: the start.
store::TrainingState state_of(const Position& position, const data::Samples& samples, const Values& values);
Result<Position> position_in(const store::TrainingState& state, const std::string& checkpoint);

}  // namespace twinpod::train
