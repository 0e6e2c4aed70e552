#include "train/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/half.hpp"
#include "data/prefetch.hpp"
#include "kernel/gemm.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "program/check.hpp"
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

template <typename T>
Result<double> evaluate_all(Rank<T>& rank, const data::Samples& samples) {
  const std::int64_t whole = std::max<std::int64_t>(1, samples.num_evaluation / samples.settings.global_batch);
  const auto batches = static_cast<int>(std::min<std::int64_t>(rank.job.training.recipe.evaluation_batches, whole));
  double sum = 0;
  for (int batch = 0; batch < batches; ++batch) {
    if (Result<void> read = read_evaluation(rank, samples, batch); !read) return tl::unexpected(read.error());
    const Result<double> loss = evaluate(rank);
    if (!loss) return loss;
    sum += *loss;
  }
  return sum / batches;
}

// One number of every rank.
Result<std::vector<double>> gather(comm::Communicator& world, double own) {
  std::vector<double> all(static_cast<std::size_t>(comm::size_of(world)), own);
  if (all.size() == 1) return all;
  const comm::Call call{
      .verb = comm::Verb::all_gather, .input = &own, .output = all.data(), .count = 1, .type = comm::ElementType::f64};
  if (Result<void> done = comm::run(world, call); !done) return tl::unexpected(done.error());
  return all;
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

// Ranks other than 0 send what they recorded.
template <typename T>
Result<void> gather_timeline(Rank<T>& rank, double step_s, program::Timeline& timeline) {
  constexpr int kTag = comm::kMaxTag - 1;
  const auto begin = std::chrono::duration<double>(rank.begin.time_since_epoch()).count();
  const Result<std::vector<double>> begins = gather(rank.world, begin);
  if (!begins) return tl::unexpected(begins.error());
  if (rank.rank != 0) {
    const std::size_t bytes = rank.timeline.ops.size() * sizeof(program::OpSpan);
    return comm::send(rank.world, rank.timeline.ops.data(), bytes, 0, kTag);
  }
  timeline.ranks = {rank.timeline};
  for (int other = 1; other < comm::size_of(rank.world); ++other) {
    program::RankTimeline one{other, 1, program::kind_of_rank(rank.program, other), {}};
    std::size_t ops = 0;
    program::for_each_op(rank.program, one.kind, [&](const program::PlacedOp&) { ++ops; });
    one.ops.resize(ops);
    const Result<std::size_t> got =
        comm::receive(rank.world, one.ops.data(), ops * sizeof(program::OpSpan), other, kTag);
    if (!got) return tl::unexpected(got.error());
    // Clocks of one host are the same; those of others start with the step.
    const double later = (*begins)[static_cast<std::size_t>(other)] - begin;
    for (program::OpSpan& span : one.ops) {
      if (std::abs(later) > step_s) break;
      span.start_s += later;
      span.release_s += later;
      span.end_s += later;
    }
    timeline.ranks.push_back(std::move(one));
  }
  double first = 0;
  for (const program::RankTimeline& one : timeline.ranks) first = std::min(first, one.ops.front().start_s);
  for (program::RankTimeline& one : timeline.ranks) {
    for (program::OpSpan& span : one.ops) {
      span.start_s -= first;
      span.release_s -= first;
      span.end_s -= first;
      timeline.step_s = std::max(timeline.step_s, span.end_s);
    }
  }
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

template <typename T>
Result<StepNote> one_step(Rank<T>& rank, data::Prefetcher& prefetcher, data::Batch& batch, const LoopSettings& settings,
                          int step) {
  if (Result<void> read = prefetcher.next(batch); !read) return tl::unexpected(read.error());
  std::copy(batch.tokens.begin(), batch.tokens.end(), rank.tokens.begin());
  std::copy(batch.labels.begin(), batch.labels.end(), rank.labels.begin());
  StepSettings own = settings_of(rank.job, step, settings.steps);
  own.record = step == settings.record_step;
  const Result<StepResult> done = run_step(rank, own);
  if (!done) return tl::unexpected(done.error());
  if (!std::isfinite(done->loss) || !std::isfinite(done->gradient_norm)) {
    return infeasible(fmt::format("train: step {}: the loss is {}, the norm of the gradients {}", step, done->loss,
                                  done->gradient_norm),
                      "a lower learning rate, a warm-up, or clip 1");
  }
  return StepNote{
      step,         settings.steps, done->loss, own.sgd ? own.momentum.rate : own.adamw.rate, done->gradient_norm,
      done->seconds};
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
  data::Prefetcher prefetcher(samples, rank.dp_rank, 0);
  data::Batch batch;
  LoopResult result;
  const Clock::time_point begin = Clock::now();
  const int every = job.training.recipe.evaluate_every;
  for (int step = 0; step < settings.steps; ++step) {
    Result<StepNote> note = one_step(rank, prefetcher, batch, settings, step);
    if (!note) return tl::unexpected(note.error());
    if (step == settings.record_step) {
      const Result<void> got = gather_timeline(rank, note->seconds, result.timeline);
      if (!got) return tl::unexpected(got.error());
    }
    const bool last = step + 1 == settings.steps;
    if (samples.num_evaluation > 0 && (last || (every > 0 && (step + 1) % every == 0))) {
      const Result<double> loss = evaluate_all(rank, samples);
      if (!loss) return tl::unexpected(loss.error());
      note->evaluation_loss = *loss;
      result.evaluated = true;
    }
    note->elapsed_s = seconds_since(begin);
    result.steps.push_back(*note);
    if (rank.rank == 0 && settings.note) settings.note(*note);
    if (reaches(result, job.training.target_loss)) {
      result.time_to_target_s = note->elapsed_s;
      break;
    }
  }
  result.seconds = seconds_since(begin);
  const StepNote& last = result.steps.back();
  result.final_loss = last.evaluation_loss > 0 ? last.evaluation_loss : last.loss;
  if (Result<void> done = gather_memory(rank, result); !done) return tl::unexpected(done.error());
  return result;
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
