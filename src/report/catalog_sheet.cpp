// One entry of the catalog with all its figures.
#include <fmt/format.h>

#include <algorithm>

#include "core/units.hpp"
#include "model/arithmetic.hpp"
#include "report/catalog_listing.hpp"
#include "report/tables.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

using spec::Shelf;

std::string format_usd(double usd) { return fmt::format("{:.2f} USD/h", usd); }
std::string format_watts(double watts) { return fmt::format("{:.0f} W", watts); }
std::string format_number(double value) { return fmt::format("{:.4g}", value); }
std::string format_flop(double flop) {
  const std::string text = format_flop_per_s(flop);
  return text.substr(0, text.size() - 2);  // without "/s"
}

Cell flag_cell(bool value) { return {value ? "yes" : "no", value}; }

// A sheet whose figures all have the entry's origin, unless they say otherwise.
class Writer {
 public:
  Writer(const std::string& title, const spec::Source& source) : origin_(spec::name_of(source.origin)) {
    sheet_.title = title;
    sheet_.source = source.text;
  }

  // The figures that follow have this origin.
  void from(const spec::Source& source) { origin_ = spec::name_of(source.origin); }

  void text(const std::string& key, const std::string& label, const std::string& value) {
    sheet_.add(key, label, text_cell(value), origin_);
  }
  void list(const std::string& key, const std::string& label, const Cell& cell) {
    sheet_.add(key, label, cell, origin_);
  }
  void count(const std::string& key, const std::string& label, int value) {
    sheet_.add(key, label, count_cell(value), origin_);
  }
  void flag(const std::string& key, const std::string& label, bool value) {
    sheet_.add(key, label, flag_cell(value), origin_);
  }
  void quantity(const std::string& key, const std::string& label, double value, std::string (*format)(double)) {
    sheet_.add(key, label, quantity_cell(value, format), origin_);
  }
  void derived(const std::string& key, const std::string& label, double value, std::string (*format)(double)) {
    sheet_.add(key, label, quantity_cell(value, format), "derived");
  }
  void price(const std::string& key, double usd, const std::string& basis, spec::Origin origin) {
    Cell cell = quantity_cell(usd, format_usd);
    sheet_.add(key, basis.empty() ? "price" : fmt::format("price ({})", basis), cell, spec::name_of(origin));
  }

  Sheet done() { return std::move(sheet_); }

 private:
  Sheet sheet_;
  std::string_view origin_;
};

std::string memory_size(double bytes) {
  const std::string gib = in_gib(bytes);
  return gib.empty() ? format_bytes(bytes) : gib;
}

void write_peaks(const spec::Device& device, Writer& writer) {
  for (const auto& [name, precision] : spec::kPrecisionNames) {
    writer.quantity(fmt::format("peak_{}_flop_per_s", name), fmt::format("peak, {} (dense)", name),
                    device.peak_flop_per_s[static_cast<std::size_t>(precision)], format_flop_per_s);
  }
}

Sheet sheet_of(const spec::Device& d) {
  Writer writer(fmt::format("{} ({})", d.name, d.entry), d.source);
  writer.text("vendor", "vendor", d.vendor);
  writer.text("family", "family", d.family);
  writer.count("year", "year", d.year);
  write_peaks(d, writer);
  writer.quantity("memory_bytes", "memory", d.memory_bytes, memory_size);
  writer.quantity("memory_bytes_per_s", "memory bandwidth", d.memory_bytes_per_s, format_bytes_per_s);
  writer.quantity("host_bytes_per_s", "link to the host, one direction", d.host_bytes_per_s, format_bytes_per_s);
  writer.count("compute_units", "compute units", d.compute_units);
  writer.quantity("power_w", "power", d.power_w, format_watts);
  writer.price("usd_per_hour", d.usd_per_hour, d.price_basis, d.price_origin);
  return writer.done();
}

Sheet sheet_of(const spec::Link& l) {
  Writer writer(fmt::format("{} ({})", l.name, l.entry), l.source);
  writer.quantity("bytes_per_s", "bandwidth, one direction", l.bytes_per_s, format_bytes_per_s);
  writer.quantity("latency_s", "latency", l.latency_s, format_seconds);
  return writer.done();
}

Sheet sheet_of(const spec::NodeType& n) {
  Writer writer(fmt::format("{} ({})", n.name, n.entry), n.source);
  writer.text("device", "device", n.device);
  writer.count("devices", "devices", n.devices);
  writer.text("scale_up", "scale-up network", std::string(spec::name_of(n.scale_up)));
  writer.quantity("scale_up_bytes_per_s", "scale-up, of a device, one direction", n.scale_up_bytes_per_s,
                  format_bytes_per_s);
  writer.count("scale_up_domain", "devices that it joins", n.scale_up_domain);
  writer.count("nics", "network interfaces", n.nics);
  writer.quantity("nic_bytes_per_s", "of each, one direction", n.nic_bytes_per_s, format_bytes_per_s);
  writer.quantity("host_memory_bytes", "host memory", n.host_memory_bytes, format_bytes);
  writer.quantity("power_w", "power", n.power_w, format_watts);
  writer.price("usd_per_hour", n.usd_per_hour, n.price_basis, n.price_origin);
  return writer.done();
}

void write_node_figures(const spec::Cluster& c, Writer& writer) {
  writer.count("devices_per_node", "devices of a node", c.devices_per_node);
  writer.text("scale_up", "scale-up network", std::string(spec::name_of(c.scale_up)));
  writer.quantity("scale_up_bytes_per_s", "scale-up, of a device, one direction", c.scale_up_bytes_per_s,
                  format_bytes_per_s);
  writer.quantity("node_power_w", "power of a node", c.node_power_w, format_watts);
  writer.quantity("host_memory_bytes", "host memory of a node", c.host_memory_bytes, format_bytes);
}

double half_peak(const spec::Device& device) {
  const auto peak = [&](spec::Precision p) { return device.peak_flop_per_s[static_cast<std::size_t>(p)]; };
  return std::max(peak(spec::Precision::bf16), peak(spec::Precision::fp16));
}

// What the kind of node says keeps the origin of the node's entry.
Sheet sheet_of(const spec::Cluster& c, const spec::Source& node_source) {
  Writer writer(fmt::format("{} ({})", c.name, c.entry), c.source);
  writer.count("devices", "devices", c.devices);
  writer.text("device", "device", c.device.name);
  writer.text("node", "node", c.node);
  writer.count("scale_up_domain", "devices that the scale-up network joins", c.scale_up_domain);
  writer.quantity("scale_out_bytes_per_s", "scale-out, of a device, one direction", c.scale_out_bytes_per_s,
                  format_bytes_per_s);
  writer.quantity("scale_out_latency_s", "scale-out latency", c.scale_out_latency_s, format_seconds);
  if (c.oversubscription != 1) {
    writer.quantity("oversubscription", "oversubscription", c.oversubscription, format_number);
    writer.count("non_blocking_devices", "devices of a non-blocking unit", c.non_blocking_devices);
  }
  writer.quantity("storage_read_bytes_per_s", "storage, read", c.storage_read_bytes_per_s, format_bytes_per_s);
  writer.quantity("storage_write_bytes_per_s", "storage, write", c.storage_write_bytes_per_s, format_bytes_per_s);
  writer.price("usd_per_device_hour", c.usd_per_device_hour, c.price_basis, c.price_origin);
  writer.from(node_source);
  write_node_figures(c, writer);
  writer.derived("memory_bytes", "memory of all devices", c.devices * c.device.memory_bytes, format_bytes);
  writer.derived("half_flop_per_s", "16-bit peak of all devices", c.devices * half_peak(c.device), format_flop_per_s);
  return writer.done();
}

void write_shape(const spec::Model& m, Writer& writer) {
  writer.count("layers", "layers", m.layers);
  writer.count("hidden", "hidden", m.hidden);
  writer.count("ffn", "ffn", m.ffn);
  writer.count("heads", "heads", m.attention.heads);
  writer.count("kv_heads", "key/value heads", m.attention.kv_heads);
  writer.count("head_dim", "width of a head", m.attention.head_dim);
  writer.count("window", "sliding window", m.attention.window);
  writer.count("kv_rank", "rank of the key/value compression", m.attention.kv_rank);
  writer.count("vocab", "vocabulary", m.vocab);
  writer.count("max_sequence", "longest sequence", m.max_sequence);
  writer.count("experts", "experts of a layer", m.experts.count);
  writer.count("experts_per_token", "experts of a token", m.experts.per_token);
  writer.count("shared_experts", "shared experts", m.experts.shared);
  writer.count("expert_ffn", "ffn of an expert", m.experts.ffn);
  writer.text("norm", "norm", std::string(spec::name_of(m.norm)));
  writer.text("positions", "positions", std::string(spec::name_of(m.positions)));
  writer.flag("gated_mlp", "gated MLP", m.gated_mlp);
  writer.flag("tied_embeddings", "tied embeddings", m.tied_embeddings);
}

void write_arithmetic(const spec::Model& m, Writer& writer) {
  const model::ParameterCount p = model::parameters(m);
  writer.derived("embedding_parameters", "parameters: embedding", p.embedding, format_count);
  writer.derived("attention_parameters", "  attention of a layer", p.attention, format_count);
  if (model::num_expert_layers(m) < m.layers)
    writer.derived("mlp_parameters", "  MLP of a dense layer", p.mlp, format_count);
  writer.derived("routed_expert_parameters", "  routed experts of a layer", p.routed_experts, format_count);
  writer.derived("shared_expert_parameters", "  router and shared experts of a layer", p.shared_experts, format_count);
  writer.derived("norm_parameters", "  norms of a layer", p.norms, format_count);
  writer.derived("head_parameters", "  head", p.head, format_count);
  writer.derived("mtp_parameters", "  multi-token prediction", p.mtp, format_count);
  writer.derived("parameters", "  all", p.total, format_count);
  if (m.experts.count > 0) writer.derived("active_parameters", "  visited by a token", p.active, format_count);
  writer.quantity("published_parameters", "  as published", m.published_parameters, format_count);
  const model::ForwardFlop f = model::forward_flop(m, m.max_sequence);
  writer.derived("product_flop", "forward FLOP of a token: products", f.products, format_flop);
  writer.derived("attention_flop", "  attention, longest sequence", f.attention, format_flop);
  writer.derived("head_flop", "  head", f.head, format_flop);
  writer.derived("training_flop", "training FLOP of a token", model::training_flop(m, m.max_sequence), format_flop);
  writer.derived("fp32_bytes", "parameters in fp32", 4 * p.total, format_bytes);
  writer.derived("state_bytes", "mixed-precision Adam (18 B each)", 18 * p.total, format_bytes);
}

Sheet sheet_of(const spec::Model& m) {
  Writer writer(fmt::format("{} ({})", m.name, m.entry), m.source);
  write_shape(m, writer);
  write_arithmetic(m, writer);
  return writer.done();
}

void write_values(const std::string& scope, const spec::FieldValues& values, Sheet& sheet) {
  for (const auto& [name, value] : values) {
    sheet.add(fmt::format("{}.{}", scope, name), fmt::format("{}: {}", scope, name), {format_number(value), value},
              "derived");
  }
}

// "none, selective, full", and a list in JSON.
template <typename T, typename Name>
Cell list_cell(const std::vector<T>& values, Name name) {
  Cell cell{"", nlohmann::ordered_json::array()};
  for (const T& value : values) {
    cell.text += fmt::format("{}{}", cell.text.empty() ? "" : ", ", name(value));
    cell.value.push_back(name(value));
  }
  return cell;
}

void write_abilities(const spec::Abilities& a, Writer& writer) {
  const auto name = [](auto value) { return spec::name_of(value); };
  writer.list("abilities.schedules", "can run: schedules", list_cell(a.schedules, name));
  writer.list("abilities.recompute", "  recompute", list_cell(a.recompute, name));
  writer.list("abilities.zero", "  ZeRO stages", list_cell(a.zero, [](int stage) { return stage; }));
  writer.flag("abilities.tensor_parallel", "  tensor parallel", a.tensor_parallel);
  writer.flag("abilities.pipeline_parallel", "  pipeline parallel", a.pipeline_parallel);
  writer.flag("abilities.context_parallel", "  context parallel", a.context_parallel);
  writer.flag("abilities.expert_parallel", "  expert parallel", a.expert_parallel);
  writer.flag("abilities.sequence_parallel", "  sequence parallel", a.sequence_parallel);
  writer.flag("abilities.uneven_stages", "  uneven stages", a.uneven_stages);
  writer.flag("abilities.sharded_pipeline", "  ZeRO 2, 3 with stages", a.sharded_pipeline);
  writer.flag("abilities.offload_optimizer", "  optimizer state on the host", a.offload_optimizer);
  writer.flag("abilities.offload_activations", "  activations on the host", a.offload_activations);
  writer.flag("abilities.parameter_server", "  parameter servers", a.parameter_server);
}

Sheet sheet_of(const spec::Stack& s, const spec::Parameters& parameters) {
  Writer writer(fmt::format("{} ({})", s.title, s.name), s.source);
  writer.text("family", "family", s.family);
  writer.count("year", "year", s.year);
  writer.flag("fused_attention", "fused attention", s.fused_attention);
  writer.flag("selective_by_default", "selective recompute by default", s.selective_by_default);
  writer.flag("default_sequence_parallel", "sequence parallel by default", s.default_sequence_parallel);
  writer.flag("interleaves_by_default", "interleaves by default", s.interleaves_by_default);
  writer.text("default_zero", "ZeRO stage by default", std::to_string(s.default_zero));
  writer.quantity("gradient_bytes", "bytes of a gradient", s.gradient_bytes, format_bytes);
  writer.quantity("scatter_bytes", "  while it is reduced", s.scatter_bytes, format_bytes);
  writer.quantity("gather_bytes", "bytes of a gathered parameter", s.gather_bytes, format_bytes);
  write_abilities(s.abilities, writer);
  Sheet sheet = writer.done();
  write_values("fixed", s.fixed, sheet);
  for (const std::string& trait : s.traits) {
    const auto found = parameters.by_trait.find(trait);
    if (found == parameters.by_trait.end())
      sheet.add(trait, "trait", text_cell(trait), spec::name_of(s.source.origin));
    else
      write_values(trait, found->second, sheet);
  }
  const auto own = parameters.by_stack.find(s.name);
  if (own != parameters.by_stack.end()) write_values("fitted", own->second, sheet);
  return sheet;
}

Result<Sheet> cluster_sheet(const spec::Catalog& catalog, std::string_view name) {
  const Result<spec::Cluster> cluster = catalog.cluster(name);
  if (!cluster) return tl::unexpected(cluster.error());
  if (cluster->node.empty()) return sheet_of(*cluster, cluster->source);
  const Result<spec::NodeType> node = catalog.node(cluster->node);
  if (!node) return tl::unexpected(node.error());
  return sheet_of(*cluster, node->source);
}

template <typename T>
Result<Sheet> sheet_from(const Result<T>& entry) {
  if (!entry) return tl::unexpected(entry.error());
  return sheet_of(*entry);
}

}  // namespace

Result<Sheet> sheet(const spec::Catalog& catalog, Shelf shelf, std::string_view name) {
  switch (shelf) {
    case Shelf::devices:
      return sheet_from(catalog.device(name));
    case Shelf::links:
      return sheet_from(catalog.link(name));
    case Shelf::nodes:
      return sheet_from(catalog.node(name));
    case Shelf::clusters:
      return cluster_sheet(catalog, name);
    case Shelf::models:
      return sheet_from(catalog.model(name));
    case Shelf::runs:
      return input_error("`twinpod validate` shows the published runs");
    case Shelf::stacks:
      break;
  }
  const Result<spec::Stack> stack = catalog.stack(name, "");
  if (!stack) return tl::unexpected(stack.error());
  const Result<spec::Parameters> parameters = catalog.parameters();
  if (!parameters) return tl::unexpected(parameters.error());
  return sheet_of(*stack, *parameters);
}

}  // namespace twinpod::report
