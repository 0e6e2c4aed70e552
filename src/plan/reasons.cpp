#include "plan/reasons.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <tuple>

#include "layout/check.hpp"
#include "plan/search.hpp"
#include "plan/space.hpp"
#include "spec/names.hpp"

namespace twinpod::plan {
namespace {

using spec::Job;
using spec::Layout;
using spec::Recompute;
using spec::Schedule;

constexpr double kAlike = 1e-3;  // steps that differ by less take as long as each other

// What a change turns. A remedy may turn everything else.
constexpr unsigned kTensor = 1U << 0U;
constexpr unsigned kStages = 1U << 1U;
constexpr unsigned kChunks = 1U << 2U;
constexpr unsigned kContext = 1U << 3U;
constexpr unsigned kExperts = 1U << 4U;
constexpr unsigned kExpertTensor = 1U << 5U;
constexpr unsigned kMicroBatch = 1U << 6U;
constexpr unsigned kHome = 1U << 7U;  // of the optimizer state: ZeRO, host, servers
constexpr unsigned kRecompute = 1U << 8U;
constexpr unsigned kSequence = 1U << 9U;
constexpr unsigned kParking = 1U << 10U;

struct Change {
  unsigned knobs = 0;
  std::string setting;     // "tp 8"
  std::string instead_of;  // "4"; empty: the setting says it
  std::string with;        // what had to follow: "3 chunks"
  Layout layout;
  std::string text() const {
    return setting + (instead_of.empty() ? "" : " instead of " + instead_of) + (with.empty() ? "" : ", " + with);
  }
};

Job with_layout(const Job& job, const Layout& layout) {
  Job other = job;
  other.layout = layout;
  other.layout.dp = 0;
  return other;
}

void set_chunks(Layout& layout, int chunks) {
  layout.virtual_stages = chunks;
  if (chunks > 1) layout.schedule = Schedule::interleaved;
  if (chunks == 1 && layout.schedule == Schedule::interleaved) layout.schedule = Schedule::one_f_one_b;
}

// Layers of a stage, embedding and head counted when the ends hold one less; 0: they do not divide.
int layers_of_stage(const Job& job, const Layout& layout) {
  const int layers = job.model.layers + (layout.uneven_ends ? 2 : 0);
  return layers % layout.pp == 0 ? layers / layout.pp : 0;
}

// Chunks that a stage can be cut into, the nearest to `wish` first.
std::vector<int> chunk_counts(const Job& job, const Layout& layout, int wish) {
  std::vector<int> counts;
  for (const std::int64_t d : layout::divisors(layers_of_stage(job, layout))) counts.push_back(static_cast<int>(d));
  if (counts.empty()) counts.push_back(1);
  std::stable_sort(counts.begin(), counts.end(), [&](int a, int b) { return std::abs(a - wish) < std::abs(b - wish); });
  return counts;
}

// The changes of a job's layout that are valid, each once.
class Changes {
 public:
  explicit Changes(const Job& job) : job_(job), known_{canonical(job)} {}

  const Job& job() const { return job_; }
  const Layout& own() const { return job_.layout; }

  // False when there is no such layout, or it is there already.
  bool add(Change change) {
    if (!is_valid(change.layout) && !repair(change)) return false;
    change.layout = canonical(with_layout(job_, change.layout));
    const auto same = [&](const Layout& known) { return is_same_layout({known}, {change.layout}); };
    if (std::any_of(known_.begin(), known_.end(), same)) return false;
    known_.push_back(change.layout);
    list_.push_back(std::move(change));
    return true;
  }

  std::vector<Change> take() { return std::move(list_); }

 private:
  bool is_valid(const Layout& layout) const { return layout::check(with_layout(job_, layout)).has_value(); }

  // Only where the layout's own chunks are in the way, not where they are what is changed.
  bool repair(Change& change) const {
    Layout& layout = change.layout;
    const int own = layout.virtual_stages;
    if (own == 1 || (change.knobs & kChunks) != 0) return false;
    for (const int chunks : chunk_counts(job_, layout, own)) {
      set_chunks(layout, chunks);
      if (!is_valid(layout)) continue;
      change.with = chunks == 1 ? "1f1b" : fmt::format("{} chunks", chunks);
      return true;
    }
    return false;
  }

  const Job& job_;
  std::vector<Layout> known_;
  std::vector<Change> list_;
};

using Apply = std::function<void(Layout&, int)>;

// One step down and one up: the nearest values on both sides that give a layout. REQUIRES: values rise.
void add_steps(Changes& changes, unsigned knobs, std::string_view unit, int own,
               const std::vector<std::int64_t>& values, const Apply& apply) {
  const auto try_value = [&](std::int64_t value) {
    Change change{knobs, fmt::format(fmt::runtime(unit), value), std::to_string(own), "", changes.own()};
    apply(change.layout, static_cast<int>(value));
    return changes.add(std::move(change));
  };
  const auto above = std::upper_bound(values.begin(), values.end(), own);
  for (auto at = std::lower_bound(values.begin(), values.end(), own); at != values.begin();) {
    if (try_value(*--at)) break;
  }
  for (auto at = above; at != values.end() && !try_value(*at); ++at) {
  }
}

// Stages bring their own shape: where the ends must hold less, and no chunks on a single stage.
void set_stages(const spec::Model& model, Layout& layout, int pp) {
  layout.pp = pp;
  layout.uneven_ends = model.layers % pp != 0 && (model.layers + 2) % pp == 0;
  if (pp == 1) {
    layout.virtual_stages = 1;
    layout.schedule = Schedule::one_f_one_b;
  }
}

void add_exchange(Changes& changes, int tp) {
  const Layout& own = changes.own();
  if ((own.tp * own.pp) % tp != 0) return;
  const int pp = own.tp * own.pp / tp;
  Change change{kTensor | kStages, fmt::format("tp {} × pp {}", tp, pp), fmt::format("{} × {}", own.tp, own.pp), "",
                own};
  change.layout.tp = tp;
  set_stages(changes.job().model, change.layout, pp);
  changes.add(std::move(change));
}

// Of a stage that is interleaved or could be; down to one chunk is another schedule.
void add_chunks(Changes& changes) {
  const Layout& own = changes.own();
  if (own.schedule != Schedule::interleaved && own.schedule != Schedule::one_f_one_b) return;
  std::vector<std::int64_t> counts = layout::divisors(layers_of_stage(changes.job(), own));
  std::erase(counts, 1);
  add_steps(changes, kChunks, "{} chunks", own.virtual_stages, counts, set_chunks);
}

void add_axes(Changes& changes) {
  const Job& job = changes.job();
  const Layout& own = job.layout;
  const auto divisors = [](double number) { return layout::divisors(static_cast<std::int64_t>(number)); };
  add_steps(changes, kTensor, "tp {}", own.tp, divisors(job.model.attention.heads), [](Layout& l, int v) { l.tp = v; });
  add_steps(changes, kStages, "pp {}", own.pp, divisors(job.cluster.devices),
            [&](Layout& l, int v) { set_stages(job.model, l, v); });
  for (const int tp : {own.tp / 2, own.tp * 2}) {
    if (tp >= 1) add_exchange(changes, tp);
  }
  add_chunks(changes);
  add_steps(changes, kContext, "cp {}", own.cp, divisors(job.training.sequence), [](Layout& l, int v) { l.cp = v; });
  if (job.model.experts.count > 0) {
    add_steps(changes, kExperts, "ep {}", own.ep, divisors(job.model.experts.count),
              [](Layout& l, int v) { l.ep = v; });
    const std::vector<std::int64_t> splits = {1, own.tp};
    add_steps(changes, kExpertTensor, "etp {}", spec::expert_tp(own), splits, [](Layout& l, int v) { l.etp = v; });
  }
  add_steps(changes, kMicroBatch, "micro-batch {}", own.micro_batch, divisors(job.training.global_batch),
            [](Layout& l, int v) { l.micro_batch = v; });
}

void add_home(Changes& changes) {
  const Job& job = changes.job();
  const Layout& own = job.layout;
  for (const int zero : {own.zero - 1, own.zero + 1}) {
    Change change{kHome, fmt::format("ZeRO {}", zero), std::to_string(own.zero), "", own};
    change.layout.zero = zero;
    if (zero == 0) change.layout.shard_group = 0;
    changes.add(std::move(change));
  }
  if (own.offload_optimizer || job.cluster.device.host_bytes_per_s > 0) {
    Change change{kHome, own.offload_optimizer ? "optimizer on the device" : "optimizer on the host", "", "", own};
    change.layout.offload_optimizer = !own.offload_optimizer;
    changes.add(std::move(change));
  }
  const int of_node = std::max(1, job.cluster.devices_per_node);
  const int nodes = (job.cluster.devices + of_node - 1) / of_node;
  Change change{kHome, "all-reduce", fmt::format("{} parameter servers", own.servers), "", own};
  change.layout.servers = 0;
  if (own.servers == 0) {
    change.setting = fmt::format("{} parameter servers", nodes);
    change.instead_of = "all-reduce";
    change.layout.servers = nodes;
    change.layout.zero = change.layout.shard_group = 0;
    change.layout.offload_optimizer = false;
  }
  changes.add(std::move(change));
}

void add_activations(Changes& changes) {
  const Job& job = changes.job();
  const Layout& own = job.layout;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    Change change{kRecompute, fmt::format("recompute {}", spec::name_of(recompute)),
                  std::string(spec::name_of(own.recompute)), "", own};
    change.layout.recompute = recompute;
    change.layout.recompute_layers = 0;
    if (recompute == own.recompute) change.instead_of = fmt::format("{} layers of a stage", own.recompute_layers);
    changes.add(std::move(change));
  }
  Change split{kSequence, own.sequence_parallel ? "no sequence parallelism" : "sequence parallelism", "", "", own};
  split.layout.sequence_parallel = !own.sequence_parallel;
  changes.add(std::move(split));
  if (!own.offload_activations && job.cluster.device.host_bytes_per_s <= 0) return;
  Change park{kParking, own.offload_activations ? "activations on the device" : "activations on the host", "", "", own};
  park.layout.offload_activations = !own.offload_activations;
  changes.add(std::move(park));
}

void add_schedules(Changes& changes) {
  const Job& job = changes.job();
  const Layout& own = job.layout;
  const auto change_to = [&](Schedule schedule, int chunks) {
    Change change{kChunks, fmt::format("schedule {}", spec::name_of(schedule)),
                  std::string(spec::name_of(own.schedule)), chunks > 1 ? fmt::format("{} chunks", chunks) : "", own};
    change.layout.virtual_stages = chunks;
    change.layout.schedule = schedule;
    return changes.add(std::move(change));
  };
  for (const auto& [name, schedule] : spec::kScheduleNames) {
    if (schedule != Schedule::interleaved) change_to(schedule, 1);
  }
  if (own.schedule == Schedule::interleaved || own.schedule == Schedule::one_f_one_b) return;  // add_chunks has it
  for (const int chunks : chunk_counts(job, own, 2)) {
    if (chunks > 1 && change_to(Schedule::interleaved, chunks)) break;
  }
}

// In the order in which they are told.
std::vector<Change> changes_of(const Job& job) {
  Changes changes(job);
  add_axes(changes);
  add_home(changes);
  add_activations(changes);
  add_schedules(changes);
  return changes.take();
}

// What of a job's layout the stack cannot run.
std::vector<std::string> lacking(const Job& job) {
  const spec::Abilities& able = job.stack.abilities;
  const Layout& l = job.layout;
  std::vector<std::string> list;
  const auto need = [&](bool can, bool used, const std::string& what) {
    if (used && !can) list.push_back(what);
  };
  const auto has = [](const auto& values, auto value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  need(able.tensor_parallel, l.tp > 1, "tensor parallelism");
  need(able.pipeline_parallel, l.pp > 1, "pipeline parallelism");
  need(able.context_parallel, l.cp > 1, "context parallelism");
  need(able.expert_parallel, l.ep > 1, "expert parallelism");
  need(able.sequence_parallel, l.sequence_parallel && l.tp > 1, "sequence parallelism");
  need(has(able.schedules, l.schedule), l.pp > 1, fmt::format("schedule {}", spec::name_of(l.schedule)));
  need(has(able.recompute, l.recompute), true, fmt::format("recompute {}", spec::name_of(l.recompute)));
  // Servers keep all state, so no stage of ZeRO is asked for.
  need(has(able.zero, l.zero), l.servers == 0, fmt::format("ZeRO {}", l.zero));
  need(able.uneven_stages, layers_of_stage(job, l) == 0, "stages of different size");
  need(able.offload_optimizer, l.offload_optimizer, "an optimizer on the host");
  need(able.offload_activations, l.offload_activations, "activations on the host");
  need(able.parameter_server, l.servers > 0, "parameter servers");
  return list;
}

// What it cannot run of this job, but could of the other.
std::string newly_lacking(const Job& from, const Job& to) {
  const std::vector<std::string> before = lacking(from);
  std::string text;
  for (const std::string& what : lacking(to)) {
    if (std::find(before.begin(), before.end(), what) == before.end()) text += (text.empty() ? "" : ", ") + what;
  }
  return text;
}

Shortage shortage_of(const Job& job, const MemoryUse& use, double margin) {
  if (std::optional<Shortage> found = shortage(job)) return *found;
  Shortage found;  // it fits, but not with the margin
  found.use = use;
  found.needed_bytes = use.needed();
  found.capacity_bytes = (1 - margin) * job.cluster.device.memory_bytes;
  for (const auto& [name, bytes] : memory_parts(use)) {
    if (bytes > found.largest_bytes) std::tie(found.largest, found.largest_bytes) = std::tuple(name, bytes);
  }
  return found;
}

struct Remedy {
  std::string text;
  double step_time_s = 0;
};

void keep_fastest(const Job& job, const std::string& text, double margin, std::optional<Remedy>& best) {
  if (!fits(job, peak_memory(job), margin)) return;
  const double seconds = step_time(job).total_s;
  if (!best || seconds < best->step_time_s) best = Remedy{text, seconds};
}

// One or two changes of other knobs with which the job would fit, the fastest of them; nothing that the stack cannot
// do.
std::optional<Remedy> remedy_of(const Job& job, unsigned turned, double margin) {
  std::optional<Remedy> best;
  const auto allowed = [&](const Change& change, unsigned knobs) {
    return (change.knobs & knobs) == 0 && newly_lacking(job, with_layout(job, change.layout)).empty();
  };
  std::vector<Change> singles = changes_of(job);
  std::erase_if(singles, [&](const Change& change) { return !allowed(change, turned); });
  for (const Change& change : singles) keep_fastest(with_layout(job, change.layout), change.setting, margin, best);
  if (best) return best;
  for (const Change& first : singles) {
    const Job changed = with_layout(job, first.layout);
    for (const Change& second : changes_of(changed)) {
      if (!allowed(second, turned | first.knobs)) continue;
      keep_fastest(with_layout(job, second.layout), first.setting + ", " + second.setting, margin, best);
    }
  }
  return best;
}

Verdict verdict_of(double difference_s, double best_s) {
  if (std::abs(difference_s) < kAlike * best_s) return Verdict::as_fast;
  return difference_s > 0 ? Verdict::slower : Verdict::faster;
}

Neighbour judged(const Job& best, const StepTime& best_step, const Change& change, double margin) {
  const Job job = with_layout(best, change.layout);
  const MemoryUse use = peak_memory(job);
  Neighbour one;
  one.change = change.text();
  one.layout = change.layout;
  one.beyond = newly_lacking(best, job);
  one.memory_bytes = use.total();
  if (!fits(job, use, margin)) {
    one.verdict = Verdict::does_not_fit;
    one.shortage = shortage_of(job, use, margin);
    if (const std::optional<Remedy> remedy = remedy_of(job, change.knobs, margin)) {
      one.remedy = remedy->text;
      one.remedy_step_time_s = remedy->step_time_s;
    }
    return one;
  }
  const StepTime step = step_time(job);
  one.step_time_s = step.total_s;
  one.difference_s = step.total_s - best_step.total_s;
  one.verdict = verdict_of(one.difference_s, best_step.total_s);
  one.parts = part_changes(best_step.parts, step.parts);
  return one;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"does_not_fit", "slower", "as_fast", "faster"};
  return kNames[static_cast<std::size_t>(verdict)];
}

PartChanges part_changes(const Parts& from, const Parts& to) {
  PartChanges changes;
  for (int i = 0; i < kNumParts; ++i) {
    const auto part = static_cast<Part>(i);
    const double seconds = to[part] - from[part];
    if (seconds > changes.grew.seconds) changes.grew = {part, seconds};
    if (seconds < changes.shrank.seconds) changes.shrank = {part, seconds};
  }
  return changes;
}

std::vector<Neighbour> neighbours(const Job& best, double margin) {
  const StepTime step = step_time(best);
  std::vector<Neighbour> list;
  for (const Change& change : changes_of(best)) list.push_back(judged(best, step, change, margin));
  return list;
}

}  // namespace twinpod::plan
