// From a published row to a job: the stack that its framework and date name, and rules for what the row does not state.
//
// The rules know frameworks, dates and devices, and flags such as "eager" that a source prints only in a run's name; no
// rule is for one run, so a row that nobody has seen goes the same way.
#pragma once

#include <map>
#include <string>

#include "core/error.hpp"
#include "spec/catalog.hpp"
#include "spec/job.hpp"
#include "validate/published_run.hpp"

namespace twinpod::validate {

// Empty when the arithmetic covers the row; otherwise why not.
std::string why_not_covered(const PublishedRun& run);

// The stack of a row, by framework, date and device.
std::string stack_of(const PublishedRun& run);

// Catalog entries that rows share, read once.
class Library {
 public:
  explicit Library(const spec::Catalog& catalog);

  Result<spec::Cluster> cluster_for(const PublishedRun& run);
  Result<spec::Stack> stack(const std::string& name, const std::string& device_family);
  // The catalog's model of that name with the same hidden size, or nullptr: it knows what a row does not print.
  const spec::Model* known_model(const PublishedRun& run);

 private:
  const spec::Catalog& catalog_;
  std::map<std::string, spec::Cluster> cluster_of_device_;
  std::map<std::string, spec::Model> models_;  // by simplified name
  std::map<std::string, spec::Stack> stacks_;
};

struct RunJob {
  spec::Job job;
  bool assumed_micro_batch = false;
  bool assumed_recompute = false;
  bool assumed_stages = false;
};

Result<RunJob> job_of(const PublishedRun& run, Library& library);

}  // namespace twinpod::validate
