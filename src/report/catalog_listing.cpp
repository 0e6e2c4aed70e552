#include "report/catalog_listing.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/units.hpp"
#include "model/arithmetic.hpp"
#include "report/text_parts.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

using spec::Precision;
using spec::Shelf;

std::string format_usd_per_hour(double usd) { return fmt::format("{:.2f}", usd); }
std::string format_power(double watts) {
  return watts >= 10e3 ? fmt::format("{:.1f} kW", watts / 1e3) : fmt::format("{:.0f} W", watts);
}

Cell origin_cell(const spec::Source& source) { return text_cell(std::string(spec::name_of(source.origin))); }

double peak(const spec::Device& device, Precision precision) {
  return device.peak_flop_per_s[static_cast<std::size_t>(precision)];
}

// Reads every entry of a shelf; `read` gives one, `row` its cells.
template <typename Read, typename Row>
Result<Listing> listed(const spec::Catalog& catalog, Shelf shelf, std::vector<Field> fields, Read read, Row row) {
  Listing listing{std::string(spec::folder_name(shelf)), std::move(fields), {}};
  for (const std::string& name : catalog.names(shelf)) {
    const auto entry = read(name);
    if (!entry) return tl::unexpected(entry.error());
    listing.rows.push_back(row(name, *entry));
  }
  return listing;
}

Result<Listing> list_devices(const spec::Catalog& catalog) {
  return listed(
      catalog, Shelf::devices,
      {{"name", "name"},
       {"device", "device"},
       {"memory_bytes", "memory", true},
       {"memory_bytes_per_s", "bandwidth", true},
       {"fp16_flop_per_s", "fp16", true},
       {"bf16_flop_per_s", "bf16", true},
       {"fp8_flop_per_s", "fp8", true},
       {"power_w", "power", true},
       {"usd_per_hour", "USD/h", true},
       {"year", "year", true},
       {"origin", "origin"}},
      [&](const std::string& name) { return catalog.device(name); },
      [](const std::string& name, const spec::Device& d) -> std::vector<Cell> {
        return {text_cell(name),
                text_cell(d.name),
                quantity_cell(d.memory_bytes, format_bytes),
                quantity_cell(d.memory_bytes_per_s, format_bytes_per_s),
                quantity_cell(peak(d, Precision::fp16), format_flop_per_s),
                quantity_cell(peak(d, Precision::bf16), format_flop_per_s),
                quantity_cell(peak(d, Precision::fp8), format_flop_per_s),
                quantity_cell(d.power_w, format_power),
                quantity_cell(d.usd_per_hour, format_usd_per_hour),
                count_cell(d.year),
                origin_cell(d.source)};
      });
}

Result<Listing> list_links(const spec::Catalog& catalog) {
  return listed(
      catalog, Shelf::links,
      {{"name", "name"},
       {"link", "link"},
       {"bytes_per_s", "one direction", true},
       {"latency_s", "latency", true},
       {"origin", "origin"}},
      [&](const std::string& name) { return catalog.link(name); },
      [](const std::string& name, const spec::Link& l) -> std::vector<Cell> {
        return {text_cell(name), text_cell(l.name), quantity_cell(l.bytes_per_s, format_bytes_per_s),
                quantity_cell(l.latency_s, format_seconds), origin_cell(l.source)};
      });
}

Result<Listing> list_nodes(const spec::Catalog& catalog) {
  return listed(
      catalog, Shelf::nodes,
      {{"name", "name"},
       {"devices", "devices", true},
       {"device", "device"},
       {"scale_up", "scale-up"},
       {"scale_up_bytes_per_s", "of a device", true},
       {"scale_up_domain", "domain", true},
       {"nics", "NICs", true},
       {"nic_bytes_per_s", "each", true},
       {"host_memory_bytes", "host memory", true},
       {"power_w", "power", true},
       {"origin", "origin"}},
      [&](const std::string& name) { return catalog.node(name); },
      [](const std::string& name, const spec::NodeType& n) -> std::vector<Cell> {
        return {text_cell(name),
                count_cell(n.devices),
                text_cell(n.device),
                text_cell(std::string(spec::name_of(n.scale_up))),
                quantity_cell(n.scale_up_bytes_per_s, format_bytes_per_s),
                count_cell(n.scale_up_domain),
                count_cell(n.nics),
                quantity_cell(n.nic_bytes_per_s, format_bytes_per_s),
                quantity_cell(n.host_memory_bytes, format_bytes),
                quantity_cell(n.power_w, format_power),
                origin_cell(n.source)};
      });
}

Result<Listing> list_clusters(const spec::Catalog& catalog) {
  return listed(
      catalog, Shelf::clusters,
      {{"name", "name"},
       {"devices", "devices", true},
       {"device", "device"},
       {"devices_per_node", "of a node", true},
       {"scale_up_domain", "domain", true},
       {"scale_up_bytes_per_s", "scale-up", true},
       {"scale_out_bytes_per_s", "scale-out", true},
       {"storage_read_bytes_per_s", "storage read", true},
       {"origin", "origin"}},
      [&](const std::string& name) { return catalog.cluster(name); },
      [](const std::string& name, const spec::Cluster& c) -> std::vector<Cell> {
        return {text_cell(name),
                count_cell(c.devices),
                text_cell(c.device.name),
                count_cell(c.devices_per_node),
                count_cell(c.scale_up_domain),
                quantity_cell(c.scale_up_bytes_per_s, format_bytes_per_s),
                quantity_cell(c.scale_out_bytes_per_s, format_bytes_per_s),
                quantity_cell(c.storage_read_bytes_per_s, format_bytes_per_s),
                origin_cell(c.source)};
      });
}

Result<Listing> list_models(const spec::Catalog& catalog) {
  return listed(
      catalog, Shelf::models,
      {{"name", "name"},
       {"parameters", "parameters", true},
       {"active_parameters", "active", true},
       {"layers", "layers", true},
       {"hidden", "hidden", true},
       {"ffn", "ffn", true},
       {"heads", "heads", true},
       {"kv_heads", "kv", true},
       {"experts", "experts", true},
       {"experts_per_token", "top-k", true},
       {"vocab", "vocab", true},
       {"max_sequence", "sequence", true},
       {"origin", "origin"}},
      [&](const std::string& name) { return catalog.model(name); },
      [](const std::string& name, const spec::Model& m) -> std::vector<Cell> {
        const model::ParameterCount count = model::parameters(m);
        return {text_cell(name),
                quantity_cell(count.total, format_count),
                quantity_cell(count.active, format_count),
                count_cell(m.layers),
                count_cell(m.hidden),
                count_cell(m.experts.count > 0 ? m.experts.ffn : m.ffn),
                count_cell(m.attention.heads),
                count_cell(m.attention.kv_heads),
                count_cell(m.experts.count),
                count_cell(m.experts.per_token),
                count_cell(m.vocab),
                count_cell(m.max_sequence),
                origin_cell(m.source)};
      });
}

Result<Listing> list_stacks(const spec::Catalog& catalog) {
  return listed(
      catalog, Shelf::stacks,
      {{"name", "name"},
       {"family", "family"},
       {"year", "year", true},
       {"attention", "attention"},
       {"default_zero", "ZeRO", true},
       {"traits", "traits"},
       {"origin", "origin"}},
      [&](const std::string& name) { return catalog.stack(name, ""); },
      [](const std::string& name, const spec::Stack& s) -> std::vector<Cell> {
        return {text_cell(name),
                text_cell(s.family),
                count_cell(s.year),
                text_cell(s.fused_attention ? "fused" : "unfused"),
                {fmt::format("{}", s.default_zero), s.default_zero},
                text_cell(joined(s.traits)),
                origin_cell(s.source)};
      });
}

int scopes_of(const spec::Parameters& parameters, const std::string& field) {
  int scopes = parameters.shared.contains(field) ? 1 : 0;
  for (const auto* by_scope : {&parameters.by_device, &parameters.by_trait, &parameters.by_stack}) {
    for (const auto& [scope, values] : *by_scope) scopes += values.contains(field) ? 1 : 0;
  }
  return scopes;
}

}  // namespace

Result<Listing> list_parameters(const spec::Catalog& catalog) {
  const Result<spec::Parameters> parameters = catalog.parameters();
  if (!parameters) return tl::unexpected(parameters.error());
  Listing listing{"parameters",
                  {{"name", "name"},
                   {"prior", "prior", true},
                   {"low", "low", true},
                   {"high", "high", true},
                   {"shared", "shared", true},
                   {"scopes", "fitted", true},
                   {"unit", "unit"},
                   {"meaning", "meaning"}},
                  {}};
  const auto number = [](double value) { return Cell{fmt::format("{:.4g}", value), value}; };
  for (const spec::PhysicsField& field : spec::physics_fields()) {
    const std::string name(field.name);
    const auto shared = parameters->shared.find(name);
    listing.rows.push_back({text_cell(name), number(field.prior), number(field.low), number(field.high),
                            shared == parameters->shared.end() ? Cell{} : number(shared->second),
                            count_cell(scopes_of(*parameters, name)), text_cell(std::string(field.unit)),
                            text_cell(std::string(field.meaning))});
  }
  return listing;
}

Result<Listing> list(const spec::Catalog& catalog, Shelf shelf) {
  switch (shelf) {
    case Shelf::devices:
      return list_devices(catalog);
    case Shelf::links:
      return list_links(catalog);
    case Shelf::nodes:
      return list_nodes(catalog);
    case Shelf::clusters:
      return list_clusters(catalog);
    case Shelf::models:
      return list_models(catalog);
    case Shelf::stacks:
      return list_stacks(catalog);
    case Shelf::runs:
      break;
  }
  return input_error("`twinpod validate` shows the published runs");
}

}  // namespace twinpod::report
