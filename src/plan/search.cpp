#include "plan/search.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>

#include "core/parallel.hpp"
#include "plan/fits.hpp"
#include "plan/memory.hpp"
#include "plan/step_pieces.hpp"

namespace twinpod::plan {
namespace {

using spec::Layout;

double device_seconds(const Candidate& c) { return c.devices * c.step_time_s; }

// What decides between layouts that are equally good: less memory, then the plainer one.
auto plainness(const Candidate& c) {
  const Layout& l = c.layout;
  return std::tuple(c.devices, l.servers, l.offload_optimizer, l.offload_activations, l.zero, l.recompute, l.pp,
                    l.virtual_stages, l.schedule, l.cp, l.tp, l.ep, l.etp, l.micro_batch, l.sequence_parallel,
                    l.uneven_ends, l.recompute_layers, l.shard_group);
}

std::array<double, 3> values_of(Objective objective, const Candidate& c) {
  switch (objective) {
    case Objective::time:
      return {c.step_time_s, device_seconds(c), c.memory_bytes};
    case Objective::cost:
      return {device_seconds(c), c.step_time_s, c.memory_bytes};
    case Objective::devices:
      return {static_cast<double>(c.devices), c.step_time_s, c.memory_bytes};
    case Objective::memory:
      return {c.memory_bytes, c.step_time_s, device_seconds(c)};
  }
  return {};
}

// Of layouts on the same devices: none is beaten in time and memory at once.
class Front {
 public:
  void add(const Candidate& c) {
    const auto beats = [](const Candidate& a, const Candidate& b) {
      return a.step_time_s <= b.step_time_s && a.memory_bytes <= b.memory_bytes;
    };
    if (std::any_of(members_.begin(), members_.end(), [&](const Candidate& m) { return beats(m, c) && !better(c, m); }))
      return;
    std::erase_if(members_, [&](const Candidate& m) { return beats(c, m); });
    members_.push_back(c);
  }
  const std::vector<Candidate>& members() const { return members_; }

 private:
  // Equal in both, but plainer.
  static bool better(const Candidate& a, const Candidate& b) {
    return a.step_time_s == b.step_time_s && a.memory_bytes == b.memory_bytes && plainness(a) < plainness(b);
  }
  std::vector<Candidate> members_;
};

// What one group found.
struct Found {
  std::vector<Candidate> kept;
  std::optional<Candidate> best;
  Front front;
  std::uint64_t evaluated = 0;
  std::uint64_t feasible = 0;
  std::uint64_t too_slow = 0;
  std::uint64_t better_than_asked = 0;
  bool has_asked = false;
};

// What all groups found together. Groups come in any order; what remains does not depend on it.
class Collector {
 public:
  explicit Collector(const SearchOptions& options) : options_(options) {}

  // The worst that is still kept, once there are enough.
  std::optional<Candidate> worst() {
    const std::lock_guard lock(mutex_);
    return worst_;
  }

  std::optional<Candidate> best_of(int devices) {
    const std::lock_guard lock(mutex_);
    const auto found = of_devices_.find(devices);
    if (found == of_devices_.end()) return std::nullopt;
    return found->second;
  }

  void add(const Found& found, int devices) {
    const std::lock_guard lock(mutex_);
    result_.evaluated += found.evaluated;
    result_.feasible += found.feasible;
    result_.too_slow += found.too_slow;
    better_than_asked_ += found.better_than_asked;
    has_asked_ = has_asked_ || found.has_asked;
    kept_.insert(kept_.end(), found.kept.begin(), found.kept.end());
    if (kept_.size() >= 2 * std::max<std::size_t>(options_.keep, 64)) shorten();
    if (found.best) {
      const auto [place, is_new] = of_devices_.try_emplace(devices, *found.best);
      if (!is_new && is_better(options_.objective, *found.best, place->second)) place->second = *found.best;
    }
    if (options_.pareto) {
      for (const Candidate& c : found.front.members()) fronts_[devices].add(c);
    }
  }

  // No layout of a group that is passed over meets the deadline. Whether they fit, nobody looked.
  void note_too_slow() {
    const std::lock_guard lock(mutex_);
    result_.passed_over_too_slow = true;
  }

  void pass_over() {
    const std::lock_guard lock(mutex_);
    ++result_.groups_passed_over;
  }

  SearchResult result() {
    shorten();
    result_.ranked = std::move(kept_);
    for (const auto& [devices, best] : of_devices_) result_.of_devices.push_back(best);
    // More devices must buy something: a front member stays when no smaller cluster does as well.
    for (const auto& [devices, front] : fronts_) {
      for (const Candidate& c : front.members()) {
        const auto as_good = [&](const Candidate& m) {
          return m.step_time_s <= c.step_time_s && m.memory_bytes <= c.memory_bytes && m.devices < c.devices;
        };
        if (std::none_of(result_.pareto.begin(), result_.pareto.end(), as_good)) result_.pareto.push_back(c);
      }
    }
    std::sort(result_.pareto.begin(), result_.pareto.end(), [](const Candidate& a, const Candidate& b) {
      return std::tuple(a.devices, a.step_time_s) < std::tuple(b.devices, b.step_time_s);
    });
    if (has_asked_) result_.asked_rank = better_than_asked_ + 1;
    return std::move(result_);
  }

 private:
  void shorten() {
    const auto better = [&](const Candidate& a, const Candidate& b) { return is_better(options_.objective, a, b); };
    std::sort(kept_.begin(), kept_.end(), better);
    if (kept_.size() < options_.keep) return;
    kept_.resize(options_.keep);
    if (!kept_.empty()) worst_ = kept_.back();
  }

  const SearchOptions& options_;
  std::mutex mutex_;
  std::vector<Candidate> kept_;
  std::optional<Candidate> worst_;
  std::map<int, Candidate> of_devices_;
  std::map<int, Front> fronts_;
  std::uint64_t better_than_asked_ = 0;
  bool has_asked_ = false;
  SearchResult result_;
};

Layout layout_of(const spec::Job& job, const Group& group) {
  Layout layout = job.layout;
  layout.tp = group.tp;
  layout.cp = group.cp;
  layout.ep = group.ep;
  layout.etp = group.etp;
  layout.micro_batch = group.micro_batch;
  layout.sequence_parallel = group.sequence_parallel;
  layout.dp = 0;
  return layout;
}

// Seconds that no layout of a group can undercut, in two parts: what shrinks as devices are added, and what does not.
struct Bound {
  double device_seconds = 0;  // of the ranks that compute, at an even pace
  double growth = 0;          // by which waiting for the slowest grows with the doublings of nodes
  double devices_per_node = 1;
  double fixed_s = 0;
  double step_s(int devices) const {
    const double nodes = std::max(1.0, devices / devices_per_node);
    return device_seconds / devices * (1 + growth * std::log2(nodes)) + fixed_s;
  }
};

Bound bound_of(const spec::Job& job, const Group& group, int devices) {
  spec::Job plain = job;
  plain.cluster.devices = devices;
  plain.layout = layout_of(job, group);
  plain.layout.pp = 1;
  plain.layout.virtual_stages = 1;
  plain.layout.schedule = spec::Schedule::one_f_one_b;
  plain.layout.zero = 0;
  plain.layout.servers = 0;
  plain.layout.recompute = spec::Recompute::none;
  plain.layout.recompute_layers = 0;
  plain.layout.offload_activations = false;
  plain.layout.uneven_ends = false;
  const PassTimes pass = pass_times(plain, shard_times(plain));
  // The exchange of experts may be hidden by DualPipe; all else only grows with what a layout adds.
  const StageShare whole = stage_shares(plain).front();
  double seconds = 0;
  for (std::size_t k = 0; k < kNumPieces; ++k) {
    const double exchange = pass.pieces[k].forward[Part::expert] + pass.pieces[k].backward[Part::expert];
    seconds += whole.pieces[k] * (pass.sums[k].forward + pass.sums[k].backward - exchange);
  }
  // The slowest of p stages takes at least the p-th part, and there are p times as many micro-batches as on one stage.
  const spec::Physics& p = job.stack.physics;
  const double micro_batches = job.training.global_batch * group.tp * group.cp / group.micro_batch;
  return {p.pace * micro_batches * seconds, std::max(0.0, p.growth),
          static_cast<double>(std::max(1, job.cluster.devices_per_node)), p.step_fixed_s};
}

// Tries the layouts of one group on each number of devices. What they share is kept: times of a pass for each way to
// keep activations, and how layers are dealt out for each number of stages.
class GroupSearch {
 public:
  GroupSearch(const Space& space, const Group& group, const SearchOptions& options, Collector& collector)
      : space_(space), group_(group), options_(options), collector_(collector), job_(*space.job) {
    job_.layout = layout_of(*space.job, group);
    shard_group_ = space.job->layout.shard_group;
    recompute_layers_ = space.job->layout.recompute_layers;
  }

  // With a bound: numbers of devices that cannot bring anything are passed over.
  void run(const std::optional<Bound>& bound) {
    for (const int devices : space_.devices) {
      if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed) != 0) return;
      worst_ = collector_.worst();
      if (bound && is_hopeless(devices, bound->step_s(devices))) {
        collector_.pass_over();
        continue;
      }
      found_ = {};
      run_on(devices);
      collector_.add(found_, devices);
    }
  }

 private:
  // Whether nothing can be kept, nor be the best of its device count.
  bool is_hopeless(int devices, double least_s) {
    if (options_.within_step_s > 0 && least_s > options_.within_step_s) {
      collector_.note_too_slow();
      return true;
    }
    const auto worse = [&](const std::optional<Candidate>& than) {
      if (!than) return false;
      if (options_.objective == Objective::cost) return devices * least_s > device_seconds(*than);
      if (options_.objective == Objective::time) return least_s > than->step_time_s;
      return false;
    };
    return worse(worst_) && worse(collector_.best_of(devices));
  }

  void run_on(int devices) {
    job_.cluster.devices = devices;
    for (const int pp : stage_counts(space_, group_, devices)) {
      job_.layout.pp = pp;
      job_.layout.dp = spec::data_parallel(job_);
      const std::vector<Keeping> ways = keepings(space_, group_, devices, pp);
      for (const Pipelining& pipelining : pipelinings(space_, group_, devices, pp)) run_pipelining(pipelining, ways);
      for (auto& slot : of_stages_) slot.reset();
      for (auto& shares : shares_) shares.clear();
      for (auto& stages : telling_) stages.clear();
    }
  }

  void run_pipelining(const Pipelining& pipelining, const std::vector<Keeping>& ways) {
    job_.layout.schedule = pipelining.schedule;
    job_.layout.virtual_stages = pipelining.virtual_stages;
    job_.layout.uneven_ends = pipelining.uneven_ends;
    for (const Keeping& keeping : ways) try_layout(keeping);
  }

  void set(const Keeping& keeping) {
    Layout& layout = job_.layout;
    layout.zero = keeping.zero;
    layout.servers = keeping.servers;
    layout.offload_optimizer = keeping.offload_optimizer;
    layout.offload_activations = keeping.offload_activations;
    layout.recompute = keeping.recompute;
    const bool groups = shard_group_ > 0 && keeping.zero > 0 && (layout.dp * layout.cp) % shard_group_ == 0;
    layout.shard_group = groups ? shard_group_ : 0;
    const int most = (job_.model.layers + layout.pp - 1) / layout.pp;
    const bool some = keeping.recompute == spec::Recompute::full && recompute_layers_ <= most;
    layout.recompute_layers = some ? recompute_layers_ : 0;
  }

  void try_layout(const Keeping& keeping) {
    set(keeping);
    ++found_.evaluated;
    const MemoryUse use = peak_memory(job_, telling());
    if (!fits(job_, use, options_.memory_margin)) return;
    if (!shard_) shard_ = shard_times(job_);
    Candidate candidate;
    candidate.step_time_s = step_sum(job_, *shard_, pass(), shares()).total_s;
    if (options_.within_step_s > 0 && candidate.step_time_s > options_.within_step_s) {
      ++found_.too_slow;
      return;
    }
    ++found_.feasible;
    candidate.memory_bytes = use.total();
    candidate.devices = job_.cluster.devices;
    candidate.layout = job_.layout;
    note(candidate);
  }

  void note(const Candidate& candidate) {
    if (options_.asked) {
      if (is_better(options_.objective, candidate, *options_.asked)) ++found_.better_than_asked;
      found_.has_asked = found_.has_asked || is_same_layout(candidate, *options_.asked);
    }
    if (options_.pareto) found_.front.add(candidate);
    if (!found_.best || is_better(options_.objective, candidate, *found_.best)) found_.best = candidate;
    if (!worst_ || is_better(options_.objective, candidate, *worst_)) found_.kept.push_back(candidate);
  }

  // Passes depend on the stages only with ZeRO-3, which gathers over the data-parallel ranks, and with partial
  // recomputation.
  const PassTimes& pass() {
    const Layout& l = job_.layout;
    const bool in_pairs = l.schedule == spec::Schedule::dualpipe;
    const std::size_t way =
        static_cast<std::size_t>(l.recompute) * 4 + (l.offload_activations ? 2U : 0U) + (in_pairs ? 1U : 0U);
    const bool of_stages = l.zero == 3 || l.recompute_layers > 0;
    std::optional<PassTimes>& slot = of_stages ? of_stages_[way * 2 + (l.zero == 3 ? 1U : 0U)] : of_group_[way];
    if (!slot) slot = pass_times(job_, *shard_);
    return *slot;
  }

  // How layers are dealt out.
  std::size_t dealing() const {
    const Layout& l = job_.layout;
    return (l.uneven_ends ? 2U : 0U) + (l.schedule == spec::Schedule::dualpipe ? 1U : 0U);
  }

  const StageShares& shares() {
    StageShares& slot = shares_[dealing()];
    if (slot.empty()) slot = stage_shares(job_);
    return slot;
  }

  const std::vector<Stage>& telling() {
    std::vector<Stage>& slot = telling_[dealing()];
    if (slot.empty()) slot = telling_stages(job_);
    return slot;
  }

  const Space& space_;
  const Group& group_;
  const SearchOptions& options_;
  Collector& collector_;
  std::optional<Candidate> worst_;
  spec::Job job_;
  int shard_group_ = 0;
  int recompute_layers_ = 0;
  std::optional<ShardTimes> shard_;
  std::array<std::optional<PassTimes>, 12> of_group_;
  std::array<std::optional<PassTimes>, 24> of_stages_;
  std::array<StageShares, 4> shares_;
  std::array<std::vector<Stage>, 4> telling_;
  Found found_;
};

}  // namespace

bool is_better(Objective objective, const Candidate& a, const Candidate& b) {
  const std::array<double, 3> x = values_of(objective, a);
  const std::array<double, 3> y = values_of(objective, b);
  if (x != y) return x < y;
  return plainness(a) < plainness(b);
}

bool is_same_layout(const Candidate& a, const Candidate& b) { return plainness(a) == plainness(b); }

std::vector<Candidate> pareto_front(const std::vector<Candidate>& candidates, const std::vector<Objective>& values) {
  const auto value = [](Objective of, const Candidate& c) { return values_of(of, c)[0]; };
  const auto beats = [&](const Candidate& a, const Candidate& b) {
    bool better = false;
    for (const Objective of : values) {
      if (value(of, a) > value(of, b)) return false;
      better = better || value(of, a) < value(of, b);
    }
    return better;
  };
  std::vector<Candidate> front;
  for (const Candidate& c : candidates) {
    if (std::none_of(candidates.begin(), candidates.end(), [&](const Candidate& other) { return beats(other, c); }))
      front.push_back(c);
  }
  return front;
}

double least_step_s(const spec::Job& job, const Group& group, int devices) {
  return bound_of(job, group, devices).step_s(devices);
}

SearchResult search(const Space& space, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const bool bounded = options.bounded && !options.pareto && !options.asked && !space.devices.empty();
  // Bounds are those of the fewest devices, on which the groups span the fewest tiers.
  std::vector<std::pair<std::optional<Bound>, std::size_t>> order(space.groups.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i].second = i;
    if (bounded) order[i].first = bound_of(*space.job, space.groups[i], space.devices.front());
  }
  // The promising first, so that the others can be passed over.
  const auto promises_more = [](const auto& a, const auto& b) {
    return a.first->device_seconds < b.first->device_seconds;
  };
  if (bounded) std::stable_sort(order.begin(), order.end(), promises_more);

  Collector collector(options);
  std::atomic<std::size_t> done = 0;
  const auto search_group = [&](std::size_t i) {
    GroupSearch(space, space.groups[order[i].second], options, collector).run(order[i].first);
    if (options.progress) options.progress(done.fetch_add(1) + 1, order.size());
  };
  parallel_for(order.size(), search_group, options.num_threads);

  SearchResult result = collector.result();
  result.stopped = options.stop != nullptr && options.stop->load() != 0;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace twinpod::plan
