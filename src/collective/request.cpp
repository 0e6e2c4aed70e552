#include "collective/request.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace twinpod::collective {
namespace {

Result<void> check_pair(Verb verb, Algorithm algorithm) {
  if (supports(verb, algorithm)) return {};
  std::string known;
  for (const Algorithm other : algorithms_of(verb))
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(other));
  return input_error(fmt::format("{} has no algorithm {}", name_of(verb), name_of(algorithm)),
                     fmt::format("it has {}", known));
}

bool has_root(Verb verb) {
  return verb == Verb::send || verb == Verb::broadcast || verb == Verb::reduce || verb == Verb::scatter ||
         verb == Verb::gather;
}

Result<void> check_root(Verb verb, int ranks, const Shape& shape) {
  if (has_root(verb) && (shape.root < 0 || shape.root >= ranks)) {
    return input_error(fmt::format("root {} is no rank: there are {} ranks", shape.root, ranks),
                       fmt::format("a root from 0 to {}", ranks - 1));
  }
  if (verb != Verb::send) return {};
  if (shape.peer < 0 || shape.peer >= ranks || shape.peer == shape.root) {
    return input_error(
        fmt::format("send from rank {} to rank {}: expected another of the {} ranks", shape.root, shape.peer, ranks),
        ranks > 1 ? "" : "a send needs 2 ranks");
  }
  return {};
}

Result<void> check_torus(int ranks, const Shape& shape) {
  std::int64_t product = 1;
  std::string text;
  for (const int extent : shape.torus) {
    text += fmt::format("{}{}", text.empty() ? "" : "x", extent);
    if (extent < 1) return input_error(fmt::format("torus {}: an extent of {}; expected at least 1", text, extent));
    product *= extent;
    if (product > ranks) break;
  }
  if (shape.torus.empty()) {
    return input_error("torus: its extents are missing", fmt::format("for {} ranks, for example {}", ranks, ranks));
  }
  if (product == ranks) return {};
  return input_error(fmt::format("torus {} does not have {} ranks", text, ranks),
                     fmt::format("extents whose product is {}", ranks));
}

}  // namespace

Result<void> check_request(Verb verb, Algorithm algorithm, int ranks, const Shape& shape) {
  if (ranks < 1) return input_error(fmt::format("{} over {} ranks: expected at least 1", name_of(verb), ranks));
  if (const Result<void> pair = check_pair(verb, algorithm); !pair) return pair;
  if (const Result<void> root = check_root(verb, ranks, shape); !root) return root;
  if (shape.pieces < 1) return input_error(fmt::format("{} pieces: expected at least 1", shape.pieces));
  if (shape.ranks_per_node < 1) {
    return input_error(fmt::format("{} ranks on a node: expected at least 1", shape.ranks_per_node));
  }
  if (algorithm == Algorithm::torus) return check_torus(ranks, shape);
  return {};
}

}  // namespace twinpod::collective
