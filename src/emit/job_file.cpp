// twinpod's own job file. Whatever comes from the catalog is a name; the rest is written out, so that reading the file
// gives the same job.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/quote.hpp"
#include "emit/engines.hpp"
#include "emit/facts.hpp"
#include "spec/names.hpp"
#include "spec/read.hpp"

namespace twinpod::emit {
namespace {

// A mapping in the order of its keys; values are YAML as they stand.
struct Mapping {
  std::vector<std::pair<std::string, std::string>> items;

  void raw(std::string key, std::string value) { items.emplace_back(std::move(key), std::move(value)); }
  void number(std::string key, double value) { raw(std::move(key), fmt::format("{}", value)); }
  void count(std::string key, std::int64_t value) { raw(std::move(key), fmt::format("{}", value)); }
  void flag(std::string key, bool value) { raw(std::move(key), value ? "true" : "false"); }
  void name(std::string key, std::string_view value) { raw(std::move(key), std::string(value)); }  // one of ours

  // Only where it is something.
  void number_if(std::string key, double value) {
    if (value != 0) number(std::move(key), value);
  }
  void count_if(std::string key, std::int64_t value) {
    if (value != 0) count(std::move(key), value);
  }
  void flag_if(std::string key, bool value) {
    if (value) flag(std::move(key), value);
  }
  void text_if(std::string key, const std::string& value);
};

void Mapping::text_if(std::string key, const std::string& value) {
  if (!value.empty()) raw(std::move(key), double_quoted(value));
}

std::string flow(const Mapping& mapping) {
  std::string text;
  for (const auto& [key, value] : mapping.items) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key, value);
  return "{" + text + "}";
}

std::string block(const Mapping& mapping, const std::string& indent) {
  std::string text;
  for (const auto& [key, value] : mapping.items) text += fmt::format("{}{}: {}\n", indent, key, value);
  return text;
}

void add_source(Mapping& mapping, const spec::Source& source) {
  if (source.origin != spec::Origin::user) mapping.name("origin", spec::name_of(source.origin));
  mapping.text_if("source", source.text);
}

std::string price_text(std::string amount, double usd, const std::string& basis, spec::Origin origin) {
  Mapping price;
  price.number(std::move(amount), usd);
  price.text_if("basis", basis);
  if (origin != spec::Origin::user) price.name("origin", spec::name_of(origin));
  return flow(price);
}

std::string attention_text(const spec::Attention& a) {
  Mapping m;
  m.count("heads", a.heads);
  m.count("kv_heads", a.kv_heads);
  m.count("head_dim", a.head_dim);
  m.flag_if("bias", a.bias);
  m.flag_if("qkv_bias", a.qkv_bias);
  m.flag_if("qk_norm", a.qk_norm);
  m.flag_if("sinks", a.sinks);
  m.count_if("window", a.window);
  m.count_if("global_every", a.global_every);
  m.count_if("q_rank", a.q_rank);
  m.count_if("kv_rank", a.kv_rank);
  m.count_if("rope_head_dim", a.rope_head_dim);
  m.count_if("v_head_dim", a.v_head_dim);
  return flow(m);
}

std::string experts_text(const spec::Experts& e) {
  Mapping m;
  m.count("count", e.count);
  m.count("per_token", e.per_token);
  m.count_if("shared", e.shared);
  m.count("ffn", e.ffn);
  m.count_if("shared_ffn", e.shared_ffn);
  m.count_if("first_dense_layers", e.first_dense_layers);
  m.count("every", e.every);
  m.number_if("capacity_factor", e.capacity_factor);
  m.flag_if("router_bias", e.router_bias);
  m.flag_if("shared_gate", e.shared_gate);
  return flow(m);
}

std::string model_text(const spec::Model& model) {
  if (!model.entry.empty()) return fmt::format("model: {}\n", yaml_word(model.entry));
  Mapping m;
  m.text_if("name", model.name);
  m.count("layers", model.layers);
  m.count("hidden", model.hidden);
  m.count("ffn", model.ffn);
  m.flag("gated_mlp", model.gated_mlp);
  m.flag("mlp_bias", model.mlp_bias);
  m.count("vocab", model.vocab);
  m.count_if("max_sequence", model.max_sequence);
  m.raw("attention", attention_text(model.attention));
  if (model.experts.count > 0) m.raw("experts", experts_text(model.experts));
  m.name("norm", spec::name_of(model.norm));
  if (model.norm == spec::Norm::layer_norm) m.flag("norm_bias", model.norm_bias);
  m.flag("norm_weight", model.norm_weight);
  m.name("positions", spec::name_of(model.positions));
  m.flag("tied_embeddings", model.tied_embeddings);
  m.flag_if("head_bias", model.head_bias);
  m.flag_if("parallel_block", model.parallel_block);
  m.flag_if("embedding_norm", model.embedding_norm);
  m.count_if("post_norms", model.post_norms);
  m.count_if("mtp_layers", model.mtp_layers);
  m.number_if("dropout", model.dropout);
  m.number_if("parameters", model.published_parameters);
  add_source(m, model.source);
  return "model:\n" + block(m, "  ");
}

std::string device_text(const spec::Device& device) {
  if (!device.entry.empty()) return yaml_word(device.entry);
  Mapping peak;
  for (const auto& [name, precision] : spec::kPrecisionNames) {
    peak.number_if(std::string(name), device.peak_flop_per_s[static_cast<std::size_t>(precision)]);
  }
  Mapping m;
  m.text_if("name", device.name);
  m.text_if("vendor", device.vendor);
  m.text_if("family", device.family);
  m.raw("peak", flow(peak));
  m.number("memory", device.memory_bytes);
  m.number("memory_bandwidth", device.memory_bytes_per_s);
  m.number_if("host_link", device.host_bytes_per_s);
  m.count_if("compute_units", device.compute_units);
  m.number_if("power", device.power_w);
  if (device.usd_per_hour > 0) {
    m.raw("price", price_text("usd_per_hour", device.usd_per_hour, device.price_basis, device.price_origin));
  }
  m.count_if("year", device.year);
  std::string aliases;
  for (const std::string& alias : device.aliases) aliases += (aliases.empty() ? "" : ", ") + double_quoted(alias);
  if (!aliases.empty()) m.raw("aliases", "[" + aliases + "]");
  add_source(m, device.source);
  return flow(m);
}

std::string scale_up_text(const spec::Cluster& cluster) {
  Mapping m;
  m.name("kind", spec::name_of(cluster.scale_up));
  m.number_if("bandwidth", cluster.scale_up_bytes_per_s);
  if (cluster.scale_up != spec::ScaleUpKind::none) m.count("domain", cluster.scale_up_domain);
  return flow(m);
}

std::string scale_out_text(const spec::Cluster& cluster) {
  Mapping m;
  m.number("bandwidth", cluster.scale_out_bytes_per_s);
  m.number("latency", cluster.scale_out_latency_s);
  m.number("oversubscription", cluster.oversubscription);
  m.count_if("non_blocking_devices", cluster.non_blocking_devices);
  return flow(m);
}

void add_cluster_rest(Mapping& m, const spec::Cluster& cluster) {
  Mapping storage;
  storage.number_if("read", cluster.storage_read_bytes_per_s);
  storage.number_if("write", cluster.storage_write_bytes_per_s);
  if (!storage.items.empty()) m.raw("storage", flow(storage));
  m.number("node_power", cluster.node_power_w);
  m.number("host_memory", cluster.host_memory_bytes);
  m.raw("price",
        price_text("usd_per_device_hour", cluster.usd_per_device_hour, cluster.price_basis, cluster.price_origin));
  add_source(m, cluster.source);
}

// What was measured travels with the job, so that reading it gives the same numbers.
std::string measured_text(const spec::Measured& measured) {
  Mapping numbers;
  for (const auto& [field, value] : measured.numbers) numbers.number(field, value);
  Mapping m;
  m.raw("numbers", flow(numbers));
  if (measured.has_messages()) {
    Mapping message;
    message.number("inside", measured.message_inside_s);
    message.number("between", measured.message_between_s);
    m.raw("message", flow(message));
  }
  return flow(m);
}

std::string cluster_text(const spec::Cluster& cluster) {
  if (!cluster.entry.empty()) {
    return fmt::format("cluster: {}\ndevices: {}\n", yaml_word(cluster.entry), cluster.devices);
  }
  Mapping m;
  m.text_if("name", cluster.name);
  if (!cluster.node.empty()) m.raw("node", yaml_word(cluster.node));
  m.raw("device", device_text(cluster.device));
  m.count("devices", cluster.devices);
  m.count("devices_per_node", cluster.devices_per_node);
  m.raw("scale_up", scale_up_text(cluster));
  m.raw("scale_out", scale_out_text(cluster));
  if (!cluster.measured.numbers.empty()) m.raw("measured", measured_text(cluster.measured));
  add_cluster_rest(m, cluster);
  return "cluster:\n" + block(m, "  ");
}

// Facts of a stack that a job can change, all but its numbers.
Mapping stack_facts(const spec::Stack& stack) {
  Mapping m;
  m.number("launches", stack.launches);
  m.flag("fused_attention", stack.fused_attention);
  m.flag("selective_by_default", stack.selective_by_default);
  m.number("selective_products", stack.selective_products);
  m.flag("dropout", stack.dropout);
  m.count("default_zero", stack.default_zero);
  m.flag("default_sequence_parallel", stack.default_sequence_parallel);
  m.flag("interleaves_by_default", stack.interleaves_by_default);
  m.number("gradient_bytes", stack.gradient_bytes);
  m.number("scatter_bytes", stack.scatter_bytes);
  m.number("gather_bytes", stack.gather_bytes);
  m.number("gathers_per_layer", stack.gathers_per_layer);
  m.flag("reshard_after_forward", stack.reshard_after_forward);
  m.flag("remainder_last", stack.remainder_last);
  m.flag("broadcasts_shards", stack.broadcasts_shards);
  m.flag("two_level_dispatch", stack.two_level_dispatch);
  m.flag("expert_sync", stack.expert_sync);
  m.flag("fp8_gather", stack.fp8_gather);
  return m;
}

Mapping memory_facts(const spec::MemoryHabits& memory) {
  Mapping m;
  m.flag("fp32_parameters", memory.fp32_parameters);
  m.flag("fp8_activations", memory.fp8_activations);
  m.flag("recomputes_operators", memory.recomputes_operators);
  m.number("logit_bytes", memory.logit_bytes);
  m.number("split_logit_bytes", memory.split_logit_bytes);
  m.number("update_bytes", memory.update_bytes);
  m.number("flatten_bytes", memory.flatten_bytes);
  m.number("bucket_bytes", memory.bucket_bytes);
  m.number("runtime_bytes", memory.runtime_bytes);
  m.number("reserve", memory.reserve);
  return m;
}

Mapping physics_numbers(const spec::Physics& physics) {
  Mapping m;
  for (const spec::PhysicsField& field : spec::physics_fields())
    m.number(std::string(field.name), physics.*field.member);
  return m;
}

Mapping difference(const Mapping& own, const Mapping& base) {
  Mapping m;
  for (std::size_t i = 0; i < own.items.size(); ++i) {
    if (own.items[i].second != base.items[i].second) m.items.push_back(own.items[i]);
  }
  return m;
}

// A stack that was changed is its base and what differs; one that the catalog does not have starts from the device's
// usual stack.
std::string stack_text(const spec::Job& job, const spec::Catalog* catalog) {
  const spec::Stack& stack = job.stack;
  if (catalog == nullptr) return fmt::format("stack: {}\n", yaml_word(stack.name));
  const std::string& family = job.cluster.device.family;
  std::string base_name = stack.name;
  Result<spec::Stack> base = catalog->stack(base_name, family);
  if (!base) base = catalog->stack(base_name = std::string(spec::default_stack(job.cluster.device)), family);
  if (!base) return fmt::format("stack: {}\n", yaml_word(stack.name));
  spec::set_fields(job.cluster.measured.numbers, base->physics);
  Mapping m = difference(stack_facts(stack), stack_facts(*base));
  const Mapping memory = difference(memory_facts(stack.memory), memory_facts(base->memory));
  if (!memory.items.empty()) m.raw("memory", flow(memory));
  const Mapping numbers = difference(physics_numbers(stack.physics), physics_numbers(base->physics));
  if (!numbers.items.empty()) m.raw("parameters", flow(numbers));
  if (m.items.empty()) return fmt::format("stack: {}\n", yaml_word(base_name));
  return fmt::format("stack:\n  base: {}\n", yaml_word(base_name)) + block(m, "  ");
}

std::string schedule_text(const spec::Job& job) {
  if (job.schedule_file.empty()) return std::string(spec::name_of(job.layout.schedule));
  Mapping m;
  m.text_if("file", job.schedule_file);
  return flow(m);
}

std::string layout_text(const spec::Job& job) {
  const spec::Layout& l = job.layout;
  Mapping m;
  m.count_if("dp", l.dp);
  m.count("tp", l.tp);
  m.count("pp", l.pp);
  m.count("virtual_stages", l.virtual_stages);
  m.count("cp", l.cp);
  if (l.context_exchange != spec::Layout().context_exchange)
    m.name("context_exchange", spec::name_of(l.context_exchange));
  m.count("ep", l.ep);
  m.count("etp", l.etp);
  m.flag("sequence_parallel", l.sequence_parallel);
  m.count("zero", l.zero);
  m.count("shard_group", l.shard_group);
  m.count("micro_batch", l.micro_batch);
  m.name("recompute", spec::name_of(l.recompute));
  m.count_if("recompute_layers", l.recompute_layers);
  m.raw("schedule", schedule_text(job));
  m.count("servers", l.servers);
  m.flag("offload_optimizer", l.offload_optimizer);
  m.flag("offload_activations", l.offload_activations);
  m.flag("remainder_last", l.remainder_last);
  m.flag("uneven_ends", l.uneven_ends);
  m.flag("async_tp", l.async_tp);
  if (l.overlap) m.flag("overlap", *l.overlap);
  return "layout:\n" + block(m, "  ");
}

std::string training_text(const spec::Training& t) {
  Mapping m;
  m.count("global_batch", static_cast<std::int64_t>(t.global_batch));
  m.count("sequence", t.sequence);
  m.name("precision", spec::name_of(t.precision));
  m.flag("rowwise_scaling", t.rowwise_scaling);
  m.flag("pure_low_precision", t.pure_low_precision);
  m.name("optimizer", spec::name_of(t.optimizer));
  m.number_if("gradient_bytes", t.gradient_bytes);
  m.number_if("tokens", t.tokens);
  m.number_if("target_loss", t.target_loss);
  m.number("bytes_per_token", t.bytes_per_token);
  return "training:\n" + block(m, "  ");
}

}  // namespace

std::string job_file(const spec::Job& job, const spec::Catalog* catalog) {
  return fmt::format("# {}\n# {}\nname: {}\n", ranks_text(job), batch_text(job), double_quoted(job.name)) +
         model_text(job.model) + cluster_text(job.cluster) + stack_text(job, catalog) + layout_text(job) +
         training_text(job.training);
}

}  // namespace twinpod::emit
