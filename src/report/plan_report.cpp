#include "report/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include "core/parallel.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "layout/check.hpp"
#include "plan/fits.hpp"
#include "report/tables.hpp"
#include "report/text_parts.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

using plan::Candidate;

constexpr int kPlanBarWidth = 30;
constexpr std::size_t kMostLines = 24;  // of a curve or a Pareto set on a screen

// Four digits, for layouts next to each other in a ranking are often alike in the first three.
int decimals_of(double value) {
  return std::clamp(3 - static_cast<int>(std::floor(std::log10(std::max(1.0, value)))), 0, 3);
}

std::string step_text(double seconds) {
  const bool long_step = seconds >= 1;
  const double value = long_step ? seconds : seconds * 1e3;
  return fmt::format("{:.{}f} {}", value, decimals_of(value), long_step ? "s" : "ms");
}

// Beside a step in seconds, a difference in minutes would be hard to read.
std::string signed_seconds(double seconds) {
  const double size = std::abs(seconds);
  return (seconds < 0 ? "-" : "+") + (size >= 100 ? fmt::format("{:.0f} s", size) : format_seconds(size));
}

std::string memory_text(const spec::Job& job, double bytes) {
  return fmt::format("{} {:>2.0f} %", format_bytes(bytes), 100 * bytes / job.cluster.device.memory_bytes);
}

std::string described(const spec::Job& job, const Candidate& candidate) {
  const std::string servers =
      candidate.layout.servers > 0 ? fmt::format(", {} parameter servers", candidate.layout.servers) : "";
  return layout_text(job_of(job, candidate)) + servers;
}

bool has_curve(const plan::SearchResult& found) { return found.of_devices.size() > 1; }

// ---- What was searched ----

std::string devices_text(const PlanView& view) {
  if (!has_curve(view.found)) return with_thousands(view.job.cluster.devices);
  return fmt::format("{} to {}", with_thousands(view.found.of_devices.front().devices),
                     with_thousands(view.found.of_devices.back().devices));
}

std::string header(const PlanView& view) {
  const spec::Job& job = view.job;
  const spec::Training& t = job.training;
  const std::string cluster = job.cluster.name.empty() ? "" : fmt::format(" of {}", job.cluster.name);
  std::string text =
      fmt::format("{} on {} × {}{}\n", job.model.name, devices_text(view), job.cluster.device.name, cluster);
  text += fmt::format("batch {} × {} tokens = {}, {}, {}, stack {}\n", with_thousands(t.global_batch),
                      with_thousands(t.sequence), format_count(t.global_batch * t.sequence), spec::name_of(t.precision),
                      spec::name_of(t.optimizer), job.stack.name);
  for (const std::string& note : view.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string effort(const PlanView& view) {
  const plan::SearchResult& found = view.found;
  const int threads = view.options.num_threads > 0 ? view.options.num_threads : num_hardware_threads();
  const auto count = [](std::uint64_t number) { return with_thousands(static_cast<double>(number)); };
  std::string text = fmt::format("{} layouts tried, {} fit", count(found.evaluated), count(found.feasible));
  if (view.options.memory_margin > 0)
    text += fmt::format(" with {} of memory free", percent(view.options.memory_margin, 0));
  if (found.too_slow > 0) {
    text += fmt::format(" and take at most {} a step ({} more fit, but take longer)",
                        format_seconds(view.options.within_step_s), count(found.too_slow));
  }
  text += fmt::format(", in {}", format_seconds(found.seconds));
  if (found.seconds > 0) {
    const double rate = static_cast<double>(found.evaluated) / found.seconds / threads;
    text += fmt::format(" ({}/s and core)", format_count(rate));
  }
  text += "\n";
  if (found.groups_passed_over > 0) {
    text += fmt::format("{} groups of layouts passed over: none in them can be among the best\n",
                        count(found.groups_passed_over));
  }
  if (found.stopped) text += "stopped: the best so far\n";
  return text;
}

// ---- The ranking ----

struct RankingColumn {
  Column column;
  std::function<std::string(const Candidate&)> cell;
};
using RankingColumns = std::vector<RankingColumn>;

using Chooser = int spec::Layout::*;

void add_number(RankingColumns& columns, const std::string& name, Chooser number) {
  columns.push_back({{name, Align::right}, [=](const Candidate& c) { return std::to_string(c.layout.*number); }});
}

std::string experts_text(const spec::Layout& l) {
  return l.etp > 0 ? fmt::format("{} (etp {})", l.ep, l.etp) : std::to_string(l.ep);
}

std::string host_text(const spec::Layout& l) {
  if (l.offload_optimizer && l.offload_activations) return "optimizer, activations";
  if (l.offload_optimizer) return "optimizer";
  return l.offload_activations ? "activations" : "";
}

// Axes that no shown layout uses have no column.
void add_layout_columns(const std::vector<Candidate>& shown, RankingColumns& columns) {
  using spec::Layout;
  const auto any = [&](auto is_used) {
    return std::any_of(shown.begin(), shown.end(), [&](const Candidate& c) { return is_used(c.layout); });
  };
  add_number(columns, "dp", &Layout::dp);
  add_number(columns, "tp", &Layout::tp);
  add_number(columns, "pp", &Layout::pp);
  if (any([](const Layout& l) { return l.virtual_stages > 1; })) add_number(columns, "chunks", &Layout::virtual_stages);
  if (any([](const Layout& l) { return l.cp > 1; })) add_number(columns, "cp", &Layout::cp);
  if (any([](const Layout& l) { return l.ep > 1; }))
    columns.push_back({{"ep", Align::right}, [](const Candidate& c) { return experts_text(c.layout); }});
  add_number(columns, "micro-batch", &Layout::micro_batch);
  add_number(columns, "ZeRO", &Layout::zero);
  columns.push_back({{"recompute"}, [](const Candidate& c) { return std::string(spec::name_of(c.layout.recompute)); }});
  if (any([](const Layout& l) { return l.pp > 1; })) {
    columns.push_back({{"schedule"}, [](const Candidate& c) {
                         return c.layout.pp > 1 ? std::string(spec::name_of(c.layout.schedule)) : "";
                       }});
  }
  columns.push_back({{"SP"}, [](const Candidate& c) { return c.layout.sequence_parallel ? "yes" : ""; }});
  if (any([](const Layout& l) { return l.offload_optimizer || l.offload_activations; }))
    columns.push_back({{"on the host"}, [](const Candidate& c) { return host_text(c.layout); }});
  if (any([](const Layout& l) { return l.servers > 0; })) add_number(columns, "servers", &Layout::servers);
}

void add_figure_columns(const PlanView& view, const PlanRates& rates, RankingColumns& columns) {
  const spec::Job& job = view.job;
  columns.push_back({{"step", Align::right}, [](const Candidate& c) { return step_text(c.step_time_s); }});
  columns.push_back({{"MFU", Align::right}, [&](const Candidate& c) { return percent(rates.of(c).mfu); }});
  columns.push_back({{"memory", Align::right}, [&](const Candidate& c) { return memory_text(job, c.memory_bytes); }});
  columns.push_back(
      {{"tokens/s", Align::right}, [&](const Candidate& c) { return format_count(rates.of(c).tokens_per_s); }});
  const PlanFigures first = rates.of(view.found.ranked.front());
  if (first.time_to_train_s)
    columns.push_back(
        {{"time", Align::right}, [&](const Candidate& c) { return format_seconds(*rates.of(c).time_to_train_s); }});
  if (first.cost_usd)
    columns.push_back({{"cost", Align::right}, [&](const Candidate& c) { return usd_text(*rates.of(c).cost_usd); }});
}

std::string ranking(const PlanView& view, const PlanRates& rates) {
  const std::vector<Candidate> shown = first_ranked(view.found, view.all_variants, view.top);
  RankingColumns columns;
  if (has_curve(view.found))
    columns.push_back({{"devices", Align::right}, [](const Candidate& c) { return with_thousands(c.devices); }});
  add_layout_columns(shown, columns);
  add_figure_columns(view, rates, columns);
  std::vector<Column> headers = {{"#", Align::right}};
  for (const RankingColumn& column : columns) headers.push_back(column.column);
  Table table(headers, {.indent = 2});
  for (std::size_t i = 0; i < shown.size(); ++i) {
    std::vector<std::string> cells = {std::to_string(i + 1)};
    for (const RankingColumn& column : columns) cells.push_back(column.cell(shown[i]));
    table.row(std::move(cells));
  }
  return table.text();
}

// ---- The winner ----

std::string range_text(const plan::Assessment& a) {
  if (a.range.count == 0) return "";
  return fmt::format(", between {} and {} in 8 of 10 cases ({})", format_seconds(a.step.total_s * a.range.low),
                     format_seconds(a.step.total_s * a.range.high), a.range.basis);
}

std::string memory_line(const spec::Job& job, const plan::MemoryUse& use) {
  const plan::MemoryParts all = plan::memory_parts(use);
  std::vector<std::pair<std::string_view, double>> parts(all.begin(), all.end());
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  const double capacity = job.cluster.device.memory_bytes;
  return fmt::format("memory {} of {} ({}), most of it {} {} and {} {}\n", format_bytes(use.total()),
                     format_bytes(capacity), percent(use.total() / capacity, 0), parts[0].first,
                     format_bytes(parts[0].second), parts[1].first, format_bytes(parts[1].second));
}

std::string run_line(const plan::Metrics& m) {
  if (!m.time_to_train_s) return "";
  std::string text =
      fmt::format("{} tokens take {}", format_count(m.training_tokens), format_seconds(*m.time_to_train_s));
  if (m.cost_usd) text += fmt::format(" and cost {}", usd_text(*m.cost_usd));
  return text + "\n";
}

std::string cost_table(const plan::StepTime& step, const plan::Bottleneck& found) {
  const bool long_step = step.total_s >= 1;
  const double unit = long_step ? 1 : 1e-3;
  const int decimals = decimals_of(step.total_s / unit);
  std::vector<double> times;
  std::vector<double> percents;
  for (const plan::Cost& cost : found.costs) {
    times.push_back(cost.seconds / unit);
    percents.push_back(100 * cost.seconds / step.total_s);
  }
  const std::vector<double> shown = rounded_to_add_up(times, decimals);
  const std::vector<double> shares = rounded_to_add_up(percents, 1);
  Table table({{"time of a step"}, {long_step ? "s" : "ms", Align::right}, {"%", Align::right}, {""}}, {.indent = 2});
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    table.row({std::string(found.costs[i].name), fmt::format("{:.{}f}", shown[i], decimals),
               fmt::format("{:.1f}", shares[i]), bar(percents[i] / percents.front(), kPlanBarWidth)});
  }
  return table.text();
}

std::string bottleneck_line(const plan::Bottleneck& found) {
  if (found.largest.name.empty()) return "";
  return fmt::format("compute is {} of the step; the most beside it is {}, {}: {}\n{}\n",
                     percent(found.compute_share, 0), found.largest.name, found.largest.meaning,
                     percent(found.share, 0), found.advice);
}

std::string winner(const PlanView& view) {
  const plan::Assessment& a = *view.best;
  const plan::Bottleneck held_by = plan::bottleneck(view.job, a.step);
  std::string text = fmt::format("best: {}\n", described(view.job, view.found.ranked.front()));
  text += fmt::format("step time {}{}\n", format_seconds(a.step.total_s), range_text(a));
  if (!a.range.validated()) text += fmt::format("outside what was validated: {}\n", a.range.outside);
  text += memory_line(view.job, a.memory) + run_line(a.metrics);
  for (const std::string& warning : a.warnings) text += fmt::format("note: {}\n", warning);
  return text + "\n" + cost_table(a.step, held_by) + "\n" + bottleneck_line(held_by);
}

// ---- The user's own layout ----

std::string pace_text(double seconds, double best_s) {
  if (std::abs(seconds - best_s) < 1e-3 * best_s) return "as fast as the best";
  return fmt::format("{:.1f} % {} than the best", 100 * std::abs(seconds / best_s - 1),
                     seconds > best_s ? "slower" : "faster");
}

std::string why_not_ranked(const PlanView& view) {
  const spec::Job job = job_of(view.job, *view.asked);
  if (const Result<void> valid = layout::check(job); !valid) return valid.error().message;
  if (const std::optional<plan::Shortage> lack = plan::shortage(job)) {
    return fmt::format("does not fit: {} of {}, {} too much", format_bytes(lack->needed_bytes),
                       format_bytes(lack->capacity_bytes), format_bytes(lack->over_bytes()));
  }
  const double seconds = plan::step_time(job).total_s;
  const double most = view.options.within_step_s;
  if (most > 0 && seconds > most) {
    return fmt::format("{} a step, but the deadline allows {}", step_text(seconds), step_text(most));
  }
  return fmt::format("{} a step, but not among the layouts searched", step_text(seconds));
}

std::string asked_line(const PlanView& view) {
  const std::string layout = described(view.job, *view.asked);
  if (view.found.asked_rank == 0) return fmt::format("yours: {}: {}\n", layout, why_not_ranked(view));
  std::string text =
      fmt::format("yours: {}: rank {} of {}, all variants counted, {}", layout,
                  with_thousands(static_cast<double>(view.found.asked_rank)),
                  with_thousands(static_cast<double>(view.found.feasible)), step_text(view.asked->step_time_s));
  if (!view.best) return text + "\n";
  const plan::StepTime& best = view.best->step;
  text += ", " + pace_text(view.asked->step_time_s, best.total_s);
  const plan::Parts parts = plan::step_time(job_of(view.job, *view.asked)).parts;
  const plan::PartChange grew = plan::part_changes(best.parts, parts).grew;
  if (view.asked->step_time_s > best.total_s * 1.001)
    text += fmt::format(": {} {}", plan::part_name(grew.part), signed_seconds(grew.seconds));
  return text + "\n";
}

// ---- Its neighbours ----

std::string part_text(const plan::PartChange& change) {
  return fmt::format("{} {}", plan::part_name(change.part), signed_seconds(change.seconds));
}

std::string why_it_does_not_fit(const plan::Neighbour& n) {
  const plan::Shortage& lack = *n.shortage;
  std::string text = fmt::format("{} of {}", format_bytes(lack.needed_bytes), format_bytes(lack.capacity_bytes));
  text += lack.of_host ? " of a host" : fmt::format(", {} of it {}", format_bytes(lack.largest_bytes), lack.largest);
  if (n.remedy.empty()) return text + "; no two changes more are enough";
  return text + fmt::format("; fits with {} ({})", n.remedy, format_seconds(n.remedy_step_time_s));
}

std::string why_it_is_not_best(const PlanView& view, const plan::Neighbour& n) {
  if (n.verdict == plan::Verdict::does_not_fit) return why_it_does_not_fit(n);
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (n.verdict == plan::Verdict::as_fast) {
    const double more = n.memory_bytes - (view.best ? view.best->memory.total() : n.memory_bytes);
    if (std::abs(more) >= 0.5e6)
      add(fmt::format("{} {} memory", format_bytes(std::abs(more)), more > 0 ? "more" : "less"));
    return text;
  }
  const bool is_faster = n.verdict == plan::Verdict::faster;
  for (const plan::PartChange& change :
       {is_faster ? n.parts.shrank : n.parts.grew, is_faster ? n.parts.grew : n.parts.shrank}) {
    if (change.seconds != 0) add(part_text(change));
  }
  if (!is_faster || !n.beyond.empty()) return text;
  // A search looks at all that it may, so what is faster was none of that, or lost for another reason.
  add(view.options.objective == plan::Objective::memory ? fmt::format("takes {}", format_bytes(n.memory_bytes))
      : view.found.stopped                              ? "not reached before the stop"
                                                        : "not among the layouts searched");
  return text;
}

std::string verdict_text(plan::Verdict verdict) {
  std::string text(plan::name_of(verdict));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string neighbour_table(const PlanView& view) {
  Table table({{"changed"}, {"verdict"}, {"step", Align::right}, {"difference", Align::right}, {"why"}}, {.indent = 2});
  for (const plan::Neighbour& n : view.neighbours) {
    const bool fits = n.verdict != plan::Verdict::does_not_fit;
    std::string why = why_it_is_not_best(view, n);
    if (!n.beyond.empty()) why += fmt::format("{}the stack cannot run {}", why.empty() ? "" : "; ", n.beyond);
    table.row({n.change, verdict_text(n.verdict), fits ? step_text(n.step_time_s) : "",
               fits ? signed_seconds(n.difference_s) : "+" + format_bytes(n.shortage->over_bytes()), why});
  }
  return table.text();
}

// ---- Device counts and trade-offs ----

// At most so many, spread evenly, the first and the last among them.
std::vector<Candidate> thinned(const std::vector<Candidate>& all) {
  if (all.size() <= kMostLines) return all;
  std::vector<Candidate> some;
  for (std::size_t i = 0; i < kMostLines; ++i) some.push_back(all[i * (all.size() - 1) / (kMostLines - 1)]);
  return some;
}

std::string left_out(std::size_t shown, std::size_t all) {
  return shown == all ? "" : fmt::format("  {} of {}, evenly spread; JSON has all\n", shown, all);
}

std::string curve_table(const PlanView& view, const PlanRates& rates) {
  const std::vector<Candidate> shown = thinned(view.found.of_devices);
  const PlanFigures first = rates.of(shown.front());
  std::vector<Column> columns = {{"devices", Align::right}, {"step", Align::right}, {"MFU", Align::right}};
  if (first.time_to_train_s) columns.push_back({"time", Align::right});
  if (first.cost_usd) columns.push_back({"cost", Align::right});
  columns.push_back({"scale factor", Align::right});
  columns.push_back({fmt::format("throughput of a device, {}: 1", counted(shown.front().devices, "device"))});
  Table table(columns, {.indent = 2});
  for (const Candidate& c : shown) {
    const PlanFigures figures = rates.of(c);
    const double scale = relative_scale(view.found, c);
    std::vector<std::string> cells = {with_thousands(c.devices), step_text(c.step_time_s), percent(figures.mfu)};
    if (figures.time_to_train_s) cells.push_back(format_seconds(*figures.time_to_train_s));
    if (figures.cost_usd) cells.push_back(usd_text(*figures.cost_usd));
    cells.push_back(fmt::format("{:.3f}", scale));
    cells.push_back(bar(scale, kPlanBarWidth));
    table.row(std::move(cells));
  }
  return table.text() + left_out(shown.size(), view.found.of_devices.size());
}

std::string pareto_table(const PlanView& view) {
  const std::vector<Candidate> shown = thinned(view.found.pareto);
  Table table({{""}, {"devices", Align::right}, {"step", Align::right}, {"memory", Align::right}, {"layout"}},
              {.indent = 2});
  for (const Candidate& c : shown) {
    const bool is_best = !view.found.ranked.empty() && is_same_layout(c, view.found.ranked.front());
    table.row({is_best ? "*" : "", with_thousands(c.devices), step_text(c.step_time_s),
               memory_text(view.job, c.memory_bytes), described(view.job, c)});
  }
  return table.text() + left_out(shown.size(), view.found.pareto.size());
}

std::string_view objective_text(plan::Objective objective) {
  switch (objective) {
    case plan::Objective::time:
      return "shortest step first";
    case plan::Objective::cost:
      return "least device time first";
    case plan::Objective::devices:
      return "fewest devices first";
    case plan::Objective::memory:
      return "least memory first";
  }
  return "";
}

}  // namespace

std::vector<Candidate> first_ranked(const plan::SearchResult& found, bool all_variants, std::size_t number) {
  std::vector<Candidate> first;
  std::set<std::tuple<int, int, int, int, int, int>> shapes;
  for (const Candidate& c : found.ranked) {
    if (first.size() >= number) break;
    const spec::Layout& l = c.layout;
    const bool is_new = shapes.insert({c.devices, l.tp, l.pp, l.cp, l.ep, l.micro_batch}).second;
    if (is_new || all_variants) first.push_back(c);
  }
  return first;
}

spec::Job job_of(const spec::Job& job, const Candidate& candidate) {
  spec::Job other = job;
  other.layout = candidate.layout;
  other.cluster.devices = candidate.devices;
  return other;
}

PlanRates::PlanRates(const PlanView& view)
    : work_(plan::step_work(view.job)),
      tokens_(view.best ? view.best->metrics.training_tokens : view.job.training.tokens),
      usd_per_device_hour_(plan::usd_per_device_hour(view.job.cluster)) {}

PlanFigures PlanRates::of(const Candidate& c) const {
  PlanFigures figures;
  figures.tokens_per_s = work_.tokens_per_s(c.step_time_s);
  figures.mfu = work_.mfu(c.step_time_s, c.devices);
  if (tokens_ <= 0) return figures;
  figures.time_to_train_s = tokens_ / figures.tokens_per_s;
  if (usd_per_device_hour_ > 0) figures.cost_usd = c.devices * *figures.time_to_train_s / 3600 * usd_per_device_hour_;
  return figures;
}

double relative_scale(const plan::SearchResult& found, const Candidate& c) {
  const Candidate& first = found.of_devices.front();
  return first.devices * first.step_time_s / (c.devices * c.step_time_s);
}

namespace {

// What the closed form says beside what happens op by op, where links are shared.
std::string finalists_table(const PlanView& view) {
  Table table({{"#", Align::right},
               {"closed form", Align::right},
               {"simulated", Align::right},
               {"transfers in each other's way"},
               {"layout"}},
              {.indent = 2});
  for (const plan::Finalist& one : view.finalists) {
    table.row({std::to_string(one.rank), format_seconds(one.candidate.step_time_s), format_seconds(one.simulated_s),
               one.full_link.empty() ? "none" : fmt::format("{}, {}", one.full_link, format_seconds(one.full_s)),
               layout_text(job_of(view.job, one.candidate))});
  }
  return table.text();
}

}  // namespace

std::string plan_text(const PlanView& view) {
  std::string text = header(view) + effort(view);
  if (view.found.ranked.empty()) {
    text += "no layout is left\n";
    return view.asked ? text + asked_line(view) : text;
  }
  const PlanRates rates(view);
  text += fmt::format("\n{}{}\n\n", objective_text(view.options.objective),
                      view.all_variants ? "" : ", of each shape the best variant");
  text += ranking(view, rates);
  if (view.asked) text += "\n" + asked_line(view);
  if (view.best) text += "\n" + winner(view);
  if (!view.finalists.empty())
    text += "\nthe first of them, simulated op by op, fastest first:\n\n" + finalists_table(view);
  if (view.explain && !view.neighbours.empty()) text += "\nwhy not another:\n\n" + neighbour_table(view);
  if (has_curve(view.found)) text += "\nthe best of each device count:\n\n" + curve_table(view, rates);
  if (!view.found.pareto.empty())
    text += "\nwhat no other layout beats in all that was asked for:\n\n" + pareto_table(view);
  return text;
}

}  // namespace twinpod::report
