// Devices, links and nodes.
#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"

namespace twinpod::spec {
namespace {

void read_peak(const Node& node, Context& context, Device& device) {
  Reader reader(node, context, "peak");
  for (const auto& [name, precision] : kPrecisionNames) {
    reader.quantity(name, device.peak_flop_per_s[static_cast<std::size_t>(precision)], Quantity::flop_per_s, 1,
                    kMaxFlopPerS);
  }
  reader.finish();
}

}  // namespace

void read_source(Reader& reader, Source& source) {
  reader.choice("origin", source.origin, kOriginNames);
  reader.prose("source", source.text);
  std::string notes;
  reader.prose("notes", notes);
}

void read_price(const Node& node, Context& context, std::string_view amount, double& usd, std::string& basis,
                Origin& origin) {
  Reader reader(node, context, "price");
  reader.quantity(amount, usd, Quantity::usd_per_hour, 0, kMaxUsdPerHour);
  reader.prose("basis", basis);
  reader.choice("origin", origin, kOriginNames);
  reader.finish();
}

void read_device_fields(const Node& node, Context& context, Device& device) {
  Reader reader(node, context, "device");
  reader.take("base");
  reader.text("name", device.name);
  reader.text("vendor", device.vendor);
  reader.text("family", device.family);
  if (const Node* peak = reader.mapping("peak")) read_peak(*peak, context, device);
  reader.quantity("memory", device.memory_bytes, Quantity::bytes, 1, kMaxBytes);
  reader.quantity("memory_bandwidth", device.memory_bytes_per_s, Quantity::bytes_per_s, 1, kMaxBytesPerS);
  reader.quantity("host_link", device.host_bytes_per_s, Quantity::bytes_per_s, 1, kMaxBytesPerS);
  reader.count("compute_units", device.compute_units, 1, kMaxParallel);
  reader.quantity("power", device.power_w, Quantity::watts, 0, kMaxWatts);
  if (const Node* price = reader.mapping("price")) {
    read_price(*price, context, "usd_per_hour", device.usd_per_hour, device.price_basis, device.price_origin);
  }
  reader.count("year", device.year, 1970, 2100);
  reader.texts("aliases", device.aliases);
  read_source(reader, device.source);
  reader.finish();
  if (device.memory_bytes == 0) reader.require("memory");
  if (device.memory_bytes_per_s == 0) reader.require("memory_bandwidth");
  if (device.family.empty()) reader.require("family");
  bool computes = false;
  for (const double peak : device.peak_flop_per_s) computes = computes || peak > 0;
  if (!computes) context.refuse(reader.place("peak"), "device has no peak FLOP/s", "write peak: {bf16: 312 TFLOP/s}");
}

void read_link_fields(const Node& node, Context& context, Link& link) {
  Reader reader(node, context, "link");
  reader.text("name", link.name);
  reader.quantity("bandwidth", link.bytes_per_s, Quantity::bytes_per_s, 1, kMaxBytesPerS);
  reader.quantity("latency", link.latency_s, Quantity::seconds, 0, 10);
  read_source(reader, link.source);
  reader.require("bandwidth");
  reader.finish();
}

void read_scale_up(const Node& node, Context& context, ScaleUpKind& kind, double& bytes_per_s, int& domain) {
  Reader reader(node, context, "scale_up");
  reader.choice("kind", kind, kScaleUpNames);
  reader.quantity("bandwidth", bytes_per_s, Quantity::bytes_per_s, 1, kMaxBytesPerS);
  reader.count("domain", domain, 1, kMaxDevices);
  reader.finish();
  if (kind == ScaleUpKind::none) domain = 1;
}

void read_rates(const Node& node, Context& context, const std::string& what, double& read, double& write) {
  Reader reader(node, context, what);
  reader.quantity("read", read, Quantity::bytes_per_s, 0, kMaxBytesPerS);
  reader.quantity("write", write, Quantity::bytes_per_s, 0, kMaxBytesPerS);
  reader.finish();
}

void read_node_fields(const Node& node, Context& context, NodeType& type) {
  Reader reader(node, context, "node");
  reader.take("base");
  reader.text("name", type.name);
  reader.text("device", type.device);
  reader.count("devices", type.devices, 1, kMaxDevices);
  if (type.devices == 0) reader.require("devices");
  if (type.scale_up_domain == 0 || reader.has("devices")) type.scale_up_domain = type.devices;
  if (const Node* scale_up = reader.mapping("scale_up")) {
    read_scale_up(*scale_up, context, type.scale_up, type.scale_up_bytes_per_s, type.scale_up_domain);
  }
  reader.count("nics", type.nics, 0, kMaxParallel);
  reader.quantity("nic_bandwidth", type.nic_bytes_per_s, Quantity::bytes_per_s, 0, kMaxBytesPerS);
  if (const Node* topology = reader.mapping("topology")) read_node_topology(*topology, context, type.topology);
  reader.quantity("power", type.power_w, Quantity::watts, 0, kMaxWatts);
  reader.quantity("host_memory", type.host_memory_bytes, Quantity::bytes, 0, kMaxBytes);
  if (const Node* disk = reader.mapping("disk"))
    read_rates(*disk, context, "disk", type.disk_read_bytes_per_s, type.disk_write_bytes_per_s);
  if (const Node* price = reader.mapping("price")) {
    read_price(*price, context, "usd_per_hour", type.usd_per_hour, type.price_basis, type.price_origin);
  }
  read_source(reader, type.source);
  reader.finish();
  if (type.scale_up_domain > 1 && type.scale_up_bytes_per_s == 0) {
    context.refuse_key(reader.place("scale_up"), "a node of several devices needs scale_up with its bandwidth",
                       "write scale_up: {kind: switched, bandwidth: 300 GB/s}, or {kind: none}");
  }
  if (type.nics > 0 && type.nic_bytes_per_s == 0) reader.require("nic_bandwidth");
}

void resolve_device(const Node& node, Context& context, const Catalog& catalog, Device& device) {
  if (node.kind == Node::Kind::mapping) {
    if (const Node* base = node.find("base")) resolve_device(*base, context, catalog, device);
    device.entry.clear();  // what the job writes is no longer what the catalog holds
    return read_device_fields(node, context, device);
  }
  if (node.kind != Node::Kind::scalar) {
    return context.refuse(node, "device is " + description(node) + "; expected a name of the catalog, or a mapping");
  }
  Result<Device> found = catalog.device(node.scalar);
  if (!found) return context.refuse(node, std::move(found.error()));
  device = std::move(*found);
}

void resolve_node_type(const Node& node, Context& context, const Catalog& catalog, NodeType& type) {
  if (node.kind == Node::Kind::mapping) {
    if (const Node* base = node.find("base")) resolve_node_type(*base, context, catalog, type);
    type.entry.clear();
    return read_node_fields(node, context, type);
  }
  if (node.kind != Node::Kind::scalar) {
    return context.refuse(node, "node is " + description(node) + "; expected a name of the catalog, or a mapping");
  }
  Result<NodeType> found = catalog.node(node.scalar);
  if (!found) return context.refuse(node, std::move(found.error()));
  type = std::move(*found);
}

}  // namespace twinpod::spec
