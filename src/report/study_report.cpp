#include "report/study_report.hpp"

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

void add_measured(const Study& study, std::string& text) {
  Table table({{"mode"},
               {"tokens/s", Align::right},
               {"simulated", Align::right},
               {"scale factor", Align::right},
               {"waiting", Align::right},
               {"staleness mean", Align::right},
               {"max", Align::right},
               {"pushed + pulled", Align::right},
               {"final loss", Align::right},
               {fmt::format("time to {:.3g}", study.target_loss), Align::right}},
              {.indent = 2});
  for (const StudyMode& one : study.modes) {
    const auto bytes = static_cast<double>(one.report.pushed_bytes + one.report.pulled_bytes);
    const std::string to_target = one.time_to_target_s >= 0 ? format_seconds(one.time_to_target_s) : "not reached";
    table.row({one.mode, fmt::format("{:.0f}", one.tokens_per_s), fmt::format("{:.0f}", one.simulated_tokens_per_s),
               fmt::format("{:.2f}", one.scale_factor), percent(one.waiting_share, 0),
               one.served ? fmt::format("{:.2f}", ps::mean_staleness(one.report)) : "-",
               one.served ? fmt::format("{}", one.report.staleness_max) : "-", one.served ? format_bytes(bytes) : "-",
               fmt::format("{:.3f}", one.final_loss), to_target});
  }
  text += table.text();
}

std::vector<int> sizes_of(const Study& study) {
  std::vector<int> sizes;
  for (const StudyScaling& one : study.scaling) {
    if (std::find(sizes.begin(), sizes.end(), one.workers) == sizes.end()) sizes.push_back(one.workers);
  }
  return sizes;
}

const StudyScaling* scaled(const Study& study, const std::string& mode, int workers) {
  const auto found = std::find_if(study.scaling.begin(), study.scaling.end(),
                                  [&](const StudyScaling& one) { return one.mode == mode && one.workers == workers; });
  return found == study.scaling.end() ? nullptr : &*found;
}

void add_scaling(const Study& study, std::string& text) {
  if (study.scaling.empty()) return;
  std::vector<Column> columns = {{"simulated"}, {"servers", Align::right}};
  for (const StudyMode& one : study.modes) {
    columns.push_back({one.mode, Align::right});
    columns.push_back({"scale", Align::right});
  }
  Table table(columns, {.indent = 2});
  for (const int workers : sizes_of(study)) {
    std::vector<std::string> cells = {counted(workers, "worker"), ""};
    for (const StudyMode& mode : study.modes) {
      const StudyScaling* const one = scaled(study, mode.mode, workers);
      if (one == nullptr) continue;
      cells[1] = fmt::format("{}", one->servers);
      cells.push_back(fmt::format("{}/s", format_count(one->tokens_per_s)));
      cells.push_back(fmt::format("{:.2f}", one->scale_factor));
    }
    table.row(cells);
  }
  text += fmt::format("\n{}\n\n{}", study.scaled_on, table.text());
}

}  // namespace

double seconds_to(const std::vector<StudyPoint>& curve, double loss) {
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (curve[i].loss > loss) continue;
    if (i == 0) return curve[i].seconds;
    const StudyPoint& before = curve[i - 1];
    const double fell = before.loss - curve[i].loss;
    const double part = fell > 0 ? (before.loss - loss) / fell : 1;
    return before.seconds + part * (curve[i].seconds - before.seconds);
  }
  return -1;
}

std::string straggler_words(const Study& study) {
  const Result<ps::Straggler> who = ps::parse_straggler(study.straggler);
  if (!who || who->factor == 1) return "";
  const std::string name = who->worker == ps::kAnyWorker ? "each worker" : fmt::format("worker {}", who->worker);
  const std::string when = who->share < 1 ? fmt::format(" in {:g} % of its steps", 100 * who->share) : "";
  return fmt::format(", {} is {:g} times as slow{}", name, who->factor, when);
}

std::string study_text(const Study& study) {
  const std::string servers = fmt::format("{} server{}", study.servers, study.servers == 1 ? "" : "s");
  std::string text = fmt::format("{}: {}, {}, {} of each", study.name, counted(study.workers, "worker"), servers,
                                 counted(study.steps, "step"));
  if (study.pace_s > 0) text += fmt::format(", a step takes {} at least", format_seconds(study.pace_s));
  text += straggler_words(study);
  text += "\ntrained on this machine, and the same cases simulated\n\n";
  add_measured(study, text);
  text += fmt::format(
      "\n  scale factor: of {} times the {:.0f} tokens/s of a worker alone{}\n", study.workers,
      study.alone_tokens_per_s,
      study.own_target ? fmt::format("; {:.3g} is the loss that all modes came to", study.target_loss) : "");
  if (study.passes_s > 1.15 * study.step_s) {
    text += fmt::format(
        "  These cores could not keep the pace: passes took {} where {} stood alone. A longer --pace compares "
        "better.\n",
        format_seconds(study.passes_s), format_seconds(study.step_s));
  }
  add_scaling(study, text);
  return text;
}

std::string study_json(const Study& study) {
  Json json;
  json["name"] = study.name;
  json["workers"] = study.workers;
  json["servers"] = study.servers;
  json["steps"] = study.steps;
  json["step_time_s"] = study.step_s;
  json["pace_s"] = study.pace_s;
  json["straggler"] = study.straggler;
  json["alone_tokens_per_s"] = study.alone_tokens_per_s;
  json["passes_s"] = study.passes_s;
  json["target_loss"] = study.target_loss;
  json["modes"] = Json::array();
  for (const StudyMode& one : study.modes) {
    Json mode;
    mode["mode"] = one.mode;
    mode["tokens_per_s"] = one.tokens_per_s;
    mode["simulated_tokens_per_s"] = one.simulated_tokens_per_s;
    mode["scale_factor"] = one.scale_factor;
    mode["waiting_share"] = one.waiting_share;
    mode["staleness_mean"] = ps::mean_staleness(one.report);
    mode["run_time_s"] = one.report.seconds;
    mode["final_loss"] = one.final_loss;
    mode["time_to_target_s"] = one.time_to_target_s >= 0 ? Json(one.time_to_target_s) : Json(nullptr);
    mode["evaluations"] = Json::array();
    for (const StudyPoint& point : one.curve) {
      mode["evaluations"].push_back({{"seconds", point.seconds}, {"samples", point.samples}, {"loss", point.loss}});
    }
    add_protocol(one.report, mode);
    json["modes"].push_back(mode);
  }
  json["simulated_on"] = study.scaled_on;
  json["scaling"] = Json::array();
  for (const StudyScaling& one : study.scaling) {
    json["scaling"].push_back({{"mode", one.mode},
                               {"workers", one.workers},
                               {"servers", one.servers},
                               {"tokens_per_s", one.tokens_per_s},
                               {"scale_factor", one.scale_factor}});
  }
  return printed(json);
}

}  // namespace twinpod::report
