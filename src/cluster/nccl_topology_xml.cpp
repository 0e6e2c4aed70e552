#include "cluster/nccl_topology_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <pugixml.hpp>

#include "core/files.hpp"

namespace twinpod::cluster {
namespace {

constexpr int kMaxDepth = 32;
constexpr double kMaxGtPerS = 10'000;
constexpr int kMaxLanes = 1024;
constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

struct NvLink {
  int from = 0;        // vertex
  std::string target;  // bus id
  int count = 0;
  double bytes_per_s = 0;  // of one
  bool to_switch = false;
  int line = 0;
};

struct Builder {
  std::string_view text;
  std::string file;
  Graph graph;
  std::map<std::string, int> vertex_of_bus;
  std::vector<std::pair<int, int>> gpus;  // number that the file gives, vertex
  std::vector<int> cpus;
  std::vector<double> cpu_rates;
  std::vector<NvLink> nvlinks;

  int line(std::ptrdiff_t offset) const {
    const auto end = text.begin() + std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text.size()));
    return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
  }
  tl::unexpected<Error> refuse(int at_line, std::string message, std::string hint = "") const {
    return tl::unexpected(Error{ErrorKind::input, std::move(message), std::move(hint), file, at_line, 0});
  }
  tl::unexpected<Error> refuse(const pugi::xml_node& node, std::string message, std::string hint = "") const {
    return refuse(line(node.offset_debug()), std::move(message), std::move(hint));
  }
};

std::string bus_id(std::string_view text) {
  std::string id(text);
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return id;
}

// A whole number of an attribute; hexadecimal with 0x.
Result<int> number(const Builder& builder, const pugi::xml_node& node, const char* name, int fallback) {
  const pugi::xml_attribute attribute = node.attribute(name);
  if (attribute.empty()) return fallback;
  std::string_view text = attribute.value();
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0) return value;
  return builder.refuse(
      node, fmt::format("{} of <{}> is `{}`; expected a whole number", name, node.name(), attribute.value()));
}

// `16.0 GT/s PCIe` and a width in lanes. Where nothing is written NCCL takes generation 3 with 16 lanes, and so do we.
Result<double> pcie_bytes_per_s(const Builder& builder, const pugi::xml_node& pci) {
  double speed = pci.attribute("link_speed").as_double(0);
  int width = pci.attribute("link_width").as_int(0);
  if (!(speed <= kMaxGtPerS) || width > kMaxLanes) {  // NaN, too
    return builder.refuse(
        pci,
        fmt::format("link_speed `{}` and link_width `{}` of <pci>; expected at most {} GT/s and {}",
                    pci.attribute("link_speed").value(), pci.attribute("link_width").value(), kMaxGtPerS, kMaxLanes));
  }
  if (speed <= 0) speed = 8;
  if (width <= 0) width = 16;
  const double useful = speed >= 8 ? 128.0 / 130 : 0.8;
  return speed * 1e9 / 8 * width * useful;
}

// One NVLink, one direction, by the generation of the GPU.
double nvlink_bytes_per_s(int sm) {
  if (sm >= 100) return 50e9;
  if (sm == 86) return 14e9;
  return sm >= 70 ? 25e9 : 20e9;
}

// Between sockets. The rates are those of NCCL's own model (src/graph/topo.h, v2.30).
double socket_bytes_per_s(const pugi::xml_node& cpu) {
  const std::string_view vendor = cpu.attribute("vendor").value();
  if (vendor == "AuthenticAMD") return 16e9;
  if (vendor != "GenuineIntel") return 6e9;
  const int model = cpu.attribute("modelid").as_int(0);
  return model >= 207 ? 40e9 : model >= 143 ? 22e9 : model >= 85 ? 10e9 : 6e9;
}

Result<void> read_gpu(Builder& builder, const pugi::xml_node& gpu, int vertex) {
  const Result<int> dev = number(builder, gpu, "dev", static_cast<int>(builder.gpus.size()));
  if (!dev) return tl::unexpected(dev.error());
  const Result<int> sm = number(builder, gpu, "sm", 80);
  if (!sm) return tl::unexpected(sm.error());
  builder.gpus.emplace_back(*dev, vertex);
  for (const pugi::xml_node& child : gpu.children()) {
    const std::string_view name = child.name();
    if (name == "c2c") continue;  // the CPU is reached by PCIe in our graph
    if (name != "nvlink" && name != "xgmi") {
      return builder.refuse(child, fmt::format("<{}> inside <gpu>; expected nvlink, xgmi or c2c", name));
    }
    NvLink link;
    link.from = vertex;
    link.target = bus_id(child.attribute("target").value());
    link.line = builder.line(child.offset_debug());
    link.bytes_per_s = name == "xgmi" ? 64e9 : nvlink_bytes_per_s(*sm);
    link.to_switch = std::string_view(child.attribute("tclass").value()).starts_with("0x068");
    const Result<int> count = number(builder, child, "count", 1);
    if (!count) return tl::unexpected(count.error());
    if (*count < 1 || *count > 1024) return builder.refuse(child, fmt::format("{} links; expected 1 to 1024", *count));
    link.count = *count;
    if (link.target.empty()) return builder.refuse(child, fmt::format("<{}> has no target", name));
    builder.nvlinks.push_back(std::move(link));
  }
  return {};
}

Result<int> add_at_bus(Builder& builder, const pugi::xml_node& pci, const char* tier) {
  const std::string id = bus_id(pci.attribute("busid").value());
  if (id.empty()) return builder.refuse(pci, "<pci> has no busid");
  Graph& graph = builder.graph;
  const int vertex = add_vertex(graph, {vertex_tier(graph, tier), 0, 0, 0, 1});
  graph.names.push_back(fmt::format("{}({})", tier, id));
  if (!builder.vertex_of_bus.emplace(id, vertex).second) {
    return builder.refuse(pci, fmt::format("busid {} stands twice", id));
  }
  return vertex;
}

Result<void> read_nic(Builder& builder, const pugi::xml_node& nic, int parent, double rate) {
  Graph& graph = builder.graph;
  for (const pugi::xml_node& net : nic.children()) {
    if (std::string_view(net.name()) != "net") {
      return builder.refuse(net, fmt::format("<{}> inside <nic>; expected net", net.name()));
    }
    const Result<int> speed = number(builder, net, "speed", 0);
    if (!speed) return tl::unexpected(speed.error());
    const int vertex = add_vertex(graph, {vertex_tier(graph, "nic"), 0, 0, 0, 1});
    const std::string_view name = net.attribute("name").value();
    graph.names.push_back(name.empty() ? fmt::format("nic{}", vertex) : std::string(name));
    const double of_net = *speed * 1e6 / 8;
    add_cable(graph, parent, vertex, cable_tier(graph, "pcie_nic"), of_net > 0 ? std::min(of_net, rate) : rate, 0);
  }
  return {};
}

const char* tier_of(const pugi::xml_node& pci) {
  if (!pci.child("gpu").empty()) return "device";
  const std::string_view kind = pci.attribute("class").value();
  const bool alone = pci.child("pci").empty() && pci.child("nic").empty();
  if (alone && (kind.starts_with("0x0302") || kind.starts_with("0x0300"))) return "device";
  return "pcie";
}

Result<void> read_inside(Builder& builder, const pugi::xml_node& parent, int vertex, double rate, int depth);

Result<void> read_pci(Builder& builder, const pugi::xml_node& pci, int parent, int depth) {
  if (depth > kMaxDepth) return builder.refuse(pci, "<pci> stands too deep");
  const char* const tier = tier_of(pci);
  const Result<int> vertex = add_at_bus(builder, pci, tier);
  if (!vertex) return tl::unexpected(vertex.error());
  const Result<double> of_link = pcie_bytes_per_s(builder, pci);
  if (!of_link) return tl::unexpected(of_link.error());
  const double rate = *of_link;
  Graph& graph = builder.graph;
  add_cable(graph, parent, *vertex, cable_tier(graph, tier == std::string_view("device") ? "pcie_device" : "pcie_pcie"),
            rate, 0);
  const pugi::xml_node gpu = pci.child("gpu");
  const pugi::xml_node second = gpu.next_sibling("gpu");
  if (!second.empty()) {
    return builder.refuse(second, "a second <gpu> in one <pci>; expected one",
                          "each GPU has a <pci> and busid of its own");
  }
  if (gpu.empty() && tier == std::string_view("device")) {
    builder.gpus.emplace_back(static_cast<int>(builder.gpus.size()), *vertex);
  }
  return read_inside(builder, pci, *vertex, rate, depth);
}

Result<void> read_inside(Builder& builder, const pugi::xml_node& parent, int vertex, double rate, int depth) {
  for (const pugi::xml_node& child : parent.children()) {
    const std::string_view name = child.name();
    Result<void> read;
    if (name == "pci") {
      read = read_pci(builder, child, vertex, depth + 1);
    } else if (name == "nic") {
      read = read_nic(builder, child, vertex, rate);
    } else if (name == "gpu" && std::string_view(parent.name()) == "pci") {
      read = read_gpu(builder, child, vertex);
    } else if (name != "pcilink") {
      return builder.refuse(child,
                            fmt::format("<{}> inside <{}>; expected pci, nic or, in a pci, gpu", name, parent.name()));
    }
    if (!read) return read;
  }
  return {};
}

Result<void> read_cpu(Builder& builder, const pugi::xml_node& cpu) {
  Graph& graph = builder.graph;
  const int vertex = add_vertex(graph, {vertex_tier(graph, "cpu"), 0, 0, 0, 1});
  graph.names.push_back(fmt::format("cpu{}", builder.cpus.size()));
  const double rate = socket_bytes_per_s(cpu);
  for (std::size_t i = 0; i < builder.cpus.size(); ++i) {
    add_cable(graph, builder.cpus[i], vertex, cable_tier(graph, "cpu_cpu"), std::min(rate, builder.cpu_rates[i]), 5e-7);
  }
  builder.cpus.push_back(vertex);
  builder.cpu_rates.push_back(rate);
  return read_inside(builder, cpu, vertex, 16e9, 0);
}

// All links of GPUs to switches, one bundle a GPU.
void join_switches(Builder& builder) {
  Graph& graph = builder.graph;
  std::map<std::string, int> chips;
  std::map<int, std::pair<int, double>> of_gpu;  // links and their rate
  for (const NvLink& link : builder.nvlinks) {
    if (!link.to_switch) continue;
    chips.emplace(link.target, 0);
    auto& [count, rate] = of_gpu[link.from];
    count += link.count;
    rate = link.bytes_per_s;
  }
  if (chips.empty()) return;
  const int vertex = add_vertex(graph, {vertex_tier(graph, "nvswitch"), 0, 0, 0, static_cast<int>(chips.size())});
  graph.names.emplace_back("nvswitch");
  for (const auto& [gpu, links] : of_gpu) {
    add_cable(graph, gpu, vertex, cable_tier(graph, "device_nvswitch"), links.first * links.second, 5e-7, links.first);
  }
}

Result<void> join_gpus(Builder& builder) {
  Graph& graph = builder.graph;
  std::map<std::pair<int, int>, NvLink> found;  // by both ends
  for (const NvLink& link : builder.nvlinks) {
    if (link.to_switch) continue;
    const auto target = builder.vertex_of_bus.find(link.target);
    if (target == builder.vertex_of_bus.end()) {
      return builder.refuse(link.line, fmt::format("a link goes to {}, which is no busid of this file", link.target));
    }
    if (target->second == link.from) return builder.refuse(link.line, "a link goes from a GPU to itself");
    if (!found.emplace(std::pair{link.from, target->second}, link).second) {
      return builder.refuse(link.line, fmt::format("a second nvlink to {}", link.target));
    }
  }
  for (const auto& [ends, link] : found) {
    const auto back = found.find({ends.second, ends.first});
    if (back != found.end() && back->second.count != link.count) {
      return builder.refuse(std::max(link.line, back->second.line),
                            fmt::format("{} links one way, but {} the other", link.count, back->second.count));
    }
    if (back != found.end() && ends.first > ends.second) continue;  // was joined from the other end
    add_cable(graph, ends.first, ends.second, cable_tier(graph, "device_device"), link.count * link.bytes_per_s, 5e-7,
              link.count);
  }
  return {};
}

Result<void> number_gpus(Builder& builder) {
  Graph& graph = builder.graph;
  if (builder.gpus.empty()) return builder.refuse(1, "the file has no gpu", "NCCL_TOPO_DUMP_FILE writes one with them");
  std::stable_sort(builder.gpus.begin(), builder.gpus.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [unused, vertex] : builder.gpus) {
    graph.names[static_cast<std::size_t>(vertex)] = fmt::format("gpu{}", graph.devices.size());
    graph.devices.push_back(vertex);
  }
  return {};
}

Result<void> read_system(Builder& builder, const pugi::xml_document& document) {
  const pugi::xml_node system = document.document_element();
  if (std::string_view(system.name()) != "system") {
    return builder.refuse(system, fmt::format("the file holds <{}>; expected <system> of NCCL", system.name()));
  }
  for (const pugi::xml_node& child : system.children()) {
    if (std::string_view(child.name()) != "cpu") {
      return builder.refuse(child, fmt::format("<{}> inside <system>; expected cpu", child.name()));
    }
    const Result<void> read = read_cpu(builder, child);
    if (!read) return read;
  }
  const Result<void> numbered = number_gpus(builder);
  if (!numbered) return numbered;
  join_switches(builder);
  return join_gpus(builder);
}

}  // namespace

Result<Graph> parse_nccl_topology(std::string_view text, const std::string& file) {
  Builder builder;
  builder.text = text;
  builder.file = file;
  builder.graph.kind = GraphKind::custom;
  builder.graph.fabric = "node of an NCCL topology file";
  vertex_tier(builder.graph, "device");
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    return builder.refuse(builder.line(parsed.offset), fmt::format("this is no XML: {}", parsed.description()));
  }
  const Result<void> read = read_system(builder, document);
  if (!read) return tl::unexpected(read.error());
  index_links(builder.graph);
  const Result<void> connected = check_connected(builder.graph);
  if (!connected) return builder.refuse(1, connected.error().message, connected.error().hint);
  index_distances(builder.graph);
  return std::move(builder.graph);
}

Result<Graph> read_nccl_topology(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxFileBytes, "a topology that NCCL wrote");
  if (!text) return tl::unexpected(text.error());
  return parse_nccl_topology(*text, path);
}

}  // namespace twinpod::cluster
