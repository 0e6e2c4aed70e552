#include "cluster/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "cluster/topology_parts.hpp"
#include "core/thousands.hpp"
#include "spec/names.hpp"

namespace twinpod::cluster {
namespace {

using spec::Fabric;
using spec::ScaleUpKind;

int volume(const std::vector<int>& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1, [](int a, int b) { return a * b; });
}

// Whether some order of the slice's axes fits into the pod's.
bool fits_into(std::vector<int> slice, std::vector<int> pod) {
  std::sort(slice.begin(), slice.end());
  std::sort(pod.begin(), pod.end());
  for (std::size_t i = 0; i < slice.size(); ++i) {
    if (slice[i] > pod[i]) return false;
  }
  return true;
}

// Axes of the pod: as written, of the node's kind (Trainium), or as even as can be.
std::vector<int> pod_shape(const spec::Cluster& cluster) {
  if (!cluster.topology.shape.empty()) return cluster.topology.shape;
  if (!cluster.node_topology.shape.empty()) return cluster.node_topology.shape;
  return even_shape(std::min(cluster.devices, cluster.scale_up_domain), cluster.topology.cube > 0 ? 3 : 2,
                    cluster.topology.cube);
}

// Optical circuit switches put whole cubes together in any order; inside of a cube, and between boards, are wires.
bool can_be_made(const spec::Cluster& cluster, const std::vector<int>& slice, const std::vector<int>& pod) {
  const int cube = cluster.topology.cube;
  if (cluster.topology.wrap != spec::Wrap::multiples || cube == 0) return fits_into(slice, pod);
  if (volume(slice) > volume(pod)) return false;
  return std::all_of(slice.begin(), slice.end(), [&](int length) { return length % cube == 0; }) ||
         std::all_of(slice.begin(), slice.end(), [&](int length) { return length <= cube; });
}

void add_shapes(int chips, std::size_t axes, std::vector<int>& shape, std::vector<std::vector<int>>& shapes) {
  if (shape.size() + 1 == axes) {
    shapes.push_back(shape);
    shapes.back().push_back(chips);
    return;
  }
  for (int length = 1; length <= chips; ++length) {
    if (chips % length != 0) continue;
    shape.push_back(length);
    add_shapes(chips / length, axes, shape, shapes);
    shape.pop_back();
  }
}

// --slice 4x4x8, for a hint; the pod itself where no shape of as many chips is near.
std::string slice_hint(const spec::Cluster& cluster, const std::vector<int>& slice, const std::vector<int>& pod) {
  const std::vector<int> nearest = nearest_slice(cluster, volume(slice), slice);
  return "the nearest slice is " + spec::shape_text(nearest.empty() ? pod : nearest);
}

Result<void> size_torus(Machine& machine) {
  const spec::Cluster& cluster = machine.cluster;
  const std::vector<int> pod = pod_shape(cluster);
  const int axes = static_cast<int>(pod.size());
  if (!cluster.topology.slice.empty()) {
    machine.shape = cluster.topology.slice;
  } else if (cluster.devices < volume(pod)) {
    machine.shape = even_shape(cluster.devices, axes, cluster.topology.cube);
  } else {
    machine.shape = pod;
  }
  machine.domain = volume(machine.shape);
  if (cluster.devices % machine.domain != 0) {
    return input_error(
        fmt::format("{} devices are no multiple of a {} torus", cluster.devices, spec::shape_text(machine.shape)),
        fmt::format("use {} devices, or name a slice", cluster.devices / machine.domain * machine.domain));
  }
  machine.wraps = wraps_of(cluster.topology, machine.shape);
  machine.devices = cluster.devices;
  return {};
}

Fabric fabric_of(const Machine& machine) {
  const Fabric asked = machine.cluster.topology.fabric;
  if (asked != Fabric::automatic) return asked;
  if (machine.domains == 1) return Fabric::none;
  const bool rails = machine.nics > 1 && machine.nics <= 16 && machine.cluster.scale_up != ScaleUpKind::none;
  return rails ? Fabric::rail_fat_tree : Fabric::fat_tree;
}

Result<void> add_scale_up(const Machine& machine, Graph& graph) {
  if (machine.domain < 2) return {};
  switch (machine.cluster.scale_up) {
    case ScaleUpKind::switched:
      return add_switched(machine, graph);
    case ScaleUpKind::mesh:
      return add_mesh(machine, graph);
    case ScaleUpKind::torus:
      return add_torus(machine, graph);
    case ScaleUpKind::none:
      break;
  }
  return {};
}

Result<void> add_fabric(const Machine& machine, Graph& graph) {
  const Fabric fabric = fabric_of(machine);
  const bool torus_alone = machine.cluster.scale_up == ScaleUpKind::torus && fabric == Fabric::none;
  if (machine.nics == 0 || machine.nic_bytes_per_s <= 0 || torus_alone) return {};
  add_hosts(machine, graph);
  if (fabric == Fabric::none) return {};
  graph.fabric_reduces = machine.cluster.topology.reduces;
  return fabric == Fabric::dragonfly ? add_dragonfly(machine, graph) : add_tree(machine, graph);
}

void add_devices(const Machine& machine, Graph& graph) {
  const int tier = vertex_tier(graph, "device");
  // Room for what most machines have (memory that is not used costs nothing): half of the time to build a million
  // devices would go into moving links.
  const std::size_t nics = static_cast<std::size_t>(machine.nodes) * static_cast<std::size_t>(machine.nics);
  graph.vertices.reserve(2 * (static_cast<std::size_t>(machine.devices) + nics));
  graph.links.reserve(2 * (3 * static_cast<std::size_t>(machine.devices) + 5 * nics));
  for (int device = 0; device < machine.devices; ++device) {
    const int per_node = machine.cluster.devices_per_node;
    add_vertex(graph, {tier, device / per_node, device % per_node, 0, 1});
  }
  graph.devices.resize(static_cast<std::size_t>(std::min(machine.devices, machine.cluster.devices)));
  std::iota(graph.devices.begin(), graph.devices.end(), 0);
}

}  // namespace

double nic_latency_s(const spec::Cluster& cluster, int switches) {
  constexpr double kLeast = 1e-7;  // what a file says is rounded; a NIC is never free
  return std::max(kLeast, cluster.scale_out_latency_s - switches * cluster.topology.switch_latency_s);
}

Result<Machine> machine_of(const spec::Cluster& cluster) {
  Machine machine{cluster, 1, 1, 1, 1, 0, 0, {}, {}};
  machine.nodes = (cluster.devices + cluster.devices_per_node - 1) / cluster.devices_per_node;
  machine.devices = machine.nodes * cluster.devices_per_node;
  machine.domain = cluster.scale_up == ScaleUpKind::none ? 1 : std::max(1, cluster.scale_up_domain);
  if (cluster.scale_up == ScaleUpKind::torus) {
    if (Result<void> sized = size_torus(machine); !sized) return tl::unexpected(sized.error());
  }
  machine.domains = (machine.devices + machine.domain - 1) / machine.domain;
  machine.nics = cluster.nics_per_node > 0 ? cluster.nics_per_node : cluster.devices_per_node;
  machine.nic_bytes_per_s = cluster.scale_out_bytes_per_s * cluster.devices_per_node / machine.nics;
  return machine;
}

Result<Graph> build_graph(const spec::Cluster& cluster) {
  if (cluster.topology.fabric == Fabric::custom) return custom_graph(cluster);
  constexpr int kMostDevices = 1 << 19;  // about 450 MB
  if (cluster.devices > kMostDevices) {
    return input_error(fmt::format("{} has {} devices; a graph is built for at most {}", cluster.name,
                                   with_thousands(cluster.devices), with_thousands(kMostDevices)),
                       fmt::format("--devices {}", kMostDevices));
  }
  const Result<Machine> machine = machine_of(cluster);
  if (!machine) return tl::unexpected(machine.error());
  Graph graph;
  add_devices(*machine, graph);
  graph.host.devices_per_node = cluster.devices_per_node;
  graph.scale_up.kind = cluster.scale_up;
  graph.scale_up.domain = machine->domain;
  graph.assumed = !cluster.topology.written && machine->domains > 1;
  graph.domain_reduces = cluster.node_topology.reduces;
  for (const auto add : {add_scale_up, add_fabric}) {
    const Result<void> added = add(*machine, graph);
    if (!added) return tl::unexpected(added.error());
  }
  index_links(graph);
  for (const auto check : {check_ports, check_connected}) {
    const Result<void> right = check(graph);
    if (!right) return tl::unexpected(right.error());
  }
  return graph;
}

Result<void> apply_slice(spec::Cluster& cluster, std::string_view text) {
  constexpr std::string_view kTwisted = "_twisted";
  const bool twisted = text.ends_with(kTwisted);
  const std::string axes(text.substr(0, text.size() - (twisted ? kTwisted.size() : 0)));
  const std::vector<int> slice = spec::parse_shape(axes);
  if (slice.empty()) return input_error(fmt::format("slice is `{}`; expected axes such as 4x4x8", text));
  if (cluster.scale_up != spec::ScaleUpKind::torus) {
    return input_error(fmt::format("{} is no torus, so it has no slice {}", cluster.name, text),
                       "give a number of devices instead");
  }
  const std::vector<int> pod = pod_shape(cluster);
  if (slice.size() != pod.size()) {
    return input_error(fmt::format("slice {} has {} axes; the pod is {}", text, slice.size(), spec::shape_text(pod)),
                       slice_hint(cluster, slice, pod));
  }
  // Optical circuit switches put cubes together in any order; wires do not.
  const bool any_order = cluster.topology.wrap == spec::Wrap::multiples;
  if (any_order ? volume(slice) > volume(pod) : !fits_into(slice, pod)) {
    return input_error(fmt::format("slice {} does not fit into the pod of {}", text, spec::shape_text(pod)),
                       slice_hint(cluster, slice, pod));
  }
  cluster.topology.slice = slice;
  cluster.topology.twisted = twisted;
  cluster.devices = volume(slice);
  cluster.scale_up_domain = cluster.devices;
  return {};
}

std::vector<std::vector<int>> slice_shapes(const spec::Cluster& cluster, int chips) {
  std::vector<std::vector<int>> shapes;
  if (cluster.scale_up != spec::ScaleUpKind::torus || chips < 1) return shapes;
  const std::vector<int> pod = pod_shape(cluster);
  if (chips > volume(pod)) return shapes;
  std::vector<int> shape;
  add_shapes(chips, pod.size(), shape, shapes);
  std::erase_if(shapes, [&](const std::vector<int>& one) { return !can_be_made(cluster, one, pod); });
  return shapes;
}

std::vector<int> nearest_slice(const spec::Cluster& cluster, int chips, const std::vector<int>& wanted) {
  std::vector<int> nearest;
  int least = 0;
  for (const std::vector<int>& shape : slice_shapes(cluster, chips)) {
    int apart = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      apart += std::abs(shape[axis] - (axis < wanted.size() ? wanted[axis] : 1));
    }
    if (!nearest.empty() && apart >= least) continue;
    nearest = shape;
    least = apart;
  }
  return nearest;
}

Result<void> apply_devices(spec::Cluster& cluster, int devices) {
  if (devices < 1) return input_error(fmt::format("{} devices; expected at least 1", devices));
  cluster.devices = devices;
  if (cluster.scale_up == spec::ScaleUpKind::torus && devices < cluster.scale_up_domain) {
    cluster.scale_up_domain = devices;
  }
  if (devices > cluster.scale_up_domain && cluster.scale_out_bytes_per_s <= 0) {
    return input_error(fmt::format("{} devices, but the scale-up network of {} joins {} and nothing joins further ones",
                                   devices, cluster.name, cluster.scale_up_domain),
                       fmt::format("ask for at most {}", cluster.scale_up_domain));
  }
  return {};
}

}  // namespace twinpod::cluster
