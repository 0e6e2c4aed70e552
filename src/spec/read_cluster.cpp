// Clusters: a kind of node many times over, or networks written out.
#include <fmt/format.h>

#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"
#include "spec/read.hpp"

namespace twinpod::spec {
namespace {

void adopt(const NodeType& type, Cluster& cluster) {
  cluster.node = type.entry;
  cluster.devices_per_node = type.devices;
  cluster.scale_up = type.scale_up;
  cluster.scale_up_bytes_per_s = type.scale_up_bytes_per_s;
  cluster.scale_up_domain = type.scale_up_domain;
  cluster.scale_out_bytes_per_s = type.nics * type.nic_bytes_per_s / type.devices;
  cluster.nics_per_node = type.nics;
  cluster.node_topology = type.topology;
  cluster.node_power_w = type.power_w;
  cluster.host_memory_bytes = type.host_memory_bytes;
  cluster.storage.local_read_bytes_per_s = type.disk_read_bytes_per_s;
  cluster.storage.local_write_bytes_per_s = type.disk_write_bytes_per_s;
  cluster.usd_per_device_hour = type.usd_per_hour / type.devices;
  cluster.price_basis = type.price_basis;
  cluster.price_origin = type.price_origin;
}

void adopt_node(const Node& node, Context& context, const Catalog& catalog, Cluster& cluster) {
  NodeType type;
  resolve_node_type(node, context, catalog, type);
  if (context.failed()) return;
  adopt(type, cluster);
  if (type.device.empty()) return;  // the cluster names it
  Result<Device> found = catalog.device(type.device);
  if (!found) return context.refuse(place_of(node, {"device"}), std::move(found.error()));
  cluster.device = std::move(*found);
}

void read_node_and_device(Reader& reader, Context& context, const Catalog& catalog, Cluster& cluster) {
  const Node* node = reader.take("node");
  const Node* device = reader.take("device");
  if (node != nullptr) adopt_node(*node, context, catalog, cluster);
  if (device != nullptr && !context.failed()) resolve_device(*device, context, catalog, cluster.device);
}

void read_scale_out(const Node& node, Context& context, Cluster& cluster) {
  Reader reader(node, context, "scale_out");
  reader.quantity("bandwidth", cluster.scale_out_bytes_per_s, Quantity::bytes_per_s, 0, kMaxBytesPerS);
  reader.quantity("latency", cluster.scale_out_latency_s, Quantity::seconds, 0, 10);
  reader.quantity("oversubscription", cluster.oversubscription, Quantity::number, 1, 1000);
  reader.count("non_blocking_devices", cluster.non_blocking_devices, 0, kMaxDevices);
  reader.finish();
}

void read_storage(const Node& node, Context& context, Cluster& cluster) {
  Reader reader(node, context, "storage");
  reader.quantity("read", cluster.storage_read_bytes_per_s, Quantity::bytes_per_s, 0, kMaxBytesPerS);
  reader.quantity("write", cluster.storage_write_bytes_per_s, Quantity::bytes_per_s, 0, kMaxBytesPerS);
  Storage& storage = cluster.storage;
  reader.quantity("node_write", storage.node_write_bytes_per_s, Quantity::bytes_per_s, 0, kMaxBytesPerS);
  reader.flag("on_fabric", storage.on_fabric);
  const auto rates = [&](std::string_view key, double& read, double& write) {
    if (const Node* tier = reader.mapping(key)) read_rates(*tier, context, std::string(key), read, write);
  };
  rates("local", storage.local_read_bytes_per_s, storage.local_write_bytes_per_s);
  rates("object", storage.object_read_bytes_per_s, storage.object_write_bytes_per_s);
  reader.finish();
}

// How many devices one node and one scale-up domain hold, where the user says it differently from the kind of node.
void read_sizes(Reader& reader, Context& context, Cluster& cluster) {
  reader.count("devices", cluster.devices, 1, kMaxDevices);
  const bool plain = !reader.has("node") && cluster.node.empty() && cluster.scale_up_bytes_per_s == 0;
  if (plain && cluster.devices > 0) cluster.devices_per_node = std::min(cluster.devices_per_node, cluster.devices);
  reader.count("devices_per_node", cluster.devices_per_node, 1, kMaxDevices);
  if (plain || reader.has("devices_per_node")) cluster.scale_up_domain = cluster.devices_per_node;
  if (const Node* scale_up = reader.mapping("scale_up")) {
    read_scale_up(*scale_up, context, cluster.scale_up, cluster.scale_up_bytes_per_s, cluster.scale_up_domain);
  }
  reader.count("domain", cluster.scale_up_domain, 1, kMaxDevices);
}

void check(const Reader& reader, Context& context, const Cluster& cluster) {
  if (cluster.device.memory_bytes == 0) {
    return context.refuse(reader.place("node"), "cluster has no device; it needs `node` or `device`");
  }
  if (cluster.devices == 0) return context.refuse(reader.place("devices"), "cluster has no `devices`, which it needs");
  const int joined = std::min(cluster.devices, cluster.scale_up_domain);
  if (joined > 1 && cluster.scale_up_bytes_per_s == 0) {
    return context.refuse_key(
        reader.place("scale_up"), "devices share a node, but cluster has no scale_up bandwidth",
        "write scale_up: {kind: switched, bandwidth: 300 GB/s}, or {kind: none}, or node: a name");
  }
  if (cluster.devices > cluster.scale_up_domain && cluster.scale_out_bytes_per_s == 0) {
    context.refuse_key(reader.place("devices"),
                       fmt::format("{} devices, but the scale-up network joins {} and no scale_out joins further ones",
                                   cluster.devices, cluster.scale_up_domain),
                       "write scale_out: {bandwidth: 200 Gbit/s}");
  }
}

}  // namespace

void read_cluster_fields(const Node& node, Context& context, const Catalog& catalog, Cluster& cluster) {
  Reader reader(node, context, "cluster");
  reader.take("base");
  reader.text("name", cluster.name);
  read_node_and_device(reader, context, catalog, cluster);
  read_sizes(reader, context, cluster);
  if (const Node* scale_out = reader.mapping("scale_out")) read_scale_out(*scale_out, context, cluster);
  if (const Node* topology = reader.mapping("topology")) read_topology(*topology, context, cluster.topology);
  if (const Node* storage = reader.mapping("storage")) read_storage(*storage, context, cluster);
  if (const Node* measured = reader.mapping("measured")) read_measured(*measured, context, cluster.measured);
  reader.quantity("node_power", cluster.node_power_w, Quantity::watts, 0, kMaxWatts);
  reader.quantity("host_memory", cluster.host_memory_bytes, Quantity::bytes, 0, kMaxBytes);
  if (const Node* price = reader.mapping("price")) {
    read_price(*price, context, "usd_per_device_hour", cluster.usd_per_device_hour, cluster.price_basis,
               cluster.price_origin);
  }
  read_source(reader, cluster.source);
  reader.finish();
  if (!context.failed()) check(reader, context, cluster);
}

void resolve_cluster(const Node& node, Context& context, const Catalog& catalog, Cluster& cluster, int depth) {
  if (node.kind == Node::Kind::mapping) {
    const Node* base = node.find("base");
    if (base != nullptr) resolve_cluster(*base, context, catalog, cluster, depth + 1);
    cluster.entry.clear();  // what the job writes is no longer what the catalog holds
    return read_cluster_fields(node, context, catalog, cluster);
  }
  if (node.kind != Node::Kind::scalar) {
    return context.refuse(node, "cluster is " + description(node) + "; expected a name, a path, or a mapping");
  }
  if (is_path(node.scalar)) {
    std::string path;
    Node root;
    if (!open_path(node, context, depth, path, root)) return;
    Context inner(path);
    resolve_cluster(root, inner, catalog, cluster, depth + 1);
    if (inner.failed()) context.refuse(node, inner.error());
    return;
  }
  Result<Cluster> found = catalog.cluster(node.scalar);
  if (!found) return context.refuse(node, std::move(found.error()));
  cluster = std::move(*found);
}

Result<Cluster> read_cluster(const Node& node, const std::string& file, const Catalog& catalog) {
  Context context(file);
  Cluster cluster;
  resolve_cluster(node, context, catalog, cluster);
  if (context.failed()) return tl::unexpected(context.error());
  return cluster;
}

}  // namespace twinpod::spec
