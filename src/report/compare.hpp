// Two Timelines of the same step beside each other: what was predicted and what was measured, by what the ops are.
//
//     const OpTotals predicted = op_totals(program, sim::timeline_of(run));
//     compare_text(predicted, measured)
//
// `twinpod compare` reads them from files that `simulate --timeline` and `train --timeline` wrote.
#pragma once

#include <map>
#include <string>

#include "core/error.hpp"
#include "program/timeline.hpp"

namespace twinpod::report {

struct OpTotal {
  double seconds = 0;  // of a rank, on average
  double ops = 0;      // likewise
};

struct OpTotals {
  double step_s = 0;
  std::map<std::string, OpTotal> parts;  // "forward attention", "all_reduce mlp", ...
};

// What an op is, without its place: "forward attention".
std::string op_kind_text(const program::Op& op);

OpTotals op_totals(const program::Program& program, const program::Timeline& timeline);

// Of the JSON that timeline_json() makes. Refuses what is something else, with file and what is missing.
Result<OpTotals> read_op_totals(const std::string& text, const std::string& file);

std::string compare_text(const OpTotals& predicted, const OpTotals& measured);
std::string compare_json(const OpTotals& predicted, const OpTotals& measured);

}  // namespace twinpod::report
