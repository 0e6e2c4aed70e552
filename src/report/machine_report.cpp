#include "report/machine_report.hpp"

#include <fmt/format.h>

#include "core/quote.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

using machine::LinkTime;
using machine::MemoryRate;
using machine::ProductTime;

std::string products_text(const MachineView& view) {
  Table table({{"products"},
               {"m", Align::right},
               {"n", Align::right},
               {"k", Align::right},
               {"ranks", Align::right},
               {"threads", Align::right},
               {"time us", Align::right},
               {"a rank", Align::right},
               {"of its peak", Align::right}});
  for (const ProductTime& row : view.machine.products) {
    const double peak = view.cluster.device.peak_flop_per_s[static_cast<std::size_t>(row.precision)];
    const bool comparable = row.threads == view.machine.threads && peak > 0;
    table.row({std::string(spec::name_of(row.precision)), fmt::format("{}", row.m), fmt::format("{}", row.n),
               fmt::format("{}", row.k), fmt::format("{}", row.ranks), fmt::format("{}", row.threads),
               fmt::format("{:.1f}", 1e6 * row.seconds), format_flop_per_s(row.flop_per_s()),
               comparable ? fmt::format("{:.0f} %", 100 * row.flop_per_s() / peak) : "-"});
  }
  return table.text();
}

std::string memory_text(const MachineView& view) {
  Table table({{"memory"}, {"ranks", Align::right}, {"threads", Align::right}, {"a rank", Align::right}});
  for (const MemoryRate& row : view.machine.memory) {
    table.row({row.kernel, fmt::format("{}", row.ranks), fmt::format("{}", row.threads),
               format_bytes_per_s(row.bytes_per_s)});
  }
  return table.text();
}

// Of each transport and number of ranks: the latency, and the rate of the largest size.
std::string links_text(const MachineView& view) {
  Table table({{"communication"},
               {"verb"},
               {"ranks", Align::right},
               {"smallest us", Align::right},
               {"largest B", Align::right},
               {"algbw", Align::right}});
  const std::vector<LinkTime>& links = view.machine.links;
  for (std::size_t first = 0; first < links.size();) {
    std::size_t last = first;
    while (last + 1 < links.size() && links[last + 1].bytes > links[last].bytes) ++last;
    const LinkTime& row = links[last];
    table.row({row.transport + (row.between_hosts ? " between hosts" : ""), row.verb, fmt::format("{}", row.ranks),
               fmt::format("{:.2f}", 1e6 * links[first].seconds), fmt::format("{:.0f}", row.bytes),
               format_bytes_per_s(row.bytes / row.seconds)});
    first = last + 1;
  }
  return table.text();
}

std::string fits_text(const MachineView& view) {
  Table table({{"fit"}, {"typical error", Align::right}});
  for (const auto& [name, error] : view.cluster.measured.errors)
    table.row({name, fmt::format("{:.0f} %", 100 * error)});
  double worst = 0;
  for (const spec::MeasuredCollective& one : view.cluster.measured.collectives) worst = std::max(worst, one.error);
  if (worst > 0) table.row({"sizes between those measured, worst verb", fmt::format("{:.0f} %", 100 * worst)});
  return table.text();
}

Json rows_json(const machine::Machine& machine, Json json) {
  json["products"] = Json::array();
  for (const ProductTime& p : machine.products) {
    json["products"].push_back({{"precision", spec::name_of(p.precision)},
                                {"m", p.m},
                                {"n", p.n},
                                {"k", p.k},
                                {"ranks", p.ranks},
                                {"threads", p.threads},
                                {"time_s", p.seconds},
                                {"flop_per_s", p.flop_per_s()}});
  }
  json["memory"] = Json::array();
  for (const MemoryRate& m : machine.memory) {
    json["memory"].push_back(
        {{"kernel", m.kernel}, {"ranks", m.ranks}, {"threads", m.threads}, {"bytes_per_s", m.bytes_per_s}});
  }
  json["communication"] = Json::array();
  for (const LinkTime& l : machine.links) {
    json["communication"].push_back({{"transport", l.transport},
                                     {"verb", l.verb},
                                     {"ranks", l.ranks},
                                     {"between_hosts", l.between_hosts},
                                     {"bytes", l.bytes},
                                     {"time_s", l.seconds}});
  }
  return json;
}

}  // namespace

std::string machine_text(const MachineView& view) {
  const machine::Machine& m = view.machine;
  std::string text = fmt::format(
      "{}: {}, {}, {}, {}, {} of memory, last cache {}\n{} on {}, {} each; products and memory while all ranks "
      "work\n\n",
      m.host, m.processor, counted(m.cores, "core"), counted(m.sockets, "socket"), counted(m.numa_nodes, "NUMA node"),
      format_bytes(m.memory_bytes), format_bytes(m.cache_bytes), counted(m.ranks, "rank"), counted(m.hosts, "host"),
      counted(m.threads, "thread"));
  if (machine::is_busy(m)) {
    text += fmt::format("the machine does other things (load {:.1f} on {}): figures are too low\n\n", m.load,
                        counted(m.cores, "core"));
  }
  text += products_text(view) + "\n" + memory_text(view) + "\n";
  text += fmt::format("overhead of a product {}, of a small kernel {}\n", format_seconds(m.product_overhead_s),
                      format_seconds(m.kernel_overhead_s));
  if (m.disk.write_bytes_per_s > 0) {
    text += fmt::format("disk of {}: write {}, read {}, fsync {}\n", m.disk.folder,
                        format_bytes_per_s(m.disk.write_bytes_per_s), format_bytes_per_s(m.disk.read_bytes_per_s),
                        format_seconds(m.disk.fsync_s));
  }
  if (!m.links.empty()) text += "\n" + links_text(view);
  text += "\n" + fits_text(view);
  if (!view.file.empty())
    text += fmt::format("\nwritten: {}; use it with --on {}\n", one_line(view.file), shell_quoted(view.file));
  return text;
}

std::string machine_json(const MachineView& view) {
  const machine::Machine& m = view.machine;
  Json json = {{"host", m.host},
               {"processor", m.processor},
               {"cores", m.cores},
               {"sockets", m.sockets},
               {"numa_nodes", m.numa_nodes},
               {"load", m.load},
               {"memory_bytes", m.memory_bytes},
               {"ranks", m.ranks},
               {"hosts", m.hosts},
               {"threads", m.threads},
               {"product_overhead_s", m.product_overhead_s},
               {"kernel_overhead_s", m.kernel_overhead_s},
               {"disk",
                {{"folder", m.disk.folder},
                 {"write_bytes_per_s", m.disk.write_bytes_per_s},
                 {"read_bytes_per_s", m.disk.read_bytes_per_s},
                 {"fsync_s", m.disk.fsync_s}}},
               {"file", view.file.empty() ? Json(nullptr) : Json(view.file)},
               {"errors", view.cluster.measured.errors}};
  return printed(rows_json(m, std::move(json)));
}

}  // namespace twinpod::report
