// What a search found, for scripts (plan_report.hpp).
#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "plan/fits.hpp"
#include "report/json_parts.hpp"
#include "report/plan_report.hpp"

namespace twinpod::report {
namespace {

using plan::Candidate;

std::string_view name_of(plan::Objective objective) {
  switch (objective) {
    case plan::Objective::time:
      return "time";
    case plan::Objective::cost:
      return "cost";
    case plan::Objective::devices:
      return "devices";
    case plan::Objective::memory:
      return "memory";
  }
  return "";
}

Json candidate_json(const PlanRates& rates, const Candidate& c) {
  const PlanFigures figures = rates.of(c);
  return {{"layout", layout_json(c.layout, c.layout.dp)},
          {"devices", c.devices},
          {"step_time_s", c.step_time_s},
          {"mfu", figures.mfu},
          {"memory_bytes", c.memory_bytes},
          {"tokens_per_s", figures.tokens_per_s},
          {"time_to_train_s", or_null(figures.time_to_train_s)},
          {"cost_usd", or_null(figures.cost_usd)}};
}

Json list_json(const PlanRates& rates, const std::vector<Candidate>& candidates) {
  Json list = Json::array();
  for (const Candidate& c : candidates) list.push_back(candidate_json(rates, c));
  return list;
}

Json bottleneck_json(const PlanView& view) {
  const plan::Bottleneck found = plan::bottleneck(view.job, view.best->step);
  Json costs = Json::object();
  for (const plan::Cost& cost : found.costs) costs[std::string(cost.name)] = cost.seconds;
  return {{"name", or_null(std::string(found.largest.name))},
          {"meaning", or_null(std::string(found.largest.meaning))},
          {"time_s", found.largest.seconds},
          {"share", found.share},
          {"compute_share", found.compute_share},
          {"advice", or_null(found.advice)},
          {"costs_s", std::move(costs)}};
}

Json best_json(const PlanView& view, const PlanRates& rates) {
  if (view.found.ranked.empty()) return nullptr;
  Json json = candidate_json(rates, view.found.ranked.front());
  if (!view.best) return json;
  const plan::Assessment& a = *view.best;
  const bool known = a.range.count > 0;
  json["parts_s"] = parts_json(a.step.parts);
  json["step_time_low_s"] = known ? Json(a.step.total_s * a.range.low) : Json(nullptr);
  json["step_time_high_s"] = known ? Json(a.step.total_s * a.range.high) : Json(nullptr);
  json["range"] = range_json(a.range);
  json["validated"] = a.range.validated();
  json["outside_validation"] = or_null(a.range.outside);
  Json memory = Json::object();
  for (const auto& [name, bytes] : plan::memory_parts(a.memory)) memory[std::string(name)] = bytes;
  json["memory_breakdown_bytes"] = std::move(memory);
  json["memory_capacity_bytes"] = view.job.cluster.device.memory_bytes;
  json["scale_factor"] = a.metrics.scale_factor;
  json["bottleneck"] = bottleneck_json(view);
  json["warnings"] = a.warnings;
  return json;
}

Json ranked_json(const PlanView& view, const PlanRates& rates) {
  Json list = Json::array();
  for (std::size_t i = 0; i < view.found.ranked.size(); ++i) {
    Json row = {{"rank", i + 1}};
    row.update(candidate_json(rates, view.found.ranked[i]));
    list.push_back(std::move(row));
  }
  return list;
}

Json curve_json(const PlanView& view, const PlanRates& rates) {
  Json list = list_json(rates, view.found.of_devices);
  for (std::size_t i = 0; i < list.size(); ++i)
    list[i]["relative_scale_factor"] = relative_scale(view.found, view.found.of_devices[i]);
  return list;
}

Json asked_json(const PlanView& view, const PlanRates& rates) {
  if (!view.asked) return nullptr;
  const std::uint64_t rank = view.found.asked_rank;
  Json json = {{"rank", rank > 0 ? Json(rank) : Json(nullptr)}};
  json.update(candidate_json(rates, *view.asked));
  if (view.best) json["slower_by"] = view.asked->step_time_s / view.best->step.total_s - 1;
  return json;
}

Json change_json(const plan::PartChange& change) {
  if (change.seconds == 0) return nullptr;
  return {{"part", plan::part_name(change.part)}, {"time_s", change.seconds}};
}

Json neighbour_json(const plan::Neighbour& n) {
  const bool fits = n.verdict != plan::Verdict::does_not_fit;
  Json json = {{"change", n.change},
               {"verdict", plan::name_of(n.verdict)},
               {"layout", layout_json(n.layout, n.layout.dp)},
               {"memory_bytes", n.memory_bytes},
               {"step_time_s", fits ? Json(n.step_time_s) : Json(nullptr)},
               {"difference_s", fits ? Json(n.difference_s) : Json(nullptr)},
               {"grew", fits ? change_json(n.parts.grew) : Json(nullptr)},
               {"shrank", fits ? change_json(n.parts.shrank) : Json(nullptr)},
               {"stack_lacks", or_null(n.beyond)}};
  json["shortage"] = nullptr;
  if (!n.shortage) return json;
  json["shortage"] = {{"of_host", n.shortage->of_host},
                      {"needed_bytes", n.shortage->needed_bytes},
                      {"capacity_bytes", n.shortage->capacity_bytes},
                      {"over_bytes", n.shortage->over_bytes()},
                      {"largest", n.shortage->largest},
                      {"largest_bytes", n.shortage->largest_bytes},
                      {"remedy", or_null(n.remedy)},
                      {"remedy_step_time_s", n.remedy.empty() ? Json(nullptr) : Json(n.remedy_step_time_s)}};
  return json;
}

// In `ranked`.
std::size_t rank_of(const plan::SearchResult& found, const Candidate& candidate) {
  const auto at = std::find_if(found.ranked.begin(), found.ranked.end(),
                               [&](const Candidate& one) { return is_same_layout(one, candidate); });
  return static_cast<std::size_t>(at - found.ranked.begin()) + 1;
}

std::string csv_row(std::size_t rank, const Candidate& c, const PlanFigures& figures) {
  const spec::Layout& l = c.layout;
  const auto known = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
  std::string row =
      fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},", rank, c.devices, l.dp, l.tp, l.pp, l.virtual_stages, l.cp,
                  l.ep, spec::expert_tp(l), l.sequence_parallel, l.zero, l.shard_group, l.micro_batch);
  row += fmt::format("{},{},{},{},{},{},{},", spec::name_of(l.recompute), l.recompute_layers, spec::name_of(l.schedule),
                     l.servers, l.offload_optimizer, l.offload_activations, l.uneven_ends);
  return row + fmt::format("{},{},{},{},{},{}\r\n", c.step_time_s, figures.mfu, c.memory_bytes, figures.tokens_per_s,
                           known(figures.time_to_train_s), known(figures.cost_usd));
}

}  // namespace

std::string plan_json(const PlanView& view) {
  const plan::SearchResult& found = view.found;
  const spec::Job& job = view.job;
  const PlanRates rates(view);
  const double rate = found.seconds > 0 ? static_cast<double>(found.evaluated) / found.seconds : 0;
  Json json = {{"job", job.name},
               {"model", job.model.name},
               {"cluster", job.cluster.name},
               {"device", job.cluster.device.name},
               {"stack", job.stack.name},
               {"global_batch", static_cast<std::int64_t>(job.training.global_batch)},
               {"sequence", job.training.sequence},
               {"evaluated", found.evaluated},
               {"feasible", found.feasible},
               {"too_slow", found.too_slow},
               {"groups_passed_over", found.groups_passed_over},
               {"seconds", found.seconds},
               {"layouts_per_s", rate > 0 ? Json(rate) : Json(nullptr)},
               {"stopped", found.stopped},
               {"objective", name_of(view.options.objective)}};
  json["best"] = best_json(view, rates);
  json["ranked"] = ranked_json(view, rates);
  if (!view.finalists.empty()) {
    json["simulated"] = Json::array();
    for (const plan::Finalist& one : view.finalists) {
      Json finalist = {{"rank", rank_of(found, one.candidate)},
                       {"simulated_step_time_s", one.simulated_s},
                       {"full_link", one.full_link},
                       {"full_s", one.full_s}};
      finalist.update(candidate_json(rates, one.candidate));
      json["simulated"].push_back(std::move(finalist));
    }
  }
  json["pareto"] = list_json(rates, found.pareto);
  json["curve"] = curve_json(view, rates);
  json["asked"] = asked_json(view, rates);
  if (view.explain) {
    json["neighbours"] = Json::array();
    for (const plan::Neighbour& n : view.neighbours) json["neighbours"].push_back(neighbour_json(n));
  }
  json["notes"] = view.notes;
  return printed(json);
}

std::string plan_csv(const PlanView& view) {
  std::string text =
      "rank,devices,dp,tp,pp,virtual_stages,cp,ep,etp,sequence_parallel,zero,shard_group,micro_batch,recompute,"
      "recompute_layers,schedule,servers,offload_optimizer,offload_activations,uneven_ends,step_time_s,mfu,memory_"
      "bytes,"
      "tokens_per_s,time_to_train_s,cost_usd\r\n";
  const PlanRates rates(view);
  for (std::size_t i = 0; i < view.found.ranked.size(); ++i)
    text += csv_row(i + 1, view.found.ranked[i], rates.of(view.found.ranked[i]));
  return text;
}

}  // namespace twinpod::report
