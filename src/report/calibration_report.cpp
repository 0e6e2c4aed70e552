#include "report/calibration_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/quote.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "report/text_parts.hpp"
#include "validate/validation.hpp"

namespace twinpod::report {
namespace {

using Json = nlohmann::ordered_json;
using validate::CalibratedNumber;
using validate::CalibratedRun;
using validate::Calibration;
using validate::MemoryReading;
using validate::Standing;

constexpr double kFarOff = 0.1;  // an error after calibration that calls for a look at the job

// Never -0.0.
std::string error_in_percent(double share) {
  return std::fabs(share) < 0.0005 ? "0.0" : fmt::format("{:+.1f}", 100 * share);
}

std::vector<double> errors(const Calibration& c, double CalibratedRun::*predicted_s) {
  std::vector<double> list;
  for (const CalibratedRun& run : c.runs) list.push_back(std::fabs(run.error(run.*predicted_s)));
  return list;
}

double median_error(const Calibration& c, double CalibratedRun::*predicted_s) {
  return validate::statistics(errors(c, predicted_s)).median;
}

double worst_error(const Calibration& c, double CalibratedRun::*predicted_s) {
  const std::vector<double> list = errors(c, predicted_s);
  return *std::max_element(list.begin(), list.end());
}

std::string runs_text(const Calibration& c) {
  std::vector<Column> columns = {{"log"},
                                 {"steps", Align::right},
                                 {"measured", Align::right},
                                 {"before", Align::right},
                                 {"error, %", Align::right},
                                 {"after", Align::right},
                                 {"error, %", Align::right}};
  if (c.has_unseen()) columns.push_back({"unseen, %", Align::right});
  Table table(columns);
  for (const CalibratedRun& run : c.runs) {
    std::vector<std::string> cells = {run.log,
                                      fmt::format("{}", run.measured.used),
                                      format_seconds(run.measured.seconds),
                                      format_seconds(run.before_s),
                                      error_in_percent(run.error(run.before_s)),
                                      format_seconds(run.after_s),
                                      error_in_percent(run.error(run.after_s))};
    if (c.has_unseen()) cells.push_back(error_in_percent(run.error(run.unseen_s)));
    table.row(std::move(cells));
  }
  return table.text();
}

std::string summary_text(const Calibration& c) {
  std::string text = fmt::format("median error of the step time: {} % before, {} % after",
                                 in_percent(median_error(c, &CalibratedRun::before_s)),
                                 in_percent(median_error(c, &CalibratedRun::after_s)));
  if (!c.has_unseen()) return text + "\n";
  return text +
         fmt::format("\na job left out and predicted from the others: {} %, at worst {} %; expect that of a new job\n",
                     in_percent(median_error(c, &CalibratedRun::unseen_s)),
                     in_percent(worst_error(c, &CalibratedRun::unseen_s)));
}

std::string numbers_text(const Calibration& c) {
  Table table({{"number"}, {"before", Align::right}, {"after", Align::right}, {"meaning"}});
  for (const CalibratedNumber& number : c.numbers) {
    if (number.standing != Standing::fitted) continue;
    table.row({std::string(number.field->name), fmt::format("{:.4g}", number.before),
               fmt::format("{:.4g}", number.after), std::string(number.field->meaning)});
  }
  return table.text();
}

std::string left_alone_text(const Calibration& c, Standing standing, std::string_view why) {
  std::string names;
  for (const CalibratedNumber& number : c.numbers) {
    if (number.standing == standing) names += fmt::format("{}{}", names.empty() ? "" : ", ", number.field->name);
  }
  return names.empty() ? "" : fmt::format("as before, because {}: {}\n", why, names);
}

std::string memory_text(const Calibration& c) {
  if (c.memory.readings.empty()) return "";
  Table table({{"memory of a device"},
               {"counter"},
               {"stage", Align::right},
               {"measured", Align::right},
               {"before", Align::right},
               {"error, %", Align::right},
               {"after", Align::right},
               {"error, %", Align::right}});
  for (const MemoryReading& one : c.memory.readings) {
    table.row({one.log, std::string(name_of(one.counter)), fmt::format("{}", one.stage),
               format_bytes(one.measured_bytes), format_bytes(one.before_bytes),
               error_in_percent(one.error(one.before_bytes)), format_bytes(one.after_bytes),
               error_in_percent(one.error(one.after_bytes))});
  }
  std::string text = "\n" + table.text();
  if (c.memory.fits_reserve) {
    text +=
        fmt::format("memory.reserve: {:.4g} before, {:.4g} after\n", c.memory.before.reserve, c.memory.after.reserve);
  }
  if (c.memory.fits_runtime) {
    text += fmt::format("memory.runtime_bytes: {} before, {} after\n", format_bytes(c.memory.before.runtime_bytes),
                        format_bytes(c.memory.after.runtime_bytes));
  }
  return text;
}

std::vector<std::string> advice(const Calibration& c) {
  std::vector<std::string> list;
  if (c.jobs < 3) {
    list.emplace_back(
        "logs of three jobs or more, unlike in size, micro-batch or parallel axes, free more numbers than pace, and "
        "show "
        "the error on a job that has not been run");
  }
  for (const CalibratedNumber& number : c.numbers) {
    if (number.standing != Standing::fitted || !number.at_bound()) continue;
    list.push_back(fmt::format("{} is at the bound of what is plausible: do the job files describe these runs?",
                               number.field->name));
  }
  for (const CalibratedRun& run : c.runs) {
    if (std::fabs(run.error(run.after_s)) > kFarOff) {
      list.push_back(fmt::format("{} is still {} % off: does {} describe that run?", run.log,
                                 error_in_percent(run.error(run.after_s)), run.job_file));
    }
    if (run.measured.dropped == 0) list.push_back(run.log + " has a single step, and it holds the warm-up");
  }
  for (const MemoryReading& one : c.memory.readings) {
    if (one.counter == validate::Counter::used && one.measured_bytes < one.after_bytes * (1 - kFarOff)) {
      list.push_back(one.log +
                     " has less memory than the job's tensors take: if the framework counted it, write "
                     "\"memory_counter\": \"allocated\" or \"reserved\" on its lines");
    }
  }
  return list;
}

std::string output_text(const CalibrationOutput& output) {
  if (output.path.empty()) return "\nthe fitted stack (-o FILE writes it):\n\n" + output.stack;
  return fmt::format("\nwrote {0}: `twinpod estimate JOB --stack {0}` uses it\n", shell_quoted(output.path));
}

Json run_json(const Calibration& c, const CalibratedRun& run) {
  return {{"log", run.log},
          {"job", run.job_file},
          {"steps", run.measured.used},
          {"dropped_steps", run.measured.dropped},
          {"spread", run.measured.spread},
          {"measured_s", run.measured.seconds},
          {"before_s", run.before_s},
          {"before_error", run.error(run.before_s)},
          {"after_s", run.after_s},
          {"after_error", run.error(run.after_s)},
          {"unseen_s", c.has_unseen() ? Json(run.unseen_s) : Json(nullptr)},
          {"unseen_error", c.has_unseen() ? Json(run.error(run.unseen_s)) : Json(nullptr)}};
}

std::string_view name_of_standing(Standing standing) {
  switch (standing) {
    case Standing::fitted:
      return "fitted";
    case Standing::not_told:
      return "not_told";
    case Standing::not_needed:
      return "not_needed";
    case Standing::too_few_jobs:
      return "too_few_jobs";
  }
  return "";
}

Json numbers_json(const Calibration& c) {
  Json list = Json::array();
  for (const CalibratedNumber& number : c.numbers) {
    list.push_back({{"name", number.field->name},
                    {"standing", name_of_standing(number.standing)},
                    {"before", number.before},
                    {"after", number.after}});
  }
  return list;
}

Json memory_json(const Calibration& c) {
  Json readings = Json::array();
  for (const MemoryReading& one : c.memory.readings) {
    readings.push_back({{"log", one.log},
                        {"counter", name_of(one.counter)},
                        {"stage", one.stage},
                        {"measured_bytes", one.measured_bytes},
                        {"before_bytes", one.before_bytes},
                        {"before_error", one.error(one.before_bytes)},
                        {"after_bytes", one.after_bytes},
                        {"after_error", one.error(one.after_bytes)}});
  }
  return {{"reserve", c.memory.fits_reserve ? Json(c.memory.after.reserve) : Json(nullptr)},
          {"runtime_bytes", c.memory.fits_runtime ? Json(c.memory.after.runtime_bytes) : Json(nullptr)},
          {"readings", std::move(readings)}};
}

Json parameters_json(const Calibration& c) {
  Json parameters = Json::object();
  for (const CalibratedNumber& number : c.numbers) {
    if (number.standing == Standing::fitted) parameters[std::string(number.field->name)] = number.after;
  }
  return parameters;
}

}  // namespace

std::string calibration_text(const Calibration& c, const CalibrationOutput& output) {
  std::string text = fmt::format("{} of {}, from {} on {}\n\n", counted(c.runs.size(), "log"),
                                 counted(static_cast<std::size_t>(c.jobs), "job"), c.base, c.device);
  text += runs_text(c) + summary_text(c) + "\n" + numbers_text(c);
  text += left_alone_text(c, Standing::not_told, "these jobs cannot tell them apart from the numbers above");
  text += left_alone_text(c, Standing::not_needed, "they explain nothing more");
  text += left_alone_text(c, Standing::too_few_jobs, "it takes one more job that differs to free them");
  text += memory_text(c);
  const std::vector<std::string> lines = advice(c);
  if (!lines.empty()) text += "\n";
  for (const std::string& line : lines) text += fmt::format("note: {}\n", line);
  return text + output_text(output);
}

std::string calibration_json(const Calibration& c, const CalibrationOutput& output) {
  Json json = {{"base", c.base}, {"device", c.device}, {"jobs", c.jobs}};
  json["median_error_before"] = median_error(c, &CalibratedRun::before_s);
  json["median_error_after"] = median_error(c, &CalibratedRun::after_s);
  json["median_error_unseen"] = c.has_unseen() ? Json(median_error(c, &CalibratedRun::unseen_s)) : Json(nullptr);
  json["worst_error_unseen"] = c.has_unseen() ? Json(worst_error(c, &CalibratedRun::unseen_s)) : Json(nullptr);
  json["parameters"] = parameters_json(c);
  json["numbers"] = numbers_json(c);
  json["logs"] = Json::array();
  for (const CalibratedRun& run : c.runs) json["logs"].push_back(run_json(c, run));
  json["memory"] = memory_json(c);
  json["notes"] = advice(c);
  json["stack"] = output.stack;
  json["wrote"] = output.path.empty() ? Json(nullptr) : Json(output.path);
  return printed(json);
}

}  // namespace twinpod::report
