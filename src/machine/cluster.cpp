// From measurements to the numbers of a cluster, with the error of each fit.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "cluster/device_time.hpp"
#include "cluster/measured_collective.hpp"
#include "cluster/network.hpp"
#include "core/thousands.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"

namespace twinpod::machine {
namespace {

using spec::Cluster;
using spec::Device;
using spec::Physics;

int ranks_per_host(const Machine& machine) { return std::max(1, machine.ranks / std::max(1, machine.hosts)); }

// What all ranks did at once is what counts.
std::vector<ProductTime> products_at_once(const Machine& machine) {
  std::vector<ProductTime> rows;
  for (const ProductTime& row : machine.products) {
    if (row.ranks == machine.ranks && row.threads == machine.threads) rows.push_back(row);
  }
  return rows;
}

void fill_device(const Machine& machine, Device& device) {
  device.name = fmt::format("{}, {} core{}", machine.processor, machine.threads, machine.threads == 1 ? "" : "s");
  device.vendor = machine.vendor;
  device.family = "cpu";
  device.memory_bytes = machine.memory_bytes / ranks_per_host(machine);
  device.source = {"twinpod bench machine", spec::Origin::measured};
  for (const ProductTime& row : products_at_once(machine)) {
    double& peak = device.peak_flop_per_s[static_cast<std::size_t>(row.precision)];
    peak = std::max(peak, row.flop_per_s());
  }
  for (const MemoryRate& rate : machine.memory) {
    if (rate.ranks == machine.ranks && rate.threads == machine.threads && rate.kernel == "triad") {
      device.memory_bytes_per_s = rate.bytes_per_s;
    }
  }
  device.host_bytes_per_s = device.memory_bytes_per_s;  // it is its own host
}

void fit_products(const Machine& machine, Cluster& cluster) {
  const std::vector<ProductTime> rows = products_at_once(machine);
  std::vector<double> seconds;
  for (const ProductTime& row : rows) seconds.push_back(row.seconds);
  // efficiency, depth, area, launch
  std::array<Unknown, 4> unknowns = {
      {{0.9, 0.05, 1}, {20, 1e-3, 1e4}, {1000, 1e-3, 1e7}, {std::max(1e-9, machine.product_overhead_s), 1e-9, 1e-2}}};
  Physics physics = spec::default_physics();
  physics.memory_efficiency = 1;
  const double error = fit(unknowns, seconds, [&](std::span<const Unknown> at, std::size_t i) {
    physics.gemm_efficiency_bf16 = at[0].value;
    physics.gemm_depth = at[1].value;
    physics.gemm_area = at[2].value;
    physics.gemm_launch_s = at[3].value;
    const ProductTime& row = rows[i];
    return cluster::DeviceTime(cluster.device, physics).product(row.m, row.n, row.k, 1, row.precision);
  });
  std::map<std::string, double>& numbers = cluster.measured.numbers;
  numbers["gemm_efficiency_bf16"] = unknowns[0].value;
  numbers["gemm_depth"] = unknowns[1].value;
  numbers["gemm_area"] = unknowns[2].value;
  numbers["gemm_launch_s"] = unknowns[3].value;
  numbers["memory_efficiency"] = 1;
  numbers["kernel_launch_s"] = machine.kernel_overhead_s;
  // Nobody launches kernels for a processor.
  for (const char* const host : {"launch_s", "launch_tp_s", "launch_head_s", "launch_expert_s"}) numbers[host] = 0;
  if (!rows.empty()) cluster.measured.errors["products"] = error;
}

// What the closed form multiplies by, out of the kernels that were timed: a mean of ratios, and how far they are apart.
struct Ratio {
  double mean = 0;  // seconds for one of `work`; 0: not measured
  double error = 0;
};

Ratio ratio_of(const Machine& machine, std::string_view kernel) {
  std::vector<double> logs;
  for (const KernelTime& row : machine.kernels) {
    const bool counts = row.ranks == machine.ranks && row.threads == machine.threads && row.work > 0;
    if (counts && row.kernel == kernel) logs.push_back(std::log(row.seconds / row.work));
  }
  if (logs.empty()) return {};
  double sum = 0;
  for (const double log : logs) sum += log;
  const double mean = sum / static_cast<double>(logs.size());
  double apart = 0;
  for (const double log : logs) apart += std::abs(log - mean);
  return {std::exp(mean), apart / static_cast<double>(logs.size())};
}

// Attention as a share of the peak, other kernels as the bytes that take as long.
void fit_kernels(const Machine& machine, Cluster& cluster) {
  constexpr double kBackward = 2.5;  // products of the backward pass for one of the forward pass (plan/layer_kernels)
  // Timed in fp32, unless all is of one job in bf16.
  const auto peak_in = [&](spec::Precision precision) {
    return cluster.device.peak_flop_per_s[static_cast<std::size_t>(precision)];
  };
  const double fp32 = peak_in(spec::Precision::fp32);
  const double peak = fp32 > 0 ? fp32 : peak_in(spec::Precision::bf16);
  const double bytes_per_s = cluster.device.memory_bytes_per_s;
  std::map<std::string, double>& numbers = cluster.measured.numbers;
  const auto set = [&](const char* kernel, const char* field, const auto& value_of) {
    const Ratio ratio = ratio_of(machine, kernel);
    if (ratio.mean <= 0) return;
    numbers[field] = value_of(ratio.mean);
    cluster.measured.errors[kernel] = ratio.error;
  };
  const auto bytes = [&](double seconds) { return seconds * bytes_per_s; };
  if (peak > 0) {
    set("attention", "attention_forward", [&](double seconds) { return 1 / (seconds * peak); });
    set("attention_backward", "attention_backward", [&](double seconds) { return kBackward / (seconds * peak); });
    if (numbers.contains("attention_forward")) numbers["attention_software"] = 1;
  }
  set("elements", "element_factor", bytes);
  set("logits", "logit_bytes", bytes);
  set("optimizer", "optimizer_bytes", bytes);
}

struct Line {
  double start_s = 0;
  double bytes_per_s = 0;
  double error = 0;
};

std::optional<Line> line_through(const std::vector<LinkTime>& rows) {
  if (rows.size() < 2) return {};
  std::vector<double> seconds;
  for (const LinkTime& row : rows) seconds.push_back(row.seconds);
  std::array<Unknown, 2> unknowns = {{{rows.front().seconds}, {rows.back().bytes / rows.back().seconds}}};
  const double error = fit(unknowns, seconds, [&](std::span<const Unknown> at, std::size_t i) {
    return at[0].value + rows[i].bytes / at[1].value;
  });
  return Line{unknowns[0].value, unknowns[1].value, error};
}

std::vector<LinkTime> sends(const Machine& machine, bool between) {
  std::vector<LinkTime> rows;
  for (const LinkTime& row : machine.links) {
    if (row.verb == "send" && row.ranks == 2 && row.between_hosts == between && row.transport != "threads") {
      rows.push_back(row);
    }
  }
  return rows;
}

void fill_messages(const Machine& machine, Cluster& cluster) {
  cluster.devices = machine.ranks;
  cluster.devices_per_node = cluster.scale_up_domain = ranks_per_host(machine);
  cluster.scale_up = cluster.devices_per_node > 1 ? spec::ScaleUpKind::switched : spec::ScaleUpKind::none;
  if (const auto inside = line_through(sends(machine, false))) {
    cluster.scale_up_bytes_per_s = inside->bytes_per_s;
    cluster.measured.message_inside_s = inside->start_s;
    cluster.measured.errors["messages"] = inside->error;
  }
  if (const auto between = line_through(sends(machine, true))) {
    cluster.nics_per_node = 1;
    cluster.scale_out_bytes_per_s = between->bytes_per_s / cluster.devices_per_node;
    // Half for the wire, which the graph knows of, half for the hosts.
    cluster.scale_out_latency_s = between->start_s / 2;
    cluster.measured.message_between_s = between->start_s / 2;
    cluster.measured.errors["messages_between_hosts"] = between->error;
  }
}

double interpolation_error(const spec::MeasuredCollective& one) {
  std::vector<double> errors;
  for (std::size_t i = 1; i + 1 < one.bytes.size(); ++i) {
    spec::MeasuredCollective without = one;
    without.bytes.erase(without.bytes.begin() + static_cast<std::ptrdiff_t>(i));
    without.seconds.erase(without.seconds.begin() + static_cast<std::ptrdiff_t>(i));
    errors.push_back(std::abs(cluster::interpolated_s(without, one.bytes[i]) / one.seconds[i] - 1));
  }
  if (errors.empty()) return 0;
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2), errors.end());
  return errors[errors.size() / 2];
}

void fill_collectives(const Machine& machine, Cluster& cluster) {
  std::vector<spec::MeasuredCollective>& all = cluster.measured.collectives;
  for (const LinkTime& row : machine.links) {
    if (row.transport == "threads" || (row.verb == "send" && row.between_hosts && machine.hosts == 1)) continue;
    if (row.verb == "send" && row.between_hosts != (machine.hosts > 1)) continue;
    const bool same = !all.empty() && all.back().verb == row.verb && all.back().ranks == row.ranks;
    if (!same) all.push_back({row.verb, row.ranks, {}, {}, 0});
    if (!all.back().bytes.empty() && row.bytes <= all.back().bytes.back()) continue;
    all.back().bytes.push_back(row.bytes);
    all.back().seconds.push_back(row.seconds);
  }
  for (spec::MeasuredCollective& one : all) one.error = interpolation_error(one);
}

std::optional<cluster::Verb> closed_form_verb(const std::string& verb) {
  if (verb == "all_reduce") return cluster::Verb::all_reduce;
  if (verb == "all_gather") return cluster::Verb::all_gather;
  if (verb == "reduce_scatter") return cluster::Verb::reduce_scatter;
  if (verb == "send") return cluster::Verb::send;
  return {};
}

// What plans use: one latency, one step, one approach to the full rate, for all verbs and numbers of ranks.
void fit_closed_form(const Machine& machine, Cluster& cluster) {
  std::vector<LinkTime> rows;
  std::vector<double> seconds;
  for (const LinkTime& row : machine.links) {
    if (row.transport == "threads" || !closed_form_verb(row.verb)) continue;
    rows.push_back(row);
    seconds.push_back(row.seconds);
  }
  const bool split = machine.hosts > 1;
  std::array<Unknown, 4> unknowns = {{{1e-6, 1e-9, 1}, {1e-7, 1e-9, 1}, {1e-9, 1e-14, 1e-3}, {1, 0.05, 20}}};
  Physics physics = spec::default_physics();
  const double error = fit(unknowns, seconds, [&](std::span<const Unknown> at, std::size_t i) {
    physics.collective_latency_s = at[0].value;
    physics.collective_step_s = at[1].value;
    physics.collective_root = at[2].value;
    physics.scale_up_efficiency = split ? 1 : at[3].value;
    physics.scale_out_efficiency = split ? at[3].value : 1;
    const LinkTime& row = rows[i];
    cluster::Group group = cluster::group_of(cluster, row.ranks, 1);
    if (row.ranks == 2 && row.between_hosts) group.per_domain = 1;
    return cluster::collective_s(cluster, physics, *closed_form_verb(row.verb), row.bytes, group);
  });
  if (rows.empty()) return;
  std::map<std::string, double>& numbers = cluster.measured.numbers;
  numbers["collective_latency_s"] = unknowns[0].value;
  numbers["collective_step_s"] = unknowns[1].value;
  numbers["collective_root"] = unknowns[2].value;
  numbers["scale_up_efficiency"] = split ? 1 : unknowns[3].value;
  numbers["scale_out_efficiency"] = split ? unknowns[3].value : 1;
  cluster.measured.errors["collectives"] = error;
}

}  // namespace

Cluster cluster_of(const Machine& machine) {
  Cluster cluster;
  cluster.name =
      machine.hosts > 1 ? fmt::format("{} like {}", counted(machine.hosts, "host"), machine.host) : machine.host;
  cluster.source = {"twinpod bench machine", spec::Origin::measured};
  cluster.host_memory_bytes = machine.memory_bytes;
  cluster.storage_read_bytes_per_s = machine.disk.read_bytes_per_s;
  cluster.storage_write_bytes_per_s = machine.disk.write_bytes_per_s;
  fill_device(machine, cluster.device);
  fill_messages(machine, cluster);
  fit_products(machine, cluster);
  fit_kernels(machine, cluster);
  fill_collectives(machine, cluster);
  fit_closed_form(machine, cluster);
  return cluster;
}

}  // namespace twinpod::machine
