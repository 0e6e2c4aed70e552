#include "report/checkpoint_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/text_parts.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

// What training pays for one checkpoint, and of the whole run.
std::string costs_text(const sim::CheckpointRun& run) {
  Table table({{fmt::format("checkpoint every {} step{}", with_thousands(run.every), run.every == 1 ? "" : "s")},
               {"seconds", Align::right},
               {"of the run", Align::right},
               {""}},
              {2, 2, true});
  const double lost = run.stall_s + run.wait_s + run.slowed_s;
  const double all = run.every * run.step_s + lost;
  const auto row = [&](const std::string& what, double seconds, const std::string& note) {
    table.row({what, format_seconds(seconds), percent(seconds / all, 2), note});
  };
  row("stall for the snapshot", run.stall_s,
      fmt::format("{}, {} on the fullest rank", format_bytes(run.bytes), format_bytes(run.rank_bytes)));
  if (run.wait_s > 0) row("waiting for the drain before", run.wait_s, "mean of all checkpoints");
  if (run.slowed_s > 0) {
    row("steps that are slower beside the drain", run.slowed_s,
        fmt::format("the slowest by {}", percent(run.slowest_step_s / run.step_s - 1, 2)));
  }
  row("all of it", lost, "");
  return "\n" + table.text();
}

std::string tiers_text(const sim::CheckpointRun& run) {
  Table table({{"tier"},
               {"every", Align::right},
               {"takes", Align::right},
               {"rate", Align::right},
               {"bears at the peak", Align::right},
               {"on average", Align::right}},
              {2, 2, true});
  for (const sim::TierRun& tier : run.tiers) {
    table.row({std::string(spec::name_of(tier.kind)), counted(static_cast<double>(tier.every) * run.every, "step"),
               format_seconds(tier.seconds), format_bytes_per_s(tier.bytes_per_s),
               format_bytes_per_s(tier.peak_bytes_per_s), format_bytes_per_s(tier.mean_bytes_per_s)});
  }
  return "\n" + table.text();
}

std::string advice(const sim::CheckpointRun& run) {
  if (run.tiers.size() < 2) return "";
  const double steps = run.drain_s / run.step_s;
  std::string text = fmt::format("\n  the drain goes on for {}, {:.3g} steps", format_seconds(run.drain_s), steps);
  if (run.wait_s > 0) {
    text += fmt::format(": longer than from one checkpoint to the next, so each waits\n  none waits from {} on\n",
                        counted(run.shortest_every, "step"));
  } else {
    text += fmt::format("; no checkpoint waits for the one before from {} step{} on\n",
                        with_thousands(run.shortest_every), run.shortest_every == 1 ? "" : "s");
  }
  if (run.drawn_share < 1) {
    text += fmt::format("  simulated with {} of its bytes beside {}, and multiplied\n", percent(run.drawn_share, 2),
                        counted(run.steps.num_steps - 1, "step"));
  }
  return text;
}

}  // namespace

std::string checkpoint_text(const sim::CheckpointRun& run) { return costs_text(run) + tiers_text(run) + advice(run); }

void add_checkpoint(const sim::CheckpointRun& run, nlohmann::ordered_json& json) {
  json["checkpoint_every"] = run.every;
  json["checkpoint_bytes"] = run.bytes;
  json["checkpoint_rank_bytes"] = run.rank_bytes;
  json["checkpoint_stall_s"] = run.stall_s;
  json["checkpoint_wait_s"] = run.wait_s;
  json["checkpoint_slowed_s"] = run.slowed_s;
  json["checkpoint_slowest_step_s"] = run.slowest_step_s;
  json["checkpoint_stall_share"] = run.stall_share;
  json["checkpoint_drain_s"] = run.drain_s;
  json["checkpoint_shortest_every"] = run.shortest_every;
  json["checkpoint_drawn_share"] = run.drawn_share;
  json["checkpoint_tiers"] = nlohmann::ordered_json::array();
  for (const sim::TierRun& tier : run.tiers) {
    json["checkpoint_tiers"].push_back({{"tier", spec::name_of(tier.kind)},
                                        {"every", tier.every},
                                        {"bytes", tier.bytes},
                                        {"drain_s", tier.seconds},
                                        {"bytes_per_s", tier.bytes_per_s},
                                        {"peak_bytes_per_s", tier.peak_bytes_per_s},
                                        {"mean_bytes_per_s", tier.mean_bytes_per_s}});
  }
}

}  // namespace twinpod::report
