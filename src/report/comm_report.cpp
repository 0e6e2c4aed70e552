#include "report/comm_report.hpp"

#include <fmt/format.h>

#include "collective/phases.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {
namespace {

using comm::Measurement;

bool adds(comm::Verb verb) {
  return verb == comm::Verb::reduce || verb == comm::Verb::all_reduce || verb == comm::Verb::reduce_scatter;
}
bool has_root(comm::Verb verb) {
  return verb == comm::Verb::broadcast || verb == comm::Verb::reduce || verb == comm::Verb::gather ||
         verb == comm::Verb::scatter || verb == comm::Verb::send;
}

double algorithm_bandwidth(const Measurement& row, double seconds) {
  return seconds > 0 ? static_cast<double>(row.bytes) / seconds : 0;
}
double bus_bandwidth(const Measurement& row, double seconds, int ranks) {
  return algorithm_bandwidth(row, seconds) * collective::bus_factor(row.call.verb, ranks);
}

// Less than half as much again either way is what machines with other things to do show from run to run.
std::string verdict_of(const Measurement& row) {
  constexpr double kNear = 1.5;
  if (row.expected_s <= 0 || row.time_s <= 0) return "-";
  const double ratio = row.time_s / row.expected_s;
  if (ratio > kNear) return fmt::format("{:.1f} x slower", ratio);
  if (ratio < 1 / kNear) return fmt::format("{:.1f} x faster", 1 / ratio);
  return "as expected";
}

// As nccl-tests: microseconds, GB/s, GB/s, wrong elements.
void add_times(std::vector<std::string>& cells, const Measurement& row, double seconds, std::size_t wrong, int ranks) {
  if (seconds == 0) {
    cells.insert(cells.end(), {"-", "-", "-", "-"});
    return;
  }
  cells.push_back(fmt::format("{:.2f}", 1e6 * seconds));
  cells.push_back(fmt::format("{:.2f}", 1e-9 * algorithm_bandwidth(row, seconds)));
  cells.push_back(fmt::format("{:.2f}", 1e-9 * bus_bandwidth(row, seconds, ranks)));
  cells.push_back(fmt::format("{}", wrong));
}

Table table_of(const CommBench& bench) {
  std::vector<Column> columns = {{"verb"}};
  const auto add = [&](const char* header) { columns.push_back({header, Align::right}); };
  for (const char* const header : {"size B", "count", "type", "redop", "root"}) add(header);
  for (const char* const header : {"time us", "algbw GB/s", "busbw GB/s", "#wrong"}) add(header);
  for (const char* const header : {"in place us", "algbw GB/s", "busbw GB/s", "#wrong"}) add(header);
  columns.push_back({"algorithm"});
  if (!bench.expected_basis.empty()) {
    add("expected us");
    columns.push_back({"verdict"});
  }
  for (const std::string& peer : bench.peers) {
    columns.push_back({peer + " us", Align::right});
    columns.push_back({"times", Align::right});
  }
  return Table(columns);
}

std::vector<std::string> cells_of(const CommBench& bench, const Measurement& row) {
  const comm::Call& call = row.call;
  std::vector<std::string> cells = {std::string(collective::name_of(call.verb)),
                                    fmt::format("{}", row.bytes),
                                    fmt::format("{}", call.count),
                                    std::string(comm::name_of(call.type)),
                                    adds(call.verb) ? std::string(comm::name_of(call.op)) : "none",
                                    has_root(call.verb) ? fmt::format("{}", call.root) : "-1"};
  add_times(cells, row, row.time_s, row.wrong, bench.ranks);
  add_times(cells, row, row.in_place_time_s, row.in_place_wrong, bench.ranks);
  cells.emplace_back(row.algorithm);
  if (!bench.expected_basis.empty()) {
    cells.push_back(row.expected_s > 0 ? fmt::format("{:.2f}", 1e6 * row.expected_s) : "-");
    cells.push_back(verdict_of(row));
  }
  for (const std::string& peer : bench.peers) {
    const auto found = row.peers.find(peer);
    const bool known = found != row.peers.end() && row.time_s > 0;
    cells.push_back(known ? fmt::format("{:.2f}", 1e6 * found->second) : "-");
    cells.push_back(known ? fmt::format("{:.2f}", found->second / row.time_s) : "-");
  }
  return cells;
}

Json row_json(const CommBench& bench, const Measurement& row) {
  const comm::Call& call = row.call;
  Json json = {{"verb", collective::name_of(call.verb)},
               {"bytes", row.bytes},
               {"count", call.count},
               {"type", comm::name_of(call.type)},
               {"op", adds(call.verb) ? Json(comm::name_of(call.op)) : Json(nullptr)},
               {"root", has_root(call.verb) ? Json(call.root) : Json(nullptr)},
               {"algorithm", row.algorithm},
               {"time_s", row.time_s},
               {"algbw_bytes_per_s", algorithm_bandwidth(row, row.time_s)},
               {"busbw_bytes_per_s", bus_bandwidth(row, row.time_s, bench.ranks)},
               {"wrong", row.wrong + row.in_place_wrong},
               {"in_place_time_s", row.in_place_time_s > 0 ? Json(row.in_place_time_s) : Json(nullptr)},
               {"expected_s", row.expected_s > 0 ? Json(row.expected_s) : Json(nullptr)},
               {"verdict", row.expected_s > 0 ? Json(verdict_of(row)) : Json(nullptr)}};
  if (bench.peers.empty()) return json;
  json["peers"] = Json::object();
  for (const std::string& peer : bench.peers) {
    const auto found = row.peers.find(peer);
    json["peers"][peer] = found == row.peers.end() ? Json(nullptr) : Json(found->second);
  }
  return json;
}

}  // namespace

std::string comm_bench_text(const CommBench& bench) {
  Table table = table_of(bench);
  std::size_t wrong = 0;
  for (const Measurement& row : bench.rows) {
    table.row(cells_of(bench, row));
    wrong += row.wrong + row.in_place_wrong;
  }
  return fmt::format(
      "{} over {}, buffers in {} memory; time of one call on the slowest rank, best block\n{}\n{}\n{} wrong\n",
      counted(bench.ranks, "rank"), bench.transport, bench.shared ? "shared" : "private",
      bench.expected_basis.empty() ? "" : fmt::format("expected: simulated, {}\n", bench.expected_basis), table.text(),
      wrong);
}

std::string comm_bench_json(const CommBench& bench) {
  Json rows = Json::array();
  for (const Measurement& row : bench.rows) rows.push_back(row_json(bench, row));
  const Json json = {{"ranks", bench.ranks},
                     {"transport", bench.transport},
                     {"memory", bench.shared ? "shared" : "private"},
                     {"expected_from", bench.expected_basis.empty() ? Json(nullptr) : Json(bench.expected_basis)},
                     {"rows", rows}};
  return printed(json);
}

std::string doctor_text(const comm::Recording& recording) { return comm::explained(recording); }

std::string doctor_json(const comm::Recording& recording) {
  const comm::Diagnosis diagnosis = comm::diagnose(recording);
  const Json json = {{"culprit", diagnosis.culprit < 0 ? Json(nullptr) : Json(diagnosis.culprit)},
                     {"diagnosis", diagnosis.message},
                     {"explanation", comm::explained(recording)}};
  return printed(json);
}

}  // namespace twinpod::report
