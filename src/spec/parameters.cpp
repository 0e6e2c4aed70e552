#include "spec/parameters.hpp"

#include <fmt/format.h>

#include "core/quote.hpp"
#include "spec/entries.hpp"
#include "spec/stack.hpp"

namespace twinpod::spec {
namespace {

using Scopes = std::map<std::string, FieldValues>;

const FieldValues* find(const Scopes& scopes, const std::string& name) {
  const auto found = scopes.find(name);
  return found == scopes.end() ? nullptr : &found->second;
}

void read_scopes(const Node& node, Context& context, Scopes& scopes) {
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    read_field_values(node.items[i], context, node.keys[i], scopes[node.keys[i]]);
  }
}

void write_values(const FieldValues& values, std::string_view indent, std::string& text) {
  for (const auto& [field, value] : values) text += fmt::format("{}{}: {:.4g}\n", indent, field, value);
}

void write_scopes(const Scopes& scopes, std::string_view title, std::string& text) {
  if (scopes.empty()) return;
  text += fmt::format("{}:\n", title);
  for (const auto& [name, values] : scopes) {
    if (values.empty()) continue;
    text += fmt::format("  {}:\n", yaml_word(name));
    write_values(values, "    ", text);
  }
}

}  // namespace

void read_field_values(const Node& node, Context& context, const std::string& what, FieldValues& values) {
  Reader reader(node, context, what);
  for (const PhysicsField& field : physics_fields()) {
    if (!reader.has(field.name)) {
      reader.take(field.name);
      continue;
    }
    reader.quantity(field.name, values[std::string(field.name)], Quantity::number, field.low, field.high);
  }
  reader.finish();
}

int count(const Parameters& parameters) {
  std::size_t total = parameters.shared.size();
  for (const auto& [name, values] : parameters.by_device) total += values.size();
  for (const auto& [name, values] : parameters.by_trait) total += values.size();
  for (const auto& [name, values] : parameters.by_stack) total += values.size();
  return static_cast<int>(total);
}

void set_fields(const FieldValues& values, Physics& physics) {
  for (const auto& [name, value] : values) {
    if (const PhysicsField* field = find_physics_field(name)) physics.*field->member = value;
  }
}

Physics resolve(const Parameters& parameters, const std::string& device_family, const Stack& stack) {
  Physics physics = default_physics();
  set_fields(parameters.shared, physics);
  if (const FieldValues* values = find(parameters.by_device, device_family)) set_fields(*values, physics);
  for (const std::string& trait : stack.traits) {
    if (const FieldValues* values = find(parameters.by_trait, trait)) set_fields(*values, physics);
  }
  set_fields(stack.fixed, physics);
  if (const FieldValues* values = find(parameters.by_stack, stack.name)) set_fields(*values, physics);
  return physics;
}

Result<Parameters> read_parameters(const Node& root, const std::string& file) {
  Context context(file);
  Parameters parameters;
  Reader reader(root, context, "parameters");
  if (const Node* shared = reader.mapping("shared")) read_field_values(*shared, context, "shared", parameters.shared);
  if (const Node* device = reader.mapping("device")) read_scopes(*device, context, parameters.by_device);
  if (const Node* trait = reader.mapping("trait")) read_scopes(*trait, context, parameters.by_trait);
  if (const Node* stack = reader.mapping("stack")) read_scopes(*stack, context, parameters.by_stack);
  reader.finish();
  if (context.failed()) return tl::unexpected(context.error());
  return parameters;
}

std::string write_parameters(const Parameters& parameters) {
  std::string text;
  if (!parameters.shared.empty()) text += "shared:\n";
  write_values(parameters.shared, "  ", text);
  write_scopes(parameters.by_device, "device", text);
  write_scopes(parameters.by_trait, "trait", text);
  write_scopes(parameters.by_stack, "stack", text);
  return text;
}

}  // namespace twinpod::spec
