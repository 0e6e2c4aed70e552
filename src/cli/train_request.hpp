// What `twinpod train` was asked to do: the job for the ranks that are there, its data, and what to write.
//
//     Result<TrainRequest> request = train_request(arguments);
//     Result<TrainPlan> plan = plan_training(*request, 2);      // the job, its Program and its samples for two ranks
#pragma once

#include <optional>
#include <string>

#include "cli/args.hpp"
#include "cli/train_faults.hpp"
#include "cli/train_store.hpp"
#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "data/samples.hpp"
#include "program/program.hpp"
#include "ps/choice.hpp"
#include "ps/job_key.hpp"
#include "spec/job.hpp"

namespace twinpod::cli {

// The step whose ops are shown, unless another one is named. By then the fastest way of each product is known; those
// that come once in a step take a dozen steps (kernel/gemm.hpp).
inline constexpr int kRecordedStep = 16;

struct TrainRequest {
  spec::Job job;  // as it was written
  data::TokenData data;
  comm::Options options;
  int ranks = 1;
  std::string transport = "processes";  // threads, mpi
  bool json = false;
  bool deterministic = false;
  bool measures_machine = false;  // no cluster is named: the ranks find out what this one does
  std::string basis = {};         // of the prediction
  int record_step = kRecordedStep - 1;
  bool names_step = false;                              // by --trace-step
  std::string metrics = {}, timeline = {}, trace = {};  // files; empty: none
  std::string resumed = {};                             // the store behind --resume, as it was written
  TrainStore store = {};                                // where it is saved, and resumed from
  spec::Node document = {};                             // of the job, for checkpoints
  std::string job_folder = {};                          // that paths in it start at
  std::optional<ps::Choice> served = {};                // with a parameter server; none: by all-reduce
  Faults faults = {};                                   // of its processes, on purpose
  std::vector<std::string> hosts = {};                  // of the parameter server; none: this one
  int host = 0;                                         // which of them this is
  int port = 0;
  ps::JobKey key = {};  // by which their processes know each other
};

Result<TrainRequest> train_request(const Arguments& arguments);

// The same on every rank. The request must outlive it.
struct TrainPlan {
  spec::Job job;  // as it is run
  program::Program program;
  data::Samples samples;
};

Result<TrainPlan> plan_training(const TrainRequest& request, int ranks);

}  // namespace twinpod::cli
