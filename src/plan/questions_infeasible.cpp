// Nothing fits: how near the nearest comes, and with what it would fit.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <string_view>

#include "core/thousands.hpp"
#include "core/units.hpp"
#include "plan/fits.hpp"
#include "plan/questions.hpp"
#include "plan/questions_narrow.hpp"
#include "spec/bounds.hpp"
#include "spec/names.hpp"

namespace twinpod::plan {
namespace {

using spec::Job;

constexpr double kAnyMemory = -1e9;  // as a margin: a device may need a billion times what it has

int node_of(const Job& job) { return std::max(1, job.cluster.devices_per_node); }

spec::Abilities abilities_of(const Job& job, const Terms& terms) {
  return terms.abilities ? *terms.abilities : job.stack.abilities;
}

std::string device_name(const Job& job, std::string_view nameless) {
  return job.cluster.device.name.empty() ? std::string(nameless) : job.cluster.device.name;
}

std::string devices_text(const Job& job, int devices) {
  return fmt::format("{} {}", with_thousands(devices), device_name(job, "devices"));
}

// "dp 16 × tp 8 × pp 4", in short.
std::string axes_text(const spec::Layout& layout) {
  std::string text = fmt::format("dp {} × tp {} × pp {}", layout.dp, layout.tp, layout.pp);
  if (layout.cp > 1) text += fmt::format(" × cp {}", layout.cp);
  if (layout.ep > 1) text += fmt::format(", ep {}", layout.ep);
  return text;
}

// What of a layout saves memory beside how it is divided.
std::string savings_text(const spec::Layout& layout) {
  std::string text;
  if (layout.zero > 0) text += fmt::format(", ZeRO {}", layout.zero);
  if (layout.recompute != spec::Recompute::none) text += fmt::format(", {} recompute", spec::name_of(layout.recompute));
  if (layout.offload_optimizer) text += ", optimizer on the host";
  if (layout.offload_activations) text += ", activations on the host";
  return text;
}

std::string found_text(const Answer& answer) {
  return fmt::format("{}{}: {}, {} a step", axes_text(answer.job.layout), savings_text(answer.job.layout),
                     format_bytes(answer.memory_bytes), format_seconds(answer.metrics.step_time_s));
}

// ---- How near ----

// The layout that needs least, whether or not there is so much.
std::optional<Answer> leanest(const Job& job, Terms terms) {
  terms.options.objective = Objective::memory;
  terms.options.memory_margin = kAnyMemory;
  return best_of(job, terms);
}

std::string miss_text(const Job& job, const Terms& terms, const Answer& near) {
  const double capacity = (1 - terms.options.memory_margin) * job.cluster.device.memory_bytes;
  const MemoryUse use = peak_memory(near.job);
  return fmt::format("the leanest ({}{}) needs {}, but {} has {}: {} too much", axes_text(near.job.layout),
                     savings_text(near.job.layout), format_bytes(use.needed()), device_name(job, "a device"),
                     format_bytes(capacity), format_bytes(use.needed() - capacity));
}

std::string host_text(const Job& job, const Answer& near) {
  return fmt::format("the leanest ({}{}) keeps {} on a host that has {}", axes_text(near.job.layout),
                     savings_text(near.job.layout), format_bytes(host_bytes(near.job, peak_memory(near.job))),
                     format_bytes(job.cluster.host_memory_bytes));
}

// ---- With what it would fit ----

// A setting that wishes or the stack may rule out.
struct Setting {
  void (*free)(Wishes&, spec::Abilities&);
  std::string (*text)(const spec::Layout&);
  bool (*is_able)(const spec::Layout&, const spec::Abilities&);  // the stack can do what the layout wants
};

template <typename T>
bool contains(const std::vector<T>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

const std::array<Setting, 4>& settings() {
  using spec::Abilities;
  using spec::Layout;
  static const std::array<Setting, 4> all = {{
      {[](Wishes& w, Abilities& can) { w.recompute.clear(), can.recompute = all_abilities().recompute; },
       [](const Layout& l) { return fmt::format("recompute {}", spec::name_of(l.recompute)); },
       [](const Layout& l, const Abilities& can) { return contains(can.recompute, l.recompute); }},
      {[](Wishes& w, Abilities& can) { w.zero.clear(), can.zero = all_abilities().zero; },
       [](const Layout& l) { return fmt::format("ZeRO {}", l.zero); },
       [](const Layout& l, const Abilities& can) { return contains(can.zero, l.zero); }},
      {[](Wishes& w, Abilities& can) { w.offload_optimizer.clear(), can.offload_optimizer = true; },
       [](const Layout&) { return std::string("the optimizer on the host"); },
       [](const Layout& l, const Abilities& can) { return can.offload_optimizer || !l.offload_optimizer; }},
      {[](Wishes& w, Abilities& can) { w.offload_activations.clear(), can.offload_activations = true; },
       [](const Layout&) { return std::string("activations on the host"); },
       [](const Layout& l, const Abilities& can) { return can.offload_activations || !l.offload_activations; }},
  }};
  return all;
}

// Sets of settings as bits, the small sets first.
std::vector<unsigned> sets_of_settings() {
  std::vector<unsigned> sets(1U << settings().size());
  std::iota(sets.begin(), sets.end(), 0U);
  std::stable_sort(sets.begin(), sets.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) < std::popcount(b); });
  sets.erase(sets.begin());
  return sets;
}

// With what it fits on these devices.
struct Remedy {
  std::string text;
  bool is_beyond_stack = false;
};

Remedy remedy_of(const Job& job, const spec::Abilities& able, unsigned chosen, const Answer& best) {
  Remedy remedy;
  std::string with;
  for (std::size_t i = 0; i < settings().size(); ++i) {
    if ((chosen >> i & 1U) == 0) continue;
    with += (with.empty() ? "" : " and ") + settings()[i].text(best.job.layout);
    remedy.is_beyond_stack = remedy.is_beyond_stack || !settings()[i].is_able(best.job.layout, able);
  }
  const std::string beyond = remedy.is_beyond_stack ? fmt::format(", beyond what stack {} does,", job.stack.name) : "";
  remedy.text = fmt::format("with {}{} it fits on these devices ({})", with, beyond, found_text(best));
  return remedy;
}

// The fewest settings, set free, with which these devices would do; among equally many the first in their order.
std::optional<Remedy> setting_that_fits(const Job& job, const Terms& terms) {
  const spec::Abilities able = abilities_of(job, terms);
  for (const unsigned chosen : sets_of_settings()) {
    Terms freer = terms;
    freer.abilities = able;
    for (std::size_t i = 0; i < settings().size(); ++i) {
      if ((chosen >> i & 1U) != 0) settings()[i].free(freer.wishes, *freer.abilities);
    }
    if (anything_fits(job, freer)) return remedy_of(job, able, chosen, *best_of(job, freer));
  }
  return std::nullopt;
}

// Without any wish.
std::optional<std::string> freedom_that_fits(const Job& job, const Terms& terms) {
  Terms free = terms;
  free.wishes = {};
  const std::optional<Answer> best = best_of(job, free);
  if (!best) return std::nullopt;
  return fmt::format("without what was asked of the layout it fits on these devices ({})", found_text(*best));
}

// Doubled nodes first, for they divide well, then by node between the last that does not do and the first that does.
std::optional<Answer> fewest_devices(const Job& job, const Terms& terms) {
  const Terms least = least_micro_batch(terms);
  const auto best_on = [&](const std::vector<int>& counts) { return best_of_each(job, counts, least); };
  const auto any = [](const Answer&) { return true; };
  const int unit = node_of(job);
  // Within a node every count is worth a try, beyond it only whole nodes are.
  for (int few = job.cluster.devices + 1; few < unit; ++few) {
    Terms found = terms;
    found.wishes.devices = {few};
    if (!best_on({few}).empty()) return best_of(job, found);
  }
  int bad = job.cluster.devices;
  std::int64_t count = unit;
  while (count <= bad) count *= 2;
  for (; count <= spec::kMaxDevices; count *= 2) {
    if (best_on({static_cast<int>(count)}).empty()) {
      bad = static_cast<int>(count);
      continue;
    }
    const std::vector<Answer> fewer = narrowed(static_cast<int>(count), bad, unit, best_on, any);
    Terms found = terms;
    found.wishes.devices = {fewer.empty() ? static_cast<int>(count) : fewer.back().job.cluster.devices};
    return best_of(job, found);
  }
  return std::nullopt;
}

std::string hint_of(const Job& job, const Terms& terms) {
  std::vector<std::string> ways;
  const std::optional<Remedy> setting = setting_that_fits(job, terms);
  if (setting) ways.push_back(setting->text);
  if (!setting || setting->is_beyond_stack) {
    if (std::optional<std::string> freedom = freedom_that_fits(job, terms)) ways.push_back(std::move(*freedom));
  }
  if (const std::optional<Answer> more = fewest_devices(job, terms)) {
    ways.push_back(fmt::format("{}the fewest devices that do: {} ({})", ways.empty() ? "" : "without that, ",
                               with_thousands(more->job.cluster.devices), found_text(*more)));
  }
  if (ways.empty()) return "no number of these devices and no setting is enough";
  return fmt::format("{}", fmt::join(ways, "; "));
}

// ---- No layout at all ----

// Fewer devices that can be shared out, the most of those next below.
std::optional<Answer> most_below(const Job& job, const Terms& terms) {
  std::vector<int> counts;
  const int unit = node_of(job);
  for (int nodes = (job.cluster.devices - 1) / unit; nodes > 0 && counts.size() < kNumbersAtOnce; --nodes)
    counts.push_back(nodes * unit);
  std::vector<Answer> found = best_of_each(job, counts, terms);
  if (found.empty()) return std::nullopt;
  return std::move(found.back());
}

std::string sharing_hint(const Job& job, const Terms& terms) {
  std::vector<std::string> ways;
  Job other = job;
  other.training.global_batch =
      planned_batch(job.training.global_batch * job.training.sequence, job.training.sequence, {job.cluster.devices});
  if (const std::optional<Answer> best = best_of(other, terms)) {
    ways.push_back(fmt::format("with a batch of {} there is one ({})", with_thousands(other.training.global_batch),
                               found_text(*best)));
  }
  if (const std::optional<Answer> fewer = most_below(job, terms)) {
    ways.push_back(fmt::format("{} would do ({})", devices_text(job, fewer->job.cluster.devices), found_text(*fewer)));
  }
  return ways.empty() ? hint_of(job, terms) : fmt::format("{}", fmt::join(ways, "; "));
}

// The largest number of devices asked for: what does not fit there fits on no fewer.
Job on_most_devices(const Job& job, Terms& terms) {
  Job largest = job;
  if (!terms.wishes.devices.empty())
    largest.cluster.devices = *std::max_element(terms.wishes.devices.begin(), terms.wishes.devices.end());
  terms.wishes.devices.clear();
  return largest;
}

}  // namespace

Result<void> why_nothing_fits(const Job& asked, const Terms& asked_terms) {
  Terms terms = asked_terms;
  terms.options.within_step_s = 0;  // too slow is another matter
  if (anything_fits(asked, terms)) return {};
  const Job job = on_most_devices(asked, terms);
  const std::string start = fmt::format("nothing fits on {}", devices_text(job, job.cluster.devices));
  const auto refused = [&](const Answer& near, const std::string& miss) {
    const std::string tried = with_thousands(static_cast<double>(near.evaluated));
    return infeasible(fmt::format("{}: {} layouts tried; {}", start, tried, miss), hint_of(job, terms));
  };
  if (const std::optional<Answer> near = leanest(job, terms)) return refused(*near, miss_text(job, terms, *near));
  Job roomy = job;
  roomy.cluster.host_memory_bytes = 0;
  if (const std::optional<Answer> near = leanest(roomy, terms)) return refused(*near, host_text(job, *near));
  return infeasible(fmt::format("no layout divides {}, a batch of {} sequences, {} heads and {} layers as asked",
                                devices_text(job, job.cluster.devices), with_thousands(job.training.global_batch),
                                job.model.attention.heads, job.model.layers),
                    sharing_hint(job, terms));
}

}  // namespace twinpod::plan
