// twinpod compare: two Timelines of a step beside each other.
#include "report/compare.hpp"

#include <fmt/format.h>

#include "cli/command.hpp"
#include "core/files.hpp"

namespace twinpod::cli {
namespace {

Result<report::OpTotals> totals_in(const std::string& file) {
  const Result<std::string> text = read_file(file, kMostTextBytes, "a timeline");
  if (!text) return tl::unexpected(text.error());
  return report::read_op_totals(*text, file);
}

Result<std::string> compare(const Arguments& arguments) {
  if (arguments.words.size() != 2) {
    return input_error(fmt::format("compare takes two timelines, but {} are given", arguments.words.size()),
                       "twinpod compare predicted.json measured.json");
  }
  const Result<report::OpTotals> predicted = totals_in(arguments.words[0]);
  if (!predicted) return tl::unexpected(predicted.error());
  const Result<report::OpTotals> measured = totals_in(arguments.words[1]);
  if (!measured) return tl::unexpected(measured.error());
  return arguments.has("json") ? report::compare_json(*predicted, *measured)
                               : report::compare_text(*predicted, *measured);
}

}  // namespace

const Command kCompare = {"compare",
                          "PREDICTED.json MEASURED.json",
                          "prediction and measurement of a step, op by op",
                          "twinpod simulate job.yaml --timeline predicted.json\n"
                          "twinpod train job.yaml --ranks 2 --timeline measured.json\n"
                          "twinpod compare predicted.json measured.json\n",
                          {},
                          compare};

}  // namespace twinpod::cli
