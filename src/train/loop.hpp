// Trains: step after step on the samples of a run, with evaluation, until the end or until the target is reached.
//
//     Result<LoopResult> run = run_loop<float>(job, program, world, samples, {.steps = 200});
//     run->steps.back().loss; run->time_to_target_s
//
// Every rank calls it with the same job. All of them come to the same losses, so all stop at the same step. Data that
// cannot be trained on and losses that are not finite end it on all ranks too: `refused` says why. With `checkpoints`
// it is saved on its way (checkpoint.hpp), or goes on from where another run was saved.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "data/samples.hpp"
#include "program/check.hpp"
#include "program/program.hpp"
#include "program/timeline.hpp"
#include "spec/job.hpp"
#include "train/checkpoint.hpp"

namespace twinpod::train {

struct StepNote {
  int step = 0;  // from 0
  int steps = 0;
  double loss = 0;
  double rate = 0;
  double gradient_norm = 0;
  double seconds = 0;          // of this step
  double elapsed_s = 0;        // of all
  double evaluation_loss = 0;  // 0: not evaluated behind this step
  double scale_factor = 0;     // share of the ranks' time that is arithmetic; of every eighth step, 0: of no step yet
  int saved_step = 0;          // steps of the newest checkpoint that is durable; 0: there is none of this run
};

struct LoopSettings {
  int steps = 100;
  int record_step = -1;    // of this run's, whose Timeline is kept, or of an earlier one if it ends before; -1: of none
  bool rehearses = false;  // finds out before the first step what ops take
  bool deterministic = false;                      // two runs are equal bit by bit
  std::function<void(const StepNote&)> note = {};  // called on rank 0, behind each step
  CheckpointSettings checkpoints = {};
  std::function<bool()> asked_to_stop = {};           // by anybody: all ranks end behind the step
  std::function<void(const std::string&)> warn = {};  // called on rank 0 when a save failed and training goes on
};

struct LoopResult {
  std::vector<StepNote> steps;
  std::optional<Error> refused;  // the same on every rank; what stands below is not there then
  double seconds = 0;            // from the first step's start to the last one's end, evaluation included
  double time_to_target_s = -1;  // earlier runs included; -1: not reached, or no target
  double final_loss = 0;         // of the evaluation part at the end; without one, of the last step
  bool evaluated = false;
  std::vector<double> peak_bytes;       // by rank
  std::vector<double> predicted_bytes;  // by rank
  // The parts of both peaks, by rank.
  std::vector<program::BytesByKind> peak_by_kind;
  std::vector<program::BytesByKind> predicted_by_kind;
  program::OpSeconds rehearsed;          // on rank 0: what ops take (rehearse.hpp); empty: nobody asked
  program::Timeline timeline;            // on rank 0
  int record_step = -1;                  // whose it is
  int first_step = 0;                    // steps that were done before
  std::string resumed_from;              // the checkpoint; empty: from none
  std::vector<std::string> passed_over;  // newer ones that could not be loaded, and why
  bool finished = false;                 // there was nothing left to do
  bool stopped = false;                  // somebody asked for it
  SaveReport saves;                      // times and bytes are the most of any rank
};

// Steps that the recipe asks for.
int steps_of(const spec::Job& job);

template <typename T>
Result<LoopResult> run_loop(const spec::Job& job, const program::Program& program, comm::Communicator& world,
                            const data::Samples& samples, const LoopSettings& settings);

// Dense product's rate of this rank in FLOP/s, the best of several shapes, while all ranks measure.
Result<double> measured_peak(comm::Communicator& world, spec::Precision precision);

}  // namespace twinpod::train
