#include "train/served_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>

#include "core/half.hpp"
#include "data/prefetch.hpp"
#include "kernel/gemm.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "program/check.hpp"
#include "program/generate.hpp"
#include "train/evaluation.hpp"
#include "train/served.hpp"
#include "train/served_board.hpp"
#include "train/served_stopped.hpp"

namespace twinpod::train {
namespace {

// A run before it starts.
struct Setting {
  const spec::Job& job;  // of all workers
  const data::Samples& samples;
  const ps::Choice& choice;
  const ServedSettings& settings;
  spec::Job worker_job;      // of one; its global batch is what gradients are divided by
  program::Program program;  // of one worker
  ServedTensors tensors;
  ps::LaunchOptions options;
  std::unique_ptr<Board> board;
  std::int64_t last_mark = 0;  // of the values at the end

  // Workers on this host.
  bool is_here(int worker) const { return worker % ps::num_hosts(options) == settings.host; }
  int workers_here() const {
    const int hosts = ps::num_hosts(options);
    return (choice.workers - settings.host + hosts - 1) / hosts;
  }
  double samples_of_step() const { return job.training.global_batch / choice.workers; }
  double tokens_of_step() const { return samples_of_step() * job.training.sequence; }
};

std::int64_t elements_of(const std::vector<ps::Shard>& shards) {
  return std::accumulate(shards.begin(), shards.end(), std::int64_t{0},
                         [](std::int64_t sum, const ps::Shard& shard) { return sum + shard.count; });
}

Result<void> check_layout(const spec::Job& job, const ps::Choice& choice) {
  const int ranks = choice.workers * choice.group;
  const bool copies = job.layout.tp == 1 && job.layout.pp == 1 && job.layout.zero == 0;
  if (copies && spec::data_parallel(job) == ranks) return {};
  return input_error(fmt::format("{} workers of {} ranks, and a job with dp {}, tp {}, pp {}, zero {}", choice.workers,
                                 choice.group, spec::data_parallel(job), job.layout.tp, job.layout.pp, job.layout.zero),
                     fmt::format("dp {}, tp 1, pp 1, zero 0", ranks));
}

template <typename T>
spec::Job job_of_worker(const spec::Job& job, const ps::Choice& choice) {
  spec::Job one = job;
  one.cluster.devices = choice.group;
  one.layout.dp = choice.group;
  one.training.global_batch /= choice.workers;
  one.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<T>(one));
  return one;
}

template <typename T>
Result<Setting> set_the_stage(const spec::Job& job, const data::Samples& samples, const ps::Choice& choice,
                              const ServedSettings& settings) {
  if (Result<void> fits = check_layout(job, choice); !fits) return tl::unexpected(fits.error());
  spec::Job one = job_of_worker<T>(job, choice);
  Result<program::Program> program = program::generate(one);
  if (!program) return tl::unexpected(program.error());
  one.training.global_batch *= divided_by(choice);
  ServedTensors tensors = served_tensors(one, *program, choice.workers * choice.group);
  ps::LaunchOptions options = served_options(one, tensors, choice);
  options.replacements = settings.replacements;
  options.client.timeout_s = settings.timeout_s;
  options.hosts = settings.hosts;
  options.host = settings.host;
  options.port = settings.port;
  options.key = settings.key;
  options.diary = settings.diary;
  const int every = job.training.recipe.evaluate_every;
  const std::int64_t last_mark = every > 0 ? settings.steps / every + 1 : 0;
  // Workers that come for dead ones may do some steps again.
  const std::int64_t steps = 4 * (std::int64_t{choice.workers} * settings.steps + 256);
  Result<std::unique_ptr<Board>> board =
      make_board({.steps = steps, .marks = last_mark + 1, .values = elements_of(options.shards)});
  if (!board) return tl::unexpected(board.error());
  return Setting{job,
                 samples,
                 choice,
                 settings,
                 std::move(one),
                 std::move(*program),
                 std::move(tensors),
                 std::move(options),
                 std::move(*board),
                 last_mark};
}

// Steps that the values hold, of each worker. In sync mode the clock says it; else all that were done count.
std::int64_t steps_in(const Setting& stage, std::int64_t clock) {
  if (stage.choice.settings.mode == ps::Mode::sync) {
    return std::min<std::int64_t>(clock * stage.choice.local_steps, stage.settings.steps);
  }
  return stage.board->num_posted->load() / std::max(1, stage.workers_here());
}

// Every so many steps one of the workers sets the values aside that it has just got, and all do it at the end.
void keep_for_evaluation(const Setting& stage, const ps::Client& client, const std::vector<ps::Arrival>& values,
                         bool ended) {
  if (stage.samples.num_evaluation == 0 || stage.settings.host != 0) return;
  const std::int64_t clock = client.worker.clock;
  if (ended) return set_aside(*stage.board, stage.last_mark, clock, values);
  const int every = stage.job.training.recipe.evaluate_every;
  if (every == 0) return;
  const std::int64_t mark = steps_in(stage, clock) / every;
  if (mark > 0 && mark < stage.last_mark && take_mark(*stage.board, mark)) set_aside(*stage.board, mark, clock, values);
}

template <typename T>
Result<void> read_share(const Setting& stage, Rank<T>& rank, int part, std::int64_t step) {
  thread_local data::Batch batch;
  const std::int64_t place = std::int64_t{part} * stage.choice.group + rank.dp_rank;
  rank.copy = static_cast<int>(place);
  if (Result<void> read = data::read_batch(stage.samples, step, place, batch); !read) return read;
  std::copy(batch.tokens.begin(), batch.tokens.end(), rank.tokens.begin());
  std::copy(batch.labels.begin(), batch.labels.end(), rank.labels.begin());
  return {};
}

template <typename T>
Result<std::string> be_worker(const Setting& stage, ps::Client& client) {
  kernel::tune_gemm(!stage.settings.deterministic);
  ServedRun<T> run{stage.worker_job, stage.program, stage.tensors, stage.choice, stage.settings.steps};
  run.read = [&](Rank<T>& rank, int part, std::int64_t step) { return read_share(stage, rank, part, step); };
  if (stage.choice.settings.mode == ps::Mode::async && stage.settings.hosts.empty()) {
    run.claim = [&] { return stage.board->num_claimed->fetch_add(1); };
  }
  run.note = [&](const ServedStep& step) { post(*stage.board, step); };
  run.pulled = [&](const ps::Client& one, const std::vector<ps::Arrival>& values, bool ended) {
    keep_for_evaluation(stage, one, values, ended);
  };
  run.ended = [&](const Rank<T>& rank) {
    note_peak(*stage.board, static_cast<std::int64_t>(rank.memory.peak_bytes()));
  };
  return train_served<T>(run, client);
}

// ---- what came of it ----

// The steps of all workers, told one after the other when all of them have done it.
struct Chronicle {
  const Setting& stage;
  std::int64_t seen = 0;                                           // of the board
  std::vector<ServedStep> all = {};                                // as they came
  std::map<std::int64_t, std::map<int, ServedStep>> by_step = {};  // that are not told yet
  std::vector<std::int64_t> reached = {};                          // by each worker
  std::vector<StepNote> notes = {};
  std::int64_t begin_ns = 0;
  std::int64_t last_end_ns = 0;
};

// The mean over all workers' tokens, added up as an all-reduce of their sums does.
double mean_loss(const Setting& stage, const std::map<int, ServedStep>& parts) {
  float sum = 0;
  for (const auto& [worker, step] : parts) sum += static_cast<float>(step.loss_sum);
  const double all = stage.choice.workers == 1 ? parts.begin()->second.loss_sum : sum;  // one has nothing to add up
  const double share = static_cast<double>(parts.size()) / stage.choice.workers;
  return all / (share * stage.job.training.global_batch * stage.job.training.sequence);
}

StepNote note_of(Chronicle& chronicle, std::int64_t step, const std::map<int, ServedStep>& parts) {
  const Setting& stage = chronicle.stage;
  StepNote note{static_cast<int>(step), stage.settings.steps};
  note.loss = mean_loss(stage, parts);
  double norms = 0;
  double computed_s = 0;
  std::int64_t end_ns = chronicle.last_end_ns;
  for (const auto& [worker, one] : parts) {
    note.rate = one.rate;
    norms += one.gradient_norm;
    computed_s += one.computed_s;
    end_ns = std::max(end_ns, one.end_ns);
  }
  note.gradient_norm = norms / static_cast<double>(parts.size());
  note.seconds = static_cast<double>(end_ns - chronicle.last_end_ns) * 1e-9;
  note.elapsed_s = static_cast<double>(end_ns - chronicle.begin_ns) * 1e-9;
  if (note.seconds > 0) note.scale_factor = std::min(1.0, computed_s / (stage.workers_here() * note.seconds));
  chronicle.last_end_ns = end_ns;
  return note;
}

void tell(Chronicle& chronicle, std::int64_t up_to) {
  while (!chronicle.by_step.empty() && chronicle.by_step.begin()->first <= up_to) {
    const auto first = chronicle.by_step.begin();
    const bool told = !chronicle.notes.empty() && first->first <= chronicle.notes.back().step;
    if (!told) chronicle.notes.push_back(note_of(chronicle, first->first, first->second));
    chronicle.by_step.erase(first);
    if (!told && chronicle.stage.settings.note) chronicle.stage.settings.note(chronicle.notes.back());
  }
}

std::int64_t done_by_all(const Chronicle& chronicle) {
  std::int64_t done = chronicle.stage.settings.steps;
  for (std::size_t worker = 0; worker < chronicle.reached.size(); ++worker) {
    if (chronicle.stage.is_here(static_cast<int>(worker))) done = std::min(done, chronicle.reached[worker]);
  }
  return done;
}

void take_note(Chronicle& chronicle, bool ended) {
  for (const ServedStep& step : steps_from(*chronicle.stage.board, chronicle.seen, ended)) {
    ++chronicle.seen;
    if (step.worker < 0) continue;
    if (chronicle.all.empty()) chronicle.begin_ns = chronicle.last_end_ns = step.begin_ns;
    if (step.begin_ns < chronicle.begin_ns) {
      chronicle.begin_ns = step.begin_ns;
      if (chronicle.notes.empty()) chronicle.last_end_ns = step.begin_ns;
    }
    chronicle.all.push_back(step);
    chronicle.by_step[step.step][step.part] = step;
    std::int64_t& reached = chronicle.reached[static_cast<std::size_t>(step.worker)];
    reached = std::max(reached, step.step);
  }
  tell(chronicle, done_by_all(chronicle));
}

void add_steps(const Chronicle& chronicle, ps::ServedReport& report) {
  const Setting& stage = chronicle.stage;
  report.worker_waited_s.resize(static_cast<std::size_t>(stage.choice.workers));
  std::int64_t end_ns = chronicle.begin_ns;
  for (const ServedStep& step : chronicle.all) {
    const auto since = [&](std::int64_t ns) { return static_cast<double>(ns - chronicle.begin_ns) * 1e-9; };
    report.steps.push_back({.worker = step.worker,
                            .clock = step.clock,
                            .begin_s = since(step.begin_ns),
                            .end_s = since(step.end_ns),
                            .waited_s = step.waited_s,
                            .loss = step.loss_sum / stage.tokens_of_step(),
                            .computed_s = step.computed_s});
    report.worker_waited_s[static_cast<std::size_t>(step.worker)] += step.waited_s;
    end_ns = std::max(end_ns, step.end_ns);
  }
  std::sort(report.steps.begin(), report.steps.end(), [](const auto& a, const auto& b) { return a.end_s < b.end_s; });
  report.seconds = static_cast<double>(end_ns - chronicle.begin_ns) * 1e-9;
  report.tokens = static_cast<double>(report.steps.size()) * stage.tokens_of_step();
}

void add_accounts(const ps::LaunchReport& launched, ps::ServedReport& report) {
  report.updates_applied = launched.updates.applied;
  report.updates_dropped = launched.updates.dropped;
  report.updates_lost = launched.updates.lost;
  report.updates_twice = launched.updates.twice;
  report.failovers = launched.failovers;
  report.deaths = launched.deaths;
  report.strangers = launched.strangers;
  for (const auto& [id, account] : launched.accounts) {
    report.pushed_bytes += account.pushed_bytes;
    report.pulled_bytes += account.pulled_bytes;
    report.staleness_max = std::max(report.staleness_max, account.staleness_max);
    for (std::size_t k = 0; k < account.staleness.size(); ++k) {
      if (account.staleness[k] == 0) continue;
      if (report.staleness_histogram.size() <= k) report.staleness_histogram.resize(k + 1);
      report.staleness_histogram[k] += account.staleness[k];
    }
  }
  for (const ps::NodeId id : launched.servers) {
    const ps::ServerCounters& server = launched.accounts.at(id).server;
    report.server_busy_s.push_back(server.busy_s);
    report.server_queue_s.push_back(server.messages > 0 ? server.queued_s / static_cast<double>(server.messages) : 0);
  }
}

// What servers did before the first step, when all join, is no part of the run.
void add_messages(const Chronicle& chronicle, const ps::LaunchReport& launched, ps::ServedReport& report) {
  for (ps::Handled one : launched.handled) {
    if (one.begin_ns < chronicle.begin_ns) continue;
    const auto worker = launched.accounts.find(one.worker);
    one.worker = worker == launched.accounts.end() ? ps::kNobody : worker->second.place;
    if (one.sent_ns > 0) one.sent_ns = std::max<std::int64_t>(1, one.sent_ns - chronicle.begin_ns);
    one.begin_ns -= chronicle.begin_ns;
    one.end_ns -= chronicle.begin_ns;
    report.server_messages.push_back(one);
  }
  report.server_messages_left_out = launched.left_out;
}

// ---- evaluation ----

// The values that were set aside, as the parameters of a rank of all.
template <typename T>
void load(const Setting& stage, const ServedTensors& tensors, std::span<const float> values, Rank<T>& rank) {
  for (const ps::Shard& shard : stage.options.shards) {
    T* const to = rank.parameters + tensors.offsets[static_cast<std::size_t>(shard.tensor)] + shard.first;
    for (std::size_t i = 0; i < static_cast<std::size_t>(shard.count); ++i) {
      if constexpr (std::is_same_v<T, Bf16>) {
        to[i] = to_bf16(values[i]);
      } else {
        to[i] = values[i];
      }
    }
    values = values.subspan(static_cast<std::size_t>(shard.count));
  }
}

template <typename T>
Result<double> evaluate_once(const Setting& stage, Rank<T>& rank) {
  const int batches = evaluation_batches(stage.job, stage.samples);
  double sum = 0;
  for (int batch = 0; batch < batches; ++batch) {
    if (Result<void> read = read_evaluation(rank, stage.samples, batch); !read) return tl::unexpected(read.error());
    const Result<double> loss = evaluate(rank);
    if (!loss) return loss;
    sum += *loss;
  }
  return sum / batches;
}

// On as many ranks as have trained, so that rounding is that of run_loop. The answer: "mark loss mark loss ...".
template <typename T>
Result<std::string> evaluate_rank(const Setting& stage, const program::Program& program, comm::Communicator& world) {
  kernel::flush_denormals();
  kernel::set_threads(1);
  kernel::tune_gemm(!stage.settings.deterministic);
  Rank<T> rank(stage.job, program, world);
  const auto seed = static_cast<std::uint64_t>(stage.job.training.recipe.seed);
  if (Result<void> ready = set_up(rank, seed); !ready) return tl::unexpected(ready.error());
  const ServedTensors tensors = served_tensors(stage.job, program);
  std::vector<float> values(static_cast<std::size_t>(stage.board->size.values));
  std::string answer;
  for (std::int64_t mark = 0; mark <= stage.last_mark; ++mark) {
    if (!read_values(*stage.board, mark, values)) continue;
    load(stage, tensors, values, rank);
    const Result<double> loss = evaluate_once(stage, rank);
    if (!loss) return tl::unexpected(loss.error());
    answer += fmt::format("{} {:a} ", mark, *loss);
  }
  return answer;
}

double samples_at(const Setting& stage, const Chronicle& chronicle, const Mark& mark) {
  if (stage.choice.settings.mode == ps::Mode::sync) {
    return static_cast<double>(steps_in(stage, mark.clock)) * stage.job.training.global_batch;
  }
  const auto done = std::count_if(chronicle.all.begin(), chronicle.all.end(),
                                  [&](const ServedStep& step) { return step.end_ns <= mark.time_ns; });
  return static_cast<double>(done) * stage.samples_of_step();
}

template <typename T>
Result<void> evaluate_all(const Setting& stage, const Chronicle& chronicle, ServedResult& result) {
  if (stage.samples.num_evaluation == 0 || stage.settings.host != 0) return {};
  const Result<program::Program> program = program::generate(stage.job);
  if (!program) return tl::unexpected(program.error());
  const int ranks = stage.choice.workers * stage.choice.group;
  const Result<std::string> answer =
      comm::run_processes(ranks, {.timeout_s = stage.settings.timeout_s},
                          [&](comm::Communicator& world) { return evaluate_rank<T>(stage, *program, world); });
  if (!answer) return tl::unexpected(answer.error());
  std::istringstream words(*answer);
  std::int64_t number = 0;
  std::string loss;
  while (words >> number >> loss) {
    const bool last = number == stage.last_mark;
    const Mark& mark = stage.board->marks[number];
    ServedEvaluation one;
    one.seconds = last ? result.report.seconds : static_cast<double>(mark.time_ns - chronicle.begin_ns) * 1e-9;
    one.samples = last ? static_cast<double>(result.report.steps.size()) * stage.samples_of_step()
                       : samples_at(stage, chronicle, mark);
    one.loss = std::strtod(loss.c_str(), nullptr);
    result.evaluations.push_back(one);
    result.evaluated = true;
  }
  return {};
}

// As run_loop does it: the evaluation decides, or the mean of the last ten steps where there is none.
double time_to(double target, const ServedResult& result) {
  constexpr std::size_t kLastLosses = 10;
  if (target <= 0) return -1;
  for (const ServedEvaluation& one : result.evaluations) {
    if (one.loss <= target) return one.seconds;
  }
  if (result.evaluated) return -1;
  for (std::size_t i = kLastLosses; i <= result.losses.size(); ++i) {
    const auto end = result.losses.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::accumulate(end - kLastLosses, end, 0.0) / kLastLosses <= target) return result.steps[i - 1].elapsed_s;
  }
  return -1;
}

// The step behind which values were set aside has their loss.
void add_to_steps(const Setting& stage, ServedResult& result) {
  const double batch = stage.job.training.global_batch;
  for (const ServedEvaluation& one : result.evaluations) {
    const auto step = static_cast<std::size_t>(std::llround(one.samples / batch));
    if (step > 0 && step <= result.steps.size()) result.steps[step - 1].evaluation_loss = one.loss;
  }
}

template <typename T>
Result<ServedResult> run_with(const spec::Job& job, const data::Samples& samples, const ps::Choice& choice,
                              const ServedSettings& settings) {
  const Result<Setting> stage = set_the_stage<T>(job, samples, choice, settings);
  if (!stage) return tl::unexpected(stage.error());
  Chronicle chronicle{.stage = *stage,
                      .reached = std::vector<std::int64_t>(static_cast<std::size_t>(choice.workers), -1)};
  StoppedProcesses stopped(settings.timeout_s / 3);
  const Result<ps::LaunchReport> launched = ps::launch(
      stage->options, [&](ps::Client& client) { return be_worker<T>(*stage, client); },
      [&](const std::vector<ps::Process>& alive) {
        take_note(chronicle, false);
        stopped.look(alive);
        if (settings.watch) settings.watch(alive, done_by_all(chronicle) + 1);
      });
  if (!launched) return tl::unexpected(launched.error());
  take_note(chronicle, true);
  tell(chronicle, settings.steps);  // those that backup workers left out
  ServedResult result;
  add_steps(chronicle, result.report);
  add_accounts(*launched, result.report);
  add_messages(chronicle, *launched, result.report);
  result.steps = chronicle.notes;
  for (const StepNote& note : result.steps) result.losses.push_back(note.loss);
  result.peak_bytes = static_cast<double>(stage->board->peak_bytes->load());
  result.predicted_bytes = program::memory_of(stage->program, 0).peak_bytes;
  if (Result<void> done = evaluate_all<T>(*stage, chronicle, result); !done) return tl::unexpected(done.error());
  if (!result.losses.empty()) result.final_loss = result.losses.back();
  if (result.evaluated) result.final_loss = result.evaluations.back().loss;
  add_to_steps(*stage, result);
  result.time_to_target_s = time_to(job.training.target_loss, result);
  return result;
}

}  // namespace

Result<ServedResult> run_served(const spec::Job& job, const data::Samples& samples, const ps::Choice& choice,
                                const ServedSettings& settings) {
  const bool bf16 = job.training.precision == spec::Precision::bf16;
  return bf16 ? run_with<Bf16>(job, samples, choice, settings) : run_with<float>(job, samples, choice, settings);
}

}  // namespace twinpod::train
