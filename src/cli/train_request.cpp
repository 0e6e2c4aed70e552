#include "cli/train_request.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "core/half.hpp"
#include "core/parallel.hpp"
#include "core/units.hpp"
#include "data/corpus.hpp"
#include "machine/machine.hpp"
#include "program/check.hpp"
#include "program/generate.hpp"
#include "spec/read.hpp"
#include "train/check.hpp"
#include "train/rank.hpp"

namespace twinpod::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHere = "this machine";

// A cluster of this machine's cores, for who names none. Its speeds are measured when the ranks are there
// (train_ranks.cpp); those that stand here are for checks alone.
std::string this_machine(int ranks) {
  const machine::Machine host = machine::topology_of_this_host();
  const double memory = host.memory_bytes / ranks;
  return fmt::format(
      "cluster={{name: {3}, devices: {0}, device: {{name: core, family: cpu, peak: {{fp32: 1e11, bf16: "
      "1e11}}, "
      "memory: {1:.0f}, memory_bandwidth: 1e10, host_link: 1e10}}, node: {{devices: {0}, scale_up: {{kind: switched, "
      "bandwidth: 1e10}}, host_memory: {2:.0f}}}}}",
      ranks, memory, host.memory_bytes, kHere);
}

std::string beside_job(const std::string& path, const std::string& job_file) {
  if (path.empty() || path.front() == '/' || fs::exists(path) || fs::exists(path + ".idx")) return path;
  const fs::path near = fs::path(job_file).parent_path() / path;
  const bool there = fs::exists(near) || fs::exists(near.string() + ".idx");
  return there ? near.string() : path;
}

Result<spec::Job> job_of(const Arguments& arguments, int ranks) {
  const std::vector<spec::Setting> here = {spec::Setting(this_machine(ranks), std::string(kHere))};
  Result<spec::Request> request = request_of("train", arguments, arguments.value_or("on", ""), here);
  if (!request) return tl::unexpected(request.error());
  const auto set_list = [&](std::string_view flag, std::string_view key) {
    if (const auto list = arguments.value(flag))
      request->sets.emplace_back(fmt::format("{}=[{}]", key, *list), fmt::format("--{} {}", flag, *list));
  };
  set_list("text", "data.text");
  set_list("unfused", "training.unfused");
  Result<spec::Job> job = spec::read_job(*request, catalog_of(arguments));
  if (!job) return job;
  job->data.tokens = beside_job(job->data.tokens, request->file);
  for (std::string& path : job->data.text) path = beside_job(path, request->file);
  if (!job->names_stack && !job->stack.executed) {
    const Result<spec::Stack> own = catalog_of(arguments).stack("twinpod", job->cluster.device.family);
    if (!own) return tl::unexpected(own.error());
    job->stack = *own;
  }
  return job;
}

// A job for the ranks that are there.
spec::Job for_ranks(spec::Job job, int ranks) {
  job.cluster.devices = ranks;
  job.cluster.devices_per_node = std::max(job.cluster.devices_per_node, ranks);
  job.cluster.scale_up_domain = std::max(job.cluster.scale_up_domain, ranks);
  constexpr int kSequencesOfRank = 8;
  if (job.training.batch_tokens == spec::kDefaultStepTokens)  // nobody wrote it
    job.training.global_batch =
        static_cast<double>(spec::data_parallel(job)) * job.layout.micro_batch * kSequencesOfRank;
  job = train::as_executed(std::move(job));
  const bool bf16 = job.training.precision == spec::Precision::bf16;
  const std::int64_t bytes = bf16 ? train::runtime_bytes<Bf16>(job) : train::runtime_bytes<float>(job);
  job.stack.memory.runtime_bytes = static_cast<double>(bytes);
  return job;
}

// Text becomes token files without a name, which go with the process.
Result<data::TokenData> open_data(const spec::Data& wanted) {
  if (!wanted.tokens.empty()) return data::open_tokens(wanted.tokens);
  if (wanted.text.empty()) {
    return input_error("train needs data: neither data.tokens nor data.text is written",
                       "--text docs,src or, with `twinpod data prepare`, --data tokens");
  }
  const Result<std::vector<data::TextFile>> files = data::find_text_files(wanted.text);
  if (!files) return tl::unexpected(files.error());
  std::string folder = (fs::temp_directory_path() / "twinpod-data-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return input_error(fmt::format("cannot make a folder {}", folder), "");
  const std::string name = folder + "/tokens";
  const Result<data::Prepared> prepared = data::prepare(*files, {.output = name}, {});
  Result<data::TokenData> data = prepared ? data::open_tokens(name) : tl::unexpected(prepared.error());
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return data;
}

Result<double> timeout_of(const Arguments& arguments) {
  constexpr double kTimeout = 60;
  const auto text = arguments.value("timeout");
  if (!text) return kTimeout;
  const Result<double> seconds = parse_quantity(*text, Quantity::seconds);
  if (seconds && *seconds > 0) return seconds;
  return input_error(fmt::format("--timeout {}: expected a time", *text), "--timeout 30s");
}

// Where the figures of the prediction come from.
void set_basis(const Arguments& arguments, TrainRequest& request) {
  const std::string& cluster = request.job.cluster.name;
  request.measures_machine = cluster == kHere;
  if (request.measures_machine) {
    request.basis = "measured here just now";
  } else if (const auto on = arguments.value("on")) {
    request.basis = fmt::format("from {}", *on);
  } else {
    request.basis = fmt::format("for {}", cluster.empty() ? "the job's cluster" : cluster);
  }
}

}  // namespace

Result<TrainRequest> train_request(const Arguments& arguments) {
  TrainRequest request;
  const Result<int> ranks = whole_number(arguments, "ranks", 1, 1);
  if (!ranks) return tl::unexpected(ranks.error());
  request.ranks = *ranks;
  const bool over_mpi = comm::started_by_mpi() && !arguments.has("ranks");
  if (over_mpi) request.transport = "mpi";
  if (!over_mpi && arguments.has("threads")) request.transport = "threads";
  Result<spec::Job> job = job_of(arguments, *ranks);
  if (!job) return tl::unexpected(job.error());
  const bool free_cores = num_hardware_threads() >= 2 * *ranks && !over_mpi;
  if (!job->layout.overlap) job->layout.overlap = free_cores;
  if (!over_mpi) {  // before any data is looked at
    const Result<void> fits = train::check(for_ranks(*job, *ranks));
    if (!fits) return tl::unexpected(fits.error());
  }
  Result<data::TokenData> data = open_data(job->data);
  if (!data) return tl::unexpected(data.error());
  const Result<int> step = whole_number(arguments, "trace-step", 1, 4);
  if (!step) return tl::unexpected(step.error());
  const Result<double> timeout_s = timeout_of(arguments);
  if (!timeout_s) return tl::unexpected(timeout_s.error());
  request.job = std::move(*job);
  request.data = std::move(*data);
  request.json = arguments.has("json");
  request.deterministic = arguments.has("deterministic");
  set_basis(arguments, request);
  request.record_step = *step - 1;
  request.metrics = arguments.value_or("metrics", "");
  request.timeline = arguments.value_or("timeline", "");
  request.trace = arguments.value_or("trace", "");
  request.options.timeout_s = *timeout_s;
  request.options.recording_path = "twinpod-failure.json";
  return request;
}

Result<TrainPlan> plan_training(const TrainRequest& request, int ranks) {
  const spec::Job job = for_ranks(request.job, ranks);
  if (Result<void> fits = train::check(job); !fits) return tl::unexpected(fits.error());
  Result<program::Program> program = program::generate(job);
  if (!program) return tl::unexpected(program.error());
  if (Result<void> fits = program::check_memory(*program); !fits) return tl::unexpected(fits.error());
  const data::SampleSettings wanted{job.training.sequence,
                                    static_cast<std::int64_t>(job.training.global_batch),
                                    job.layout.micro_batch,
                                    spec::data_parallel(job),
                                    job.model.vocab,
                                    static_cast<std::uint64_t>(job.training.recipe.seed),
                                    request.job.data.evaluation_share};
  const Result<data::Samples> samples = data::make_samples(request.data, wanted);
  if (!samples) return tl::unexpected(samples.error());
  return TrainPlan{job, std::move(*program), *samples};
}

}  // namespace twinpod::cli
