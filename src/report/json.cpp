#include "report/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/guarded.hpp"
#include "plan/fits.hpp"
#include "report/json_parts.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

Json training_json(const spec::Job& job) {
  const spec::Training& t = job.training;
  return {{"global_batch", static_cast<std::int64_t>(t.global_batch)},
          {"sequence", t.sequence},
          {"precision", spec::name_of(t.precision)},
          {"optimizer", spec::name_of(t.optimizer)},
          {"tokens", t.tokens > 0 ? Json(t.tokens) : Json(nullptr)},
          {"target_loss", t.target_loss > 0 ? Json(t.target_loss) : Json(nullptr)}};
}

Json memory_parts_json(const plan::MemoryUse& use) {
  Json parts = Json::object();
  for (const auto& [name, bytes] : plan::memory_parts(use)) parts[std::string(name)] = bytes;
  return parts;
}

void add_time(const plan::Assessment& a, Json& json) {
  const double step = a.step.total_s;
  const bool known = a.range.count > 0;
  json["step_time_s"] = step;
  json["step_time_low_s"] = known ? Json(step * a.range.low) : Json(nullptr);
  json["step_time_high_s"] = known ? Json(step * a.range.high) : Json(nullptr);
  json["range"] = range_json(a.range);
  json["validated"] = a.range.validated();
  json["outside_validation"] = or_null(a.range.outside);
  json["breakdown_s"] = parts_json(a.step.parts);
  json["micro_batches"] = a.step.micro_batches;
}

void add_metrics(const plan::Metrics& m, Json& json) {
  json["tokens_per_s"] = m.tokens_per_s;
  json["tokens_per_s_per_device"] = m.tokens_per_s_per_device;
  json["model_flop_per_s"] = m.model_flop_per_s;
  json["hardware_flop_per_s"] = m.hardware_flop_per_s;
  json["mfu"] = m.mfu;
  json["hfu"] = m.hfu;
  json["scale_factor"] = m.scale_factor;
  json["computation_rate_flop_per_s"] = m.computation_rate_flop_per_s;
  json["cluster_utilisation"] = m.cluster_utilisation;
  json["bubble_share"] = m.bubble_share;
  json["time_to_train_s"] = or_null(m.time_to_train_s);
  json["time_to_train_8tp_s"] = or_null(m.time_to_train_8tp_s);
  json["device_hours"] = or_null(m.device_hours);
  json["cost_usd"] = or_null(m.cost_usd);
  json["energy_kwh"] = or_null(m.energy_kwh);
}

void add_accuracy(const plan::Metrics& m, Json& json) {
  if (!m.accuracy) return;
  const plan::TimeToAccuracy& a = *m.accuracy;
  json["time_to_accuracy_s"] = or_null(a.seconds);
  json["accuracy"] = {{"target_loss", a.target_loss},
                      {"floor_loss", a.floor},
                      {"tokens", or_null(a.tokens)},
                      {"steps", or_null(a.steps)},
                      {"critical_batch_tokens", a.critical_batch_tokens},
                      {"batch_factor", a.batch_factor}};
}

// Beside the total stand its parts, at the top too: that is where scripts look for them.
void add_memory(const spec::Job& job, const plan::Assessment& a, bool stages, Json& json) {
  json["memory_bytes"] = a.memory.total();
  const Json parts = memory_parts_json(a.memory);
  for (const auto& [name, bytes] : parts.items()) json[name] = bytes;
  json["memory_breakdown_bytes"] = parts;
  json["memory_capacity_bytes"] = job.cluster.device.memory_bytes;
  json["fullest_stage"] = a.memory.stage;
  if (!stages) return;
  json["stages"] = Json::array();
  for (const plan::MemoryUse& use : a.stages) {
    Json stage = {{"stage", use.stage}, {"memory_bytes", use.total()}};
    stage.update(memory_parts_json(use));
    json["stages"].push_back(std::move(stage));
  }
}

void add_formulas(const spec::Job& job, const plan::Metrics& metrics, Json& json) {
  Json formulas = Json::object();
  for (const plan::MetricLine& line : plan::described(metrics, job)) formulas[line.key] = line.formula;
  json["formulas"] = std::move(formulas);
}

bool all_finite(const Json& json) {
  if (json.is_number_float()) return std::isfinite(json.get<double>());
  return !json.is_structured() || std::all_of(json.begin(), json.end(), all_finite);
}

// The key of the first number that is not finite, such as `ranks[3].idle_s`. REQUIRES: there is one.
std::string not_finite(const Json& json, const std::string& at) {
  for (const auto& [key, value] : json.items()) {
    if (all_finite(value)) continue;
    return not_finite(value, json.is_array() ? fmt::format("{}[{}]", at, key)
                                             : fmt::format("{}{}{}", at, at.empty() ? "" : ".", key));
  }
  return at;
}

}  // namespace

std::string printed(const Json& json, int indent) {
  if (!all_finite(json)) {
    throw Refused(infeasible(fmt::format("{} came out as no finite number", not_finite(json, "")),
                             "something in the input is far too large, or too small, to be computed with")
                      .value());
  }
  return json.dump(indent, ' ', false, nlohmann::detail::error_handler_t::replace) + "\n";
}

std::string estimate_json(const spec::Job& job, const plan::Assessment& a, const EstimateOptions& options) {
  Json json = {{"job", job.name},
               {"model", job.model.name},
               {"cluster", job.cluster.name},
               {"device", job.cluster.device.name},
               {"devices", job.cluster.devices},
               {"idle_devices", job.idle_devices},
               {"stack", job.stack.name},
               {"layout", layout_json(job.layout, spec::data_parallel(job))},
               {"training", training_json(job)}};
  add_time(a, json);
  add_metrics(a.metrics, json);
  add_accuracy(a.metrics, json);
  add_memory(job, a, options.stages, json);
  json["warnings"] = a.warnings;
  if (options.explain) add_formulas(job, a.metrics, json);
  return printed(json);
}

std::string error_json(const Error& error) { return printed({{"error", error_value(error)}}); }

}  // namespace twinpod::report
