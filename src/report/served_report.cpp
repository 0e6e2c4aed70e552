#include "report/served_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "model/arithmetic.hpp"
#include "ps/throughput.hpp"
#include "report/json_parts.hpp"
#include "report/served_parts.hpp"
#include "report/train_report.hpp"

namespace twinpod::report {
namespace {

// Of several hosts, those of this one.
double workers_in(const ps::ServedReport& report) {
  std::set<int> places;
  for (const ps::WorkerStep& step : report.steps) places.insert(step.worker);
  return std::max<double>(1, static_cast<double>(places.size()));
}

double utilisation(const ServedView& view) {
  const double flop = model::training_flop(view.job.model, view.job.training.sequence);
  const double peak = view.peak_flop_per_s * workers_in(view.run.report) * view.choice.group;
  return peak > 0 ? flop * ps::steady_tokens_per_second(view.run.report) / peak : 0;
}

// Median over the steps, the first ones left out: they warm up.
// Of all workers: a batch at the rate of the run.
double served_step_seconds(const ServedView& view) {
  const double rate = ps::steady_tokens_per_second(view.run.report);
  return rate > 0 ? view.job.training.global_batch * view.job.training.sequence / rate : 0;
}

double share_of_run(const ps::ServedReport& report, double seconds) {
  return report.seconds > 0 ? seconds / report.seconds : 0;
}

std::string plural(int count, const char* what) { return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"); }

}  // namespace

std::string choice_text(const ps::Choice& choice) {
  std::string text =
      fmt::format("{}, {}, {}", plural(choice.servers, "server"), plural(choice.workers, "worker"), choice.mode);
  if (choice.copies > 1) text += fmt::format(", {}", counted(choice.copies, "copy", "copies"));
  if (choice.settings.backup_workers > 0)
    text += fmt::format(", {}", plural(choice.settings.backup_workers, "backup worker"));
  if (choice.group > 1) text += fmt::format(", groups of {}", counted(choice.group, "rank"));
  if (choice.local_steps > 1) text += fmt::format(", {} local steps", choice.local_steps);
  if (choice.compress != "none") text += fmt::format(", pushes in {}", choice.compress);
  if (choice.pace_s > 0) text += fmt::format(", a step takes {} at least", format_seconds(choice.pace_s));
  return text;
}

namespace {

// "0: 1,204  1: 88  2: 3"
std::string histogram_text(const std::vector<std::uint64_t>& histogram) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t k = 0; k < std::min(kMost, histogram.size()); ++k) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "  ", k, with_thousands(static_cast<double>(histogram[k])));
  }
  if (histogram.size() <= kMost) return text;
  const std::uint64_t more = std::accumulate(histogram.begin() + kMost, histogram.end(), std::uint64_t{0});
  return text + fmt::format("  more: {}", with_thousands(static_cast<double>(more)));
}

std::string percent_list(const ps::ServedReport& report, const std::vector<double>& seconds) {
  std::string text;
  for (const double one : seconds) {
    text += fmt::format("{}{:.0f} %", text.empty() ? "" : ", ", 100 * share_of_run(report, one));
  }
  return text;
}

void add_updates(const ps::ServedReport& report, Table& table) {
  const auto number = [](std::uint64_t count) { return with_thousands(static_cast<double>(count)); };
  table.row({"updates applied", number(report.updates_applied), "pushes of a shard that are in the values"});
  if (report.updates_dropped > 0)
    table.row({"updates dropped", number(report.updates_dropped), "they came too late, as backup workers' may"});
  table.row({"updates lost", number(report.updates_lost), "acknowledged to a worker and not in the servers' states"});
  if (report.updates_twice > 0)
    table.row({"updates twice", number(report.updates_twice), "in the values more often than pushed"});
  table.row({"deaths", fmt::format("{}", report.deaths),
             fmt::format("{} chains lost their head or tail and went on", report.failovers)});
}

void add_results(const ServedView& view, std::string& text) {
  const ps::ServedReport& report = view.run.report;
  Table table({{""}, {"", Align::right}, {""}}, {.indent = 2});
  const auto per_step = [&](std::uint64_t bytes) {
    const double steps = std::max<double>(1, static_cast<double>(report.steps.size()));
    return fmt::format("{} a step of a worker", format_bytes(static_cast<double>(bytes) / steps));
  };
  table.row({"rate", fmt::format("{:.0f} tokens/s", ps::steady_tokens_per_second(report)),
             "of all workers together, while all are at work"});
  table.row({"step", format_seconds(served_step_seconds(view)),
             view.predicted_step_s > 0
                 ? fmt::format("of all workers; predicted {}", format_seconds(view.predicted_step_s))
                 : "of all workers"});
  table.row({"MFU", fmt::format("{:.1f} %", 100 * utilisation(view)),
             fmt::format("of {:.1f} GFLOP/s a rank, measured here", 1e-9 * view.peak_flop_per_s)});
  table.row({"scale factor", fmt::format("{:.3f}", served_scale_factor(report)),
             "share of the workers' time that is passes"});
  table.row({"staleness", fmt::format("{} at most", report.staleness_max),
             "reads that lacked so many clocks of some worker: " + histogram_text(report.staleness_histogram)});
  table.row({"pushed", format_bytes(static_cast<double>(report.pushed_bytes)), per_step(report.pushed_bytes)});
  table.row({"pulled", format_bytes(static_cast<double>(report.pulled_bytes)), per_step(report.pulled_bytes)});
  table.row({"servers busy", fmt::format("{:.0f} %", 100 * share_of_run(report, mean_of(report.server_busy_s))),
             "of the run: " + percent_list(report, report.server_busy_s)});
  table.row({"queueing", format_seconds(mean_of(report.server_queue_s)),
             "mean time from a message's sending to its handling by a server"});
  table.row({"workers waited", fmt::format("{:.0f} %", 100 * share_of_run(report, mean_of(report.worker_waited_s))),
             "of the run, for values: " + percent_list(report, report.worker_waited_s)});
  add_updates(report, table);
  table.row({"peak memory", format_bytes(view.run.peak_bytes),
             fmt::format("of a worker's rank; predicted {}", format_bytes(view.run.predicted_bytes))});
  table.row({"final loss", fmt::format("{:.4f}", view.run.final_loss),
             view.run.evaluated ? "on text that was held out" : "of the last step"});
  if (view.job.training.target_loss > 0) {
    table.row({"time to target",
               view.run.time_to_target_s > 0 ? format_seconds(view.run.time_to_target_s) : "not reached",
               fmt::format("loss {:.3g}", view.job.training.target_loss)});
  }
  text += table.text();
}

void add_strangers(const ps::Strangers& strangers, Json& json) {
  Json from = Json::array();
  for (const ps::Caller& caller : strangers.callers) {
    if (caller.connections > 0)
      from.push_back({{"address", caller.address.data()}, {"connections", caller.connections}});
  }
  json["strangers"] = {{"connections", strangers.connections},
                       {"from", std::move(from)},
                       {"messages", strangers.messages},
                       {"impostors", strangers.impostors}};
}

}  // namespace

void add_choice(const ps::Choice& choice, Json& json) {
  json["servers"] = choice.servers;
  json["workers"] = choice.workers;
  json["copies"] = choice.copies;
  json["mode"] = choice.mode;
  json["backup_workers"] = choice.settings.backup_workers;
  json["group"] = choice.group;
  json["local_steps"] = choice.local_steps;
  json["compress"] = choice.compress;
  json["pace_s"] = choice.pace_s;
}

void add_protocol(const ps::ServedReport& report, Json& json) {
  json["staleness_max"] = report.staleness_max;
  json["staleness_histogram"] = report.staleness_histogram;
  json["pushed_bytes"] = report.pushed_bytes;
  json["pulled_bytes"] = report.pulled_bytes;
  json["updates_applied"] = report.updates_applied;
  json["updates_lost"] = report.updates_lost;
  json["updates_twice"] = report.updates_twice;
  json["updates_dropped"] = report.updates_dropped;
  json["failovers"] = report.failovers;
  json["deaths"] = report.deaths;
  json["server_busy_s"] = report.server_busy_s;
  json["server_queue_s"] = report.server_queue_s;
  json["worker_waited_s"] = report.worker_waited_s;
}

double served_scale_factor(const ps::ServedReport& report) {
  double computed = 0;
  for (const ps::WorkerStep& step : report.steps) computed += step.computed_s;
  return report.seconds > 0 ? computed / (report.seconds * workers_in(report)) : 0;
}

std::string served_text(const ServedView& view) {
  const spec::Job& job = view.job;
  std::string text = fmt::format("{}: {}\n", job.name, choice_text(view.choice));
  text += fmt::format("{} of {} tokens a step of all workers, {}, {} in {}\n\n",
                      counted(job.training.global_batch, "sequence"), job.training.sequence,
                      name_of(job.training.precision), counted(view.run.steps.size(), "step"),
                      format_seconds(view.run.report.seconds));
  text += losses_text(view.run.steps);
  text += "\n";
  add_results(view, text);
  for (const std::string& note : view.notes) text += "\n" + note + "\n";
  return text;
}

std::string served_json(const ServedView& view) {
  const spec::Job& job = view.job;
  const train::ServedResult& run = view.run;
  Json json;
  json["name"] = job.name;
  add_choice(view.choice, json);
  json["precision"] = name_of(job.training.precision);
  json["steps"] = run.steps.size();
  json["final_loss"] = run.final_loss;
  json["losses"] = run.losses;
  json["evaluations"] = Json::array();
  for (const train::ServedEvaluation& one : run.evaluations) {
    json["evaluations"].push_back({{"seconds", one.seconds}, {"samples", one.samples}, {"loss", one.loss}});
  }
  json["tokens_per_s"] = ps::steady_tokens_per_second(run.report);
  json["mfu"] = utilisation(view);
  json["scale_factor"] = served_scale_factor(run.report);
  json["peak_flop_per_s"] = view.peak_flop_per_s;
  json["step_time_s"] = served_step_seconds(view);
  json["predicted_step_time_s"] = view.predicted_step_s > 0 ? Json(view.predicted_step_s) : Json(nullptr);
  json["peak_memory_bytes"] = run.peak_bytes;
  json["predicted_peak_memory_bytes"] = run.predicted_bytes;
  json["time_to_target_s"] = run.time_to_target_s > 0 ? Json(run.time_to_target_s) : Json(nullptr);
  json["run_time_s"] = run.report.seconds;
  add_protocol(run.report, json);
  add_strangers(run.report.strangers, json);
  json["notes"] = view.notes;
  return printed(json);
}

}  // namespace twinpod::report
