#include "report/validation_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "report/text_parts.hpp"

namespace twinpod::report {
namespace {

using Json = nlohmann::ordered_json;
using validate::Case;
using validate::MemoryCase;
using validate::Statistics;

using Wanted = std::function<bool(const Case&)>;

struct Group {
  std::string name;
  Wanted wanted;
};

std::string signed_in_percent(double share) { return fmt::format("{:+.1f}", 100 * share); }

bool starts_with(const std::string& text, std::string_view start) { return text.rfind(start, 0) == 0; }

const std::string& stack_name(const Case& one) { return one.made.job.stack.name; }
const std::string& device_name(const Case& one) { return one.made.job.cluster.device.family; }

// One group for each value of a property, in the order of the values.
void add_groups_by(const Validation& v, const std::string& what, const std::string& (*property)(const Case&),
                   std::vector<Group>& groups) {
  std::set<std::string> values;
  for (const Case& one : v.cases) {
    if (one.covered()) values.insert(property(one));
  }
  for (const std::string& value : values) {
    groups.push_back({fmt::format("{} {}", what, value), [=](const Case& c) { return property(c) == value; }});
  }
}

std::vector<Group> groups_of(const Validation& v, const ValidationOptions& options) {
  std::vector<Group> groups = {{"all", [](const Case&) { return true; }},
                               {"reference runs", [&v](const Case& c) { return v.reference.contains(c.run.id); }},
                               {"dense, grades A and B", [](const Case& c) { return !c.mixture() && c.documented(); }},
                               {"mixtures of experts", [](const Case& c) { return c.mixture(); }},
                               {"vtrain-multi", [](const Case& c) { return starts_with(c.run.id, "vtrain-multi"); }},
                               {"vtrain-single", [](const Case& c) { return starts_with(c.run.id, "vtrain-single"); }}};
  if (options.by.empty() || options.by == "stack") add_groups_by(v, "stack", stack_name, groups);
  if (options.by == "device") add_groups_by(v, "device", device_name, groups);
  return groups;
}

bool is_shown(const Validation& v, const ValidationOptions& options, const Case& one) {
  return one.covered() && (!options.only_reference || v.reference.contains(one.run.id));
}

std::vector<const Case*> shown_cases(const Validation& v, const ValidationOptions& options) {
  std::vector<const Case*> shown;
  for (const Case& one : v.cases) {
    if (is_shown(v, options, one)) shown.push_back(&one);
  }
  if (options.worst < 0) return shown;
  std::stable_sort(shown.begin(), shown.end(),
                   [](const Case* a, const Case* b) { return std::fabs(a->error()) > std::fabs(b->error()); });
  shown.resize(std::min(shown.size(), static_cast<std::size_t>(options.worst)));
  return shown;
}

Statistics statistics_of(const Validation& v, const ValidationOptions& options, const Wanted& wanted) {
  return validate::statistics(
      validate::errors(v.cases, [&](const Case& c) { return is_shown(v, options, c) && wanted(c); }));
}

std::map<std::string, int> uncovered_reasons(const Validation& v) {
  std::map<std::string, int> reasons;
  for (const Case& one : v.cases) {
    if (!one.covered()) ++reasons[one.not_covered];
  }
  return reasons;
}

std::string rows_text(const Validation& v, const ValidationOptions& options) {
  Table table({{"run"},
               {"stack"},
               {"device"},
               {"devices", Align::right},
               {"measured", Align::right},
               {"predicted", Align::right},
               {"error, %", Align::right},
               {"fitted to"}});
  for (const Case* one : shown_cases(v, options)) {
    table.row({one->run.id, stack_name(*one), device_name(*one), fmt::format("{}", one->made.job.cluster.devices),
               format_seconds(one->run.measured_s()), format_seconds(one->predicted_s), signed_in_percent(one->error()),
               is_used_for_fit(v, *one) ? "yes" : "no"});
  }
  return table.text();
}

void add_statistics_row(const std::string& name, const Statistics& s, Table& table) {
  if (s.count == 0) return;
  table.row({name, with_thousands(s.count), in_percent(s.median), in_percent(s.mean), in_percent(s.p90),
             signed_in_percent(s.bias)});
}

std::string statistics_text(const Validation& v, const ValidationOptions& options) {
  Table table({{"error of the step time, %"},
               {"runs", Align::right},
               {"median", Align::right},
               {"mean", Align::right},
               {"90 % below", Align::right},
               {"bias", Align::right}});
  for (const Group& group : groups_of(v, options)) {
    if (!options.split) {
      add_statistics_row(group.name, statistics_of(v, options, group.wanted), table);
      continue;
    }
    for (const bool used : {true, false}) {
      const auto wanted = [&](const Case& c) { return group.wanted(c) && is_used_for_fit(v, c) == used; };
      add_statistics_row(fmt::format("{}, {}", group.name, used ? "used for fitting" : "never used"),
                         statistics_of(v, options, wanted), table);
    }
  }
  return table.text();
}

std::vector<const MemoryCase*> shown_memory(const Validation& v, const ValidationOptions& options) {
  std::vector<const MemoryCase*> shown;
  for (const MemoryCase& one : v.memory) {
    if (one.covered() && (!options.only_reference || v.reference.contains(one.run.id))) shown.push_back(&one);
  }
  if (options.worst < 0) return shown;
  std::stable_sort(shown.begin(), shown.end(), [](const MemoryCase* a, const MemoryCase* b) {
    return std::fabs(a->error()) > std::fabs(b->error());
  });
  shown.resize(std::min(shown.size(), static_cast<std::size_t>(options.worst)));
  return shown;
}

std::string memory_text(const Validation& v, const ValidationOptions& options) {
  Table table(
      {{"memory of a device"}, {"measured", Align::right}, {"predicted", Align::right}, {"error, %", Align::right}});
  for (const MemoryCase* one : shown_memory(v, options)) {
    table.row({one->run.id, format_bytes(one->measured_bytes), format_bytes(one->predicted_bytes),
               signed_in_percent(one->error())});
  }
  const Statistics s = validate::statistics(validate::memory_errors(v.memory, [](const MemoryCase&) { return true; }));
  if (s.count == 0) return "";
  return table.text() + fmt::format("error of the memory: {}, median {} %, mean {} %, 90 % below {} %, bias {} %\n",
                                    counted(s.count, "run"), in_percent(s.median), in_percent(s.mean),
                                    in_percent(s.p90), signed_in_percent(s.bias));
}

std::string uncovered_text(const Validation& v) {
  const std::map<std::string, int> reasons = uncovered_reasons(v);
  if (reasons.empty()) return "";
  Table table({{"not covered, because"}, {"runs", Align::right}});
  for (const auto& [reason, count] : reasons) table.row({reason, with_thousands(count)});
  return table.text();
}

Json statistics_json(const Statistics& s) {
  if (s.count == 0) {
    return {
        {"count", 0}, {"median_error", nullptr}, {"mean_error", nullptr}, {"p90_error", nullptr}, {"bias", nullptr}};
  }
  return {
      {"count", s.count}, {"median_error", s.median}, {"mean_error", s.mean}, {"p90_error", s.p90}, {"bias", s.bias}};
}

Json run_json(const Validation& v, const Case& one) {
  const plan::Range range = plan::range_of(v.accuracy, one.made.job);
  const bool known = range.count > 0;
  return {{"id", one.run.id},
          {"measured_s", one.run.measured_s()},
          {"predicted_s", one.predicted_s},
          {"error", one.error()},
          {"stack", stack_name(one)},
          {"device", device_name(one)},
          {"devices", one.made.job.cluster.devices},
          {"kind", plan::name_of(plan::layout_kind(one.made.job))},
          {"grade", one.run.grade},
          {"fold", one.fold},
          {"used_for_fit", is_used_for_fit(v, one)},
          {"range_low_s", known ? Json(one.predicted_s * range.low) : Json(nullptr)},
          {"range_high_s", known ? Json(one.predicted_s * range.high) : Json(nullptr)}};
}

Json memory_json(const Validation& v, const ValidationOptions& options) {
  Json rows = Json::array();
  for (const MemoryCase* one : shown_memory(v, options)) {
    rows.push_back({{"id", one->run.id},
                    {"measured_bytes", one->measured_bytes},
                    {"predicted_bytes", one->predicted_bytes},
                    {"error", one->error()}});
  }
  Json json =
      statistics_json(validate::statistics(validate::memory_errors(v.memory, [](const MemoryCase&) { return true; })));
  json["runs"] = std::move(rows);
  return json;
}

Json groups_json(const Validation& v, const ValidationOptions& options) {
  Json groups = Json::object();
  for (const Group& group : groups_of(v, options)) {
    const Statistics s = statistics_of(v, options, group.wanted);
    if (s.count > 0) groups[group.name] = statistics_json(s);
  }
  return groups;
}

}  // namespace

bool is_used_for_fit(const Validation& v, const Case& one) {
  return one.covered() && one.documented() && one.fold != validate::kHeldOutFold && v.fittable.contains(one.run.id);
}

std::string validation_text(const Validation& v, const ValidationOptions& options) {
  const auto covered = std::count_if(v.cases.begin(), v.cases.end(), [](const Case& c) { return c.covered(); });
  std::string text = fmt::format("{} of {} training runs are covered; predicted by {}\n\n",
                                 with_thousands(static_cast<double>(covered)),
                                 with_thousands(static_cast<double>(v.cases.size())), v.predicted_by);
  for (const std::string& part : {options.worst == 0 ? std::string() : rows_text(v, options),
                                  statistics_text(v, options), memory_text(v, options), uncovered_text(v)}) {
    if (!part.empty()) text += part + "\n";
  }
  text.pop_back();
  return text;
}

std::string validation_json(const Validation& v, const ValidationOptions& options) {
  const Statistics all = statistics_of(v, options, [](const Case&) { return true; });
  Json json = {{"predicted_by", v.predicted_by}};
  json.update(statistics_json(all));
  Json runs = Json::array();
  for (const Case* one : shown_cases(v, options)) runs.push_back(run_json(v, *one));
  json["runs"] = std::move(runs);
  json["groups"] = groups_json(v, options);
  if (options.split) {
    for (const bool used : {true, false}) {
      json[used ? "used_for_fit" : "never_used"] =
          statistics_json(statistics_of(v, options, [&](const Case& c) { return is_used_for_fit(v, c) == used; }));
    }
  }
  json["memory"] = memory_json(v, options);
  json["not_covered"] = uncovered_reasons(v);
  Json uncovered = Json::array();
  for (const Case& one : v.cases) {
    if (!one.covered()) uncovered.push_back({{"id", one.run.id}, {"reason", one.not_covered}});
  }
  json["not_covered_runs"] = std::move(uncovered);
  return printed(json);
}

}  // namespace twinpod::report
