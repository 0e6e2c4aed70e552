#include "report/collective_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {
namespace {

using sim::CollectiveRow;

// 1048576 as 1 MiB: sizes are powers of two more often than not.
std::string size_text(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double value = bytes;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string rate_text(double bytes_per_s) {
  const double giga = bytes_per_s / 1e9;
  return giga >= 100 ? fmt::format("{:.0f}", giga)
         : giga >= 1 ? fmt::format("{:.1f}", giga)
                     : fmt::format("{:.3f}", giga);
}

std::string time_text(double seconds) {
  const double micro = seconds * 1e6;
  return micro >= 1000 ? with_thousands(micro) : fmt::format("{:.1f}", micro);
}

// 2nd, 3rd, 8th, 11th, 22nd
std::string ordinal(int number) {
  constexpr std::array<std::string_view, 4> kEndings = {"th", "st", "nd", "rd"};
  const int last = number % 10;
  const bool teen = number / 10 % 10 == 1;
  return fmt::format("{}{}", with_thousands(number),
                     teen || last > 3 ? "th" : kEndings[static_cast<std::size_t>(last)]);
}

std::string headline(const CollectiveView& view) {
  const sim::CollectiveGroups& groups = view.request.groups;
  std::string text = fmt::format("{} over {} rank{}", name_of(view.request.verb), with_thousands(groups.ranks),
                                 groups.ranks == 1 ? "" : "s");
  if (groups.stride > 1) text += fmt::format(", every {} device", ordinal(groups.stride));
  if (groups.groups > 1) text += fmt::format(", {} at once", counted(groups.groups, "group"));
  text += fmt::format(", {}\n", view.cluster.name);
  for (const std::string& fault : view.faults) text += fmt::format("  {}\n", fault);
  return text;
}

std::vector<Column> columns_of(const CollectiveView& view) {
  std::vector<Column> columns = {{"size", Align::right}, {"algorithm"}};
  if (view.table.tuned) {
    columns.push_back({"protocol"});
    columns.push_back({"channels", Align::right});
    columns.push_back({"chunk", Align::right});
  }
  columns.push_back({"time (us)", Align::right});
  columns.push_back({"algbw (GB/s)", Align::right});
  columns.push_back({"busbw (GB/s)", Align::right});
  if (!view.table.healthy_rows.empty()) {
    columns.push_back({"whole (us)", Align::right});
    columns.push_back({"slower", Align::right});
  }
  return columns;
}

std::vector<std::string> cells_of(const CollectiveView& view, std::size_t i) {
  const CollectiveRow& row = view.table.rows[i];
  std::vector<std::string> cells = {size_text(row.bytes), row.algorithm};
  if (view.table.tuned) {
    cells.push_back(row.protocol);
    cells.push_back(fmt::format("{}", row.channels));
    cells.push_back(size_text(row.chunk_bytes));
  }
  cells.push_back(time_text(row.time_s));
  cells.push_back(rate_text(row.algbw_bytes_per_s));
  cells.push_back(rate_text(row.busbw_bytes_per_s));
  if (!view.table.healthy_rows.empty()) {
    const double before = view.table.healthy_rows[i].time_s;
    cells.push_back(time_text(before));
    cells.push_back(before > 0 ? fmt::format("{:.2f}x", row.time_s / before) : "");
  }
  return cells;
}

std::string network_text(const CollectiveView& view) {
  const sim::CollectiveTable& table = view.table;
  std::string text;
  if (table.tuned && table.network_share < 0.995) {
    text +=
        fmt::format("  the wiring leaves {:.0f} % of what links and interfaces could do\n", 100 * table.network_share);
  }
  if (table.hottest_link >= 0) {
    const cluster::GraphLink& link = view.graph.links[static_cast<std::size_t>(table.hottest_link)];
    text += fmt::format("  the busiest link is {} ({})\n", cluster::link_name(view.graph, table.hottest_link),
                        format_bytes_per_s(link.bytes_per_s));
  }
  text += fmt::format("  {}, routes: {}\n",
                      table.tuned ? "NCCL's tuner with measured corrections" : "schedules as flows on the links",
                      view.routing);
  return text;
}

}  // namespace

std::string collective_text(const CollectiveView& view) {
  Table table(columns_of(view), {2, 2, true});
  for (std::size_t i = 0; i < view.table.rows.size(); ++i) table.row(cells_of(view, i));
  return headline(view) + "\n" + table.text() + "\n" + network_text(view);
}

std::string collective_json(const CollectiveView& view) {
  nlohmann::ordered_json json;
  json["verb"] = name_of(view.request.verb);
  json["cluster"] = view.cluster.entry.empty() ? view.cluster.name : view.cluster.entry;
  json["ranks"] = view.request.groups.ranks;
  json["stride"] = view.request.groups.stride;
  json["groups"] = view.request.groups.groups;
  json["routing"] = view.routing;
  json["tuned"] = view.table.tuned;
  json["faults"] = view.faults;
  json["network_share"] = view.table.network_share;
  json["busiest_link"] = nullptr;
  if (view.table.hottest_link >= 0) json["busiest_link"] = cluster::link_name(view.graph, view.table.hottest_link);
  json["flows"] = view.table.flows;
  json["flow_kinds"] = view.table.flow_kinds;
  json["seconds"] = view.seconds;
  json["rows"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < view.table.rows.size(); ++i) {
    const CollectiveRow& row = view.table.rows[i];
    nlohmann::ordered_json one = {{"bytes", static_cast<long long>(row.bytes)}, {"algorithm", row.algorithm}};
    if (view.table.tuned) {
      one["protocol"] = row.protocol;
      one["channels"] = row.channels;
      one["chunk_bytes"] = row.chunk_bytes;
    }
    one["time_s"] = row.time_s;
    one["algbw_bytes_per_s"] = row.algbw_bytes_per_s;
    one["busbw_bytes_per_s"] = row.busbw_bytes_per_s;
    if (!view.table.healthy_rows.empty()) one["healthy_time_s"] = view.table.healthy_rows[i].time_s;
    json["rows"].push_back(std::move(one));
  }
  return printed(json);
}

}  // namespace twinpod::report
