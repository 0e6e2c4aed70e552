#include "cluster/collective_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace twinpod::cluster {
namespace {

constexpr std::array<FreeNumber<SharedNumbers>, 7> kSharedNumbers = {{
    {"overlap_ll", &SharedNumbers::overlap_ll, 1.2, 0.3, 5, "exponent p of LL"},
    {"overlap_simple", &SharedNumbers::overlap_simple, 0.9, 0.3, 5, "exponent p of LL128 and Simple"},
    {"overlap_nvls", &SharedNumbers::overlap_nvls, 0.7, 0.3, 5, "exponent p where switches reduce"},
    {"overlap_pairs", &SharedNumbers::overlap_pairs, 0.7, 0.3, 5, "exponent p of an all-to-all"},
    {"small_group", &SharedNumbers::small_group, 0.5, 0.01, 4, "ranks n0: a ring of n reaches n/(n+n0) of its rate"},
    {"hop_simple", &SharedNumbers::hop_simple, 0.3, 0.01, 3, "share of the tuner's hop latency seen by LL128, Simple"},
    {"pair_padding", &SharedNumbers::pair_padding, 0.5, 0.01, 3,
     "exponent on n / (next power of two) for an all-to-all"},
}};

constexpr std::array<FreeNumber<SystemNumbers>, 12> kSystemNumbers = {{
    {"latency_ll", &SystemNumbers::latency_ll, 2.5, 0.3, 30, "factor on the tuner's latency, LL"},
    {"latency_simple", &SystemNumbers::latency_simple, 2.5, 0.3, 30, "factor on the tuner's latency, LL128 and Simple"},
    {"latency_nvls", &SystemNumbers::latency_nvls, 1.7, 0.3, 30, "factor on the tuner's latency, switches that reduce"},
    {"latency_net", &SystemNumbers::latency_net, 1, 0.1, 30, "factor on the tuner's latency of hops between nodes"},
    {"share_ll", &SystemNumbers::share_ll, 0.8, 0.1, 5, "of the tuner's bandwidth, LL"},
    {"share_simple", &SystemNumbers::share_simple, 0.95, 0.2, 1.5, "of the tuner's bandwidth, LL128 and Simple"},
    {"share_nvls", &SystemNumbers::share_nvls, 0.95, 0.2, 1.5, "of the tuner's bandwidth, switches that reduce"},
    {"share_reduce_scatter", &SystemNumbers::share_reduce_scatter, 0.98, 0.5, 1.2, "of share_simple, reduce-scatter"},
    {"pair_floor_s", &SystemNumbers::pair_floor_s, 3e-5, 1e-6, 1e-3, "seconds of an all-to-all of nothing"},
    {"pair_square_s", &SystemNumbers::pair_square_s, 1e-8, 1e-10, 1e-5, "seconds for each pair of ranks, all-to-all"},
    {"share_pairs_ll", &SystemNumbers::share_pairs_ll, 0.6, 0.1, 6, "of LL's bandwidth, all-to-all of small parts"},
    {"share_pairs", &SystemNumbers::share_pairs, 0.9, 0.2, 1.5, "of the ring's bandwidth, all-to-all of large parts"},
}};

// An all-to-all sends parts below this in the LL protocol, and gives every peer the same channels below the second;
// both are steps in the measured tables (a part of 512 KiB takes longer than one of 1 MiB).
constexpr double kPairSimpleBytes = 1 << 20;
constexpr double kPairPaddedBytes = 1 << 25;

// The latency was measured in groups of up to 72, where it grows with the pairs. Beyond, a rank pays for each peer what
// it pays there.
constexpr double kPairSquareRanks = 72;

// n ranks in `domains` domains, and what one of them is joined by.
struct Placement {
  double ranks = 1, per_domain = 1, domains = 1;
  double link_bytes_per_s = 0;  // as NCCL counts it
  double net_bytes_per_s = 0;   // interfaces of the group's ranks in a domain
  double bus_bytes_per_s = 0;   // of a ring through all ranks
  std::size_t by_nodes = 0;     // index into ByNodes
  NetworkShare share;
  bool is_split() const { return domains > 1; }
};

Placement placement_of(const CollectiveSystem& system, int ranks, const CostOptions& options) {
  Placement place;
  place.ranks = ranks;
  place.share = options.share;
  const int groups = options.concurrent_groups;
  const int most = options.ranks_per_domain > 0 ? options.ranks_per_domain : system.domain;
  place.per_domain = std::min(ranks, std::max(1, std::min(most, system.domain)));
  place.domains = std::ceil(place.ranks / place.per_domain);
  // More groups than devices for them: they take turns.
  const double turns = std::max(1.0, groups * place.per_domain / system.domain);
  const double used = system.mesh ? (place.per_domain - 1) / std::max(1, system.domain - 1) : 1.0;
  place.link_bytes_per_s = system.scale_up_bytes_per_s * system.family.bus_share * used / turns;
  place.net_bytes_per_s = system.nic_bytes_per_s * place.per_domain / turns;
  place.bus_bytes_per_s = place.link_bytes_per_s;
  if (place.is_split()) {
    place.bus_bytes_per_s =
        place.per_domain > 1 ? std::min(place.link_bytes_per_s, place.net_bytes_per_s) : place.net_bytes_per_s;
    place.by_nodes = place.domains > 2 ? 2 : 1;
  }
  return place;
}

// What the tuner knows of one choice. Latency in three parts, because they are corrected apart.
struct Candidate {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double base_s = 0, link_s = 0, net_s = 0;
  double bytes_per_s = 0;  // algorithm bandwidth
  double tuner_s(double bytes) const { return base_s + link_s + net_s + bytes / bytes_per_s; }
};

double ring_steps(CollectiveVerb verb, double ranks) {
  if (verb == CollectiveVerb::all_reduce) return 2 * (ranks - 1);
  return verb == CollectiveVerb::broadcast || verb == CollectiveVerb::reduce ? ranks : ranks - 1;
}

double net_hop_s(const CollectiveSystem& system, double tuner_s, NcclProtocol protocol) {
  // Simple waits for the flush of what has arrived: the wire counts twice.
  return tuner_s + system.net_latency_s * (protocol == NcclProtocol::simple ? 2 : 1);
}

// Bandwidth of a ring: LL sends a flag with each 4 bytes, LL128 one with each 120.
double ring_bytes_per_s(const CollectiveSystem& system, const Placement& place, NcclProtocol protocol) {
  const NcclFamily& family = system.family;
  const double bus = place.bus_bytes_per_s * place.share.ring;
  switch (protocol) {
    case NcclProtocol::ll:
      return std::min(family.ll_max[place.by_nodes], bus * 0.5);
    case NcclProtocol::ll128:
      return std::min(bus * 0.92, family.channels * family.ring_ll128[place.by_nodes]);
    case NcclProtocol::simple:
      break;
  }
  return bus;
}

Candidate ring(const CollectiveSystem& system, const Placement& place, CollectiveVerb verb, NcclProtocol protocol,
               double bytes) {
  const auto p = static_cast<std::size_t>(protocol);
  const NcclConstants& nccl = system.nccl;
  const double steps = ring_steps(verb, place.ranks);
  const double net_steps = (verb == CollectiveVerb::all_reduce ? 2 : 1) * (place.domains - 1);
  double hop = nccl.link_ring[p];
  if (place.is_split()) hop = std::max(hop, nccl.net_overhead * (protocol == NcclProtocol::simple ? 3 : 1));
  Candidate c{NcclAlgorithm::ring, protocol};
  c.base_s = nccl.base_ring[p];
  c.link_s = (steps - net_steps) * hop;
  c.net_s = net_steps * net_hop_s(system, nccl.net_ring[p], protocol);
  const bool plateau = place.is_split() && protocol == NcclProtocol::simple && verb == CollectiveVerb::all_reduce &&
                       bytes / (system.family.channels * place.ranks) >= 64;
  if (plateau) {
    c.base_s *= nccl.ring_plateau;
    c.link_s *= nccl.ring_plateau;
    c.net_s *= nccl.ring_plateau;
  }
  c.bytes_per_s = ring_bytes_per_s(system, place, protocol) * place.ranks / steps;
  return c;
}

double tree_correction(const NcclConstants& nccl, NcclProtocol protocol, double bytes) {
  const double doublings = std::floor(std::log2(std::max(1.0, bytes / 64)));
  if (doublings >= kTreeSizes) return 1;
  return nccl.tree_correction[static_cast<std::size_t>(protocol)][static_cast<std::size_t>(doublings)];
}

// Two binary trees between nodes, chains inside them.
Candidate tree(const CollectiveSystem& system, const Placement& place, NcclProtocol protocol, double bytes) {
  const auto p = static_cast<std::size_t>(protocol);
  const NcclConstants& nccl = system.nccl;
  const NcclFamily& family = system.family;
  Candidate c{NcclAlgorithm::tree, protocol};
  c.base_s = nccl.base_tree[p];
  c.link_s = 2 * (place.per_domain - 1) * nccl.link_tree[p];
  c.net_s = 2 * std::log2(place.domains) * net_hop_s(system, nccl.net_tree[p], protocol);
  double bus =
      std::min(place.bus_bytes_per_s * place.share.tree * 0.92, family.channels * family.tree_simple[place.by_nodes]);
  if (protocol == NcclProtocol::ll) bus = std::min(bus / 3.8, family.ll_max[place.by_nodes]);
  if (protocol == NcclProtocol::ll128) {
    bus =
        std::min(bus * (place.is_split() ? 120.0 / 128 : 7.0 / 9), family.channels * family.tree_ll128[place.by_nodes]);
  }
  c.bytes_per_s = 0.5 * bus * tree_correction(nccl, protocol, bytes);
  return c;
}

// The switch adds up: a rank sends its buffer once and the n-th part that it has gathered once more, so that a link
// carries n+1 n-ths of the buffer each way instead of the 2(n-1) n-ths of a ring. NCCL's efficiency stands on top. This
// gives the observed thresholds: from 6 ranks on with B200, and the measured rates for 5 to 8 ranks of H200 within 2 %.
double nvls_bus(const CollectiveSystem& system, const Placement& place) {
  const double n = place.per_domain;
  return place.link_bytes_per_s * place.share.domain * system.family.nvls_efficiency * 2 * (n - 1) / (n + 1);
}

Candidate nvls(const CollectiveSystem& system, const Placement& place) {
  const double steps = ring_steps(CollectiveVerb::all_reduce, place.ranks);
  Candidate c{place.is_split() ? NcclAlgorithm::nvls_tree : NcclAlgorithm::nvls, NcclProtocol::simple};
  c.link_s = system.nccl.link_nvls;
  double bus = nvls_bus(system, place);
  if (place.is_split()) {
    c.net_s = 2 * std::log2(place.domains) * net_hop_s(system, system.nccl.net_nvls_tree, c.protocol);
    bus = std::min({bus, place.net_bytes_per_s * place.share.tree,
                    system.family.channels * system.family.nvls_tree[place.by_nodes]});
  }
  c.bytes_per_s = bus * place.ranks / steps;
  return c;
}

// Switches between nodes add up: a node sends the buffer once and gets it once over all its interfaces, where a ring
// sends it twice. Inside a node it is scattered and gathered over NVLink.
Candidate collnet(const CollectiveSystem& system, const Placement& place) {
  const NcclConstants& nccl = system.nccl;
  const double peers = place.per_domain - 1;
  Candidate c{NcclAlgorithm::collnet, NcclProtocol::simple};
  c.link_s = 2 * (std::min(1.0, peers) * nccl.link_collnet + peers * nccl.peer_collnet);
  c.net_s = net_hop_s(system, nccl.net_collnet, c.protocol);
  const double inside =
      peers > 0 ? place.link_bytes_per_s * place.share.domain * place.per_domain / (2 * peers) : place.net_bytes_per_s;
  c.bytes_per_s = std::min(inside, place.net_bytes_per_s * place.share.tree) * system.family.collnet_efficiency;
  return c;
}

Candidate best_candidate(const CollectiveSystem& system, const Placement& place, CollectiveVerb verb, double bytes,
                         const std::optional<NcclAlgorithm>& only) {
  Candidate best = ring(system, place, verb, NcclProtocol::simple, bytes);
  const auto offer = [&](const Candidate& c) {
    if (only && c.algorithm != *only) return;
    const bool first = only && best.algorithm != *only;
    if (c.bytes_per_s > 0 && (first || c.tuner_s(bytes) < best.tuner_s(bytes))) best = c;
  };
  offer(ring(system, place, verb, NcclProtocol::ll, bytes));
  if (!system.family.tuned) return best;
  offer(ring(system, place, verb, NcclProtocol::ll128, bytes));
  if (verb != CollectiveVerb::all_reduce) return best;
  for (const NcclProtocol protocol : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
    offer(tree(system, place, protocol, bytes));
  }
  const bool adds = system.in_network_from > 0 && place.per_domain >= system.in_network_from;
  if (adds && system.family.nvls_efficiency > 0) offer(nvls(system, place));
  if (system.collnet && place.is_split()) offer(collnet(system, place));
  return best;
}

double overlapped(double latency_s, double transfer_s, double p) {
  if (latency_s <= 0) return transfer_s;
  return latency_s * std::pow(1 + std::pow(transfer_s / latency_s, p), 1 / p);
}

// Seconds of the tuner's choice as they were measured.
double corrected_s(const CollectiveSystem& system, const Candidate& c, CollectiveVerb verb, double ranks,
                   double bytes) {
  const SystemNumbers& numbers = system.numbers;
  const SharedNumbers& shared = system.shared;
  const double net_s = numbers.latency_net * c.net_s;
  const double transfer_s = bytes / c.bytes_per_s;
  if (c.algorithm != NcclAlgorithm::ring && c.algorithm != NcclAlgorithm::tree) {  // switches add up
    const double latency_s = numbers.latency_nvls * (c.base_s + c.link_s) + net_s;
    return overlapped(latency_s, transfer_s / numbers.share_nvls, shared.overlap_nvls);
  }
  const double ramp = (ranks + shared.small_group) / ranks;
  if (c.protocol == NcclProtocol::ll) {
    const double latency_s = numbers.latency_ll * (c.base_s + c.link_s) + net_s;
    return overlapped(latency_s, transfer_s * ramp / numbers.share_ll, shared.overlap_ll);
  }
  const double latency_s = numbers.latency_simple * (c.base_s + shared.hop_simple * c.link_s) + net_s;
  double share = numbers.share_simple;
  if (verb == CollectiveVerb::reduce_scatter) share *= numbers.share_reduce_scatter;
  return overlapped(latency_s, transfer_s * ramp / share, shared.overlap_simple);
}

// Sends between all pairs. NCCL works through its peers in rounds whose number is rounded up to a power of two, so that
// a group of 36 pays for 64 while its parts are small.
Candidate pairs(const CollectiveSystem& system, const Placement& place, double bytes, double& overlap) {
  const double n = place.ranks;
  const double part = bytes / n;
  const double padding = n / static_cast<double>(std::bit_ceil(static_cast<unsigned>(n)));
  const SystemNumbers& numbers = system.numbers;
  Candidate c{NcclAlgorithm::pairs, NcclProtocol::simple};
  c.link_s = numbers.pair_floor_s + numbers.pair_square_s * n * std::min(n, kPairSquareRanks);
  overlap = system.shared.overlap_pairs;
  double rate = place.link_bytes_per_s * numbers.share_pairs;
  if (part < kPairPaddedBytes) rate *= std::pow(padding, system.shared.pair_padding);
  if (part < kPairSimpleBytes && system.family.tuned) {
    c.protocol = NcclProtocol::ll;
    overlap = system.shared.overlap_ll;
    rate = std::min(system.family.ll_max[0], place.link_bytes_per_s * 0.5) * numbers.share_pairs_ll * padding;
    rate *= (n - 1) / n;  // here the part for itself is copied like the others
  }
  double transfer_s = rate > 0 ? part * (place.per_domain - 1) / rate : 0;
  if (place.is_split()) {
    const auto simple = static_cast<std::size_t>(NcclProtocol::simple);
    const double net = place.net_bytes_per_s / place.per_domain * numbers.share_simple;
    transfer_s = std::max(transfer_s, part * (n - place.per_domain) / net);
    c.net_s = numbers.latency_net * net_hop_s(system, system.nccl.net_ring[simple], NcclProtocol::simple);
  }
  c.bytes_per_s = bytes / transfer_s * place.share.pairs;
  return c;
}

// As many channels as have enough to do, and what one of them sends at once.
void set_chunks(const CollectiveSystem& system, double ranks, double bytes, CollectiveCost& cost) {
  const NcclConstants& nccl = system.nccl;
  const auto p = static_cast<std::size_t>(cost.protocol);
  const double least = nccl.channel_bytes[p] * (cost.protocol == NcclProtocol::ll ? ranks : 1);
  const double busy = least > 0 ? std::floor(bytes / least) : system.family.channels;
  cost.channels = static_cast<int>(std::clamp(busy, 1.0, system.family.channels));
  const double parts = cost.algorithm == NcclAlgorithm::ring || cost.algorithm == NcclAlgorithm::pairs ? ranks : 1;
  const bool nvls = cost.algorithm == NcclAlgorithm::nvls || cost.algorithm == NcclAlgorithm::nvls_tree;
  const double most = nvls ? nccl.nvls_chunk_bytes : nccl.buffer_bytes / nccl.buffer_steps * nccl.payload[p];
  cost.chunk_bytes = std::min(most, std::ceil(bytes / (parts * cost.channels)));
}

}  // namespace

std::span<const FreeNumber<SharedNumbers>> shared_numbers() { return kSharedNumbers; }
std::span<const FreeNumber<SystemNumbers>> system_numbers() { return kSystemNumbers; }

std::string_view name_of(CollectiveVerb verb) {
  constexpr std::array<std::string_view, 6> kNames = {"broadcast",      "reduce",     "all_reduce",
                                                      "reduce_scatter", "all_gather", "all_to_all"};
  return kNames[static_cast<std::size_t>(verb)];
}

std::string_view name_of(NcclAlgorithm algorithm) {
  constexpr std::array<std::string_view, 6> kNames = {"ring", "tree", "nvls", "nvls_tree", "collnet", "pairs"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::string_view name_of(NcclProtocol protocol) {
  constexpr std::array<std::string_view, kNumProtocols> kNames = {"ll", "ll128", "simple"};
  return kNames[static_cast<std::size_t>(protocol)];
}

double bus_factor(CollectiveVerb verb, int ranks) {
  const double n = ranks;
  switch (verb) {
    case CollectiveVerb::all_reduce:
      return 2 * (n - 1) / n;
    case CollectiveVerb::reduce_scatter:
    case CollectiveVerb::all_gather:
    case CollectiveVerb::all_to_all:
      return (n - 1) / n;
    default:
      return 1;
  }
}

CollectiveCost collective_cost(const CollectiveSystem& system, CollectiveVerb verb, int ranks, double bytes,
                               int concurrent_groups, int ranks_per_domain) {
  CostOptions options;
  options.concurrent_groups = concurrent_groups;
  options.ranks_per_domain = ranks_per_domain;
  return collective_cost(system, verb, ranks, bytes, options);
}

CollectiveCost collective_cost(const CollectiveSystem& system, CollectiveVerb verb, int ranks, double bytes,
                               const CostOptions& options) {
  CollectiveCost cost;
  if (ranks <= 1 || bytes <= 0) return cost;
  const Placement place = placement_of(system, ranks, options);
  Candidate choice;
  if (verb == CollectiveVerb::all_to_all) {
    double overlap = 1;
    choice = pairs(system, place, bytes, overlap);
    cost.time_s = overlapped(choice.link_s + choice.net_s, bytes / choice.bytes_per_s, overlap);
  } else {
    choice = best_candidate(system, place, verb, bytes, options.only);
    cost.time_s = corrected_s(system, choice, verb, ranks, bytes);
  }
  cost.algorithm = choice.algorithm;
  cost.protocol = choice.protocol;
  cost.algbw_bytes_per_s = bytes / cost.time_s;
  cost.busbw_bytes_per_s = cost.algbw_bytes_per_s * bus_factor(verb, ranks);
  set_chunks(system, ranks, bytes, cost);
  return cost;
}

}  // namespace twinpod::cluster
