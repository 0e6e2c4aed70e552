#include "report/measured_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "report/text_parts.hpp"

namespace twinpod::report {
namespace {

using validate::CollectiveCheck;
using validate::ErrorSummary;
using validate::GemmCheck;
using validate::GemmRow;

constexpr int kWorstRows = 10;

std::string median_text(const ErrorSummary& s) { return s.rows == 0 ? "-" : percent(s.median); }

std::vector<std::string> summary_cells(const ErrorSummary& s) {
  if (s.rows == 0) return {"0", "-", "-"};
  return {with_thousands(s.rows), percent(s.median), percent(s.p90)};
}

Json summary_json(const ErrorSummary& s) {
  if (s.rows == 0) return {{"count", 0}, {"median_error", nullptr}, {"p90_error", nullptr}};
  return {{"count", s.rows}, {"median_error", s.median}, {"p90_error", s.p90}};
}

// Rows with the largest errors first; rows alike in the order of the file. An error counts as a factor, so that half
// the time is as wrong as twice the time.
template <typename Row>
std::vector<const Row*> worst_rows(const std::vector<Row>& rows, int count) {
  std::vector<const Row*> sorted;
  for (const Row& row : rows) sorted.push_back(&row);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Row* a, const Row* b) {
    return std::abs(std::log1p(a->error)) > std::abs(std::log1p(b->error));
  });
  const auto most = static_cast<std::size_t>(count < 0 ? kWorstRows : count);
  if (sorted.size() > most) sorted.resize(most);
  return sorted;
}

std::string collectives_by_system(const CollectiveCheck& check) {
  std::map<std::pair<std::string, std::string>, std::array<std::vector<double>, 2>> errors;
  for (const validate::CollectiveRow& row : check.rows) {
    errors[{row.system, row.collective}][row.bytes >= validate::kLargeBytes ? 0 : 1].push_back(std::abs(row.error));
  }
  Table table({{"system"},
               {"collective"},
               {"from 1 MiB", Align::right},
               {"median", Align::right},
               {"90 % below", Align::right},
               {"smaller", Align::right},
               {"median", Align::right},
               {"90 % below", Align::right}});
  const auto add = [&](std::string system, std::string collective, const ErrorSummary& large,
                       const ErrorSummary& small) {
    std::vector<std::string> cells = {std::move(system), std::move(collective)};
    for (const ErrorSummary* s : {&large, &small}) {
      for (std::string& cell : summary_cells(*s)) cells.push_back(std::move(cell));
    }
    table.row(std::move(cells));
  };
  for (auto& [key, lists] : errors) {
    add(key.first, key.second, validate::summary_of(lists[0]), validate::summary_of(lists[1]));
  }
  table.rule();
  add("all", "", check.large, check.small);
  return table.text();
}

std::string worst_collectives(const CollectiveCheck& check, int worst) {
  const std::vector<const validate::CollectiveRow*> rows = worst_rows(check.rows, worst);
  if (rows.empty()) return "";
  Table table({{"system"},
               {"collective"},
               {"ranks", Align::right},
               {"bytes", Align::right},
               {"algorithm"},
               {"measured", Align::right},
               {"predicted", Align::right},
               {"error", Align::right}});
  for (const validate::CollectiveRow* row : rows) {
    table.row(
        {row->system, row->collective, std::to_string(row->ranks), with_thousands(row->bytes),
         fmt::format("{}/{}", cluster::name_of(row->predicted.algorithm), cluster::name_of(row->predicted.protocol)),
         format_seconds(row->measured_s), format_seconds(row->predicted.time_s), signed_percent(row->error)});
  }
  return "\nlargest errors\n\n" + table.text();
}

std::string gemm_by_device(const GemmCheck& check) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> errors;
  for (const GemmRow& row : check.rows) errors[{row.device, row.dtype}].push_back(std::abs(row.error));
  Table table(
      {{"device"}, {"type"}, {"products", Align::right}, {"median", Align::right}, {"90 % below", Align::right}});
  const auto add = [&](std::string device, std::string dtype, const ErrorSummary& s) {
    std::vector<std::string> cells = {std::move(device), std::move(dtype)};
    for (std::string& cell : summary_cells(s)) cells.push_back(std::move(cell));
    table.row(std::move(cells));
  };
  for (auto& [key, list] : errors) add(key.first, key.second, validate::summary_of(list));
  table.rule();
  add("all", "", check.all);
  return table.text();
}

std::string worst_gemms(const GemmCheck& check, int worst) {
  const std::vector<const GemmRow*> rows = worst_rows(check.rows, worst);
  if (rows.empty()) return "";
  Table table({{"device"},
               {"type"},
               {"batch", Align::right},
               {"m", Align::right},
               {"n", Align::right},
               {"k", Align::right},
               {"measured", Align::right},
               {"predicted", Align::right},
               {"error", Align::right}});
  for (const GemmRow* row : rows) {
    table.row({row->device, row->dtype, fmt::format("{:.0f}", row->shape.batch), fmt::format("{:.0f}", row->shape.m),
               fmt::format("{:.0f}", row->shape.n), fmt::format("{:.0f}", row->shape.k),
               format_seconds(row->measured_s), format_seconds(row->predicted_s), signed_percent(row->error)});
  }
  return "\nlargest errors\n\n" + table.text();
}

Json collective_row_json(const validate::CollectiveRow& row) {
  return {{"line", row.line},
          {"system", row.system},
          {"collective", row.collective},
          {"group_size", row.ranks},
          {"concurrent_groups", row.concurrent_groups},
          {"bytes", row.bytes},
          {"algorithm", cluster::name_of(row.predicted.algorithm)},
          {"protocol", cluster::name_of(row.predicted.protocol)},
          {"measured_s", row.measured_s},
          {"predicted_s", row.predicted.time_s},
          {"error", row.error}};
}

Json gemm_row_json(const GemmRow& row) {
  return {{"line", row.line},
          {"device", row.device},
          {"dtype", row.dtype},
          {"batch", row.shape.batch},
          {"m", row.shape.m},
          {"n", row.shape.n},
          {"k", row.shape.k},
          {"tflops_measured", row.tflops_measured},
          {"measured_s", row.measured_s},
          {"predicted_s", row.predicted_s},
          {"error", row.error}};
}

}  // namespace

std::string_view name_of(validate::HoldOut hold_out) {
  switch (hold_out) {
    case validate::HoldOut::groups:
      return "fitted without the row's group (system, collective, ranks)";
    case validate::HoldOut::rows:
      return "fitted without every fifth row, the row among them";
    default:
      return "as the catalog has them";
  }
}

std::string_view name_of(validate::GemmHoldOut hold_out) {
  switch (hold_out) {
    case validate::GemmHoldOut::shapes:
      return "fitted without the row's shape (m, n, k)";
    case validate::GemmHoldOut::rows:
      return "fitted without every fifth row, the row among them";
    default:
      return "as the catalog has them";
  }
}

std::string collective_check_text(const std::vector<CollectiveCheck>& checks, int worst) {
  const CollectiveCheck& first = checks.front();
  std::string text = fmt::format("error of the time of {} collectives, predicted by {} fitted numbers\n\n",
                                 with_thousands(static_cast<double>(first.rows.size())), first.free_numbers);
  text += collectives_by_system(first) + worst_collectives(first, worst) + "\n";
  for (const CollectiveCheck& check : checks) {
    text += fmt::format("median error {} from 1 MiB on, {} below: numbers {}\n", median_text(check.large),
                        median_text(check.small), name_of(check.hold_out));
  }
  return text;
}

std::string gemm_check_text(const std::vector<GemmCheck>& checks, int worst) {
  const GemmCheck& first = checks.front();
  std::string text = fmt::format("error of the time of {} products, predicted by {} fitted numbers\n\n",
                                 with_thousands(static_cast<double>(first.rows.size())), first.free_numbers);
  text += gemm_by_device(first) + worst_gemms(first, worst) + "\n";
  for (const GemmCheck& check : checks) {
    text += fmt::format("median error {}, 90 % below {}: numbers {}\n", percent(check.all.median),
                        percent(check.all.p90), name_of(check.hold_out));
  }
  return text;
}

std::string collective_check_json(const std::vector<CollectiveCheck>& checks) {
  const CollectiveCheck& first = checks.front();
  Json rows = Json::array();
  for (const validate::CollectiveRow& row : first.rows) rows.push_back(collective_row_json(row));
  Json fits = Json::array();
  for (const CollectiveCheck& check : checks) {
    fits.push_back({{"numbers", name_of(check.hold_out)},
                    {"all", summary_json(check.all)},
                    {"from_1_mib", summary_json(check.large)},
                    {"below_1_mib", summary_json(check.small)}});
  }
  return printed({{"rows", rows},
                  {"median_error", first.all.median},
                  {"p90_error", first.all.p90},
                  {"from_1_mib", summary_json(first.large)},
                  {"below_1_mib", summary_json(first.small)},
                  {"free_numbers", first.free_numbers},
                  {"fits", fits}});
}

std::string gemm_check_json(const std::vector<GemmCheck>& checks) {
  const GemmCheck& first = checks.front();
  Json rows = Json::array();
  for (const GemmRow& row : first.rows) rows.push_back(gemm_row_json(row));
  Json fits = Json::array();
  for (const GemmCheck& check : checks) {
    fits.push_back({{"numbers", name_of(check.hold_out)}, {"all", summary_json(check.all)}});
  }
  return printed({{"rows", rows},
                  {"median_error", first.all.median},
                  {"p90_error", first.all.p90},
                  {"free_numbers", first.free_numbers},
                  {"fits", fits}});
}

}  // namespace twinpod::report
