#include "collective/phases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "collective/algorithms.hpp"
#include "collective/gather_family.hpp"
#include "collective/request.hpp"

namespace twinpod::collective {
namespace {

std::vector<Phase> broadcast_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  if (algorithm == Algorithm::ring) return chain_broadcast_phases(ranks, bytes, shape.root, shape.pieces);
  if (algorithm == Algorithm::tree) return tree_broadcast_phases(ranks, bytes, shape.root);
  if (algorithm == Algorithm::halving_doubling) return scatter_gather_broadcast_phases(ranks, bytes, shape.root);
  return direct_broadcast_phases(ranks, bytes, shape.root);
}

std::vector<Phase> scatter_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  if (algorithm == Algorithm::tree) return tree_scatter_phases(ranks, bytes, shape.root);
  return direct_broadcast_phases(ranks, bytes / ranks, shape.root);
}

std::vector<Phase> all_reduce_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  if (algorithm == Algorithm::halving_doubling) return halving_doubling_all_reduce_phases(ranks, bytes);
  if (algorithm == Algorithm::tree) return tree_all_reduce_phases(ranks, bytes, shape.pieces, 1);
  if (algorithm == Algorithm::double_tree) return tree_all_reduce_phases(ranks, bytes, shape.pieces, 2);
  return one_after_another(reduce_scatter_phases(algorithm, ranks, bytes, shape),
                           all_gather_phases(algorithm, ranks, bytes, shape, 1));
}

std::vector<Phase> made_phases(Verb verb, Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  if (algorithm == Algorithm::in_network) return in_network_phases(verb, ranks, bytes, shape);
  switch (verb) {
    case Verb::send:
      return {{.transfers = {{shape.root, shape.peer, bytes}}, .ranks = ranks}};
    case Verb::broadcast:
      return broadcast_phases(algorithm, ranks, bytes, shape);
    case Verb::reduce:
      return reversed(broadcast_phases(algorithm, ranks, bytes, shape));
    case Verb::all_reduce:
      return all_reduce_phases(algorithm, ranks, bytes, shape);
    case Verb::reduce_scatter:
      return reduce_scatter_phases(algorithm, ranks, bytes, shape);
    case Verb::all_gather:
      return all_gather_phases(algorithm, ranks, bytes, shape, 1);
    case Verb::scatter:
      return scatter_phases(algorithm, ranks, bytes, shape);
    case Verb::gather:
      return reversed(scatter_phases(algorithm, ranks, bytes, shape));
    case Verb::all_to_all:
      return all_to_all_phases(algorithm, ranks, bytes, shape);
    case Verb::barrier:
      return dissemination_barrier_phases(ranks);
  }
  return {};
}

// Where every round is spelled out, there can be too many transfers to hold: a smaller last node has one list for each
// node, a chain in many pieces one for each round.
constexpr double kMaxTransfers = 5e7;

Result<void> check_size(Verb verb, Algorithm algorithm, int ranks, const Shape& shape) {
  const Nodes nodes = nodes_of(ranks, shape);
  const bool by_node = algorithm == Algorithm::hierarchical && !nodes.even();
  const double transfers = by_node ? double(ranks) * (nodes.count() + nodes.per_node) : 0;
  if (transfers <= kMaxTransfers) return {};
  return infeasible(
      fmt::format("{} {} over {} ranks with a last node of {}: {:.0f} transfers to spell out, at most {:.0f}",
                  name_of(algorithm), name_of(verb), ranks, nodes.size(nodes.count() - 1), transfers, kMaxTransfers),
      fmt::format("{} ranks, all nodes full", ranks - ranks % nodes.per_node));
}

}  // namespace

Result<std::vector<Phase>> phases(Verb verb, Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  Result<void> fits = check_request(verb, algorithm, ranks, shape);
  if (fits) fits = check_size(verb, algorithm, ranks, shape);
  if (!fits) return tl::unexpected(fits.error());
  if (!(bytes >= 0)) return input_error(fmt::format("{} bytes: expected 0 or more", bytes));
  return folded(made_phases(verb, algorithm, ranks, bytes, shape));
}

Result<std::vector<Phase>> all_to_allv_phases(int ranks, const std::vector<double>& bytes) {
  const std::size_t n = static_cast<std::size_t>(std::max(ranks, 0));
  if (ranks < 1 || bytes.size() != n * n) {
    return input_error(fmt::format("all_to_all over {} ranks with {} sizes: expected {}", ranks, bytes.size(), n * n));
  }
  std::vector<Phase> phases(n - 1, Phase{.ranks = ranks});
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t s = 1; s < n; ++s) {
      const std::size_t to = (from + s) % n;
      const double sent = bytes[from * n + to];
      if (sent > 0) phases[s - 1].transfers.push_back({static_cast<int>(from), static_cast<int>(to), sent});
    }
  }
  return folded(std::move(phases));
}

std::vector<Transfer> transfers_of(const Schedule& schedule, const Round& round, double bytes) {
  const double chunk = schedule.verb == Verb::barrier ? 0 : bytes / schedule.chunks;
  std::map<std::pair<int, int>, double> sent;
  for (const Step& step : round.steps) {
    if (step.from != step.to) sent[{step.from, step.to}] += chunk * step.count;
  }
  std::vector<Transfer> transfers;
  for (const auto& [pair, total] : sent) transfers.push_back({pair.first, pair.second, total});
  return transfers;
}

std::vector<Phase> phases_of(const Schedule& schedule, double bytes) {
  std::vector<Phase> phases;
  for (const Round& round : schedule.rounds) {
    phases.push_back({.transfers = transfers_of(schedule, round, bytes), .ranks = schedule.ranks});
  }
  return folded(std::move(phases));
}

double num_transfers(const Phase& phase) {
  double number = static_cast<double>(phase.transfers.size());
  for (const Shift& shift : phase.shifts) {
    number += shift.count < 0 ? phase.ranks : double(phase.ranks) / shift.extent * shift.count;
  }
  return number;
}

std::vector<Transfer> expand(const Phase& phase) {
  std::vector<Transfer> transfers;
  transfers.reserve(static_cast<std::size_t>(num_transfers(phase)));
  for_each_transfer(phase, [&](const Transfer& transfer) { transfers.push_back(transfer); });
  return transfers;
}

double bus_factor(Verb verb, int ranks) {
  const double n = ranks;
  switch (verb) {
    case Verb::all_reduce:
      return 2 * (n - 1) / n;
    case Verb::reduce_scatter:
    case Verb::all_gather:
    case Verb::all_to_all:
    case Verb::scatter:
    case Verb::gather:
      return (n - 1) / n;
    default:
      return 1;
  }
}

}  // namespace twinpod::collective
