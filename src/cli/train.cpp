// twinpod train: trains a job for real on this machine, or on those that MPI started it on.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "comm/communicator.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/progress.hpp"
#include "core/units.hpp"
#include "data/corpus.hpp"
#include "data/samples.hpp"
#include "kernel/processor.hpp"
#include "layout/whole_copies.hpp"
#include "machine/machine.hpp"
#include "plan/predict.hpp"
#include "program/check.hpp"
#include "program/generate.hpp"
#include "report/step_report.hpp"
#include "report/trace.hpp"
#include "report/train_report.hpp"
#include "train/check.hpp"
#include "train/loop.hpp"
#include "train/rank.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kOwnFlags = {
    Flag{"ranks", "N", "ranks to start on this machine (default 1; under mpirun or srun: those that it started)", ""},
    Flag{"steps", "N", "steps (default: as training.tokens says, else 100)", "training.steps"},
    Flag{"learning-rate", "X", "at its highest (default 1e-3)", "training.learning_rate"},
    Flag{"warmup", "N", "steps in which the learning rate rises", "training.warmup"},
    Flag{"decay", "HOW", "of the learning rate: constant, linear, cosine or wsd (default cosine)", "training.decay"},
    Flag{"weight-decay", "X", "of matrices (default 0.1)", "training.weight_decay"},
    Flag{"clip", "X", "largest norm of all gradients; 0: any (default 1)", "training.clip"},
    Flag{"seed", "N", "of the weights and of the order of the data (default 1)", "training.seed"},
    Flag{"evaluate-every", "N", "steps between evaluations (default: at the end only)", "training.evaluate_every"},
    Flag{"data", "NAME", "token files NAME.bin and NAME.idx (`twinpod data prepare`)", "data.tokens"},
    Flag{"text", "PATH", "or text: files and folders, with commas between them; each byte is a token", ""},
    Flag{"deterministic", "", "the same run twice gives the same bits", ""},
    Flag{"overlap", "", "reduce gradients beside the backward passes (default: when cores are free)", ""},
    Flag{"metrics", "FILE", "write a line of JSON for each step", ""},
    Flag{"timeline", "FILE", "write start and end of every op of one step as JSON, for `twinpod compare`", ""},
    Flag{"trace", "FILE", "the same step for ui.perfetto.dev", ""},
    Flag{"trace-step", "N", "which step (default: the fourth)", ""},
    Flag{"threads", "", "ranks are threads of one process", ""},
    Flag{"timeout", "TIME", "how long a rank waits for another (default 60 s)", ""},
};
constexpr std::array kFlags = joined(joined(kJobFlags, kTrainingFlags), kOwnFlags);

// A cluster of this machine's cores, for who names none. Its speeds are measured when the ranks are there.
std::string this_machine(int ranks) {
  const machine::Machine host = machine::topology_of_this_host();
  const double memory = host.memory_bytes / ranks;
  return fmt::format(
      "cluster={{name: this machine, devices: {0}, device: {{name: core, family: cpu, peak: {{fp32: 1e11, bf16: "
      "1e11}}, "
      "memory: {1:.0f}, memory_bandwidth: 1e10, host_link: 1e10}}, node: {{devices: {0}, scale_up: {{kind: switched, "
      "bandwidth: 1e10}}, host_memory: {2:.0f}}}}}",
      ranks, memory, host.memory_bytes);
}

std::string beside_job(const std::string& path, const std::string& job_file) {
  if (path.empty() || path.front() == '/' || std::filesystem::exists(path) || std::filesystem::exists(path + ".idx"))
    return path;
  const std::filesystem::path near = std::filesystem::path(job_file).parent_path() / path;
  const bool there = std::filesystem::exists(near) || std::filesystem::exists(near.string() + ".idx");
  return there ? near.string() : path;
}

Result<spec::Job> job_of(const Arguments& arguments, int ranks) {
  spec::Request request;
  if (arguments.words.size() != 1) {
    return input_error(fmt::format("train takes one model or job file, but {} are given", arguments.words.size()),
                       "twinpod train examples/tiny-gpt.yaml --ranks 2");
  }
  // The common reader insists on a cluster; here, this machine is one.
  const std::string& word = arguments.words.front();
  const bool is_file = word.ends_with(".yaml") || word.ends_with(".yml");
  (is_file ? request.file : request.model) = word;
  request.cluster = arguments.value_or("on", "");
  request.no_cluster = {spec::Setting(this_machine(ranks), "this machine")};
  for (const GivenFlag& given : arguments.flags) {
    if (given.flag->name == "set") request.sets.emplace_back(given.value);
    if (given.flag->setting.empty() || given.flag->name == "devices") continue;
    request.sets.emplace_back(fmt::format("{}={}", given.flag->setting, given.value), given.as_written);
  }
  if (const auto text = arguments.value("text"))
    request.sets.emplace_back(fmt::format("data.text=[{}]", *text), fmt::format("--text {}", *text));
  Result<spec::Job> job = spec::read_job(request, catalog_of(arguments));
  if (!job) return job;
  job->data.tokens = beside_job(job->data.tokens, request.file);
  for (std::string& path : job->data.text) path = beside_job(path, request.file);
  if (!job->names_stack && !job->stack.executed) {
    const Result<spec::Stack> own = catalog_of(arguments).stack("twinpod", job->cluster.device.family);
    if (!own) return tl::unexpected(own.error());
    job->stack = *own;
  }
  return job;
}

// A job for the ranks that are there.
spec::Job for_ranks(spec::Job job, int ranks, bool overlaps) {
  job.cluster.devices = ranks;
  job.cluster.devices_per_node = std::max(job.cluster.devices_per_node, ranks);
  job.cluster.scale_up_domain = std::max(job.cluster.scale_up_domain, ranks);
  constexpr double kDefaultTokens = 4e6;
  constexpr int kSequencesOfRank = 8;
  if (job.training.batch_tokens == kDefaultTokens)  // nobody wrote it
    job.training.global_batch =
        static_cast<double>(spec::data_parallel(job)) * job.layout.micro_batch * kSequencesOfRank;
  job = train::as_executed(std::move(job));
  job.stack.physics.dp_hidden = overlaps ? 0.9 : 0;
  job.stack.memory.runtime_bytes =
      static_cast<double>(job.training.precision == spec::Precision::bf16 ? train::runtime_bytes<Bf16>(job)
                                                                          : train::runtime_bytes<float>(job));
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
  std::string folder = (std::filesystem::temp_directory_path() / "twinpod-data-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return input_error(fmt::format("cannot make a folder {}", folder), "");
  const std::string name = folder + "/tokens";
  const Result<data::Prepared> prepared = data::prepare(*files, {.output = name}, {});
  Result<data::TokenData> data = prepared ? data::open_tokens(name) : tl::unexpected(prepared.error());
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return data;
}

struct Request {
  spec::Job job;
  data::TokenData data;
  comm::Options options;
  std::string transport = "processes";
  bool json = false;
  bool deterministic = false;
  bool measures_peak = false;  // the cluster's figures are not of a measurement
  bool overlaps = false;
  int record_step = 3;
  std::string metrics = {}, timeline = {}, trace = {};
};

// Rank 0 tells how it goes: on a terminal a line that changes, in a file a line for each step.
struct Teller {
  const spec::Job& job;
  double peak_flop_per_s = 0;
  std::unique_ptr<std::ofstream> metrics = nullptr;
  bool draws = is_terminal(stderr);

  void operator()(const train::StepNote& note) const {
    if (metrics) *metrics << report::metrics_line(job, note) << std::flush;
    if (draws) fmt::print(stderr, "\r\033[K{}", report::progress_text(job, note, peak_flop_per_s));
  }
  void end() const {
    if (draws) fmt::print(stderr, "\r\033[K");
  }
};

Result<void> write_timeline(const Request& request, const program::Program& program,
                            const program::Timeline& timeline) {
  if (!request.timeline.empty()) {
    const Result<void> wrote = write_file(request.timeline, report::timeline_json(program, timeline));
    if (!wrote) return wrote;
  }
  if (request.trace.empty()) return {};
  std::vector<int> lines;
  for (std::size_t i = 0; i < timeline.ranks.size(); ++i) lines.push_back(static_cast<int>(i));
  return report::write_trace({program, timeline, lines}, request.trace);
}

template <typename T>
Result<std::string> train_ranks(const Request& request, comm::Communicator& world) {
  spec::Job job = for_ranks(request.job, comm::size_of(world), request.overlaps);
  if (Result<void> fits = train::check(job); !fits) return tl::unexpected(fits.error());
  const Result<program::Program> program = program::generate(job);
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
  const Result<double> peak = train::measured_peak(world, job.training.precision);
  if (!peak) return tl::unexpected(peak.error());
  if (request.measures_peak) job.cluster.device.peak_flop_per_s.fill(*peak);

  Teller teller{job, *peak};
  if (comm::rank_of(world) == 0 && !request.metrics.empty()) {
    teller.metrics = std::make_unique<std::ofstream>(request.metrics);
    if (!*teller.metrics) return input_error(fmt::format("--metrics {}: cannot be written", request.metrics), "");
  }
  train::LoopSettings settings;
  settings.steps = train::steps_of(job);
  settings.record_step = std::min(request.record_step, settings.steps - 1);
  settings.deterministic = request.deterministic;
  settings.note = [&](const train::StepNote& note) { teller(note); };
  const Result<train::LoopResult> run = train::run_loop<T>(job, *program, world, *samples, settings);
  if (comm::rank_of(world) != 0) return run ? Result<std::string>(std::string()) : tl::unexpected(run.error());
  teller.end();
  if (!run) return tl::unexpected(run.error());

  const Result<sim::StepRun> predicted = plan::predict_step(job, *program);
  report::TrainView view{.job = job, .run = *run, .transport = request.transport, .peak_flop_per_s = *peak};
  const report::OpTotals measured_ops = report::op_totals(*program, run->timeline);
  report::OpTotals predicted_ops;
  if (predicted) {
    predicted_ops = report::op_totals(*program, sim::timeline_of(*predicted));
    predicted_ops.step_s = view.predicted_step_s = predicted->step_s;
    view.predicted = &predicted_ops;
    view.measured = &measured_ops;
    view.basis = fmt::format("step {}; predicted for {}", settings.record_step + 1,
                             job.cluster.name.empty() ? "its cluster" : job.cluster.name);
  }
  if (request.measures_peak)
    view.notes.push_back("For a better prediction: twinpod bench machine -o here.yaml, and --on here.yaml.");
  if (request.job.model.dropout > 0) view.notes.emplace_back("The model's dropout is off: it is not trained here.");
  if (request.job.layout.zero > 1 && job.layout.zero == 1)
    view.notes.push_back("A pipeline keeps parameters and gradients whole: zero 1.");
  if (job.training.precision == spec::Precision::bf16)
    view.notes.push_back(kernel::bf16_products() == kernel::Bf16Products::native
                             ? "bf16 products: by the processor."
                             : "bf16 products: stored in bf16, computed in fp32, because this processor has none.");
  if (Result<void> wrote = write_timeline(request, *program, run->timeline); !wrote)
    return tl::unexpected(wrote.error());
  return request.json ? report::train_json(view) : report::train_text(view);
}

Result<std::string> run_train(const Arguments& arguments) {
  const Result<int> ranks = whole_number(arguments, "ranks", 1, 1);
  if (!ranks) return tl::unexpected(ranks.error());
  const bool over_mpi = comm::started_by_mpi() && !arguments.has("ranks");
  Result<spec::Job> job = job_of(arguments, *ranks);
  if (!job) return tl::unexpected(job.error());
  const bool free_cores = num_hardware_threads() >= 2 * *ranks && !over_mpi;
  const bool overlaps = arguments.has("overlap") || free_cores;
  if (!over_mpi) {
    if (Result<void> fits = train::check(for_ranks(*job, *ranks, overlaps)); !fits) return tl::unexpected(fits.error());
  }
  Result<data::TokenData> data = open_data(job->data);
  if (!data) return tl::unexpected(data.error());
  const Result<int> step = whole_number(arguments, "trace-step", 1, 4);
  if (!step) return tl::unexpected(step.error());
  Request request;
  request.job = std::move(*job);
  request.data = std::move(*data);
  request.json = arguments.has("json");
  request.deterministic = arguments.has("deterministic");
  request.measures_peak = request.job.cluster.name == "this machine";
  request.overlaps = overlaps;
  request.record_step = *step - 1;
  request.metrics = arguments.value_or("metrics", "");
  request.timeline = arguments.value_or("timeline", "");
  request.trace = arguments.value_or("trace", "");
  request.options.timeout_s = 60;
  if (const auto text = arguments.value("timeout")) {
    const Result<double> seconds = parse_quantity(*text, Quantity::seconds);
    if (!seconds || *seconds <= 0)
      return input_error(fmt::format("--timeout {}: expected a time", *text), "--timeout 30s");
    request.options.timeout_s = *seconds;
  }
  request.options.recording_path = "twinpod-failure.json";
  if (over_mpi) request.transport = "mpi";
  if (arguments.has("threads")) request.transport = "threads";
  const comm::Body body = [&](comm::Communicator& world) {
    return request.job.training.precision == spec::Precision::bf16 ? train_ranks<Bf16>(request, world)
                                                                   : train_ranks<float>(request, world);
  };
  if (over_mpi) return comm::run_mpi(request.options, body);
  if (arguments.has("threads")) return comm::run_threads(*ranks, request.options, body);
  return comm::run_processes(*ranks, request.options, body);
}

}  // namespace

const Command kTrain = {"train",
                        "MODEL|JOB.yaml|config.json [--ranks N] [flags]",
                        "trains for real, on this machine or over MPI; prediction beside measurement",
                        "twinpod train examples/tiny-gpt.yaml --ranks 2 --tp 2\n"
                        "twinpod train examples/tiny-gpt.yaml --ranks 4 --dp 2 --pp 2 --zero 1 --schedule 1f1b\n"
                        "twinpod train examples/tiny-gpt.yaml --set model.layers=6 --set model.hidden=384 --steps 20\n"
                        "twinpod train examples/tiny-gpt.yaml --ranks 2 --trace step.json --metrics metrics.jsonl\n"
                        "mpirun -n 16 twinpod train job.yaml\n",
                        kFlags,
                        run_train};

}  // namespace twinpod::cli
