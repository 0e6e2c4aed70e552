#include "report/served_simulation_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "ps/throughput.hpp"
#include "report/json_parts.hpp"
#include "report/served_parts.hpp"
#include "report/text_parts.hpp"

namespace twinpod::report {
namespace {

double most_of(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Median, the pull and the push included.
double median_step_seconds(const ps::ServedReport& report) {
  std::vector<double> seconds;
  for (const ps::WorkerStep& step : report.steps) seconds.push_back(step.end_s - step.begin_s);
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

double share(const ps::ServedReport& report, double seconds) {
  return report.seconds > 0 ? seconds / report.seconds : 0;
}

// What is busy longest.
std::string bottleneck(const SimulatedServedView& view) {
  const ps::ServedReport& report = view.run.report;
  const double cpu = share(report, most_of(report.server_busy_s));
  const double in = share(report, most_of(view.run.server_in_s));
  const double out = share(report, most_of(view.run.server_out_s));
  const double most = std::max({cpu, in, out});
  const double waits = ps::waiting_share(report);
  if (waits < 0.1) return "workers compute nearly all the time";
  if (most < 0.6) return "workers wait for each other, more than for servers";
  if (cpu == most) return "servers are the bottleneck: they add and update; more of them help";
  return fmt::format("the servers' network is the bottleneck, {}; more servers or --compress help",
                     in == most ? "on the way in" : "on the way out");
}

}  // namespace

double scale_factor(const SimulatedServedView& view) {
  const double alone = view.alone_tokens_per_s * view.input.choice.workers;
  return alone > 0 ? ps::steady_tokens_per_second(view.run.report) / alone : 0;
}

std::string simulated_served_text(const SimulatedServedView& view) {
  const ps::ServedReport& report = view.run.report;
  const ps::Choice& choice = view.input.choice;
  const auto number = [](std::uint64_t count) { return with_thousands(static_cast<double>(count)); };
  std::string text = fmt::format("{} on {} x {}, {}\n  {}\n\n", view.job.model.name, choice.workers * choice.group,
                                 view.job.cluster.device.name, view.job.cluster.name, choice_text(choice));
  Table table({{""}, {"", Align::right}, {""}}, {.indent = 2});
  table.row({"step", format_seconds(median_step_seconds(report)),
             fmt::format("of a worker, median; its passes take {}", format_seconds(view.input.job.step_s))});
  table.row({"rate", fmt::format("{} tokens/s", format_count(ps::steady_tokens_per_second(report))),
             "of all workers together, while all are at work"});
  table.row({"scale factor", fmt::format("{:.3f}", scale_factor(view)),
             fmt::format("of {} times a worker alone without servers", choice.workers)});
  table.row({"staleness", fmt::format("{} at most", report.staleness_max),
             fmt::format("clocks that a read lacked of some worker; {:.2f} on average", ps::mean_staleness(report))});
  const auto per_step = [&](std::uint64_t bytes) {
    return format_bytes(static_cast<double>(bytes) / std::max<double>(1, static_cast<double>(report.steps.size())));
  };
  table.row({"pushed", format_bytes(static_cast<double>(report.pushed_bytes)),
             per_step(report.pushed_bytes) + " a step of a worker"});
  table.row({"pulled", format_bytes(static_cast<double>(report.pulled_bytes)),
             per_step(report.pulled_bytes) + " a step of a worker"});
  table.row({"servers busy", percent(share(report, mean_of(report.server_busy_s))),
             fmt::format("adding and updating; {} at most", percent(share(report, most_of(report.server_busy_s))))});
  table.row({"their network", percent(share(report, most_of(view.run.server_in_s))),
             fmt::format("busy on the way in, {} out, of the busiest",
                         percent(share(report, most_of(view.run.server_out_s))))});
  table.row(
      {"queueing", format_seconds(mean_of(report.server_queue_s)), "mean time that a message waits for a server"});
  table.row({"workers waited", percent(ps::waiting_share(report)), "of their time, for values"});
  table.row({"updates applied", number(report.updates_applied), "pushes of a shard that are in the values"});
  if (report.updates_dropped > 0)
    table.row({"updates dropped", number(report.updates_dropped), "they came too late, as backup workers' may"});
  table.row({"updates lost", number(report.updates_lost), "acknowledged to a worker and not in the values"});
  if (report.deaths > 0)
    table.row({"deaths", fmt::format("{}", report.deaths),
               fmt::format("{} chains lost their head or tail and went on", report.failovers)});
  text += table.text();
  text += fmt::format("\n  {}\n", bottleneck(view));
  text +=
      fmt::format("\n  {} of each worker, {}, {} of the protocol's own code\n", counted(view.input.job.steps, "step"),
                  counted(view.run.shards, "shard"), counted(view.run.events, "event"));
  return text;
}

std::string simulated_served_json(const SimulatedServedView& view) {
  const ps::ServedReport& report = view.run.report;
  Json json;
  json["name"] = view.job.model.name;
  json["cluster"] = view.job.cluster.name;
  add_choice(view.input.choice, json);
  json["steps"] = view.input.job.steps;
  json["step_time_s"] = median_step_seconds(report);
  json["passes_s"] = view.input.job.step_s;
  json["tokens_per_s"] = ps::steady_tokens_per_second(report);
  json["alone_tokens_per_s"] = view.alone_tokens_per_s;
  json["scale_factor"] = scale_factor(view);
  json["run_time_s"] = report.seconds;
  json["staleness_mean"] = ps::mean_staleness(report);
  add_protocol(report, json);
  json["waiting_share"] = ps::waiting_share(report);
  json["server_busy_share"] = share(report, mean_of(report.server_busy_s));
  json["server_in_share"] = share(report, most_of(view.run.server_in_s));
  json["server_out_share"] = share(report, most_of(view.run.server_out_s));
  json["shards"] = view.run.shards;
  json["events"] = view.run.events;
  json["seconds"] = view.seconds;
  return printed(json);
}

}  // namespace twinpod::report
