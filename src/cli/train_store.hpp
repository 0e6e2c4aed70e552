// Where `twinpod train` saves to and resumes from: flags, the job's section `checkpoint`, and what a checkpoint says of
// its job.
//
//     Result<std::optional<SavedJob>> saved = saved_job(arguments);                // of --resume
//     spec::Request request = request_of_saved(*saved, ...);                       // its job, as if it had been
//     written Result<TrainStore> store = train_store(job, *saved);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/args.hpp"
#include "core/error.hpp"
#include "spec/job.hpp"
#include "spec/read.hpp"
#include "store/files.hpp"
#include "train/checkpoint.hpp"

namespace twinpod::cli {

// The newest checkpoint of --resume that looks whole.
struct SavedJob {
  std::string root;        // as it was written behind --resume
  std::string checkpoint;  // its folder
  train::Values values;
  std::string value(const std::string& key) const;  // empty: there is none
  int count(const std::string& key) const;          // 0: there is none
};
Result<std::optional<SavedJob>> saved_job(const Arguments& arguments);

// Of `train --resume DIR` without a job: that of the checkpoint, with the flags on top.
Result<spec::Request> request_of_saved(const SavedJob& saved, const Arguments& arguments,
                                       const std::vector<spec::Setting>& no_cluster);

// Gives a folder to memory, of this host and of a peer, that has none.
void place_memory(spec::Job& job);

// The job saves to where it was saved before.
bool saves_to(const spec::Job& job, const SavedJob& saved);

// Keeps open what the settings point to.
struct TrainStore {
  std::vector<std::shared_ptr<store::Files>> files;
  train::CheckpointSettings settings;
  std::string root;  // of the first tier but memory of a peer, for messages
};
Result<TrainStore> train_store(const spec::Job& job, const std::optional<SavedJob>& saved);

// A job's document such that it means the same when it is read from a checkpoint, elsewhere and with other ranks: paths
// are whole, and the batch is that of the run. `job` is as it is run.
Result<std::string> document_to_keep(spec::Node document, const spec::Job& job);

// What goes into each checkpoint of a run.
Result<train::Values> values_to_keep(const spec::Node& document, const std::string& folder, const spec::Job& job,
                                     const data::Samples& samples);

}  // namespace twinpod::cli
