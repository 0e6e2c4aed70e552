#include "train/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/half.hpp"
#include "data/prefetch.hpp"
#include "kernel/gemm.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "program/check.hpp"
#include "train/agree.hpp"
#include "train/loop_timeline.hpp"
#include "train/rank.hpp"
#include "train/rate.hpp"

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

// A batch of the held-out part. Its samples are dealt out like those of a step, around its end if need be.
template <typename T>
Result<void> read_evaluation(Rank<T>& rank, const data::Samples& samples, int batch) {
  const auto sequence = static_cast<std::size_t>(samples.settings.sequence);
  const std::int64_t dp = samples.settings.data_parallel;
  const std::int64_t each = samples.settings.micro_batch;
  std::size_t place = 0;
  for (std::int64_t m = 0; m < rank.program.micro_batches; ++m) {
    for (std::int64_t i = 0; i < each; ++i, place += sequence) {
      const std::int64_t own = batch * samples.settings.global_batch + (m * dp + rank.dp_rank) * each + i;
      const std::int64_t number = samples.num_training + own % samples.num_evaluation;
      Result<void> read = data::read_sample(samples, number, {rank.tokens.data() + place, sequence},
                                            {rank.labels.data() + place, sequence});
      if (!read) return read;
    }
  }
  return {};
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

bool reaches(const LoopResult& result, double target) {
  if (target <= 0) return false;
  if (result.steps.back().evaluation_loss > 0) return result.steps.back().evaluation_loss <= target;
  if (result.evaluated) return false;  // the evaluation decides
  constexpr std::size_t kLast = 10;
  if (result.steps.size() < kLast) return false;
  double sum = 0;
  for (std::size_t i = result.steps.size() - kLast; i < result.steps.size(); ++i) sum += result.steps[i].loss;
  return sum / kLast <= target;
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
  data::Prefetcher prefetcher{samples, rank.dp_rank, 0};
  data::Batch batch = {};
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
  const std::int64_t whole = std::max<std::int64_t>(1, samples.num_evaluation / samples.settings.global_batch);
  const int most = run.rank.job.training.recipe.evaluation_batches;
  const auto batches = static_cast<int>(std::min<std::int64_t>(most, whole));
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

template <typename T>
Result<StepNote> one_step(Run<T>& run, int step) {
  constexpr int kScaleEvery = 8;
  constexpr int kScaleFirst = 3;
  Rank<T>& rank = run.rank;
  const Result<void> read = run.prefetcher.next(run.batch);
  if (Result<void> all = all_have_read(run, read); !all) return tl::unexpected(all.error());
  std::copy(run.batch.tokens.begin(), run.batch.tokens.end(), rank.tokens.begin());
  std::copy(run.batch.labels.begin(), run.batch.labels.end(), rank.labels.begin());
  StepSettings own = settings_of(rank.job, step, run.settings.steps);
  const bool measures_scale = step % kScaleEvery == kScaleFirst;
  own.record = step == run.settings.record_step || measures_scale;
  const Result<StepResult> done = run_step(rank, own);
  if (!done) return tl::unexpected(done.error());
  if (!std::isfinite(done->loss) || !std::isfinite(done->gradient_norm)) {
    return not_finite(run, fmt::format("step {}: the loss is {}, the norm of the gradients {}; samples {}", step + 1,
                                       done->loss, done->gradient_norm, samples_text(run.samples, step)));
  }
  if (measures_scale) {
    if (Result<void> scale = measure_scale(run, done->seconds); !scale) return tl::unexpected(scale.error());
  }
  if (step == run.settings.record_step) {
    const Result<void> got = gather_timeline(rank, done->seconds, run.result.timeline);
    if (!got) return tl::unexpected(got.error());
  }
  StepNote note{step, run.settings.steps, done->loss, own.sgd ? own.momentum.rate : own.adamw.rate};
  note.gradient_norm = done->gradient_norm;
  note.seconds = done->seconds;
  note.scale_factor = run.scale_factor;
  return note;
}

// Until the end, the target, or an error.
template <typename T>
Result<void> run_steps(Run<T>& run) {
  LoopResult& result = run.result;
  const spec::Training& training = run.rank.job.training;
  const int every = training.recipe.evaluate_every;
  const Clock::time_point begin = Clock::now();
  for (int step = 0; step < run.settings.steps; ++step) {
    Result<StepNote> note = one_step(run, step);
    if (!note) return tl::unexpected(note.error());
    const bool last = step + 1 == run.settings.steps;
    if (run.samples.num_evaluation > 0 && (last || (every > 0 && (step + 1) % every == 0))) {
      const Result<double> loss = evaluate_all(run, step);
      if (!loss) return tl::unexpected(loss.error());
      note->evaluation_loss = *loss;
      result.evaluated = true;
    }
    note->elapsed_s = seconds_since(begin);
    result.steps.push_back(*note);
    if (run.rank.rank == 0 && run.settings.note) run.settings.note(*note);
    if (reaches(result, training.target_loss)) {
      result.time_to_target_s = note->elapsed_s;
      break;
    }
  }
  result.seconds = seconds_since(begin);
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
  Run<T> run{rank, samples, settings};
  const Result<void> done = run_steps(run);
  LoopResult& result = run.result;
  if (result.refused) return std::move(result);
  if (!done) return tl::unexpected(done.error());
  const StepNote& last = result.steps.back();
  result.final_loss = last.evaluation_loss > 0 ? last.evaluation_loss : last.loss;
  if (Result<void> gathered = gather_memory(rank, result); !gathered) return tl::unexpected(gathered.error());
  result.record_step = settings.record_step;
  return std::move(result);
}

Result<double> measured_peak(comm::Communicator& world, spec::Precision precision) {
  constexpr std::int64_t kShapes[][3] = {{1024, 1024, 1024}, {2048, 1536, 384}, {3072, 3072, 384}, {1536, 1536, 1536}};
  constexpr int kRounds = 4;
  kernel::flush_denormals();
  kernel::set_threads(1);
  double best = 0;
  for (const auto& shape : kShapes) {
    const kernel::Gemm gemm{.m = shape[0], .n = shape[1], .k = shape[2]};
    const auto measure = [&]<typename T>(T one) {
      const std::vector<T> a(static_cast<std::size_t>(gemm.m * gemm.k), one);
      const std::vector<T> b(static_cast<std::size_t>(gemm.k * gemm.n), one);
      std::vector<T> c(static_cast<std::size_t>(gemm.m * gemm.n));
      for (int round = 0; round < kRounds; ++round) {
        const Clock::time_point begin = Clock::now();
        kernel::gemm<T>(gemm, a.data(), b.data(), c.data());
        best = std::max(best, 2.0 * static_cast<double>(gemm.m * gemm.n * gemm.k) / seconds_since(begin));
      }
    };
    precision == spec::Precision::bf16 ? measure(to_bf16(0.5F)) : measure(0.5F);
  }
  const Result<std::vector<double>> all = gather(world, best);
  if (!all) return tl::unexpected(all.error());
  double sum = 0;
  for (const double one : *all) sum += one;
  return sum / static_cast<double>(all->size());
}

#define TWINPOD_INSTANTIATE(T)                                                                            \
  template Result<LoopResult> run_loop<T>(const spec::Job&, const program::Program&, comm::Communicator&, \
                                          const data::Samples&, const LoopSettings&)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
