// Questions about the number of devices: how throughput grows with them, and how many a deadline needs.
#include <algorithm>

#include "plan/questions.hpp"
#include "plan/questions_narrow.hpp"
#include "plan/rules.hpp"
#include "spec/bounds.hpp"

namespace twinpod::plan {
namespace {

using spec::Job;

constexpr int kMostDoublings = 6;  // of the largest count, in search of one that meets a deadline

int node_of(const Job& job) { return std::max(1, job.cluster.devices_per_node); }

std::vector<int> rising(std::vector<int> counts) {
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

const Answer* answer_on(const std::vector<Answer>& answers, int devices) {
  for (const Answer& answer : answers) {
    if (answer.job.cluster.devices == devices) return &answer;
  }
  return nullptr;
}

// With the devices the batch grows from that of the smallest count on; near by, where it can be shared out well.
double batch_on(const Job& job, int devices, int smallest) {
  if (devices == smallest) return job.training.global_batch;
  const double tokens = job.training.global_batch * job.training.sequence;
  return planned_batch(tokens * devices / smallest, job.training.sequence, {devices});
}

std::vector<Answer> with_growing_batch(const Job& job, const std::vector<int>& counts, int smallest,
                                       const Terms& terms) {
  std::vector<Answer> answers;
  for (const int devices : counts) {
    Job grown = job;
    grown.training.global_batch = batch_on(job, devices, smallest);
    for (Answer& answer : best_of_each(grown, {devices}, terms)) answers.push_back(std::move(answer));
  }
  return answers;
}

ScalePoint point_of(const Answer& answer, const Answer& smallest, double one_device_tokens_per_s) {
  ScalePoint point{answer.job.cluster.devices, answer.job.training.global_batch, answer, 0, 0};
  point.scale_factor = scale_factor(answer.metrics.tokens_per_s, point.devices, one_device_tokens_per_s);
  point.of_smallest = answer.metrics.tokens_per_s_per_device / smallest.metrics.tokens_per_s_per_device;
  return point;
}

double fastest_device(const std::vector<Answer>& answers) {
  double fastest = 0;
  for (const Answer& answer : answers) fastest = std::max(fastest, answer.metrics.one_device_tokens_per_s);
  return fastest;
}

// Finds where the curve falls under its threshold.
template <typename BestOn>
void look_for_threshold(int unit, const BestOn& best_on, const Answer& smallest, ScaleCurve& curve) {
  const double one = curve.one_device_tokens_per_s;
  const double threshold = curve.options.threshold;
  const auto last = std::find_if(curve.points.rbegin(), curve.points.rend(), [&](const ScalePoint& point) {
    return point.best && point.scale_factor >= threshold;
  });
  curve.falls_under = last != curve.points.rbegin();
  if (last == curve.points.rend()) return;
  curve.last_above = *last;
  if (!curve.falls_under) return;
  const auto holds = [&](const Answer& answer) { return point_of(answer, smallest, one).scale_factor >= threshold; };
  const std::vector<Answer> more = narrowed(last->devices, (last - 1)->devices, unit, best_on, holds);
  if (!more.empty()) curve.last_above = point_of(more.back(), smallest, one);
}

Result<void> check_tokens(const Job& job, const std::vector<Answer>& tried) {
  if (!tried.empty() && tried.front().metrics.time_to_train_s) return {};
  if (!tried.empty() && job.training.target_loss > 0)
    return input_error("a deadline needs a target loss that this model can reach", "write the tokens of the run");
  return input_error("a deadline needs the tokens of the whole run", "write --tokens 300e9, or a target loss");
}

double cost_of(const Answer& answer) { return *answer.metrics.device_hours; }
double time_of(const Answer& answer) { return *answer.metrics.time_to_train_s; }

// None of the list is enough: the shortest, and what would do.
void look_beyond(const Job& job, const std::vector<int>& counts, const Terms& terms, DeadlineAnswer& answer) {
  const auto sooner = [](const Answer& a, const Answer& b) { return time_of(a) < time_of(b); };
  answer.nearest = *std::min_element(answer.tried.begin(), answer.tried.end(), sooner);
  std::int64_t devices = counts.back();
  for (int i = 0; i < kMostDoublings && !answer.beyond; ++i) {
    devices *= 2;
    if (devices > spec::kMaxDevices) return;
    for (const Answer& more : best_of_each(job, {static_cast<int>(devices)}, terms)) {
      if (time_of(more) <= answer.deadline_s) answer.beyond = more;
    }
  }
}

// Fewer than the first count of the list that meets the deadline, more than the one before it.
void look_between(const Job& job, const std::vector<int>& counts, int enough, const Terms& terms,
                  DeadlineAnswer& answer) {
  const auto place = std::find(counts.begin(), counts.end(), enough);
  if (place == counts.begin()) return;
  const auto best_on = [&](const std::vector<int>& wanted) { return best_of_each(job, wanted, terms); };
  const auto meets = [&](const Answer& one) { return time_of(one) <= answer.deadline_s; };
  for (Answer& more : narrowed(enough, *(place - 1), node_of(job), best_on, meets))
    answer.tried.push_back(std::move(more));
  const auto fewer = [](const Answer& a, const Answer& b) { return a.job.cluster.devices < b.job.cluster.devices; };
  std::sort(answer.tried.begin(), answer.tried.end(), fewer);
}

void choose(DeadlineAnswer& answer) {
  for (const Answer& one : answer.tried) {
    if (time_of(one) > answer.deadline_s) continue;
    if (!answer.fewest) answer.fewest = one;
    if (!answer.cheapest || cost_of(one) < cost_of(*answer.cheapest)) answer.cheapest = one;
  }
}

Error nothing_on(const Job& job, const std::vector<int>& counts, const Terms& terms) {
  Terms on_these = terms;
  on_these.wishes.devices = counts;
  const Result<void> fits = why_nothing_fits(job, on_these);
  return fits ? Error{ErrorKind::infeasible, "nothing fits on any of these numbers of devices", "", "", 0, 0}
              : fits.error();
}

}  // namespace

ScaleCurve scale_curve(const Job& job, const std::vector<int>& devices, const ScaleOptions& options,
                       const Terms& asked) {
  Terms terms = asked;
  terms.options.within_step_s = 0;  // small clusters are slow, and that is what the curve shows
  const std::vector<int> counts = rising(devices);
  const auto best_on = [&](const std::vector<int>& wanted) {
    return options.batch_grows ? with_growing_batch(job, wanted, counts.front(), terms)
                               : best_of_each(job, wanted, terms);
  };
  const std::vector<Answer> answers = counts.empty() ? std::vector<Answer>{} : best_on(counts);
  ScaleCurve curve;
  curve.options = options;
  curve.one_device_tokens_per_s = fastest_device(answers);
  for (const int count : counts) {
    const Answer* best = answer_on(answers, count);
    const double batch = options.batch_grows ? batch_on(job, count, counts.front()) : job.training.global_batch;
    curve.points.push_back(best != nullptr ? point_of(*best, answers.front(), curve.one_device_tokens_per_s)
                                           : ScalePoint{count, batch, std::nullopt, 0, 0});
  }
  if (options.threshold > 0 && !answers.empty()) look_for_threshold(node_of(job), best_on, answers.front(), curve);
  return curve;
}

Result<DeadlineAnswer> within_deadline(const Job& job, double deadline_s, const std::vector<int>& devices,
                                       const Terms& asked) {
  const std::vector<int> counts = rising(devices);
  Terms terms = asked;
  terms.options.within_step_s = 0;  // how near the others come is part of the answer
  DeadlineAnswer answer;
  answer.deadline_s = deadline_s;
  answer.tried = best_of_each(job, counts, terms);
  if (answer.tried.empty()) return tl::unexpected(nothing_on(job, counts, terms));
  const Result<void> has_length = check_tokens(job, answer.tried);
  if (!has_length) return tl::unexpected(has_length.error());
  const auto meets = [&](const Answer& one) { return time_of(one) <= deadline_s; };
  const auto first = std::find_if(answer.tried.begin(), answer.tried.end(), meets);
  if (first == answer.tried.end()) {
    look_beyond(job, counts, terms, answer);
  } else {
    look_between(job, counts, first->job.cluster.devices, terms, answer);
    choose(answer);
  }
  return answer;
}

}  // namespace twinpod::plan
