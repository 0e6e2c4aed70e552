#include "report/step_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "plan/metrics.hpp"
#include "report/checkpoint_report.hpp"
#include "report/compare.hpp"
#include "report/json_parts.hpp"
#include "report/tables.hpp"
#include "report/text_parts.hpp"

namespace twinpod::report {
namespace {

using program::Lane;

// Lanes as people call what runs on them.
std::string_view traffic_name(std::size_t lane) {
  constexpr std::array<std::string_view, program::kNumLanes> kNames = {
      "computation", "inside layers", "between stages", "between copies", "host", "to tiers"};
  return kNames[lane];
}

double mfu_of(const StepView& view) { return plan::step_work(view.job).mfu(view.run.step_s, view.job.cluster.devices); }

double peak_memory(const StepView& view) {
  double peak = 0;
  for (const program::MemoryOverTime& memory : view.memory) peak = std::max(peak, memory.peak_bytes);
  return peak;
}

std::string headline(const StepView& view) {
  const double step = view.run.step_s;
  std::string text = job_text(view.job);
  if (!view.placement.empty()) text += fmt::format("  {}\n", view.placement);
  for (const std::string& fault : view.faults) text += fmt::format("  {}\n", fault);
  Table table({{""}, {"", Align::right}, {""}}, {.indent = 2, .gap = 2, .header_rule = false});
  table.row({"step", format_seconds(step), fmt::format("closed form {}", format_seconds(view.closed_form_s))});
  if (view.healthy != nullptr) {
    table.row({"without the fault", format_seconds(view.healthy->step_s),
               fmt::format("{:+.1f} % slower now", 100 * (step / view.healthy->step_s - 1))});
  }
  table.row({"MFU", percent(mfu_of(view)), ""});
  table.row({"memory", format_bytes(peak_memory(view)), "at the peak, fullest rank"});
  return text + "\n" + table.text();
}

std::string slices_text(const StepView& view) {
  if (view.slices.empty()) return "";
  Table table({{"slice"}, {"step", Align::right}, {"longer by", Align::right}}, {2, 2, true});
  for (const SliceStep& one : view.slices) {
    table.row({one.slice, format_seconds(one.step_s), percent(one.step_s / view.slices.front().step_s - 1)});
  }
  return "\n" + table.text();
}

std::string shares_text(const StepView& view) {
  const RankShares& mean = view.metrics.mean;
  Table table({{"where the time goes"}, {"mean of ranks", Align::right}, {"of the step", Align::right}}, {2, 2, true});
  const auto row = [&](const std::string& what, double seconds) {
    if (seconds > 0) table.row({what, format_seconds(seconds), percent(seconds / view.run.step_s)});
  };
  row("computation", mean.compute_s);
  for (std::size_t lane = 1; lane < mean.exposed.size(); ++lane) {
    row(fmt::format("communication {} that shows", traffic_name(lane)), mean.exposed[lane]);
  }
  row("waiting for other ranks (bubble)", mean.bubble_s);
  row("behind the last op", mean.tail_s);
  return "\n" + table.text();
}

std::string path_text(const StepView& view) {
  constexpr std::size_t kShown = 8;
  const std::vector<PathPart> parts = path_parts(view.program, view.run);
  Table table({{"critical path"}, {"ops", Align::right}, {"seconds", Align::right}, {"of the step", Align::right}},
              {2, 2, true});
  double rest = 0;
  int ops = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i < kShown) {
      table.row({parts[i].what, with_thousands(parts[i].ops), format_seconds(parts[i].seconds),
                 percent(parts[i].seconds / view.run.step_s)});
    } else {
      rest += parts[i].seconds;
      ops += parts[i].ops;
    }
  }
  if (ops > 0) table.row({"others", with_thousands(ops), format_seconds(rest), percent(rest / view.run.step_s)});
  return "\n" + table.text();
}

// Links of one tier of cables, one direction.
struct TierUse {
  double links = 0;
  double bytes = 0;
  double share_sum = 0;
  double busiest = 0;
  int busiest_link = -1;
  double full_s = 0;
};

std::vector<TierUse> tier_uses(const StepView& view) {
  std::vector<TierUse> tiers(view.graph->cable_tiers.size());
  for (std::size_t l = 0; l < view.run.link_bytes.size(); ++l) {
    const double bytes = view.run.link_bytes[l];
    if (bytes <= 0) continue;
    const cluster::GraphLink& link = view.graph->links[l];
    TierUse& tier = tiers[static_cast<std::size_t>(link.tier)];
    const double share = bytes / (link.bytes_per_s * view.run.step_s);
    tier.links += 1;
    tier.bytes += bytes;
    tier.share_sum += share;
    if (share > tier.busiest) {
      tier.busiest = share;
      tier.busiest_link = static_cast<int>(l);
    }
  }
  for (const sim::FullLink& link : view.run.full_links) {
    TierUse& tier = tiers[static_cast<std::size_t>(view.graph->links[static_cast<std::size_t>(link.link)].tier)];
    tier.full_s = std::max(tier.full_s, link.full_s);
  }
  return tiers;
}

std::string links_text(const StepView& view) {
  if (view.graph == nullptr) return "";
  Table table({{"links"},
               {"used", Align::right},
               {"moved", Align::right},
               {"busy, mean", Align::right},
               {"busiest", Align::right},
               {""}},
              {2, 2, true});
  const std::vector<TierUse> tiers = tier_uses(view);
  bool any = false;
  for (std::size_t t = 0; t < tiers.size(); ++t) {
    if (tiers[t].links == 0 || tiers[t].busiest_link < 0) continue;
    any = true;
    table.row({view.graph->cable_tiers[t], with_thousands(tiers[t].links), format_bytes(tiers[t].bytes),
               percent(tiers[t].share_sum / tiers[t].links), percent(tiers[t].busiest),
               cluster::link_name(*view.graph, tiers[t].busiest_link)});
  }
  if (!any) return "";
  std::string text = "\n" + table.text();
  if (!view.run.full_links.empty()) {
    const sim::FullLink& hot = view.run.full_links.front();
    text += fmt::format("\n  transfers are in each other's way: {} is full for {}{}\n",
                        cluster::link_name(*view.graph, hot.link), format_seconds(hot.full_s),
                        hot.count > 1 ? fmt::format(", and {} like it", with_thousands(hot.count - 1)) : "");
  }
  return text;
}

// Ranks by what they have to do with a slow one, and how much longer they idle than without it.
struct Waiters {
  std::string who;
  double ranks = 0;
  double more_s = 0;
};

std::vector<Waiters> waiters_of(const StepView& view, int slow) {
  using layout::Group;
  std::vector<Waiters> all = {{"itself", 0, 0},
                              {"its tensor group", 0, 0},
                              {"its pipeline", 0, 0},
                              {"copies of its stage", 0, 0},
                              {"all others", 0, 0}};
  const layout::Mesh& mesh = view.program.mesh;
  const layout::Coordinates at = layout::coordinates(mesh, slow);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const layout::Coordinates c = layout::coordinates(mesh, rank);
    const bool stage = c[3] == at[3];
    const bool copy = c[1] == at[1] && c[2] == at[2];
    std::size_t relation = 4;
    if (rank == slow) {
      relation = 0;
    } else if (stage && copy) {
      relation = 1;
    } else if (copy) {
      relation = 2;
    } else if (stage) {
      relation = 3;
    }
    const auto now = static_cast<std::size_t>(view.run.kind_of_rank[static_cast<std::size_t>(rank)]);
    const auto before = static_cast<std::size_t>(view.healthy->kind_of_rank[static_cast<std::size_t>(rank)]);
    all[relation].ranks += 1;
    all[relation].more_s += view.metrics.ranks[now].idle_s() - view.healthy_metrics->ranks[before].idle_s();
  }
  std::erase_if(all, [](const Waiters& one) { return one.ranks == 0; });
  return all;
}

int slowest_rank(const sim::StepRun& run) {
  const sim::RankKind* slowest = nullptr;
  for (const sim::RankKind& kind : run.kinds) {
    if (kind.slow > 1 && (slowest == nullptr || kind.slow > slowest->slow)) slowest = &kind;
  }
  return slowest == nullptr ? -1 : slowest->rank;
}

std::string waiters_text(const StepView& view) {
  const int slow = slowest_rank(view.run);
  if (slow < 0 || view.healthy == nullptr) return "";
  Table table(
      {{fmt::format("who waits for rank {}", slow)}, {"ranks", Align::right}, {"idle longer, each", Align::right}},
      {2, 2, true});
  for (const Waiters& one : waiters_of(view, slow)) {
    const double more = one.more_s / one.ranks;
    table.row({one.who, with_thousands(one.ranks), more < 0 ? "-" + format_seconds(-more) : format_seconds(more)});
  }
  return "\n" + table.text();
}

std::string checkpoints_text(const StepView& view) {
  if (view.checkpoint != nullptr) return checkpoint_text(*view.checkpoint);
  return view.checkpoint_refusal.empty() ? "" : fmt::format("\n  not simulated: {}\n", view.checkpoint_refusal);
}

nlohmann::ordered_json links_json(const StepView& view) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (view.graph == nullptr) return json;
  const std::vector<TierUse> tiers = tier_uses(view);
  for (std::size_t t = 0; t < tiers.size(); ++t) {
    if (tiers[t].links == 0 || tiers[t].busiest_link < 0) continue;
    json[view.graph->cable_tiers[t]] = {{"links", tiers[t].links},
                                        {"moved_bytes", tiers[t].bytes},
                                        {"mean_busy", tiers[t].share_sum / tiers[t].links},
                                        {"busiest", tiers[t].busiest},
                                        {"busiest_link", cluster::link_name(*view.graph, tiers[t].busiest_link)},
                                        {"full_s", tiers[t].full_s}};
  }
  return json;
}

}  // namespace

std::vector<PathPart> path_parts(const program::Program& program, const sim::StepRun& run) {
  std::vector<std::vector<std::uint32_t>> first;
  for (std::size_t k = 0; k < program.kinds.size(); ++k) first.push_back(sim::first_ops(program, static_cast<int>(k)));
  std::map<std::string, PathPart> parts;
  double at = 0;
  for (const sim::OpRef& ref : sim::critical_path(run)) {
    const sim::RankKind& kind = run.kinds[ref.kind];
    const sim::OpRun& op = kind.ops[ref.op];
    const std::vector<std::uint32_t>& own = first[static_cast<std::size_t>(kind.program_kind)];
    const auto instance = static_cast<int>(std::upper_bound(own.begin(), own.end(), ref.op) - own.begin()) - 1;
    const program::PlacedOp placed = program::placed(
        program, kind.program_kind, instance, static_cast<int>(ref.op - own[static_cast<std::size_t>(instance)]));
    std::string what;
    if (placed.op->kind == program::OpKind::collective) {
      what = fmt::format("{} over {}", collective::name_of(placed.op->verb), layout::name_of(placed.op->group));
    } else if (placed.op->kind == program::OpKind::compute) {
      what = fmt::format("{} {}", name_of(placed.op->phase), name_of(placed.op->segment));
    } else {
      what = name_of(placed.op->kind);
    }
    PathPart& part = parts[what];
    part.what = what;
    part.ops += 1;
    part.seconds += std::max(0.0, op.end_s - std::max(at, op.start_s));
    at = std::max(at, op.end_s);
  }
  std::vector<PathPart> sorted;
  for (auto& [name, part] : parts) {
    if (part.seconds > 0) sorted.push_back(std::move(part));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PathPart& a, const PathPart& b) { return a.seconds > b.seconds; });
  return sorted;
}

std::string step_text(const StepView& view) {
  const auto kinds = static_cast<double>(view.run.kinds.size());
  return headline(view) + slices_text(view) + shares_text(view) + path_text(view) + links_text(view) +
         waiters_text(view) + checkpoints_text(view) +
         fmt::format("\n  {} kind{} of ranks simulated for {} rank{}\n", with_thousands(kinds), kinds == 1 ? "" : "s",
                     with_thousands(view.program.mesh.ranks()), view.program.mesh.ranks() == 1 ? "" : "s");
}

std::string step_json(const StepView& view) {
  const RankShares& mean = view.metrics.mean;
  nlohmann::ordered_json json;
  json["step_time_s"] = view.run.step_s;
  json["closed_form_s"] = view.closed_form_s;
  json["mfu"] = mfu_of(view);
  json["compute_s"] = mean.compute_s;
  json["bubble_s"] = mean.bubble_s;
  json["exposed_communication_s"] = mean.exposed_s();
  json["exposed"] = {{"tensor_s", mean.exposed[static_cast<std::size_t>(Lane::tensor)]},
                     {"pipe_s", mean.exposed[static_cast<std::size_t>(Lane::pipe)]},
                     {"data_s", mean.exposed[static_cast<std::size_t>(Lane::data)]},
                     {"host_s", mean.exposed[static_cast<std::size_t>(Lane::host)]}};
  json["tail_s"] = mean.tail_s;
  json["contention_s"] = view.run.contention_s;
  json["peak_memory_bytes"] = peak_memory(view);
  json["ranks"] = view.program.mesh.ranks();
  json["idle_devices"] = view.job.idle_devices;
  json["simulated_ranks"] = view.run.kinds.size();
  json["events"] = view.run.events;
  json["seconds"] = view.seconds;
  json["faults"] = view.faults;
  json["placement"] = view.placement;
  if (!view.slices.empty()) json["slices"] = nlohmann::ordered_json::array();
  for (const SliceStep& one : view.slices) {
    json["slices"].push_back({{"slice", one.slice}, {"step_time_s", one.step_s}});
  }
  if (view.healthy != nullptr) json["healthy_step_time_s"] = view.healthy->step_s;
  json["critical_path"] = nlohmann::ordered_json::array();
  for (const PathPart& part : path_parts(view.program, view.run)) {
    json["critical_path"].push_back({{"what", part.what}, {"seconds", part.seconds}, {"ops", part.ops}});
  }
  json["links"] = links_json(view);
  json["full_links"] = nlohmann::ordered_json::array();
  for (const sim::FullLink& link : view.run.full_links) {
    json["full_links"].push_back(
        {{"link", cluster::link_name(*view.graph, link.link)}, {"count", link.count}, {"full_s", link.full_s}});
  }
  const int slow = slowest_rank(view.run);
  if (slow >= 0 && view.healthy != nullptr) {
    json["waiters"] = nlohmann::ordered_json::array();
    for (const Waiters& one : waiters_of(view, slow)) {
      json["waiters"].push_back({{"who", one.who}, {"ranks", one.ranks}, {"idle_longer_s", one.more_s / one.ranks}});
    }
  }
  if (view.checkpoint != nullptr) add_checkpoint(*view.checkpoint, json);
  if (!view.checkpoint_refusal.empty()) json["checkpoint_refusal"] = view.checkpoint_refusal;
  return printed(json);
}

std::string timeline_json(const program::Program& program, const program::Timeline& timeline) {
  nlohmann::ordered_json json;
  json["step_s"] = timeline.step_s;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const program::RankTimeline& rank : timeline.ranks) {
    nlohmann::ordered_json one = {{"rank", rank.rank}, {"count", rank.count}, {"stage", rank.kind}};
    nlohmann::ordered_json ops = nlohmann::ordered_json::array();
    std::size_t number = 0;
    program::for_each_op(program, rank.kind, [&](const program::PlacedOp& op) {
      const program::OpSpan& span = rank.ops[number++];
      ops.push_back({{"op", op_text(op)},
                     {"what", op_kind_text(*op.op)},
                     {"lane", name_of(op.op->lane)},
                     {"start_s", span.start_s},
                     {"end_s", span.end_s},
                     {"bytes", op.op->bytes}});
    });
    one["ops"] = std::move(ops);
    json["ranks"].push_back(std::move(one));
  }
  return printed(json, -1);
}

}  // namespace twinpod::report
