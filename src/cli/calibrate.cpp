// twinpod calibrate: training logs in, a stack fitted to their cluster out.
#include "validate/calibrate.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "core/files.hpp"
#include "layout/check.hpp"
#include "report/calibration_report.hpp"
#include "spec/entries.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFlagsOfCalibrate = {
    Flag{"job", "JOB.yaml", "the job of every log that names none", ""},
    Flag{"stack", "NAME", "the stack to start from: a name of the catalog, or a file (default: the jobs')", ""},
    Flag{"output", "FILE", "write the fitted stack to this file (default: print it)", "", "o"},
};

constexpr std::string_view kUsage = "twinpod calibrate run.log=job.yaml, or twinpod calibrate run.log --job job.yaml";

// A log and the job file that goes with it.
struct Pair {
  std::string log;
  std::string job;
};

// "run.log=job.yaml": what stands behind the last `=`, when it is a job file.
Result<Pair> pair_of(const std::string& word, const std::string& job) {
  const std::size_t equals = word.rfind('=');
  if (equals != std::string::npos && is_job_file(word)) return Pair{word.substr(0, equals), word.substr(equals + 1)};
  if (!job.empty()) return Pair{word, job};
  return input_error(fmt::format("{} has no job: which job wrote this log?", word),
                     fmt::format("write {}=JOB.yaml, or add --job JOB.yaml", word));
}

Result<std::vector<Pair>> pairs_of(const Arguments& arguments) {
  if (arguments.words.empty()) return input_error("calibrate needs a log", std::string(kUsage));
  std::vector<Pair> pairs;
  for (const std::string& word : arguments.words) {
    Result<Pair> pair = pair_of(word, arguments.value_or("job", ""));
    if (!pair) return tl::unexpected(pair.error());
    pairs.push_back(std::move(*pair));
  }
  return pairs;
}

// The stack of a job as a name, or as a path from the current folder.
Result<std::string> stack_of(const validate::CalibrationRun& run) {
  const std::string& job_file = run.job_file;
  const Result<spec::Node> root = spec::parse_yaml_file(job_file);
  if (!root) return tl::unexpected(root.error());
  const spec::Node* stack = root->find("stack");
  if (stack == nullptr) return run.job.stack.name;
  if (stack->kind != spec::Node::Kind::scalar) {
    Error error = input_error("this job's stack is written out, and a fitted one needs a name to stand on",
                              "put it in a file of its own and name it: --stack FILE")
                      .value();
    error.file = job_file;
    error.line = stack->line;
    error.column = stack->column;
    return tl::unexpected(std::move(error));
  }
  if (!spec::is_path(stack->scalar)) return stack->scalar;
  return (fs::path(job_file).parent_path() / stack->scalar).lexically_normal().string();
}

// The stack to start from: the flag's, or the one that all jobs name.
Result<std::string> base_stack(const Arguments& arguments, const std::vector<validate::CalibrationRun>& runs) {
  if (const std::optional<std::string> flag = arguments.value("stack")) return *flag;
  std::string base;
  for (const validate::CalibrationRun& run : runs) {
    Result<std::string> stack = stack_of(run);
    if (!stack) return stack;
    if (base.empty()) base = *stack;
    if (*stack == base) continue;
    return input_error(fmt::format("{} runs {}, but {} runs {}", runs.front().job_file, base, run.job_file, *stack),
                       "calibrate each stack by itself, or name the one to start from: --stack NAME");
  }
  return base;
}

Result<validate::CalibrationRun> run_of(const Pair& pair, const Arguments& arguments, const spec::Catalog& catalog) {
  Result<validate::TrainingLog> log = validate::read_training_log(pair.log);
  if (!log) return tl::unexpected(log.error());
  spec::Request request;
  request.file = pair.job;
  if (const std::optional<std::string> stack = arguments.value("stack")) {
    request.sets.emplace_back("stack=" + *stack, "--stack " + *stack);
  }
  Result<spec::Job> job = spec::read_job(request, catalog);
  if (!job) return tl::unexpected(job.error());
  const Result<void> valid = layout::check(*job);
  if (!valid) return tl::unexpected(valid.error());
  return validate::CalibrationRun{pair.job, std::move(*log), std::move(*job)};
}

// A path inside a stack's file starts at the folder of that file.
std::string base_as_seen_from(const std::string& output, const std::string& base) {
  if (!spec::is_path(base) || output.empty() || fs::path(base).is_absolute()) return base;
  const fs::path folder = fs::absolute(output).lexically_normal().parent_path();
  const std::string relative = fs::absolute(base).lexically_normal().lexically_relative(folder).string();
  return relative.empty() ? base : relative;
}

Result<void> check_output(const std::string& output, const std::string& base, const std::vector<Pair>& pairs) {
  std::vector<std::string> inputs = {base};
  for (const Pair& pair : pairs) inputs.insert(inputs.end(), {pair.log, pair.job});
  for (const std::string& input : inputs) {
    std::error_code not_there;
    if (output.empty() || !fs::equivalent(output, input, not_there) || not_there) continue;
    return input_error(fmt::format("--output {} would overwrite one of the inputs", output), "choose another file");
  }
  if (output.empty() || is_job_file(output)) return {};
  return input_error(fmt::format("--output {}: a stack's file ends in .yaml or .yml", output),
                     fmt::format("write -o {}.yaml", output));
}

Result<std::vector<validate::CalibrationRun>> runs_of(const Arguments& arguments, const std::vector<Pair>& pairs) {
  const spec::Catalog catalog = catalog_of(arguments);
  std::vector<validate::CalibrationRun> runs;
  for (const Pair& pair : pairs) {
    Result<validate::CalibrationRun> run = run_of(pair, arguments, catalog);
    if (!run) return tl::unexpected(run.error());
    runs.push_back(std::move(*run));
  }
  return runs;
}

Result<std::string> run_calibration(const Arguments& arguments) {
  const Result<std::vector<Pair>> pairs = pairs_of(arguments);
  if (!pairs) return tl::unexpected(pairs.error());
  const auto runs = runs_of(arguments, *pairs);
  if (!runs) return tl::unexpected(runs.error());
  const Result<std::string> base = base_stack(arguments, *runs);
  if (!base) return tl::unexpected(base.error());
  report::CalibrationOutput output;
  output.path = arguments.value_or("output", "");
  const Result<void> allowed = check_output(output.path, *base, *pairs);
  if (!allowed) return tl::unexpected(allowed.error());
  const Result<validate::Calibration> calibration = validate::calibrate(*runs);
  if (!calibration) return tl::unexpected(calibration.error());
  output.stack = validate::stack_text(*calibration, base_as_seen_from(output.path, *base));
  if (!output.path.empty()) {
    const Result<void> written = write_file(output.path, output.stack);
    if (!written) return tl::unexpected(written.error());
  }
  if (arguments.has("json")) return report::calibration_json(*calibration, output);
  return report::calibration_text(*calibration, output);
}

}  // namespace

const Command kCalibrate = {
    "calibrate",
    "LOG=JOB.yaml ... [flags]",
    "a stack fitted to your cluster, from your own training logs",
    "twinpod calibrate run.log=job.yaml -o my-cluster.yaml\n"
    "twinpod calibrate small.log=small.yaml large.log=large.yaml long.log=long.yaml --stack torchtitan\n"
    "twinpod calibrate monday.log tuesday.log --job job.yaml --json\n"
    "twinpod estimate job.yaml --stack my-cluster.yaml\n",
    kFlagsOfCalibrate,
    run_calibration};

}  // namespace twinpod::cli
