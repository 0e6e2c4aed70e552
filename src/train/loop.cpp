#include "train/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "core/half.hpp"
#include "data/prefetch.hpp"
#include "kernel/gemm.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "program/check.hpp"
#include "train/agree.hpp"
#include "train/checkpoint_rank.hpp"
#include "train/evaluation.hpp"
#include "train/loop_timeline.hpp"
#include "train/rank.hpp"
#include "train/rate.hpp"
#include "train/rehearse.hpp"

namespace twinpod::train {
namespace {

StepSettings settings_of(const spec::Job& job, int step, int steps) {
  const spec::Recipe& recipe = job.training.recipe;
  StepSettings settings;
  const double rate = rate_at(recipe, step, steps);
  settings.sgd = job.training.optimizer != spec::Optimizer::adam;
  settings.clip = recipe.clip;
  settings.adamw = {rate, recipe.beta1, recipe.beta2, recipe.epsilon, recipe.weight_decay, 1, step + 1};
  const double momentum = job.training.optimizer == spec::Optimizer::sgd ? 0 : recipe.momentum;
  settings.momentum = {rate, momentum, recipe.weight_decay, 1};
  return settings;
}

Result<std::vector<program::BytesByKind>> gather_by_kind(comm::Communicator& world, const program::BytesByKind& own) {
  std::vector<program::BytesByKind> all(static_cast<std::size_t>(comm::size_of(world)));
  for (std::size_t kind = 0; kind < own.size(); ++kind) {
    const Result<std::vector<double>> one = gather(world, own[kind]);
    if (!one) return tl::unexpected(one.error());
    for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank][kind] = (*one)[rank];
  }
  return all;
}

// Peak memory of every rank, allocated beside predicted.
template <typename T>
Result<void> gather_memory(Rank<T>& rank, LoopResult& result) {
  const program::MemoryOverTime predicted = program::memory_of(rank.program, rank.kind);
  Result<std::vector<double>> peaks = gather(rank.world, static_cast<double>(rank.memory.peak_bytes()));
  if (!peaks) return tl::unexpected(peaks.error());
  Result<std::vector<double>> predictions = gather(rank.world, predicted.peak_bytes);
  if (!predictions) return tl::unexpected(predictions.error());
  Result<std::vector<program::BytesByKind>> parts = gather_by_kind(rank.world, rank.memory.at_peak());
  if (!parts) return tl::unexpected(parts.error());
  Result<std::vector<program::BytesByKind>> predicted_parts = gather_by_kind(rank.world, predicted.at_peak);
  if (!predicted_parts) return tl::unexpected(predicted_parts.error());
  result.peak_bytes = std::move(*peaks);
  result.predicted_bytes = std::move(*predictions);
  result.peak_by_kind = std::move(*parts);
  result.predicted_by_kind = std::move(*predicted_parts);
  return {};
}

constexpr std::size_t kLastLosses = 10;

// `losses` are those of the last steps.
bool reaches(const LoopResult& result, const std::vector<double>& losses, double target) {
  if (target <= 0) return false;
  if (result.steps.back().evaluation_loss > 0) return result.steps.back().evaluation_loss <= target;
  if (result.evaluated) return false;  // the evaluation decides
  if (losses.size() < kLastLosses) return false;
  return std::accumulate(losses.begin(), losses.end(), 0.0) / kLastLosses <= target;
}

// Samples with their place in the data: "807 (document 3, token 103296), 12 (...) and 14 more".
std::string samples_text(const data::Samples& samples, int step) {
  constexpr std::int64_t kNamed = 3;
  const std::int64_t batch = samples.settings.global_batch;
  std::string text;
  for (std::int64_t i = 0; i < std::min(kNamed, batch); ++i) {
    const std::int64_t number = data::global_sample_number(samples, step, i);
    const std::int64_t token = data::first_token(samples, number);
    text += fmt::format("{}{} (document {}, token {})", i == 0 ? "" : ", ", number,
                        data::document_of(*samples.data, token), token);
  }
  return batch > kNamed ? text + fmt::format(" and {} more", batch - kNamed) : text;
}

// A run in the middle of it.
template <typename T>
struct Run {
  Rank<T>& rank;
  const data::Samples& samples;
  const LoopSettings& settings;
  Position position = {};  // at the first step
  data::Prefetcher prefetcher{samples, rank.dp_rank, position.step};
  std::unique_ptr<Saver> saver = {};  // null: nothing is saved
  int begun_step = position.step;     // of the newest save that was begun
  std::size_t told_errors = 0;
  double stall_s = 0;  // of the steps: behind the last one nobody waits
  data::Batch batch = {};
  int record_step = settings.record_step < 0 ? -1 : std::min(position.step + settings.record_step, settings.steps - 1);
  double scale_factor = 0;
  LoopResult result = {};
};

// An error that every rank has ends the run without being a failure of it.
template <typename T>
tl::unexpected<Error> refuse(Run<T>& run, const Error& error) {
  run.result.refused = error;
  return tl::unexpected(error);
}

template <typename T>
tl::unexpected<Error> not_finite(Run<T>& run, const std::string& what) {
  return refuse(run, infeasible("train: " + what, "a lower learning rate, a warm-up, or clip 1").value());
}

// Of data that this rank read: copies of the model read different samples, and hosts have files of their own.
template <typename T>
Result<void> all_have_read(Run<T>& run, const Result<void>& read) {
  const Result<std::optional<Error>> refused = agree(run.rank.world, read);
  if (!refused) return tl::unexpected(refused.error());
  if (*refused) return refuse(run, **refused);
  return {};
}

template <typename T>
Result<double> evaluate_all(Run<T>& run, int step) {
  const data::Samples& samples = run.samples;
  const int batches = evaluation_batches(run.rank.job, samples);
  double sum = 0;
  for (int batch = 0; batch < batches; ++batch) {
    Result<void> read = read_evaluation(run.rank, samples, batch);
    if (!read) read.error().message = fmt::format("evaluation behind step {}: {}", step + 1, read.error().message);
    if (Result<void> done = all_have_read(run, read); !done) return tl::unexpected(done.error());
    const Result<double> loss = evaluate(run.rank);
    if (!loss) return loss;
    sum += *loss;
  }
  if (!std::isfinite(sum)) {
    return not_finite(run, fmt::format("step {}: the loss of the evaluation behind it is {}; samples {}", step + 1, sum,
                                       samples_text(samples, step)));
  }
  return sum / batches;
}

// Communication, waiting and what only one of several ranks does are the rest.
template <typename T>
Result<void> measure_scale(Run<T>& run, double step_s) {
  const program::Timeline own{step_s, {run.rank.timeline}};
  const double seconds = arithmetic_seconds(run.rank.job, run.rank.program, own);
  const Result<std::vector<double>> all = gather(run.rank.world, seconds);
  if (!all) return tl::unexpected(all.error());
  const double sum = std::accumulate(all->begin(), all->end(), 0.0);
  run.scale_factor = sum / (static_cast<double>(all->size()) * step_s);
  return {};
}

// Of a save that failed: said, or the end of the run.
template <typename T>
Result<void> heed(Run<T>& run, const Result<std::optional<Error>>& advanced) {
  if (!advanced) return tl::unexpected(advanced.error());
  const std::vector<std::string>& errors = run.saver->report().errors;
  for (; run.told_errors < errors.size(); ++run.told_errors) {
    if (run.rank.rank == 0 && run.settings.warn && !*advanced) run.settings.warn(errors[run.told_errors]);
  }
  if (*advanced) return refuse(run, **advanced);
  return {};
}

// The step's data is there on all ranks, and what is being saved comes further. False: somebody asked to stop.
template <typename T>
Result<bool> enter_step(Run<T>& run) {
  constexpr std::size_t kStop = std::tuple_size_v<Saver::Votes>;
  std::array<std::int32_t, kStop + 1> votes{};
  if (run.saver) std::ranges::copy(run.saver->votes(), votes.begin());
  votes[kStop] = run.settings.asked_to_stop && run.settings.asked_to_stop() ? 1 : 0;
  const Result<void> read = run.prefetcher.next(run.batch);
  const Result<std::optional<Error>> refused = agree(run.rank.world, read, votes);
  if (!refused) return tl::unexpected(refused.error());
  if (*refused) return refuse(run, **refused);
  if (run.saver) {
    Saver::Votes own{};
    std::copy_n(votes.begin(), own.size(), own.begin());
    if (Result<void> heeded = heed(run, run.saver->advance(own)); !heeded) return tl::unexpected(heeded.error());
  }
  return votes[kStop] == 0;
}

template <typename T>
void begin_save(Run<T>& run, bool last = false) {
  run.begun_step = run.position.step;
  run.saver->begin(state_of(run.position, run.samples, run.settings.checkpoints.values), last);
}

// What is being saved is, and then the end of the run.
template <typename T>
Result<void> save_end(Run<T>& run) {
  if (!run.saver) return {};
  if (Result<void> heeded = heed(run, run.saver->finish(false)); !heeded) return heeded;
  if (run.position.step == run.result.first_step) return {};
  const bool has_end = run.begun_step == run.position.step && run.saver->report().newest_step == run.begun_step;
  if (!has_end || !run.saver->is_on_tiers()) begin_save(run, true);
  if (Result<void> heeded = heed(run, run.saver->finish(true)); !heeded) return heeded;
  if (run.saver->report().newest_step == run.position.step) return {};
  begin_save(run, true);  // what failed may be over, and there is no later one
  return heed(run, run.saver->finish(true));
}

template <typename T>
Result<StepNote> one_step(Run<T>& run, int step) {
  constexpr int kScaleEvery = 8;
  constexpr int kScaleFirst = 3;
  Rank<T>& rank = run.rank;
  std::copy(run.batch.tokens.begin(), run.batch.tokens.end(), rank.tokens.begin());
  std::copy(run.batch.labels.begin(), run.batch.labels.end(), rank.labels.begin());
  StepSettings own = settings_of(rank.job, step, run.settings.steps);
  const bool measures_scale = step % kScaleEvery == kScaleFirst;
  own.record = step == run.record_step || measures_scale;
  const Result<StepResult> done = run_step(rank, own);
  if (!done) return tl::unexpected(done.error());
  if (!std::isfinite(done->loss) || !std::isfinite(done->gradient_norm)) {
    return not_finite(run, fmt::format("step {}: the loss is {:.6g}, the norm of the gradients {:.6g}; samples {}",
                                       step + 1, done->loss, done->gradient_norm, samples_text(run.samples, step)));
  }
  if (measures_scale) {
    if (Result<void> scale = measure_scale(run, done->seconds); !scale) return tl::unexpected(scale.error());
  }
  if (own.record && step <= run.record_step) {  // a run that ends before that step has one that came before
    const Result<void> got = gather_timeline(rank, done->seconds, run.result.timeline);
    if (!got) return tl::unexpected(got.error());
    run.result.record_step = step;
  }
  StepNote note{step, run.settings.steps, done->loss, own.sgd ? own.momentum.rate : own.adamw.rate};
  note.gradient_norm = done->gradient_norm;
  note.seconds = done->seconds;
  note.scale_factor = run.scale_factor;
  return note;
}

template <typename T>
void move_on(Run<T>& run, const StepNote& note) {
  run.position.step = note.step + 1;
  run.position.elapsed_s = note.elapsed_s;
  std::vector<double>& losses = run.position.losses;
  losses.push_back(note.loss);
  if (losses.size() > kLastLosses) losses.erase(losses.begin());
}

// Until the end, the target, or an error.
template <typename T>
Result<void> run_steps(Run<T>& run) {
  LoopResult& result = run.result;
  const spec::Training& training = run.rank.job.training;
  const int every = training.recipe.evaluate_every;
  const int saves_every = run.settings.checkpoints.every;
  const double before_s = run.position.elapsed_s;
  const Clock::time_point begin = Clock::now();
  for (int step = run.position.step; step < run.settings.steps; ++step) {
    const Result<bool> goes_on = enter_step(run);
    if (!goes_on) return tl::unexpected(goes_on.error());
    if (result.stopped = !*goes_on; result.stopped) break;
    Result<StepNote> note = one_step(run, step);
    if (!note) return tl::unexpected(note.error());
    const bool last = step + 1 == run.settings.steps;
    if (run.samples.num_evaluation > 0 && (last || (every > 0 && (step + 1) % every == 0))) {
      const Result<double> loss = evaluate_all(run, step);
      if (!loss) return tl::unexpected(loss.error());
      note->evaluation_loss = *loss;
      result.evaluated = true;
    }
    note->elapsed_s = before_s + seconds_since(begin);
    note->saved_step = run.saver ? static_cast<int>(run.saver->report().newest_step) : 0;
    result.steps.push_back(*note);
    move_on(run, *note);
    if (run.rank.rank == 0 && run.settings.note) run.settings.note(*note);
    if (reaches(result, run.position.losses, training.target_loss)) {
      result.time_to_target_s = note->elapsed_s;
      run.position.reached = training.target_loss;
      break;
    }
    if (run.saver && saves_every > 0 && (step + 1) % saves_every == 0 && !last) begin_save(run);
  }
  result.seconds = seconds_since(begin);
  if (run.saver) run.stall_s = run.saver->report().stall_s;
  return save_end(run);
}

// Parameters as they were saved; false: there is nothing left to train, or it was refused.
template <typename T>
Result<bool> resume_run(Rank<T>& rank, const data::Samples& samples, const LoopSettings& settings, Position& position,
                        LoopResult& result) {
  if (settings.checkpoints.resume_from.empty()) return true;
  Result<Resumed> resumed =
      resume(rank, settings.checkpoints.resume_from, facts_of(rank.job, samples), settings.checkpoints.peer);
  if (!resumed) return tl::unexpected(resumed.error());
  result.refused = resumed->refused;
  result.resumed_from = resumed->checkpoint;
  result.passed_over = std::move(resumed->passed_over);
  position = std::move(resumed->position);
  result.first_step = position.step;
  const double target = rank.job.training.target_loss;
  result.finished =
      position.step >= settings.steps || (target > 0 && position.reached > 0 && target >= position.reached);
  // As it would be had the run not ended in between.
  const int every = rank.job.training.recipe.evaluate_every;
  result.evaluated = samples.num_evaluation > 0 && every > 0 && position.step >= every;
  return !result.finished && !result.refused;
}

template <typename T>
Result<void> make_saver(Run<T>& run) {
  const CheckpointSettings& settings = run.settings.checkpoints;
  if (settings.tiers.empty()) return {};
  Result<Opened> opened = open_tiers(run.rank.world, settings);
  if (!opened) return tl::unexpected(opened.error());
  if (opened->refused) return refuse(run, *opened->refused);
  run.saver = std::make_unique<Saver>(run.rank.world, settings, regions_held(run.rank), std::move(*opened));
  run.rank.before_update = [saver = run.saver.get()] { saver->before_update(); };
  return {};
}

template <typename T>
Result<void> gather_saves(Run<T>& run) {
  if (!run.saver) return {};
  SaveReport& saves = run.result.saves = run.saver->report();
  const Result<std::vector<double>> stalls = gather(run.rank.world, run.stall_s);
  if (!stalls) return tl::unexpected(stalls.error());
  const Result<std::vector<double>> bytes = gather(run.rank.world, static_cast<double>(saves.snapshot_bytes));
  if (!bytes) return tl::unexpected(bytes.error());
  saves.stall_s = *std::max_element(stalls->begin(), stalls->end());
  saves.snapshot_bytes = static_cast<std::int64_t>(*std::max_element(bytes->begin(), bytes->end()));
  return {};
}

}  // namespace

int steps_of(const spec::Job& job) {
  if (job.training.recipe.steps > 0) return job.training.recipe.steps;
  const double tokens = job.training.global_batch * job.training.sequence;
  if (job.training.tokens > 0) return static_cast<int>(std::clamp(std::ceil(job.training.tokens / tokens), 1.0, 1e9));
  constexpr int kSome = 100;
  return kSome;
}

template <typename T>
Result<LoopResult> run_loop(const spec::Job& job, const program::Program& program, comm::Communicator& world,
                            const data::Samples& samples, const LoopSettings& settings) {
  kernel::flush_denormals();
  kernel::set_threads(1);
  kernel::tune_gemm(!settings.deterministic);
  Rank<T> rank(job, program, world);
  if (Result<void> ready = set_up(rank, static_cast<std::uint64_t>(job.training.recipe.seed)); !ready)
    return tl::unexpected(ready.error());
  LoopResult resumed;
  Position position;
  if (settings.rehearses) {
    Result<program::OpSeconds> rehearsed = rehearse(rank);
    if (!rehearsed) return tl::unexpected(rehearsed.error());
    resumed.rehearsed = std::move(*rehearsed);
  }
  const Result<bool> goes_on = resume_run(rank, samples, settings, position, resumed);
  if (!goes_on) return tl::unexpected(goes_on.error());
  if (!*goes_on) return resumed;
  Run<T> run{rank, samples, settings, std::move(position)};
  run.result = std::move(resumed);
  Result<void> done = make_saver(run);
  if (done) done = run_steps(run);
  LoopResult& result = run.result;
  if (result.refused) return std::move(result);
  if (!done) return tl::unexpected(done.error());
  if (!result.steps.empty()) {
    const StepNote& last = result.steps.back();
    result.final_loss = last.evaluation_loss > 0 ? last.evaluation_loss : last.loss;
  }
  if (Result<void> gathered = gather_saves(run); !gathered) return tl::unexpected(gathered.error());
  if (Result<void> gathered = gather_memory(rank, result); !gathered) return tl::unexpected(gathered.error());
  return std::move(result);
}

#define TWINPOD_INSTANTIATE(T)                                                                            \
  template Result<LoopResult> run_loop<T>(const spec::Job&, const program::Program&, comm::Communicator&, \
                                          const data::Samples&, const LoopSettings&)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
