#include "cli/job_request.hpp"

#include <fmt/format.h>

#include "layout/whole_copies.hpp"

namespace twinpod::cli {

bool is_job_file(std::string_view word) { return word.ends_with(".yaml") || word.ends_with(".yml"); }

Result<spec::Request> request_of(std::string_view command, const Arguments& arguments, const std::string& cluster,
                                 const std::vector<spec::Setting>& no_cluster) {
  if (arguments.words.size() != 1) {
    return input_error(
        fmt::format("{} takes one model or job file, but {} are given", command, arguments.words.size()),
        no_cluster.empty()
            ? fmt::format("twinpod {0} gpt3-175b --on dgx-superpod-a100-140, or twinpod {0} job.yaml", command)
            : fmt::format("twinpod {} job.yaml", command));
  }
  spec::Request request;
  const std::string& word = arguments.words.front();
  (is_job_file(word) ? request.file : request.model) = word;
  request.cluster = cluster;
  request.no_cluster = no_cluster;
  if (request.file.empty() && request.cluster.empty() && no_cluster.empty()) {
    return input_error(fmt::format("{} needs a cluster", command),
                       "add --on CLUSTER; `twinpod show clusters` lists them");
  }
  for (const GivenFlag& given : arguments.flags) {
    if (given.flag->name == "set") request.sets.emplace_back(given.value);
    if (given.flag->setting.empty()) continue;
    request.sets.emplace_back(fmt::format("{}={}", given.flag->setting, given.value), given.as_written);
  }
  return request;
}

Result<spec::Job> one_job(std::string_view command, const Arguments& arguments, const spec::Catalog& catalog) {
  const Result<spec::Request> request = request_of(command, arguments, arguments.value_or("on", ""));
  if (!request) return tl::unexpected(request.error());
  const Result<spec::Job> job = spec::read_job(*request, catalog);
  if (!job) return job;
  return layout::with_whole_copies(*job);
}

}  // namespace twinpod::cli
