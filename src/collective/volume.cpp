// Closed forms. Every rank but the first must receive each part of the buffer once, whatever the algorithm, so the
// total is the same for all that gather: (n - 1) B for all_gather and reduce_scatter, twice that for all_reduce.
#include <algorithm>
#include <cmath>

#include "collective/algorithms.hpp"
#include "collective/gather_family.hpp"
#include "collective/phases.hpp"
#include "collective/request.hpp"

namespace twinpod::collective {
namespace {

double all_gather_rounds(Algorithm algorithm, int ranks, const Shape& shape) {
  const bool power_of_two = floor_power_of_two(ranks) == ranks;
  switch (algorithm) {
    case Algorithm::bidirectional_ring:
      return ranks / 2;  // NOLINT(bugprone-integer-division): rounds are whole
    case Algorithm::halving_doubling:
      return ceil_log2(floor_power_of_two(ranks)) + (power_of_two ? 0 : 2);
    case Algorithm::bruck:
      return ceil_log2(ranks);
    case Algorithm::hierarchical:
      return hierarchical_all_gather_rounds(ranks, shape);
    case Algorithm::torus:
      return torus_all_gather_rounds(shape);
    case Algorithm::direct:
      return std::min(1, ranks - 1);
    default:
      return ranks - 1;
  }
}

Volume gathered(Verb verb, Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  const double rounds = all_gather_rounds(algorithm, ranks, shape);
  const double once = bytes * (ranks - 1) / ranks;
  const bool by_node = algorithm == Algorithm::hierarchical;
  const bool doubles = algorithm == Algorithm::halving_doubling;
  if (verb == Verb::all_gather) {
    const double sent = by_node   ? hierarchical_all_gather_sent(ranks, bytes, shape)
                        : doubles ? halving_doubling_all_gather_sent_chunks(ranks, 0) * bytes / ranks
                                  : once;
    return {rounds, sent, once * ranks};
  }
  if (verb == Verb::reduce_scatter) {
    return {rounds, by_node ? hierarchical_reduce_scatter_sent(ranks, bytes, shape) : once, once * ranks};
  }
  // The round that hands parts to the partner is not needed between the two halves of doubling.
  const double both =
      doubles ? 2.0 * ceil_log2(floor_power_of_two(ranks)) + (floor_power_of_two(ranks) == ranks ? 0 : 2) : 2 * rounds;
  const double sent = by_node   ? hierarchical_all_reduce_sent(ranks, bytes, shape)
                      : doubles ? halving_doubling_all_reduce_sent(ranks, bytes)
                                : 2 * once;
  return {both, sent, 2 * once * ranks};
}

// Parts that go down the binomial tree of a scatter, all edges together.
double tree_scatter_total(int ranks) {
  double parts = 0;
  for (int distance = 1; distance < ranks; distance *= 2) {
    // Children of this distance are the ranks from `distance` on in every second block.
    const int blocks = ranks / (2 * distance);
    parts += static_cast<double>(blocks) * distance + std::max(0, ranks - blocks * 2 * distance - distance);
  }
  return parts;
}

Volume broadcast(Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  const double others = ranks - 1;
  const double levels = ceil_log2(ranks);
  if (ranks == 1) return {};
  if (algorithm == Algorithm::ring) return {others - 1 + shape.pieces, bytes, others * bytes};
  if (algorithm == Algorithm::tree) return {levels, levels * bytes, others * bytes};
  return {1, others * bytes, others * bytes};
}

// Backwards: the root receives what it would send, and nobody else sends twice.
Volume reduce(Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  Volume volume = broadcast(algorithm, ranks, bytes, shape);
  volume.sent_bytes = ranks == 1 ? 0 : bytes;
  return volume;
}

// The root sends all parts but its own; the gather by doubling follows, in which rank 0 may send most.
Volume scatter_gather(int ranks, double bytes, const Shape& shape) {
  const Volume gather = gathered(Verb::all_gather, Algorithm::halving_doubling, ranks, bytes, shape);
  Volume volume = gather;
  volume.rounds += ceil_log2(ranks);
  volume.total_bytes += bytes / ranks * tree_scatter_total(ranks);
  volume.sent_bytes = scatter_gather_broadcast_sent(ranks, bytes, shape.root);
  return volume;
}

Volume scatter(Algorithm algorithm, int ranks, double bytes) {
  if (ranks == 1) return {};
  const double others = bytes * (ranks - 1) / ranks;
  if (algorithm == Algorithm::direct) return {1, others, others};
  return {static_cast<double>(ceil_log2(ranks)), others, bytes / ranks * tree_scatter_total(ranks)};
}

// Gather: the child of the root with the longest distance, or one shorter when that one is cut off, sends most.
Volume gather(Algorithm algorithm, int ranks, double bytes) {
  Volume volume = scatter(algorithm, ranks, bytes);
  if (ranks == 1) return volume;
  const int longest = 1 << (ceil_log2(ranks) - 1);
  const int most = std::max(ranks - longest, longest / 2);
  volume.sent_bytes = bytes / ranks * (algorithm == Algorithm::direct ? 1 : most);
  return volume;
}

Volume made_volume(Verb verb, Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  if (algorithm == Algorithm::in_network) return in_network_volume(verb, ranks, bytes, shape);
  switch (verb) {
    case Verb::send:
      return {1, bytes, bytes};
    case Verb::broadcast:
      return algorithm == Algorithm::halving_doubling ? scatter_gather(ranks, bytes, shape)
                                                      : broadcast(algorithm, ranks, bytes, shape);
    case Verb::reduce:
      return reduce(algorithm, ranks, bytes, shape);
    case Verb::scatter:
      return scatter(algorithm, ranks, bytes);
    case Verb::gather:
      return gather(algorithm, ranks, bytes);
    case Verb::all_to_all:
      return all_to_all_volume(algorithm, ranks, bytes, shape);
    case Verb::barrier:
      return {static_cast<double>(ceil_log2(ranks)), 0, 0};
    default:
      break;
  }
  if (gathers(algorithm)) return gathered(verb, algorithm, ranks, bytes, shape);
  return tree_all_reduce_volume(ranks, bytes, shape.pieces, algorithm == Algorithm::double_tree ? 2 : 1);
}

}  // namespace

Result<Volume> volume(Verb verb, Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  if (const Result<void> fits = check_request(verb, algorithm, ranks, shape); !fits) {
    return tl::unexpected(fits.error());
  }
  return made_volume(verb, algorithm, ranks, bytes, shape);
}

}  // namespace twinpod::collective
