#include "report/plan_check_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {
namespace {

using validate::PlanCheck;
using validate::Sweep;
using validate::SweepRanking;

// "tp 8 × pp 12, micro-batch 2, ZeRO 1, full"
std::string axes_text(const spec::Layout& l) {
  std::string text = fmt::format("tp {} × pp {}", l.tp, l.pp);
  if (l.virtual_stages > 1) text += fmt::format(" × {}", l.virtual_stages);
  if (l.cp > 1) text += fmt::format(" × cp {}", l.cp);
  if (l.ep > 1) text += fmt::format(" × ep {}", l.ep);
  return text + fmt::format(", micro-batch {}, ZeRO {}, {}", l.micro_batch, l.zero, spec::name_of(l.recompute));
}

bool is_as_fast(const PlanCheck& check) {
  return check.best.devices > 0 && check.best.step_time_s <= check.published.step_time_s;
}

std::string runs_text(const std::vector<PlanCheck>& runs) {
  Table table({{"run"},
               {"published layout"},
               {"step", Align::right},
               {"rank", Align::right},
               {"of", Align::right},
               {"best layout"},
               {"step", Align::right},
               {"faster", Align::right}});
  for (const PlanCheck& check : runs) {
    const double share = check.best.devices > 0 ? 1 - check.best.step_time_s / check.published.step_time_s : 0;
    table.row({check.id, axes_text(check.published.layout), format_seconds(check.published.step_time_s),
               check.rank > 0 ? with_thousands(static_cast<double>(check.rank)) : "not listed",
               with_thousands(static_cast<double>(check.feasible)),
               check.best.devices > 0 ? axes_text(check.best.layout) : "nothing fits",
               check.best.devices > 0 ? format_seconds(check.best.step_time_s) : "-",
               fmt::format("{:.1f} %", 100 * share)});
  }
  const auto as_fast = std::count_if(runs.begin(), runs.end(), is_as_fast);
  const auto listed = std::count_if(runs.begin(), runs.end(), [](const PlanCheck& c) { return c.rank > 0; });
  return table.text() + fmt::format(
                            "\n{}: the plan is at least as fast in {}, and lists the published layout in {}\n(all "
                            "times are estimates for the stack of the run; layouts are those that the stack can run)\n",
                            counted(runs.size(), "run"), as_fast, listed);
}

std::string sweeps_text(const std::vector<std::pair<Sweep, SweepRanking>>& sweeps) {
  Table table({{"sweep"},
               {"layouts", Align::right},
               {"rank of its winner", Align::right},
               {"behind our first", Align::right},
               {"lost by taking our first", Align::right}});
  int first = 0;
  int in_three = 0;
  for (const auto& [sweep, ranking] : sweeps) {
    const bool measured = sweep.points[sweep.winner].measured_tokens_per_s > 0;
    table.row({sweep.id, std::to_string(sweep.points.size()), std::to_string(ranking.winner_rank),
               fmt::format("{:.1f} %", 100 * ranking.winner_lag),
               measured ? fmt::format("{:.1f} %", 100 * ranking.regret) : "not measured"});
    first += ranking.winner_rank == 1 ? 1 : 0;
    in_three += ranking.winner_rank <= 3 ? 1 : 0;
  }
  return table.text() + fmt::format("\n{} sweeps: their winner is our first in {}, among our first three in {}\n",
                                    sweeps.size(), first, in_three);
}

Json candidate_json(const plan::Candidate& c) {
  if (c.devices == 0) return nullptr;
  return {{"layout", layout_json(c.layout, c.layout.dp)},
          {"devices", c.devices},
          {"step_time_s", c.step_time_s},
          {"memory_bytes", c.memory_bytes}};
}

}  // namespace

std::string plan_checks_text(const PlanChecks& checks) {
  return runs_text(checks.runs) + "\n" + sweeps_text(checks.sweeps);
}

std::string plan_checks_json(const PlanChecks& checks) {
  Json runs = Json::array();
  for (const PlanCheck& check : checks.runs) {
    runs.push_back({{"id", check.id},
                    {"published", candidate_json(check.published)},
                    {"best", candidate_json(check.best)},
                    {"rank", check.rank > 0 ? Json(check.rank) : Json(nullptr)},
                    {"feasible", check.feasible},
                    {"memory_share", check.memory_share}});
  }
  Json sweeps = Json::array();
  for (const auto& [sweep, ranking] : checks.sweeps) {
    sweeps.push_back({{"id", sweep.id},
                      {"source", sweep.source},
                      {"layouts", sweep.points.size()},
                      {"winner", sweep.points[sweep.winner].run.id},
                      {"winner_rank", ranking.winner_rank},
                      {"winner_lag", ranking.winner_lag},
                      {"regret", ranking.regret}});
  }
  return printed({{"runs", runs}, {"sweeps", sweeps}});
}

}  // namespace twinpod::report
