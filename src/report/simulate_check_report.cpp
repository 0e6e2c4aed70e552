#include "report/simulate_check_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "report/text_parts.hpp"

namespace twinpod::report {
namespace {

using validate::SimulatedRun;
using validate::Statistics;

struct Summary {
  Statistics simulated;
  Statistics closed_form;
  Statistics difference;
  int apart = 0;  // by more than 3 % where no link is full
};

constexpr double kApart = 0.03;

Summary summary_of(const std::vector<SimulatedRun>& runs) {
  std::vector<double> simulated;
  std::vector<double> closed_form;
  std::vector<double> difference;
  Summary summary;
  for (const SimulatedRun& run : runs) {
    simulated.push_back(run.error());
    closed_form.push_back(run.closed_form_error());
    difference.push_back(run.difference_alone());
    if (std::abs(run.difference_alone()) > kApart) ++summary.apart;
  }
  summary.simulated = validate::statistics(simulated);
  summary.closed_form = validate::statistics(closed_form);
  summary.difference = validate::statistics(difference);
  return summary;
}

// All in their order, or the worst first.
std::vector<SimulatedRun> shown_runs(const SimulateChecks& checks) {
  std::vector<SimulatedRun> runs = checks.runs;
  if (checks.worst < 0) return runs;
  std::stable_sort(runs.begin(), runs.end(), [](const SimulatedRun& a, const SimulatedRun& b) {
    return std::abs(a.error()) > std::abs(b.error());
  });
  runs.resize(std::min(runs.size(), static_cast<std::size_t>(checks.worst)));
  return runs;
}

std::string left_out_text(const SimulateChecks& checks) {
  std::string text;
  for (const auto& [id, reason] : checks.left_out) text += fmt::format("not simulated: {}: {}\n", id, reason);
  return text;
}

}  // namespace

std::string simulate_check_text(const SimulateChecks& checks) {
  Table table({{"run"},
               {"ranks", Align::right},
               {"kinds", Align::right},
               {"measured", Align::right},
               {"closed form", Align::right},
               {"simulated", Align::right},
               {"error", Align::right},
               {"alone", Align::right},
               {"in the way"}});
  for (const SimulatedRun& run : shown_runs(checks)) {
    table.row({run.id, with_thousands(run.ranks), with_thousands(run.kinds), format_seconds(run.measured_s),
               format_seconds(run.closed_form_s), format_seconds(run.simulated_s), signed_percent(run.error()),
               signed_percent(run.difference_alone()),
               run.full_link.empty() ? "" : fmt::format("{}, {}", run.full_link, format_seconds(run.full_s))});
  }
  const Summary summary = summary_of(checks.runs);
  return table.text() +
         fmt::format(
             "\n{}: median error {:.1f} % simulated, {:.1f} % by the closed form; 90 % below {:.1f} % and {:.1f} "
             "%\nwith nothing in the way, simulation and closed form differ by {:.2f} % in the median; {} run{} differ "
             "by more than 3 %\n",
             counted(checks.runs.size(), "run"), 100 * summary.simulated.median, 100 * summary.closed_form.median,
             100 * summary.simulated.p90, 100 * summary.closed_form.p90, 100 * summary.difference.median, summary.apart,
             summary.apart == 1 ? "" : "s") +
         left_out_text(checks);
}

std::string simulate_check_json(const SimulateChecks& checks) {
  const Summary summary = summary_of(checks.runs);
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  for (const SimulatedRun& run : shown_runs(checks)) {
    json["rows"].push_back({{"id", run.id},
                            {"ranks", run.ranks},
                            {"simulated_ranks", run.kinds},
                            {"measured_s", run.measured_s},
                            {"closed_form_s", run.closed_form_s},
                            {"simulated_s", run.simulated_s},
                            {"alone_s", run.alone_s},
                            {"error", run.error()},
                            {"closed_form_error", run.closed_form_error()},
                            {"full_link", run.full_link},
                            {"full_s", run.full_s}});
  }
  json["median_error"] = summary.simulated.median;
  json["p90_error"] = summary.simulated.p90;
  json["closed_form_median_error"] = summary.closed_form.median;
  json["closed_form_p90_error"] = summary.closed_form.p90;
  json["median_difference"] = summary.difference.median;
  json["apart"] = summary.apart;
  json["not_simulated"] = nlohmann::ordered_json::array();
  for (const auto& [id, reason] : checks.left_out) json["not_simulated"].push_back({{"id", id}, {"reason", reason}});
  return printed(json);
}

}  // namespace twinpod::report
