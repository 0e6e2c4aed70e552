#include "collective/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/nearest.hpp"

namespace twinpod::collective {
namespace {

template <typename E, std::size_t N>
Result<E> named(const spec::NameTable<E, N>& table, std::string_view what, std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [known_name, value] : table) {
    if (known_name == name) return value;
    known.emplace_back(known_name);
  }
  const std::string nearest = nearest_name(name, known);
  return input_error(fmt::format("{} is no {}; expected one of {}", name, what, fmt::join(known, ", ")),
                     nearest.empty() ? "" : fmt::format("did you mean {}?", nearest));
}

}  // namespace

Result<Verb> verb_named(std::string_view name) { return named(kVerbNames, "collective", name); }
Result<Algorithm> algorithm_named(std::string_view name) { return named(kAlgorithmNames, "algorithm", name); }

std::vector<Algorithm> algorithms_of(Verb verb) {
  using enum Algorithm;
  switch (verb) {
    case Verb::send:
      return {direct};
    case Verb::broadcast:
      return {ring, tree, halving_doubling, direct, in_network};
    case Verb::reduce:
      return {ring, tree, direct, in_network};
    case Verb::all_reduce:
      return {ring,   bidirectional_ring, tree, double_tree, halving_doubling, bruck, hierarchical, rail, torus,
              direct, in_network};
    case Verb::reduce_scatter:
    case Verb::all_gather:
      return {ring, bidirectional_ring, halving_doubling, bruck, hierarchical, rail, torus, direct, in_network};
    case Verb::scatter:
    case Verb::gather:
      return {tree, direct};
    case Verb::all_to_all:
      return {bruck, hierarchical, direct};
    case Verb::barrier:
      return {bruck};
  }
  return {};
}

bool supports(Verb verb, Algorithm algorithm) {
  const std::vector<Algorithm> known = algorithms_of(verb);
  return std::find(known.begin(), known.end(), algorithm) != known.end();
}

}  // namespace twinpod::collective
