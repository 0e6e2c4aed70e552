// Questions about what a cluster can hold: the longest sequence, the largest batch, the largest model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "layout/check.hpp"
#include "model/arithmetic.hpp"
#include "plan/questions.hpp"
#include "spec/bounds.hpp"

namespace twinpod::plan {
namespace {

using spec::Job;
using spec::Model;

constexpr int kSequenceUnit = 1024;         // tokens
constexpr int kWidthUnit = 128;             // of hidden and inner widths: what kernels are made for
constexpr int kLayerUnit = 8;               // layers that many numbers of stages divide
constexpr int kHeadUnit = 8;                // heads that the usual numbers of tensor ranks divide
constexpr double kFewSequences = 1.0 / 16;  // for each device: less keeps no cluster busy
constexpr double kWorthDoubling = 1.02;     // throughput that a doubled batch must bring

// The largest number in [1, most] that fits, looked for by doubling and then by halving; 0: not even 1 does.
template <typename Fits>
int largest_that(int most, const Fits& fits) {
  if (!fits(1)) return 0;
  int good = 1;
  while (good <= most / 2 && fits(2 * good)) good *= 2;
  int bad = good > most / 2 ? most + 1 : 2 * good;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

Result<Answer> best_or_reason(const Job& job, const Terms& terms) {
  if (std::optional<Answer> best = best_of(job, terms)) return *best;
  const Result<void> fits = why_nothing_fits(job, terms);
  return fits ? infeasible("nothing fits") : tl::unexpected(fits.error());
}

// ---- Sequence ----

int odd_part(int number) {
  while (number % 2 == 0) number /= 2;
  return number;
}

// About as many tokens a step as before, in longer or shorter sequences.
Job with_sequence(const Job& job, int sequence) {
  Job changed = job;
  changed.training.sequence = sequence;
  if (job.model.positions == spec::Positions::learned)
    changed.model.max_sequence = std::max(job.model.max_sequence, sequence);
  if (sequence != job.training.sequence) {
    const double tokens = job.training.global_batch * job.training.sequence;
    changed.training.global_batch = planned_batch(tokens, sequence, {job.cluster.devices});
  }
  return changed;
}

// ---- Batch ----

Job with_batch(const Job& job, double sequences) {
  Job changed = job;
  changed.training.global_batch = sequences;
  return changed;
}

std::vector<int> data_sizes(const Job& job, const Wishes& wishes) {
  if (!wishes.dp.empty()) return wishes.dp;
  const std::vector<std::int64_t> all = layout::divisors(job.cluster.devices);
  return {all.begin(), all.end()};
}

// The best when each of `dp` ranks takes its whole share of the step in one micro-batch.
std::optional<Answer> best_in_one_go(const Job& job, int dp, int micro_batch, Terms terms) {
  terms.wishes.dp = {dp};
  terms.wishes.micro_batch = {micro_batch};
  return best_of(with_batch(job, static_cast<double>(dp) * micro_batch), terms);
}

// The largest micro-batch that fits on `dp` ranks, 0 when none does.
int largest_micro_batch(const Job& job, int dp, const Terms& terms) {
  const auto fits = [&](int size) { return best_in_one_go(job, dp, size, terms).has_value(); };
  if (terms.wishes.micro_batch.empty()) return largest_that(spec::kMaxBatch / dp, fits);
  int largest = 0;
  for (const int size : terms.wishes.micro_batch) {
    if (size > largest && fits(size)) largest = size;
  }
  return largest;
}

// The most sequences that fit at one time, and their best layout. Few data ranks leave more room for each.
std::optional<Answer> most_at_once(const Job& job, const Terms& terms) {
  std::optional<Answer> most;
  for (const int dp : data_sizes(job, terms.wishes)) {
    const int size = largest_micro_batch(job, dp, terms);
    if (size == 0 || (most && most->job.training.global_batch >= static_cast<double>(dp) * size)) continue;
    most = best_in_one_go(job, dp, size, terms);
  }
  return most;
}

// Best of each batch, from few sequences for so many devices on, until doubling brings nothing more.
void follow_batches(const Job& job, const Terms& terms, LargestBatch& answer) {
  const double few = std::exp2(std::floor(std::log2(std::max(1.0, job.cluster.devices * kFewSequences))));
  for (double target = few; 2 * target <= spec::kMaxBatch && !answer.enough; target *= 2) {
    const double batch = planned_batch(target * job.training.sequence, job.training.sequence, {job.cluster.devices});
    std::optional<Answer> best = best_of(with_batch(job, batch), terms);
    if (!best) continue;
    answer.curve.push_back(std::move(*best));
    const std::size_t size = answer.curve.size();
    if (size < 2) continue;
    const double grown = answer.curve[size - 1].metrics.tokens_per_s / answer.curve[size - 2].metrics.tokens_per_s;
    if (grown <= kWorthDoubling) answer.enough = size - 2;
  }
}

// ---- Model ----

int rounded_to(double value, int unit) { return std::max(1, static_cast<int>(std::lround(value / unit))) * unit; }

// Heads that tensor ranks and groups of key/value heads divide.
int head_unit(const Model& model) {
  const int groups = model.attention.kv_heads;
  return groups > 0 && groups < model.attention.heads ? std::lcm(kHeadUnit, groups) : kHeadUnit;
}

bool is_within_bounds(const Model& model) {
  return model.layers <= spec::kMaxLayers && model.hidden <= spec::kMaxWidth && model.ffn <= spec::kMaxWidth;
}

int most_head_units(const Model& model) {
  int units = spec::kMaxHeads / head_unit(model);
  while (units > 1 && !is_within_bounds(scaled_model(model, units * head_unit(model)))) --units;
  return units;
}

Job with_heads(const Job& job, int heads) {
  Job changed = job;
  changed.model = scaled_model(job.model, heads);
  return changed;
}

}  // namespace

Result<LargestSequence> largest_sequence(const Job& job, const Terms& terms) {
  // Context ranks must divide the sequence: where the devices have an odd factor, multiples of it may go further.
  int sequence = kSequenceUnit;
  for (const int step : {kSequenceUnit, kSequenceUnit * odd_part(job.cluster.devices)}) {
    const auto fits = [&](int units) { return anything_fits(with_sequence(job, units * step), terms); };
    sequence = std::max(sequence, largest_that(spec::kMaxSequence / step, fits) * step);
  }
  Result<Answer> best = best_or_reason(with_sequence(job, sequence), terms);
  if (!best) return tl::unexpected(best.error());
  LargestSequence answer{sequence, std::nullopt, std::move(*best)};
  if (sequence <= spec::kMaxSequence - kSequenceUnit) answer.too_long = sequence + kSequenceUnit;
  return answer;
}

Result<LargestBatch> largest_batch(const Job& job, const Terms& terms) {
  std::optional<Answer> at_once = most_at_once(job, terms);
  if (!at_once) {
    Result<Answer> best = best_or_reason(job, terms);
    if (!best) return tl::unexpected(best.error());
    at_once = std::move(*best);
  }
  LargestBatch answer;
  answer.sequences = static_cast<double>(at_once->job.layout.dp) * at_once->job.layout.micro_batch;
  answer.at_once = std::move(*at_once);
  follow_batches(job, terms, answer);
  return answer;
}

Model scaled_model(const Model& model, int heads) {
  const double factor = static_cast<double>(heads) / model.attention.heads;
  const auto width = [&](int value) { return value > 0 ? rounded_to(value * factor, kWidthUnit) : 0; };
  if (heads == model.attention.heads) return model;
  Model scaled = model;
  scaled.attention.heads = heads;
  if (model.attention.kv_heads == model.attention.heads) scaled.attention.kv_heads = heads;
  scaled.hidden = width(model.hidden);
  scaled.ffn = width(model.ffn);
  scaled.experts.ffn = width(model.experts.ffn);
  scaled.experts.shared_ffn = width(model.experts.shared_ffn);
  scaled.layers = rounded_to(model.layers * factor, model.layers % kLayerUnit == 0 || factor > 1 ? kLayerUnit : 1);
  scaled.layers = std::max(scaled.layers, model.experts.first_dense_layers + 1);
  scaled.name = fmt::format("{} × {:.3g}", model.name, factor);
  scaled.entry.clear();
  scaled.published_parameters = 0;
  return scaled;
}

Result<LargestModel> largest_model(const Job& job, const Terms& terms) {
  const int unit = head_unit(job.model);
  const int most = most_head_units(job.model);
  const int units = largest_that(most, [&](int n) { return anything_fits(with_heads(job, n * unit), terms); });
  const int heads = std::max(1, units) * unit;
  Result<Answer> best = best_or_reason(with_heads(job, heads), terms);
  if (!best) return tl::unexpected(best.error());
  LargestModel answer;
  answer.parameters = model::parameters(best->job.model).total;
  answer.factor = static_cast<double>(heads) / job.model.attention.heads;
  answer.best = std::move(*best);
  if (units < most) answer.too_large = model::parameters(scaled_model(job.model, heads + unit)).total;
  return answer;
}

}  // namespace twinpod::plan
