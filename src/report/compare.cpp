#include "report/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "spec/bounds.hpp"

namespace twinpod::report {
namespace {

constexpr double kMostSeconds = 1e15;  // as of every time that is read: core/units.cpp

struct Part {
  std::string what;
  OpTotal predicted;
  OpTotal measured;
  double most() const { return std::max(predicted.seconds, measured.seconds); }
};

// Longest first.
std::vector<Part> parts_of(const OpTotals& predicted, const OpTotals& measured) {
  std::map<std::string, Part> all;
  for (const auto& [what, total] : predicted.parts) all[what].predicted = total;
  for (const auto& [what, total] : measured.parts) all[what].measured = total;
  std::vector<Part> list;
  for (auto& [what, part] : all) {
    part.what = what;
    if (part.most() > 0) list.push_back(part);
  }
  std::stable_sort(list.begin(), list.end(), [](const Part& a, const Part& b) { return a.most() > b.most(); });
  return list;
}

std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:+.1f} %", 100 * part / whole) : std::string("-");
}

double sum_of(const OpTotals& totals) {
  double sum = 0;
  for (const auto& [what, total] : totals.parts) sum += total.seconds;
  return sum;
}

Result<double> number(const Json& json, const char* key, double most, const std::string& file) {
  const bool there = json.is_object() && json.contains(key) && json[key].is_number();
  if (there && std::abs(json[key].get<double>()) <= most) return json[key].get<double>();
  if (there) {
    return input_error(fmt::format("{}: `{}` is {}; expected at most {:g}", file, key, json[key].dump(), most),
                       "a file that `simulate --timeline` or `train --timeline` wrote");
  }
  return input_error(fmt::format("{}: no `{}` where one is expected", file, key),
                     "a file that `simulate --timeline` or `train --timeline` wrote");
}

}  // namespace

std::string op_kind_text(const program::Op& op) {
  const std::string where = op.segment == program::Segment::block ? "" : fmt::format(" {}", name_of(op.segment));
  if (op.kind == program::OpKind::compute) return fmt::format("{}{}", name_of(op.phase), where);
  if (op.kind == program::OpKind::collective) return fmt::format("{}{}", collective::name_of(op.verb), where);
  if (op.segment == program::Segment::checkpoint) return fmt::format("checkpoint to {}", name_of(op.tier));
  return fmt::format("{} {}", name_of(op.kind), op.kind == program::OpKind::read ? "data" : name_of(op.phase));
}

OpTotals op_totals(const program::Program& program, const program::Timeline& timeline) {
  OpTotals totals;
  totals.step_s = timeline.step_s;
  double ranks = 0;
  for (const program::RankTimeline& rank : timeline.ranks) ranks += rank.count;
  for (const program::RankTimeline& rank : timeline.ranks) {
    std::size_t at = 0;
    program::for_each_op(program, rank.kind, [&](const program::PlacedOp& op) {
      const program::OpSpan& span = rank.ops[at++];
      OpTotal& total = totals.parts[op_kind_text(*op.op)];
      total.seconds += (span.end_s - span.start_s) * rank.count / ranks;
      total.ops += rank.count / ranks;
    });
  }
  return totals;
}

Result<OpTotals> read_op_totals(const std::string& text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return input_error(fmt::format("{}: this is no JSON", file), "");
  OpTotals totals;
  const Result<double> step = number(json, "step_s", kMostSeconds, file);
  if (!step) return tl::unexpected(step.error());
  totals.step_s = *step;
  if (!json.contains("ranks") || !json["ranks"].is_array() || json["ranks"].empty())
    return input_error(fmt::format("{}: no list of `ranks`", file), "a file that `train --timeline` wrote");
  double ranks = 0;
  for (const Json& rank : json["ranks"]) {
    const Result<double> count = number(rank, "count", spec::kMaxDevices, file);
    if (!count) return tl::unexpected(count.error());
    if (*count < 1) return input_error(fmt::format("{}: a `count` of {}", file, counted(*count, "rank")), "1 or more");
    ranks += *count;
  }
  for (const Json& rank : json["ranks"]) {
    const double weight = rank["count"].get<double>() / ranks;
    if (!rank.contains("ops") || !rank["ops"].is_array())
      return input_error(fmt::format("{}: a rank without `ops`", file), "");
    for (const Json& op : rank["ops"]) {
      const Result<double> start = number(op, "start_s", kMostSeconds, file);
      const Result<double> end = number(op, "end_s", kMostSeconds, file);
      if (!start || !end) return tl::unexpected(start ? end.error() : start.error());
      if (!op.contains("what") || !op["what"].is_string())
        return input_error(fmt::format("{}: an op without `what`", file), "a file of this version");
      OpTotal& total = totals.parts[op["what"].get<std::string>()];
      total.seconds += (*end - *start) * weight;
      total.ops += weight;
    }
  }
  return totals;
}

std::string compare_text(const OpTotals& predicted, const OpTotals& measured) {
  Table table({{"of a rank"},
               {"ops", Align::right},
               {"predicted ms", Align::right},
               {"measured ms", Align::right},
               {"difference ms", Align::right},
               {"of the step", Align::right}});
  const auto row = [&](const std::string& what, double ops, double before, double now) {
    table.row({what, ops > 0 ? fmt::format("{:.0f}", ops) : "", ms(before), ms(now),
               fmt::format("{:+.3f}", 1e3 * (now - before)), share(now - before, measured.step_s)});
  };
  for (const Part& part : parts_of(predicted, measured))
    row(part.what, std::max(part.predicted.ops, part.measured.ops), part.predicted.seconds, part.measured.seconds);
  table.rule();
  // Ops overlap, and ranks wait: what is left is both.
  row("between ops, less overlap", 0, predicted.step_s - sum_of(predicted), measured.step_s - sum_of(measured));
  row("step", 0, predicted.step_s, measured.step_s);
  return table.text();
}

std::string compare_json(const OpTotals& predicted, const OpTotals& measured) {
  Json json;
  json["predicted_step_time_s"] = predicted.step_s;
  json["step_time_s"] = measured.step_s;
  json["error"] = measured.step_s > 0 ? Json(predicted.step_s / measured.step_s - 1) : Json(nullptr);
  json["parts"] = Json::array();
  for (const Part& part : parts_of(predicted, measured)) {
    json["parts"].push_back({{"what", part.what},
                             {"ops", std::max(part.predicted.ops, part.measured.ops)},
                             {"predicted_s", part.predicted.seconds},
                             {"measured_s", part.measured.seconds}});
  }
  return printed(json);
}

}  // namespace twinpod::report
