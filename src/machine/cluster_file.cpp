// A cluster file (docs/jobs.md) with what was measured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/quote.hpp"
#include "machine/machine.hpp"
#include "spec/names.hpp"

namespace twinpod::machine {
namespace {

std::string number(double value) { return fmt::format("{:.4g}", value); }

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(value >= 1 ? fmt::format("{:.0f}", value) : number(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string mapping(const std::map<std::string, double>& values, const std::string& indent) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format("{}{}: {}\n", indent, name, number(value));
  return text;
}

std::string device_text(const spec::Device& device) {
  std::vector<std::string> peaks;
  for (const auto& [name, precision] : spec::kPrecisionNames) {
    const double peak = device.peak_flop_per_s[static_cast<std::size_t>(precision)];
    if (peak > 0) peaks.push_back(fmt::format("{}: {}", name, number(peak)));
  }
  return fmt::format(
      "device:\n  name: {}\n  vendor: {}\n  family: {}\n  peak: {{{}}}  # the best product, FLOP/s\n"
      "  memory: {:.0f}\n  memory_bandwidth: {}  # triad\n  host_link: {}\n  origin: measured\n"
      "  source: twinpod bench machine\n",
      double_quoted(device.name), double_quoted(device.vendor), yaml_word(device.family), fmt::join(peaks, ", "),
      device.memory_bytes, number(device.memory_bytes_per_s), number(device.host_bytes_per_s));
}

// The networks: a kind of node, and how many devices there are.
std::string node_text(const spec::Cluster& cluster) {
  std::string text = fmt::format("node:\n  devices: {}\n", cluster.devices_per_node);
  if (cluster.devices_per_node > 1) {
    text += fmt::format("  scale_up: {{kind: switched, bandwidth: {}}}\n", number(cluster.scale_up_bytes_per_s));
  } else {
    text += "  scale_up: {kind: none}\n";
  }
  if (cluster.nics_per_node > 0) {
    text += fmt::format("  nics: {}\n  nic_bandwidth: {}\n", cluster.nics_per_node,
                        number(cluster.scale_out_bytes_per_s * cluster.devices_per_node / cluster.nics_per_node));
  }
  text += fmt::format("  host_memory: {:.0f}\ndevices: {}\n", cluster.host_memory_bytes, cluster.devices);
  if (cluster.nics_per_node > 0)
    text += fmt::format("scale_out: {{latency: {}}}\n", number(cluster.scale_out_latency_s));
  return text;
}

std::string measured_text(const spec::Measured& measured) {
  std::string text = "measured:\n  numbers:\n" + mapping(measured.numbers, "    ");
  if (measured.has_messages()) {
    text += fmt::format("  message: {{inside: {}, between: {}}}\n", number(measured.message_inside_s),
                        number(measured.message_between_s));
  }
  if (!measured.collectives.empty()) text += "  collectives:\n";
  for (const spec::MeasuredCollective& one : measured.collectives) {
    text += fmt::format("    - verb: {}\n      ranks: {}\n      bytes: {}\n      seconds: {}\n      error: {}\n",
                        yaml_word(one.verb), one.ranks, numbers(one.bytes), numbers(one.seconds), number(one.error));
  }
  return text + "  errors:  # typical, of each fit\n" + mapping(measured.errors, "    ");
}

}  // namespace

std::string cluster_file(const Machine& machine, const spec::Cluster& cluster) {
  std::string text = fmt::format(
      "# Measured by `twinpod bench machine`: {} rank{} on {} host{}, {} thread{} each; {} cores, {} sockets a host.\n"
      "# Seconds, bytes, bytes/s and FLOP/s. Use it: twinpod plan MODEL --on FILE.\n",
      machine.ranks, machine.ranks == 1 ? "" : "s", machine.hosts, machine.hosts == 1 ? "" : "s", machine.threads,
      machine.threads == 1 ? "" : "s", machine.cores, machine.sockets);
  if (is_busy(machine)) {
    text += fmt::format("# The machine did other things (load {:.1f} on {} cores): measure again when it is idle.\n",
                        machine.load, machine.cores);
  }
  text += fmt::format("name: {}\n", double_quoted(cluster.name));
  text += device_text(cluster.device) + node_text(cluster);
  if (cluster.storage_read_bytes_per_s > 0) {
    text += fmt::format("storage: {{read: {}, write: {}}}  # {}; fsync of 4 KiB {} s\n",
                        number(cluster.storage_read_bytes_per_s), number(cluster.storage_write_bytes_per_s),
                        one_line(machine.disk.folder), number(machine.disk.fsync_s));
  }
  return text + measured_text(cluster.measured) + "origin: measured\nsource: twinpod bench machine\n";
}

}  // namespace twinpod::machine
