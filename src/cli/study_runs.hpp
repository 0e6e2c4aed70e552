// The real runs of `twinpod study sync-async`: one job by all-reduce and with parameter servers, and what came of them.
#pragma once

#include <optional>

#include "cli/args.hpp"
#include "cli/train_request.hpp"
#include "core/error.hpp"
#include "core/progress.hpp"
#include "ps/choice.hpp"
#include "report/study_report.hpp"

namespace twinpod::cli {

struct StudyJob {
  TrainRequest request;
  std::optional<TrainPlan> plan = {};  // for all workers
  double alone_s = 0;                  // passes_alone
};

// Those of the job: without the first word, which says what to study, and without the study's own flags.
Arguments job_arguments(const Arguments& arguments);

// The job of `study sync-async JOB` and its data.
Result<StudyJob> study_job(const Arguments& arguments, int workers);

// Sets the plan: so many steps, with evaluations on the way and a warm-up that ends in time.
Result<void> plan_study(StudyJob& job, int workers, int steps);

// Seconds of a step of one worker on its share of the batch, when nobody else is there.
Result<double> passes_alone(StudyJob& job, int workers);

// How fast one core of this host copies.
struct HostRates {
  double copy_bytes_per_s = 0;
};
HostRates measured_host();

// REQUIRES for both: plan_study. The progress is advanced by a step of the job at a time.
// By all-reduce, a rank for each worker. Its pace and slowness count for whole steps: a rank rests before each of them
// as long as it is too fast.
Result<report::StudyMode> train_all_reduced(const StudyJob& job, const ps::Choice& choice, Progress& progress);
Result<report::StudyMode> train_served_mode(const StudyJob& job, const ps::Choice& choice, Progress& progress);

}  // namespace twinpod::cli
