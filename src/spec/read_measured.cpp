// The part of a cluster that was measured.
#include <fmt/format.h>

#include <array>

#include "spec/entries.hpp"
#include "spec/names.hpp"

namespace twinpod::spec {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 9> kVerbs = {{{"all_reduce", 0},
                                                                     {"all_gather", 1},
                                                                     {"reduce_scatter", 2},
                                                                     {"broadcast", 3},
                                                                     {"reduce", 4},
                                                                     {"gather", 5},
                                                                     {"scatter", 6},
                                                                     {"all_to_all", 7},
                                                                     {"send", 8}}};
constexpr double kMostSeconds = 1e6;

// A machine may be far from the priors, which are those of accelerators: any finite number from 0 on.
void read_numbers(const Node& node, Context& context, std::map<std::string, double>& numbers) {
  constexpr double kMost = 1e12;
  Reader reader(node, context, "numbers");
  for (const PhysicsField& field : physics_fields()) {
    if (reader.has(field.name)) {
      reader.quantity(field.name, numbers[std::string(field.name)], Quantity::number, 0, kMost);
    } else {
      reader.take(field.name);
    }
  }
  reader.finish();
}

void read_message(const Node& node, Context& context, Measured& measured) {
  Reader reader(node, context, "message");
  reader.quantity("inside", measured.message_inside_s, Quantity::seconds, 0, 10);
  reader.quantity("between", measured.message_between_s, Quantity::seconds, 0, 10);
  reader.finish();
}

void read_list(Reader& reader, Context& context, std::string_view key, Quantity quantity, double high,
               std::vector<double>& values) {
  const Node* list = reader.take(key);
  if (list == nullptr) return reader.require(key);
  if (list->kind != Node::Kind::sequence || list->items.empty()) {
    return context.refuse(*list, fmt::format("{} is {}; expected a list of numbers", key, description(*list)));
  }
  for (const Node& item : list->items) {
    const Result<double> value = item.kind == Node::Kind::scalar ? parse_quantity(item.scalar, quantity)
                                                                 : Result<double>(input_error("no number"));
    if (!value || *value <= 0 || *value > high) {
      return context.refuse(item, fmt::format("{} has {}; expected numbers above 0", key, description(item)));
    }
    values.push_back(*value);
  }
}

void read_collective(const Node& node, Context& context, MeasuredCollective& one) {
  Reader reader(node, context, "collective");
  int verb = 0;
  reader.require("verb");
  reader.choice("verb", verb, kVerbs);
  one.verb = kVerbs[static_cast<std::size_t>(verb)].first;
  reader.require("ranks");
  reader.count("ranks", one.ranks, 2, 1 << 20);
  read_list(reader, context, "bytes", Quantity::bytes, 1e15, one.bytes);
  read_list(reader, context, "seconds", Quantity::seconds, kMostSeconds, one.seconds);
  reader.quantity("error", one.error, Quantity::fraction, 0, kMostSeconds);
  reader.finish();
  if (context.failed()) return;
  if (one.bytes.size() != one.seconds.size()) {
    return context.refuse(
        node, fmt::format("{} bytes but {} seconds; expected as many of each", one.bytes.size(), one.seconds.size()));
  }
  for (std::size_t i = 1; i < one.bytes.size(); ++i) {
    if (one.bytes[i] <= one.bytes[i - 1]) {
      return context.refuse(*node.find("bytes"), "bytes do not rise; expected each larger than the one before");
    }
  }
}

void read_errors(const Node& node, Context& context, std::map<std::string, double>& errors) {
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const Node& item = node.items[i];
    const Result<double> value = item.kind == Node::Kind::scalar ? parse_quantity(item.scalar, Quantity::fraction)
                                                                 : Result<double>(input_error("no number"));
    if (!value || *value < 0) {
      return context.refuse(
          item, fmt::format("error of {} is {}; expected a share, such as 0.05", node.keys[i], description(item)));
    }
    errors[node.keys[i]] = *value;
  }
}

}  // namespace

void read_measured(const Node& node, Context& context, Measured& measured) {
  measured = {};
  Reader reader(node, context, "measured");
  if (const Node* numbers = reader.mapping("numbers")) read_numbers(*numbers, context, measured.numbers);
  if (const Node* message = reader.mapping("message")) read_message(*message, context, measured);
  if (const Node* list = reader.take("collectives")) {
    if (list->kind != Node::Kind::sequence) {
      context.refuse(*list, "collectives is " + description(*list) + "; expected a list of mappings");
    }
    for (const Node& item : list->items) read_collective(item, context, measured.collectives.emplace_back());
  }
  if (const Node* errors = reader.mapping("errors")) read_errors(*errors, context, measured.errors);
  reader.finish();
}

}  // namespace twinpod::spec
