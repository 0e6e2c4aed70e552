// Pieces of JSON that several reports have in common.
//
//     Json json = {{"layout", layout_json(job.layout, spec::data_parallel(job))}, {"parts_s", parts_json(step.parts)}};
//     return printed(json);
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "plan/estimate.hpp"
#include "plan/range.hpp"
#include "spec/job.hpp"
#include "spec/names.hpp"

namespace twinpod::report {

using Json = nlohmann::ordered_json;

// What every answer as JSON goes through. Text that is not UTF-8 is replaced, never thrown about. A number that is not
// finite would come out as `null`: it throws Refused (core/guarded.hpp) with the key. `indent` -1: all in one line.
std::string printed(const Json& json, int indent = 2);

inline Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
inline Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
inline Json or_null(int value) { return value == 0 ? Json(nullptr) : Json(value); }

inline Json error_value(const Error& error) {
  return {{"kind", error.kind == ErrorKind::input ? "input" : "infeasible"},
          {"message", error.message},
          {"hint", or_null(error.hint)},
          {"file", or_null(error.file)},
          {"line", or_null(error.line)},
          {"column", or_null(error.column)}};
}

// etp 0 means as tp, and is written so.
inline Json layout_json(const spec::Layout& l, int dp) {
  Json json = {{"dp", dp},
               {"tp", l.tp},
               {"pp", l.pp},
               {"virtual_stages", l.virtual_stages},
               {"cp", l.cp},
               {"ep", l.ep},
               {"etp", spec::expert_tp(l)},
               {"sequence_parallel", l.sequence_parallel},
               {"zero", l.zero},
               {"shard_group", l.shard_group},
               {"micro_batch", l.micro_batch},
               {"recompute", spec::name_of(l.recompute)},
               {"recompute_layers", l.recompute_layers},
               {"schedule", spec::name_of(l.schedule)},
               {"servers", l.servers},
               {"offload_optimizer", l.offload_optimizer},
               {"offload_activations", l.offload_activations},
               {"remainder_last", l.remainder_last},
               {"uneven_ends", l.uneven_ends},
               {"async_tp", l.async_tp}};
  if (l.overlap) json["overlap"] = *l.overlap;
  return json;
}

inline Json parts_json(const plan::Parts& parts) {
  Json json = Json::object();
  for (int i = 0; i < plan::kNumParts; ++i) {
    const auto part = static_cast<plan::Part>(i);
    json[std::string(plan::part_name(part))] = parts[part];
  }
  return json;
}

inline Json range_json(const plan::Range& range) {
  const bool known = range.count > 0;
  return {{"low", known ? Json(range.low) : Json(nullptr)},
          {"high", known ? Json(range.high) : Json(nullptr)},
          {"runs", range.count},
          {"basis", or_null(range.basis)}};
}

}  // namespace twinpod::report
