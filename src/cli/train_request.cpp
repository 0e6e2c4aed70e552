#include "cli/train_request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "cli/served_flags.hpp"
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

// What was asked for: a job, or that of a checkpoint.
Result<spec::Request> wanted_job(const Arguments& arguments, const std::optional<SavedJob>& saved, int ranks) {
  const std::vector<spec::Setting> here = {spec::Setting(this_machine(ranks), std::string(kHere))};
  const bool of_checkpoint = saved && arguments.words.empty();
  Result<spec::Request> request = of_checkpoint ? request_of_saved(*saved, arguments, here)
                                                : request_of("train", arguments, arguments.value_or("on", ""), here);
  if (!request) return request;
  const auto set_list = [&](std::string_view flag, std::string_view key) {
    if (const auto list = arguments.value(flag))
      request->sets.emplace_back(fmt::format("{}=[{}]", key, *list), fmt::format("--{} {}", flag, *list));
  };
  set_list("text", "data.text");
  set_list("unfused", "training.unfused");
  return request;
}

// Without --ranks a resumed run has as many as its layout says, and copies of the model as before.
Result<int> ranks_of(const Arguments& arguments, const std::optional<SavedJob>& saved) {
  if (!saved || arguments.has("ranks")) return whole_number(arguments, "ranks", 1, 1);
  const Result<spec::Request> request = wanted_job(arguments, saved, 1);
  if (!request) return tl::unexpected(request.error());
  const Result<spec::Job> job = spec::read_job(*request, catalog_of(arguments));
  if (!job) return tl::unexpected(job.error());
  const int copies = job->layout.dp > 0 ? job->layout.dp : std::max(1, saved->count("layout.dp"));
  return copies * job->layout.tp * job->layout.pp;
}

// Host 0 makes it; the others wait a little, as with a folder that all of them see.
Result<void> read_key(const Arguments& arguments, TrainRequest& request) {
  constexpr double kWaitSeconds = 5;
  const std::string path = arguments.value_or("key", "");
  if (path.empty()) {
    return input_error("--hosts without --key: anyone who reaches the ports could take part in the job",
                       "--key job.key: host 0 makes it, the others need a copy (scp -p job.key 10.0.0.2:)");
  }
  const Result<ps::JobKey> key = request.host == 0 ? ps::make_key_file(path) : ps::read_key_file(path, kWaitSeconds);
  if (!key) return tl::unexpected(key.error());
  request.key = *key;
  return {};
}

// Addresses with commas between them.
Result<void> read_hosts(const Arguments& arguments, TrainRequest& request) {
  constexpr int kPort = 7700;
  std::istringstream list(arguments.value_or("hosts", ""));
  for (std::string host; std::getline(list, host, ',');) request.hosts.push_back(host);
  for (const std::string_view flag : {"host", "port", "key"}) {
    if (request.hosts.empty() && arguments.has(flag)) {
      return input_error(fmt::format("--{} without --hosts", flag), "--hosts 10.0.0.1,10.0.0.2 --host 1");
    }
  }
  const Result<int> host = whole_number(arguments, "host", 0, 0);
  if (!host) return tl::unexpected(host.error());
  const Result<int> port = whole_number(arguments, "port", 1024, kPort);
  if (!port) return tl::unexpected(port.error());
  request.host = *host;
  request.port = *port;
  if (request.hosts.empty()) return {};
  const int hosts = static_cast<int>(request.hosts.size());
  if (*host >= hosts) {
    return input_error(fmt::format("--host {} of {} --hosts", *host, hosts), fmt::format("0 to {}", hosts - 1));
  }
  if (request.served->workers < hosts) {
    return input_error(fmt::format("{} --workers on {} --hosts", request.served->workers, hosts),
                       fmt::format("--workers {} or more: one on each host", hosts));
  }
  if (*port > 65000) return input_error(fmt::format("--port {}", *port), "up to 65000: each process has the next one");
  return read_key(arguments, request);
}

// With a parameter server, and nothing beside that it does not go with.
Result<void> read_served(const Arguments& arguments, TrainRequest& request) {
  const bool faults = arguments.has("fault");
  if (!wants_servers(arguments)) {
    for (const std::string_view flag : {"hosts", "host", "port", "key"}) {
      if (arguments.has(flag))
        return input_error(fmt::format("--{} without --servers", flag), "--servers 2 --workers 4, or mpirun");
    }
    if (faults)
      return input_error("--fault rehearses the death of servers and workers", "--servers 3 --copies 2 --fault ...");
    return {};
  }
  for (const std::string_view flag : {"ranks", "threads", "store", "checkpoint-every", "keep", "resume", "timeline"}) {
    if (!arguments.has(flag)) continue;
    const bool saves = flag == "store" || flag == "checkpoint-every" || flag == "keep" || flag == "resume";
    return input_error(fmt::format("--{} does not go with --servers", flag),
                       saves ? "without it: --copies 2 keeps a second copy of all parameters on other servers"
                       : flag == "ranks" ? "--workers N, and --group N for ranks of a worker"
                                         : "--trace FILE has the steps of all workers, and what servers did");
  }
  if (comm::started_by_mpi()) {
    return input_error("--servers under mpirun or srun: MPI ends with its first rank, servers do not",
                       "twinpod train --servers, without mpirun");
  }
  const Result<ps::Choice> choice = served_choice(arguments);
  if (!choice) return tl::unexpected(choice.error());
  const Result<Faults> parsed = parse_faults(arguments.value_or("fault", ""), *choice);
  if (!parsed) return tl::unexpected(parsed.error());
  request.served = *choice;
  request.faults = *parsed;
  return read_hosts(arguments, request);
}

// What a worker's rank cannot be.
Result<void> check_served(const spec::Job& job) {
  const spec::Layout& l = job.layout;
  if (l.tp > 1 || l.pp > 1 || l.zero > 0) {
    return input_error(
        fmt::format("--servers with tp {}, pp {}, zero {}: a worker's rank holds the whole model", l.tp, l.pp, l.zero),
        "tp 1, pp 1, zero 0; servers share the optimizer's state between them");
  }
  if (!job.checkpoint.store.empty()) {
    return input_error("--servers with a job that saves checkpoints",
                       "--copies 2, and the job without checkpoint.store");
  }
  return {};
}

// What the checkpoint decides unless somebody says otherwise.
void take_over(const Arguments& arguments, const SavedJob& saved, spec::Job& job) {
  // Whoever asks for steps of a run that has reached its target wants them done.
  const double reached = std::strtod(saved.value("reached").c_str(), nullptr);
  if (arguments.has("steps") && reached > 0 && job.training.target_loss >= reached) job.training.target_loss = 0;
  if (job.training.batch_tokens == spec::kDefaultStepTokens && saved.count("training.global_batch") > 0) {
    job.training.batch_tokens = 0;
    job.training.global_batch = saved.count("training.global_batch");
  }
  // Tiers that were saved say how many they keep; whoever says it now means all of them.
  if (arguments.has("keep")) {
    for (spec::CheckpointTier& tier : job.checkpoint.store) tier.keep = 0;
  }
  const bool told = arguments.has("store") || (!arguments.words.empty() && !job.checkpoint.store.empty());
  if (!told && !saves_to(job, saved)) job.checkpoint.store = {{spec::TierKind::shared, saved.root}};
}

Result<spec::Job> job_of(const Arguments& arguments, const std::optional<SavedJob>& saved,
                         const Result<spec::Request>& request) {
  if (!request) return tl::unexpected(request.error());
  Result<spec::Job> job = spec::read_job(*request, catalog_of(arguments));
  if (!job) return job;
  if (saved) take_over(arguments, *saved, *job);
  place_memory(*job);
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
  return data::tokens_of_text(*files, fmt::format("{}", fmt::join(wanted.text, ", ")));
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
  const Result<std::optional<SavedJob>> saved = saved_job(arguments);
  if (!saved) return tl::unexpected(saved.error());
  if (Result<void> served = read_served(arguments, request); !served) return tl::unexpected(served.error());
  const Result<int> ranks =
      request.served ? Result<int>(request.served->workers * request.served->group) : ranks_of(arguments, *saved);
  if (!ranks) return tl::unexpected(ranks.error());
  request.ranks = *ranks;
  const bool over_mpi = comm::started_by_mpi() && !arguments.has("ranks");
  if (over_mpi) request.transport = "mpi";
  if (!over_mpi && arguments.has("threads")) request.transport = "threads";
  const Result<spec::Request> wanted = wanted_job(arguments, *saved, *ranks);
  Result<spec::Job> job = job_of(arguments, *saved, wanted);
  if (!job) return tl::unexpected(job.error());
  if (request.served) {
    if (Result<void> fits = check_served(*job); !fits) return tl::unexpected(fits.error());
  }
  Result<TrainStore> store = train_store(*job, *saved);
  if (!store) return tl::unexpected(store.error());
  Result<spec::Node> document = spec::job_document(*wanted);
  if (!document) return tl::unexpected(document.error());
  const bool free_cores = num_hardware_threads() >= 2 * *ranks && !over_mpi;
  if (!job->layout.overlap) job->layout.overlap = free_cores;
  if (!over_mpi) {  // before any data is looked at
    const Result<void> fits = train::check(for_ranks(*job, *ranks));
    if (!fits) return tl::unexpected(fits.error());
  }
  Result<data::TokenData> data = open_data(job->data);
  if (!data) return tl::unexpected(data.error());
  const Result<int> step = whole_number(arguments, "trace-step", 1, kRecordedStep);
  if (!step) return tl::unexpected(step.error());
  const Result<double> timeout_s = timeout_of(arguments);
  if (!timeout_s) return tl::unexpected(timeout_s.error());
  if (*saved) request.resumed = (*saved)->root;
  request.store = std::move(*store);
  request.document = std::move(*document);
  request.job_folder = fs::absolute(fs::path(".") / wanted->file).parent_path().string();  // a model has no file
  request.job = std::move(*job);
  request.data = std::move(*data);
  request.json = arguments.has("json");
  request.deterministic = arguments.has("deterministic");
  set_basis(arguments, request);
  request.record_step = *step - 1;
  request.names_step = arguments.has("trace-step");
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
