#include "cli/bench_ps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/values.hpp"
#include "core/progress.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "ps/measure.hpp"
#include "report/json_parts.hpp"
#include "spec/names.hpp"

namespace twinpod::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kShardBytes = std::int64_t{1} << 20;  // large ones are divided into such

constexpr spec::NameTable<ps::Optimizer, 4> kServerNames = {{{"keeps", ps::Optimizer::replace},
                                                             {"adds", ps::Optimizer::add},
                                                             {"sgd", ps::Optimizer::sgd},
                                                             {"adamw", ps::Optimizer::adamw}}};

struct Row {
  std::string_view server;
  ps::ExchangeRequest request;
  ps::Exchange exchange = {};
};

struct Updates {
  std::int64_t shards = 0;
  double per_s = 0;
};

struct Found {
  std::vector<Row> rows = {};
  std::vector<Updates> updates = {};
};

Result<std::vector<std::int64_t>> value_sizes(const Arguments& arguments) {
  const auto text = arguments.value("bytes");
  if (!text) return std::vector<std::int64_t>{4 << 20, 16 << 20, 64 << 20};
  const Result<double> bytes = parse_quantity(*text, Quantity::bytes);
  constexpr double kLeast = 64 << 10;
  constexpr double kMost = 1e11;
  if (!bytes || *bytes < kLeast || *bytes > kMost) {
    return input_error(fmt::format("--bytes {}: expected one size of at least 64 KiB", *text), "--bytes 16MiB");
  }
  return std::vector<std::int64_t>{static_cast<std::int64_t>(*bytes)};
}

// 0: through shared memory.
Result<int> tcp_port_of(const Arguments& arguments) {
  constexpr int kMost = 65000;
  const Result<int> port = whole_number(arguments, "tcp", 1024, 0);
  if (port && *port > kMost) {
    return input_error(fmt::format("--tcp {}", *port), "up to 65000: each process has the next port");
  }
  return port;
}

// Each size in one shard, and in many.
Result<std::vector<Row>> rows_of(const Arguments& arguments) {
  const Result<std::vector<std::int64_t>> sizes = value_sizes(arguments);
  if (!sizes) return tl::unexpected(sizes.error());
  ps::ExchangeRequest request;
  const Result<int> rounds = whole_number(arguments, "rounds", 1, request.rounds);
  if (!rounds) return tl::unexpected(rounds.error());
  request.rounds = *rounds;
  const Result<int> port = tcp_port_of(arguments);
  if (!port) return tl::unexpected(port.error());
  request.tcp_port = *port;
  std::vector<Row> rows;
  for (const auto& [name, optimizer] : kServerNames) {
    request.optimizer = optimizer;
    for (const std::int64_t bytes : *sizes) {
      request.bytes = bytes;
      request.shards = 1;
      rows.push_back({name, request});
      request.shards = bytes / kShardBytes;
      if (request.shards > 1) rows.push_back({name, request});
    }
  }
  return rows;
}

Result<Found> measure(std::vector<Row> rows) {
  Found found;
  Progress progress("bench ps", rows.size() + 2);
  for (Row& row : rows) {
    const Result<ps::Exchange> exchange = ps::measure_exchange(row.request);
    if (!exchange) return tl::unexpected(exchange.error());
    row.exchange = *exchange;
    progress.advance();
  }
  found.rows = std::move(rows);
  constexpr int kTries = 30;
  for (const std::int64_t shards : {1, 64}) {
    const Result<double> rate = ps::measure_updates(shards, kTries, found.rows.front().request.tcp_port);
    if (!rate) return tl::unexpected(rate.error());
    found.updates.push_back({shards, *rate});
    progress.advance();
  }
  return found;
}

std::string json_text(const Found& found) {
  ordered_json rows = ordered_json::array();
  for (const Row& row : found.rows) {
    const ps::Exchange& one = row.exchange;
    rows.push_back({{"server", row.server},
                    {"bytes", row.request.bytes},
                    {"shards", row.request.shards},
                    {"exchange_s", one.exchange_s},
                    {"exchange_bytes_per_s", one.bytes_per_s()},
                    {"copied_s", one.copied_s},
                    {"registered_bytes_per_s", one.moved_bytes / one.registered_s},
                    {"ordinary_bytes_per_s", one.moved_bytes / one.ordinary_s},
                    {"registered_ratio", one.ratio()},
                    {"copied_registered_ratio", one.copied_ratio()},
                    {"ordinary_ratio", one.ordinary_s / one.exchange_s}});
  }
  ordered_json updates = ordered_json::array();
  for (const Updates& one : found.updates) updates.push_back({{"shards", one.shards}, {"updates_per_s", one.per_s}});
  return report::printed({{"rows", std::move(rows)}, {"small_updates", std::move(updates)}});
}

std::string table_text(const Found& found) {
  const auto rate = [](double value) { return fmt::format("{:.1f} GB/s", value * 1e-9); };
  Table table({{"server"},
               {"values", Align::right},
               {"shards", Align::right},
               {"push and pull", Align::right},
               {"copied", Align::right},
               {"registered", Align::right},
               {"ordinary", Align::right},
               {"/ registered", Align::right},
               {"copied", Align::right},
               {"/ ordinary", Align::right}},
              {.indent = 2});
  for (const Row& row : found.rows) {
    const ps::Exchange& one = row.exchange;
    table.row({std::string(row.server), fmt::format("{:g} MiB", static_cast<double>(row.request.bytes) / (1 << 20)),
               fmt::format("{}", row.request.shards), rate(one.bytes_per_s()), rate(one.moved_bytes / one.copied_s),
               rate(one.moved_bytes / one.registered_s), rate(one.moved_bytes / one.ordinary_s),
               fmt::format("{:.2f}", one.ratio()), fmt::format("{:.2f}", one.copied_ratio()),
               fmt::format("{:.2f}", one.ordinary_s / one.exchange_s)});
  }
  std::string text =
      "one worker and one server, processes of this machine: until the worker can read the new values, and until it "
      "has\n"
      "copied them to memory of its own; beside it, as many bytes there and back by comm's messages, between "
      "registered "
      "and\n"
      "between ordinary buffers; the best of all tries\n\n" +
      table.text() + "\n  small updates, each acknowledged:";
  for (const Updates& one : found.updates) {
    text += fmt::format("{} {:.2f} million/s ({} shard{})", one.shards == 1 ? "" : ",", one.per_s * 1e-6, one.shards,
                        one.shards == 1 ? "" : "s");
  }
  return text + "\n";
}

}  // namespace

Result<std::string> bench_ps(const Arguments& arguments) {
  Result<std::vector<Row>> rows = rows_of(arguments);
  if (!rows) return tl::unexpected(rows.error());
  const Result<Found> found = measure(std::move(*rows));
  if (!found) return tl::unexpected(found.error());
  return arguments.has("json") ? json_text(*found) : table_text(*found);
}

}  // namespace twinpod::cli
