#include "plan/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>

#include "core/units.hpp"
#include "layout/check.hpp"
#include "plan/estimate.hpp"
#include "program/volume.hpp"
#include "spec/bounds.hpp"
#include "spec/names.hpp"

namespace twinpod::plan {
namespace {

using spec::Job;
using spec::Layout;
using spec::Recompute;

constexpr std::size_t kMaxChanges = 3;       // beyond that a layout is not near any more
constexpr std::size_t kMaxTimed = 24;        // layouts with equally many changes whose step is timed
constexpr std::size_t kMaxValuesOfAxis = 5;  // of one axis that are tried

constexpr int kMaxLeanLayouts = 20'000;  // keeps an absurd job from searching for long

// One change of one knob.
struct Move {
  int knob = 0;
  void (*apply)(Layout&, int) = nullptr;
  int value = 0;
};

void set_recompute(Layout& layout, int value) {
  layout.recompute = static_cast<Recompute>(value);
  layout.recompute_layers = 0;
}
void set_zero(Layout& layout, int value) { layout.zero = value; }
void set_sequence_parallel(Layout& layout, int value) { layout.sequence_parallel = value != 0; }
void set_micro_batch(Layout& layout, int value) { layout.micro_batch = value; }
void set_tp(Layout& layout, int value) { layout.tp = value; }
void set_pp(Layout& layout, int value) { layout.pp = value; }
void set_cp(Layout& layout, int value) { layout.cp = value; }
void set_ep(Layout& layout, int value) { layout.ep = value; }
void set_offload(Layout& layout, int value) { layout.offload_optimizer = value != 0; }

// Divisors of `number` above `from` and up to `most`, the nearest first.
std::vector<int> larger_divisors(std::int64_t number, int from, std::int64_t most) {
  std::vector<int> values;
  for (const std::int64_t d : layout::divisors(std::max<std::int64_t>(1, number))) {
    if (d > from && d <= most && values.size() < kMaxValuesOfAxis) values.push_back(static_cast<int>(d));
  }
  return values;
}

class Moves {
 public:
  // A knob's values in the order in which they are tried.
  void add(void (*apply)(Layout&, int), const std::vector<int>& values) {
    for (const int value : values) list_.push_back({knobs_, apply, value});
    ++knobs_;
  }
  const std::vector<Move>& list() const { return list_; }

 private:
  std::vector<Move> list_;
  int knobs_ = 0;
};

std::vector<int> stronger_recompute(const Layout& layout) {
  if (layout.recompute == Recompute::none)
    return {static_cast<int>(Recompute::selective), static_cast<int>(Recompute::full)};
  if (layout.recompute == Recompute::selective || layout.recompute_layers > 0)
    return {static_cast<int>(Recompute::full)};
  return {};
}

// Everything that can save memory, what costs least time first.
std::vector<Move> saving_moves(const Job& job) {
  const Layout& layout = job.layout;
  Moves moves;
  std::vector<int> stages;
  for (int zero = layout.zero + 1; zero <= 3 && job.cluster.devices > 1; ++zero) stages.push_back(zero);
  moves.add(set_zero, stages);
  if (!layout.sequence_parallel && job.cluster.devices > 1) moves.add(set_sequence_parallel, {1});
  moves.add(set_recompute, stronger_recompute(layout));
  std::vector<int> smaller;
  for (int size = layout.micro_batch / 2; size >= 1; size /= 2) smaller.push_back(size);
  moves.add(set_micro_batch, smaller);
  moves.add(set_pp, larger_divisors(job.model.layers, layout.pp, job.cluster.devices));
  moves.add(set_tp, larger_divisors(job.model.attention.heads, layout.tp, std::max(1, job.cluster.scale_up_domain)));
  if (job.model.experts.count > 0)
    moves.add(set_ep, larger_divisors(job.model.experts.count, layout.ep, job.cluster.devices));
  moves.add(set_cp, larger_divisors(64, layout.cp, job.cluster.devices));
  if (!layout.offload_optimizer && job.cluster.device.host_bytes_per_s > 0) moves.add(set_offload, {1});
  return moves.list();
}

bool is_valid_and_fits(const Job& job) { return layout::check(job).has_value() && !shortage(job); }

// Tries all sets of `count` moves of different knobs, in order, until enough of them fit.
void collect(Job& job, const std::vector<Move>& moves, std::size_t from, std::size_t count, std::vector<Job>& fitting) {
  if (count == 0) {
    if (is_valid_and_fits(job)) fitting.push_back(job);
    return;
  }
  for (std::size_t i = from; i < moves.size() && fitting.size() < kMaxTimed; ++i) {
    const Layout before = job.layout;
    moves[i].apply(job.layout, moves[i].value);
    std::size_t next = i + 1;
    while (next < moves.size() && moves[next].knob == moves[i].knob) ++next;
    collect(job, moves, next, count - 1, fitting);
    job.layout = before;
  }
}

std::vector<std::string> changes_between(const Job& from, const Job& to) {
  std::vector<std::string> changes;
  const Layout& a = from.layout;
  const Layout& b = to.layout;
  const auto number = [&](std::string_view name, int before, int after) {
    if (before != after) changes.push_back(fmt::format("{} {}", name, after));
  };
  number("devices", from.cluster.devices, to.cluster.devices);
  number("tp", a.tp, b.tp);
  number("pp", a.pp, b.pp);
  number("virtual_stages", a.virtual_stages, b.virtual_stages);
  number("cp", a.cp, b.cp);
  number("ep", a.ep, b.ep);
  number("zero", a.zero, b.zero);
  number("micro_batch", a.micro_batch, b.micro_batch);
  if (a.schedule != b.schedule) changes.push_back(fmt::format("schedule {}", spec::name_of(b.schedule)));
  if (a.recompute != b.recompute || a.recompute_layers != b.recompute_layers) {
    changes.push_back(fmt::format("recompute {}", spec::name_of(b.recompute)));
  }
  if (b.tp > 1 && a.sequence_parallel != b.sequence_parallel) {
    changes.push_back(fmt::format("sequence_parallel {}", b.sequence_parallel));
  }
  if (a.offload_optimizer != b.offload_optimizer) changes.emplace_back("offload_optimizer true");
  return changes;
}

Fitting fitting_of(const Job& asked, const Job& found) {
  return {found.layout, found.cluster.devices, changes_between(asked, found), peak_memory(found).total(),
          step_time(found).total_s};
}

std::optional<Fitting> fastest(const Job& asked, const std::vector<Job>& fitting) {
  std::optional<Fitting> best;
  for (const Job& job : fitting) {
    Fitting one = fitting_of(asked, job);
    if (!best || one.step_time_s < best->step_time_s) best = std::move(one);
  }
  return best;
}

// The job with everything that saves memory and needs no more devices.
Job saving_most(const Job& job) {
  Job lean = job;
  lean.layout.dp = 0;
  lean.layout.virtual_stages = 1;
  lean.layout.schedule = spec::Schedule::one_f_one_b;
  lean.layout.micro_batch = 1;
  lean.layout.shard_group = 0;
  set_recompute(lean.layout, static_cast<int>(Recompute::full));
  return lean;
}

// Calls visit(job) for layouts of the leanest kind on any number of devices, until it says stop for one dp.
template <typename Visit>
void for_each_lean_layout(const Job& job, const Visit& visit) {
  Job lean = saving_most(job);
  int left = kMaxLeanLayouts;
  const std::vector<std::int64_t> batches = layout::divisors(static_cast<std::int64_t>(job.training.global_batch));
  for (const std::int64_t tp : layout::divisors(job.model.attention.heads)) {
    if (tp > std::max(1, job.cluster.scale_up_domain)) break;
    lean.layout.tp = static_cast<int>(tp);
    lean.layout.sequence_parallel = tp > 1;
    for (const std::int64_t pp : layout::divisors(job.model.layers)) {
      lean.layout.pp = static_cast<int>(pp);
      for (const int zero : {std::min(1, job.layout.zero), 1, 3}) {
        lean.layout.zero = zero;
        for (const std::int64_t dp : batches) {
          const std::int64_t devices = tp * pp * lean.layout.cp * dp;
          if (devices > spec::kMaxDevices || --left < 0) break;
          lean.cluster.devices = static_cast<int>(devices);
          if (!visit(lean)) break;
        }
      }
    }
  }
}

std::optional<Fitting> leanest_on_as_many(const Job& job) {
  std::vector<Job> fitting;
  for_each_lean_layout(job, [&](const Job& lean) {
    if (lean.cluster.devices == job.cluster.devices && fitting.size() < kMaxTimed && is_valid_and_fits(lean)) {
      fitting.push_back(lean);
    }
    return lean.cluster.devices < job.cluster.devices;
  });
  return fastest(job, fitting);
}

std::pair<std::string_view, double> largest_part(const MemoryUse& use) {
  const MemoryParts parts = memory_parts(use);
  return *std::max_element(parts.begin(), parts.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
}

std::string listed(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

std::string advice(const Job& job) {
  if (const std::optional<Fitting> near = nearest_fitting(job)) {
    return fmt::format("the nearest layout that fits: {} ({}, {} a step)", listed(near->changes),
                       format_bytes(near->memory_bytes), format_seconds(near->step_time_s));
  }
  if (const std::optional<Fitting> small = smallest_fitting(job)) {
    return fmt::format("no layout of {} of these devices fits; the fewest that do: {} ({})", job.cluster.devices,
                       listed(small->changes), format_bytes(small->memory_bytes));
  }
  return "no number of these devices is enough: what one rank must hold of a single layer is already too much";
}

}  // namespace

MemoryParts memory_parts(const MemoryUse& use) {
  return {{{"parameters", use.parameters},
           {"gradients", use.gradients},
           {"optimizer", use.optimizer},
           {"activations", use.activations},
           {"communication", use.communication},
           {"update", use.update},
           {"cache", use.cache},
           {"runtime", use.runtime}}};
}

double host_bytes(const Job& job, const MemoryUse& use) {
  const int devices = std::min(job.cluster.devices, job.cluster.devices_per_node);
  if (job.layout.servers == 0) return (use.elsewhere + use.parked) * devices;
  const program::ServerVolumes volumes = program::server_volumes(job, mean_rank_parameters(job));
  return use.parked * devices + volumes.parameters * state_bytes_of_parameter(job);
}

bool fits(const Job& job, const MemoryUse& use, double margin) {
  if (use.needed() > (1 - margin) * job.cluster.device.memory_bytes) return false;
  if (use.elsewhere <= 0 && use.parked <= 0) return true;
  return job.cluster.host_memory_bytes <= 0 || host_bytes(job, use) <= job.cluster.host_memory_bytes;
}

std::optional<Shortage> shortage(const Job& job) {
  Shortage found;
  found.use = peak_memory(job);
  if (fits(job, found.use)) return std::nullopt;
  found.needed_bytes = found.use.total();
  found.capacity_bytes = job.cluster.device.memory_bytes;
  if (found.needed_bytes <= found.capacity_bytes) {
    found.of_host = true;
    found.needed_bytes = host_bytes(job, found.use);
    found.capacity_bytes = job.cluster.host_memory_bytes;
  }
  std::tie(found.largest, found.largest_bytes) = largest_part(found.use);
  return found;
}

std::optional<Fitting> nearest_fitting(const Job& job) {
  const std::vector<Move> moves = saving_moves(job);
  Job changed = job;
  changed.layout.dp = 0;
  for (std::size_t count = 1; count <= kMaxChanges; ++count) {
    std::vector<Job> fitting;
    collect(changed, moves, 0, count, fitting);
    if (!fitting.empty()) return fastest(job, fitting);
  }
  return leanest_on_as_many(job);
}

std::optional<Fitting> smallest_fitting(const Job& job) {
  std::optional<Job> best;
  for_each_lean_layout(job, [&](const Job& lean) {
    if (best && lean.cluster.devices >= best->cluster.devices) return false;
    if (!is_valid_and_fits(lean)) return true;
    best = lean;
    return false;
  });
  if (!best) return std::nullopt;
  return fitting_of(job, *best);
}

Result<void> check_memory(const Job& job) {
  const std::optional<Shortage> found = shortage(job);
  if (!found) return {};
  if (found->of_host) {
    return infeasible(fmt::format("memory: what a host keeps for its devices needs {}, but it has {}: {} too much",
                                  format_bytes(found->needed_bytes), format_bytes(found->capacity_bytes),
                                  format_bytes(found->over_bytes())),
                      advice(job));
  }
  return infeasible(
      fmt::format("memory: stage {} needs {}, but {} has {}: {} too much; the largest part is {}, {}", found->use.stage,
                  format_bytes(found->needed_bytes), job.cluster.device.name, format_bytes(found->capacity_bytes),
                  format_bytes(found->over_bytes()), found->largest, format_bytes(found->largest_bytes)),
      advice(job));
}

}  // namespace twinpod::plan
