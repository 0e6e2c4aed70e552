// Stacks: facts by the names of their fields, and numbers of Physics that a stack of the user's own brings along.
#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"

namespace twinpod::spec {
namespace {

// "runs/my-stack.yaml" is called my-stack.
std::string stem_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return file.substr(0, file.rfind('.'));
}

void read_stack_file(const Node& node, Context& context, const Catalog& catalog, const std::string& device_family,
                     Stack& stack, int depth) {
  std::string path;
  Node root;
  if (!open_path(node, context, depth, path, root)) return;
  Context inner(path);
  resolve_stack(root, inner, catalog, device_family, stack, depth + 1);
  stack.name = stem_of(path);
  if (inner.failed()) context.refuse(node, inner.error());
}

void read_memory(const Node& node, Context& context, MemoryHabits& memory) {
  Reader reader(node, context, "memory");
  reader.flag("fp32_parameters", memory.fp32_parameters);
  reader.flag("fp8_activations", memory.fp8_activations);
  reader.flag("recomputes_operators", memory.recomputes_operators);
  reader.quantity("logit_bytes", memory.logit_bytes, Quantity::bytes, 0, 64);
  reader.quantity("split_logit_bytes", memory.split_logit_bytes, Quantity::bytes, 0, 64);
  reader.quantity("update_bytes", memory.update_bytes, Quantity::bytes, 0, 64);
  reader.quantity("flatten_bytes", memory.flatten_bytes, Quantity::bytes, 0, 64);
  reader.quantity("bucket_bytes", memory.bucket_bytes, Quantity::bytes, 0, 64e9);
  reader.quantity("runtime_bytes", memory.runtime_bytes, Quantity::bytes, 0, 64e9);
  reader.quantity("reserve", memory.reserve, Quantity::number, 0, 1);
  reader.finish();
}

void read_abilities(const Node& node, Context& context, Abilities& abilities) {
  Reader reader(node, context, "abilities");
  reader.choices("schedules", abilities.schedules, kScheduleNames);
  reader.choices("recompute", abilities.recompute, kRecomputeNames);
  reader.counts("zero", abilities.zero, 0, 3);
  reader.flag("tensor_parallel", abilities.tensor_parallel);
  reader.flag("pipeline_parallel", abilities.pipeline_parallel);
  reader.flag("context_parallel", abilities.context_parallel);
  reader.flag("expert_parallel", abilities.expert_parallel);
  reader.flag("sequence_parallel", abilities.sequence_parallel);
  reader.flag("uneven_stages", abilities.uneven_stages);
  reader.flag("sharded_pipeline", abilities.sharded_pipeline);
  reader.flag("offload_optimizer", abilities.offload_optimizer);
  reader.flag("offload_activations", abilities.offload_activations);
  reader.flag("parameter_server", abilities.parameter_server);
  reader.finish();
}

}  // namespace

void read_stack_fields(const Node& node, Context& context, Stack& stack) {
  Reader reader(node, context, "stack");
  reader.take("base");
  reader.text("name", stack.title);
  reader.text("family", stack.family);
  reader.count("year", stack.year, 1970, 2100);
  reader.flag("executed", stack.executed);
  reader.quantity("launches", stack.launches, Quantity::number, 0, 1000);
  reader.flag("fused_attention", stack.fused_attention);
  reader.flag("selective_by_default", stack.selective_by_default);
  reader.quantity("selective_products", stack.selective_products, Quantity::fraction, 0, 1);
  reader.flag("dropout", stack.dropout);
  reader.count("default_zero", stack.default_zero, 0, 3);
  reader.flag("default_sequence_parallel", stack.default_sequence_parallel);
  reader.flag("interleaves_by_default", stack.interleaves_by_default);
  reader.quantity("gathers_per_layer", stack.gathers_per_layer, Quantity::number, 1, 100);
  reader.flag("reshard_after_forward", stack.reshard_after_forward);
  reader.quantity("scatter_bytes", stack.scatter_bytes, Quantity::bytes, 1, 8);
  reader.texts("traits", stack.traits);
  if (const Node* fixed = reader.mapping("fixed")) read_field_values(*fixed, context, "fixed", stack.fixed);
  reader.quantity("gradient_bytes", stack.gradient_bytes, Quantity::bytes, 1, 8);
  reader.quantity("gather_bytes", stack.gather_bytes, Quantity::bytes, 1, 8);
  reader.flag("remainder_last", stack.remainder_last);
  reader.flag("broadcasts_shards", stack.broadcasts_shards);
  reader.flag("two_level_dispatch", stack.two_level_dispatch);
  reader.flag("expert_sync", stack.expert_sync);
  reader.flag("fp8_gather", stack.fp8_gather);
  if (const Node* memory = reader.mapping("memory")) read_memory(*memory, context, stack.memory);
  if (const Node* abilities = reader.mapping("abilities")) read_abilities(*abilities, context, stack.abilities);
  FieldValues own;
  if (const Node* parameters = reader.mapping("parameters")) {
    read_field_values(*parameters, context, "parameters", own);
  }
  set_fields(own, stack.physics);
  read_source(reader, stack.source);
  reader.finish();
}

namespace {

// Traits and fixed fields that are written here move the numbers, and the numbers written here come after them.
void read_changed_stack(const Node& node, Context& context, const Catalog& catalog, const std::string& device_family,
                        Stack& stack) {
  read_stack_fields(node, context, stack);
  if (context.failed() || (node.find("traits") == nullptr && node.find("fixed") == nullptr)) return;
  const Result<Parameters> numbers = catalog.parameters();
  if (!numbers) return context.refuse(node, numbers.error());
  stack.physics = resolve(*numbers, device_family, stack);
  read_stack_fields(node, context, stack);
}

}  // namespace

void resolve_stack(const Node& node, Context& context, const Catalog& catalog, const std::string& device_family,
                   Stack& stack, int depth) {
  if (node.kind == Node::Kind::mapping) {
    const Node* base = node.find("base");
    if (base == nullptr)
      return context.refuse(node, "stack has no `base`, which it needs", "write base: megatron-core-2024");
    resolve_stack(*base, context, catalog, device_family, stack, depth + 1);
    return read_changed_stack(node, context, catalog, device_family, stack);
  }
  if (node.kind != Node::Kind::scalar) {
    return context.refuse(node,
                          "stack is " + description(node) + "; expected a name, a path, or a mapping with `base`");
  }
  if (is_path(node.scalar)) return read_stack_file(node, context, catalog, device_family, stack, depth);
  Result<Stack> found = catalog.stack(node.scalar, device_family);
  if (!found) return context.refuse(node, std::move(found.error()));
  stack = std::move(*found);
}

}  // namespace twinpod::spec
