// Reading catalog/collectives.yaml, and finding the system that a name or a cluster means.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cluster/collective_cost.hpp"
#include "spec/entries.hpp"
#include "spec/node.hpp"
#include "spec/reader.hpp"

namespace twinpod::cluster {
namespace {

using spec::Context;
using spec::Node;
using spec::Reader;

constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;

// A list of exactly as many numbers as there is room for, each times `unit`.
template <std::size_t kCount>
void read_list(Reader& reader, Context& context, std::string_view key, std::array<double, kCount>& values,
               double unit) {
  reader.require(key);
  const Node* node = reader.take(key);
  if (node == nullptr) return;
  if (node->kind != Node::Kind::sequence || node->items.size() != kCount) {
    context.refuse(*node,
                   fmt::format("{} is {}; expected a list of {} numbers", key, spec::description(*node), kCount));
    return;
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    const Result<double> value = parse_quantity(node->items[i].scalar, Quantity::number);
    if (!value || *value < 0) {
      context.refuse(node->items[i],
                     fmt::format("{} has {}; expected a number from 0", key, spec::description(node->items[i])));
      return;
    }
    values[i] = *value * unit;
  }
}

void read_latency(Reader& reader, std::string_view key, double& seconds) {
  double micro = 0;
  reader.require(key);
  reader.quantity(key, micro, Quantity::number, 0, 1e4);
  seconds = micro * kMicro;
}

void read_constants(const Node& node, Context& context, NcclConstants& nccl) {
  Reader reader(node, context, "nccl");
  reader.text("version", nccl.version);
  read_list(reader, context, "base_tree_us", nccl.base_tree, kMicro);
  read_list(reader, context, "base_ring_us", nccl.base_ring, kMicro);
  read_list(reader, context, "link_tree_us", nccl.link_tree, kMicro);
  read_list(reader, context, "link_ring_us", nccl.link_ring, kMicro);
  read_list(reader, context, "net_tree_us", nccl.net_tree, kMicro);
  read_list(reader, context, "net_ring_us", nccl.net_ring, kMicro);
  read_latency(reader, "link_nvls_us", nccl.link_nvls);
  read_latency(reader, "net_nvls_tree_us", nccl.net_nvls_tree);
  read_latency(reader, "net_overhead_us", nccl.net_overhead);
  read_latency(reader, "link_collnet_us", nccl.link_collnet);
  read_latency(reader, "peer_collnet_us", nccl.peer_collnet);
  read_latency(reader, "net_collnet_us", nccl.net_collnet);
  reader.quantity("buffer", nccl.buffer_bytes, Quantity::bytes, 1, 1e9);
  reader.quantity("buffer_steps", nccl.buffer_steps, Quantity::number, 1, 64);
  reader.quantity("nvls_chunk", nccl.nvls_chunk_bytes, Quantity::bytes, 1, 1e9);
  read_list(reader, context, "payload", nccl.payload, 1);
  read_list(reader, context, "channel_bytes", nccl.channel_bytes, 1);
  reader.quantity("ring_plateau", nccl.ring_plateau, Quantity::number, 1, 10);
  read_list(reader, context, "tree_correction_ll", nccl.tree_correction[0], 1);
  read_list(reader, context, "tree_correction_ll128", nccl.tree_correction[1], 1);
  read_list(reader, context, "tree_correction_simple", nccl.tree_correction[2], 1);
  spec::Source source;
  spec::read_source(reader, source);
  reader.finish();
}

void read_family(const Node& node, Context& context, NcclFamily& family) {
  Reader reader(node, context, family.name);
  reader.quantity("bus_share", family.bus_share, Quantity::fraction, 0.1, 1);
  reader.quantity("channels", family.channels, Quantity::number, 1, 64);
  reader.flag("tuned", family.tuned);
  read_list(reader, context, "ll_max_GBps", family.ll_max, kGiga);
  if (family.tuned) {
    read_list(reader, context, "ring_ll128_GBps", family.ring_ll128, kGiga);
    read_list(reader, context, "tree_ll128_GBps", family.tree_ll128, kGiga);
    read_list(reader, context, "tree_simple_GBps", family.tree_simple, kGiga);
    read_list(reader, context, "nvls_tree_GBps", family.nvls_tree, kGiga);
    reader.quantity("nvls_efficiency", family.nvls_efficiency, Quantity::fraction, 0, 1);
    reader.quantity("collnet_efficiency", family.collnet_efficiency, Quantity::fraction, 0, 1);
  }
  spec::Source source;
  spec::read_source(reader, source);
  reader.finish();
}

void read_system(const Node& node, Context& context, const CollectiveCatalog& catalog, CollectiveSystem& system) {
  Reader reader(node, context, system.name);
  std::string family;
  reader.require("family");
  reader.text("family", family);
  if (!family.empty()) {
    const auto found = catalog.families.find(family);
    std::vector<std::string> known;
    for (const auto& [name, unused] : catalog.families) known.push_back(name);
    if (found != catalog.families.end()) {
      system.family = found->second;
    } else {
      context.refuse(reader.place("family"), fmt::format("family is `{}`; expected one of families", family),
                     spec::suggestion(family, known));
    }
  }
  reader.texts("measured_as", system.measured_as);
  reader.texts("device_families", system.device_families);
  reader.require("domain");
  reader.count("domain", system.domain, 2, 65536);
  reader.flag("mesh", system.mesh);
  reader.require("scale_up");
  reader.quantity("scale_up", system.scale_up_bytes_per_s, Quantity::bytes_per_s, 1e8, 1e14);
  reader.quantity("nic", system.nic_bytes_per_s, Quantity::bytes_per_s, 1e7, 1e13);
  reader.quantity("net_latency", system.net_latency_s, Quantity::seconds, 0, 1e-2);
  reader.count("in_network_from", system.in_network_from, 2, 65536);
  spec::Source source;
  spec::read_source(reader, source);
  reader.finish();
}

void read_fitted_system(const Node& node, Context& context, CollectiveSystem& system) {
  Reader reader(node, context, system.name);
  for (const FreeNumber<SystemNumbers>& number : system_numbers()) {
    if (reader.has(number.name)) system.fitted.emplace_back(number.name);
  }
  read_numbers(reader, system_numbers(), system.numbers);
  reader.finish();
}

void read_fitted(const Node& node, Context& context, CollectiveCatalog& catalog) {
  Reader reader(node, context, "fitted");
  if (const Node* shared = reader.mapping("shared")) {
    Reader numbers(*shared, context, "shared");
    read_numbers(numbers, shared_numbers(), catalog.shared);
    numbers.finish();
  }
  const Node* systems = reader.mapping("system");
  reader.finish();
  if (systems == nullptr) return;
  Reader by_name(*systems, context, "system");
  for (CollectiveSystem& system : catalog.systems) {
    if (const Node* numbers = by_name.mapping(system.name)) read_fitted_system(*numbers, context, system);
  }
  by_name.finish();
}

// What was not fitted to a system's own measurements is the middle of those it was fitted to. Not so the latency
// between nodes, which belongs to one network: EFA's says nothing about InfiniBand's.
void fill_with_medians(std::vector<CollectiveSystem>& systems, CollectiveSystem& target) {
  for (const FreeNumber<SystemNumbers>& number : system_numbers()) {
    const auto is_fitted = [&](const CollectiveSystem& s) {
      return std::find(s.fitted.begin(), s.fitted.end(), number.name) != s.fitted.end();
    };
    if (is_fitted(target)) continue;
    std::vector<double> values;
    for (const CollectiveSystem& s : systems) {
      if (number.member == &SystemNumbers::latency_net) break;
      if (s.mesh == target.mesh && is_fitted(s)) values.push_back(s.numbers.*number.member);
    }
    std::sort(values.begin(), values.end());
    target.numbers.*number.member = values.empty() ? number.prior : values[values.size() / 2];
  }
}

bool same_text(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

bool is_called(const CollectiveSystem& system, std::string_view name) {
  return same_text(system.name, name) || std::any_of(system.measured_as.begin(), system.measured_as.end(),
                                                     [&](const std::string& alias) { return same_text(alias, name); });
}

template <typename Read>
void each_of(const Node* mapping, const Read& read) {
  if (mapping == nullptr) return;
  for (std::size_t i = 0; i < mapping->keys.size(); ++i) read(mapping->keys[i], mapping->items[i]);
}

void read_catalog(const Node& root, Context& context, CollectiveCatalog& catalog) {
  Reader reader(root, context, "collectives");
  reader.require("nccl");
  if (const Node* nccl = reader.mapping("nccl")) read_constants(*nccl, context, catalog.nccl);
  each_of(reader.mapping("families"), [&](const std::string& name, const Node& node) {
    catalog.families[name].name = name;
    read_family(node, context, catalog.families[name]);
  });
  each_of(reader.mapping("systems"), [&](const std::string& name, const Node& node) {
    CollectiveSystem& system = catalog.systems.emplace_back();
    system.name = name;
    system.nccl = catalog.nccl;
    read_system(node, context, catalog, system);
  });
  if (const Node* fitted = reader.mapping("fitted")) read_fitted(*fitted, context, catalog);
  reader.finish();
}

// How unlike two sizes are, as a ratio.
double distance(int a, int b) { return std::abs(std::log(static_cast<double>(a) / b)); }

}  // namespace

Result<CollectiveCatalog> read_collectives(const std::string& path) {
  const Result<Node> root = spec::parse_yaml_file(path);
  if (!root) return tl::unexpected(root.error());
  Context context(path);
  CollectiveCatalog catalog;
  catalog.shared = prior_numbers(shared_numbers());
  read_catalog(*root, context, catalog);
  if (!context.failed() && catalog.systems.empty())
    context.refuse(*root, "systems has no entry; expected at least one");
  if (context.failed()) return tl::unexpected(context.error());
  for (CollectiveSystem& system : catalog.systems) {
    fill_with_medians(catalog.systems, system);
    system.shared = catalog.shared;
  }
  return catalog;
}

const CollectiveSystem* find_system(const CollectiveCatalog& catalog, std::string_view name) {
  for (const CollectiveSystem& system : catalog.systems) {
    if (is_called(system, name)) return &system;
  }
  return nullptr;
}

std::vector<std::string> system_names(const CollectiveCatalog& catalog) {
  std::vector<std::string> names;
  for (const CollectiveSystem& system : catalog.systems) {
    names.push_back(system.name);
    names.insert(names.end(), system.measured_as.begin(), system.measured_as.end());
  }
  return names;
}

CollectiveSystem system_of(const CollectiveCatalog& catalog, const spec::Cluster& cluster) {
  const bool mesh = cluster.scale_up == spec::ScaleUpKind::mesh;
  const int domain = std::max(1, cluster.scale_up_domain);
  const CollectiveSystem* best = nullptr;
  double least = 0;
  for (const CollectiveSystem& system : catalog.systems) {
    const auto& families = system.device_families;
    const bool same_family = std::find(families.begin(), families.end(), cluster.device.family) != families.end();
    // Each level outweighs those below it: the way of joining, the generation of devices, the domain.
    double unlike = (system.mesh == mesh ? 0 : 1000) + (same_family ? 0 : 100) + distance(system.domain, domain);
    if (!same_family)
      unlike += 10 * std::abs(std::log(system.scale_up_bytes_per_s / std::max(1.0, cluster.scale_up_bytes_per_s)));
    if (best == nullptr || unlike < least) {
      best = &system;
      least = unlike;
    }
  }
  CollectiveSystem system = *best;
  system.name = cluster.name;
  system.measured_as.clear();
  system.mesh = mesh;
  system.domain = domain;
  system.scale_up_bytes_per_s = cluster.scale_up_bytes_per_s;
  system.nic_bytes_per_s = cluster.scale_out_bytes_per_s;
  system.net_latency_s = cluster.scale_out_latency_s;
  return system;
}

}  // namespace twinpod::cluster
