// twinpod estimate: one job in; its memory, step time and training time out.
#include <fmt/format.h>

#include <array>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "layout/check.hpp"
#include "plan/assessment.hpp"
#include "plan/fits.hpp"
#include "report/json.hpp"
#include "report/tables.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kEstimateOutputFlags = {
    Flag{"explain", "", "print the formula of each figure", ""},
    Flag{"stages", "", "print the memory of every stage", ""},
};
constexpr std::array kFlagsOfEstimate = joined(joined(kJobFlags, kTrainingFlags), kEstimateOutputFlags);

Result<std::string> estimate(const Arguments& arguments) {
  const spec::Catalog catalog = catalog_of(arguments);
  const Result<spec::Job> job = one_job("estimate", arguments, catalog);
  if (!job) return tl::unexpected(job.error());
  const Result<void> valid = layout::check(*job);
  if (!valid) return tl::unexpected(valid.error());
  const Result<void> fits = plan::check_memory(*job);
  if (!fits) return tl::unexpected(fits.error());
  const Result<plan::Accuracy> accuracy = plan::read_accuracy(catalog.folder() + "/accuracy.yaml");
  if (!accuracy) return tl::unexpected(accuracy.error());

  const plan::Assessment assessment = plan::assess(*job, *accuracy);
  const report::EstimateOptions options{arguments.has("explain"), arguments.has("stages")};
  if (arguments.has("json")) return report::estimate_json(*job, assessment, options);
  return report::estimate_text(*job, assessment, options);
}

}  // namespace

const Command kEstimate = {
    "estimate",
    "MODEL|JOB.yaml|config.json [--on CLUSTER] [flags]",
    "memory, step time, training time and cost of a job",
    "twinpod estimate gpt3-175b --on dgx-superpod-a100-140 --devices 1024 --tp 8 --pp 8 --tokens 300e9\n"
    "twinpod estimate llama3-70b --on h100-superpod --devices 512 --tp 4 --pp 4 --zero 1 --json\n"
    "twinpod estimate examples/llama3-70b.yaml --set layout.tp=8 --explain\n"
    "twinpod estimate path/to/config.json --on dgx-h100 --zero 3 --recompute full\n",
    kFlagsOfEstimate,
    estimate};

}  // namespace twinpod::cli
