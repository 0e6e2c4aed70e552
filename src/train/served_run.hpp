// Trains a job with a parameter server, for real: processes for servers and workers on this host, and an account of
// what they did.
//
//     Result<ServedResult> run = run_served(job, samples, choice, {.steps = 200});
//     run->final_loss; ps::steady_tokens_per_second(run->report); run->report.staleness_max;
//
// The job is that of all workers together: one device for each rank of each worker, copies of the model (dp) and no
// other parallelism; the samples are dealt out to them as to the ranks of run_loop (loop.hpp).
//   sync   Clock c of all workers together is step c of run_loop: each sample once in an epoch, and with
//   `deterministic`
//          the same bits.
//   ssp    The same parts, each worker at its own clock; each push is an optimizer step of its own.
//   async  The same, and the parts belong to nobody: who is free takes the next one. So a slow worker does fewer of
//          them, and each is still done once.
// Who comes for a dead worker starts at the others' clock. What the dead one had taken and not pushed is left out; in
// ssp mode, what it had done ahead of the others is done again.
//
// Values for the evaluation are set aside during the run, and evaluated behind it: it takes no time of the run. So a
// run does not stop at its target; time_to_target_s says when it was reached.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/error.hpp"
#include "data/samples.hpp"
#include "ps/choice.hpp"
#include "ps/launch.hpp"
#include "spec/job.hpp"
#include "train/loop.hpp"

namespace twinpod::train {

// `steps` are those that every worker has done. Called in the process that started the others; tests kill some.
using ServedWatch = std::function<void(const std::vector<ps::Process>& alive, std::int64_t steps)>;

struct ServedSettings {
  int steps = 100;                                 // of each worker
  bool deterministic = false;                      // as far as the mode allows it: sync does
  int replacements = 16;                           // processes that may be started in place of dead ones
  double timeout_s = 60;                           // how long one waits for another
  std::function<void(const StepNote&)> note = {};  // behind each step that all workers have done
  // Over several hosts (ps/launch.hpp) each has a result of its own: of the workers and servers that are there, and
  // only the first one's is evaluated.
  std::vector<std::string> hosts = {};
  int host = 0;
  int port = 7700;
  ps::JobKey key = {};  // by which they know each other
  ServedWatch watch = {};
  // For a trace: the report has what servers did with so many messages at most, of all clocks or of one.
  ps::DiarySize diary = {};
};

// The loss on the held-out part by the values of some moment.
struct ServedEvaluation {
  double seconds = 0;  // since the run began
  double samples = 0;  // that had been trained on by then
  double loss = 0;
};

struct ServedResult {
  ps::ServedReport report;
  std::vector<StepNote> steps;  // the loss of each is the mean of the workers'
  std::vector<double> losses;   // the same
  std::vector<ServedEvaluation> evaluations;
  double final_loss = 0;  // by the values at the end; without a held-out part, of the last step
  bool evaluated = false;
  double time_to_target_s = -1;  // -1: not reached, or no target
  double peak_bytes = 0;         // of the fullest rank of a worker
  double predicted_bytes = 0;
};

Result<ServedResult> run_served(const spec::Job& job, const data::Samples& samples, const ps::Choice& choice,
                                const ServedSettings& settings);

}  // namespace twinpod::train
