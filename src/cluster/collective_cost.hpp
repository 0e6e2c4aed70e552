// How long a collective takes as NCCL would run it, for any size and group, in closed form.
//
// Two steps. First NCCL's own tuner (its formulas and constants, `nccl` in catalog/collectives.yaml) picks algorithm
// and protocol by the smallest latency + bytes / bandwidth. Then the time of that choice is corrected by what was
// measured:
//
//     t = (a^p + b^p)^(1/p)     a: scaled latency of the tuner, b: bytes over the scaled bandwidth of the tuner
//
// p > 1: latency and transfer overlap (LL: data and flags travel together); p < 1: the ramp of a pipeline whose chunks
// grow with the message (p = 1/2 is the classic (sqrt(a) + sqrt(b))^2 of an optimally cut pipeline). An all-to-all is
// not tuned by NCCL; it is sends between all pairs and has a form of its own.
//
//     const Result<CollectiveCatalog> catalog = read_collectives("catalog/collectives.yaml");
//     const CollectiveSystem* system = find_system(*catalog, "H100_SXM_8gpu");
//     collective_cost(*system, CollectiveVerb::all_reduce, 8, 64e6).busbw_bytes_per_s;
//
// Bytes are counted as nccl-tests count them: all-reduce, broadcast, reduce: the buffer of one rank; all-gather: the
// gathered result; reduce-scatter: the input of one rank; all-to-all: what one rank holds for all.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/free_number.hpp"
#include "core/error.hpp"
#include "spec/cluster.hpp"

namespace twinpod::cluster {

enum class CollectiveVerb { broadcast, reduce, all_reduce, reduce_scatter, all_gather, all_to_all };
// pairs: sends between all pairs, not tuned. collnet: switches of the fabric add up (SHARP).
enum class NcclAlgorithm { ring, tree, nvls, nvls_tree, collnet, pairs };
enum class NcclProtocol { ll, ll128, simple };
inline constexpr int kNumProtocols = 3;

std::string_view name_of(CollectiveVerb verb);  // "all_reduce"
std::string_view name_of(NcclAlgorithm algorithm);
std::string_view name_of(NcclProtocol protocol);

using ByProtocol = std::array<double, kNumProtocols>;
using ByNodes = std::array<double, 3>;  // on one node, on two, on more
inline constexpr int kTreeSizes = 24;   // 64 bytes, and each doubling

// NCCL's constants that hold for every device. Latencies in seconds.
struct NcclConstants {
  std::string version;
  ByProtocol base_tree{}, base_ring{};
  ByProtocol link_tree{}, link_ring{};  // a hop inside a node
  ByProtocol net_tree{}, net_ring{};    // a hop between nodes
  double link_nvls = 0, net_nvls_tree = 0;
  double link_collnet = 0, peer_collnet = 0, net_collnet = 0;
  double net_overhead = 0;  // of the host, for a hop between nodes
  double buffer_bytes = 0;  // of a connection, cut into buffer_steps
  double buffer_steps = 1;
  double nvls_chunk_bytes = 0;
  ByProtocol payload{1, 1, 1};  // of what a buffer holds
  ByProtocol channel_bytes{};   // a further channel is used when each has at least this to do
  double ring_plateau = 1;      // factor on the latency of a ring over several nodes (Simple, all-reduce)
  std::array<std::array<double, kTreeSizes>, kNumProtocols> tree_correction{};  // factor on a tree's bandwidth
};

// NCCL's constants of one generation of devices. Bandwidths in bytes per second, of one channel where not said.
struct NcclFamily {
  std::string name;
  double bus_share = 1;  // of the links' nominal rate that NCCL counts on
  double channels = 1;
  ByNodes ll_max{};  // of all channels
  ByNodes ring_ll128{}, tree_ll128{}, tree_simple{}, nvls_tree{};
  double nvls_efficiency = 0;  // 0: the switches do not reduce
  double collnet_efficiency = 1;
  bool tuned = true;  // false: only rings, LL and Simple (RCCL: its table is not transcribed)
};

// Fitted, one set for all systems.
struct SharedNumbers {
  double overlap_ll = 1, overlap_simple = 1, overlap_nvls = 1, overlap_pairs = 1;
  double small_group = 0;
  double hop_simple = 1;
  double pair_padding = 1;
};
std::span<const FreeNumber<SharedNumbers>> shared_numbers();

// Fitted, one set for each system that was measured.
struct SystemNumbers {
  double latency_ll = 1, latency_simple = 1, latency_nvls = 1, latency_net = 1;
  double share_ll = 1, share_simple = 1, share_nvls = 1;
  double share_reduce_scatter = 1;
  double pair_floor_s = 0, pair_square_s = 0, share_pairs_ll = 1, share_pairs = 1;
};
std::span<const FreeNumber<SystemNumbers>> system_numbers();

// One kind of machine: nodes (or racks) of `domain` devices joined by a scale-up network, and a network between them.
struct CollectiveSystem {
  std::string name;
  std::vector<std::string> measured_as;      // what tables of measurements call it
  std::vector<std::string> device_families;  // of the catalog's devices that behave alike
  int domain = 8;
  bool mesh = false;                // every pair has a link of its own: a group of n uses n - 1 of them
  double scale_up_bytes_per_s = 0;  // nominal, one direction, of one device
  double nic_bytes_per_s = 0;       // one direction, of one device; 0: one domain only
  double net_latency_s = 0;
  int in_network_from = 0;  // ranks of a group from which on switches reduce; 0: they do not
  bool collnet = false;     // switches between nodes reduce (SHARP)
  NcclConstants nccl;
  NcclFamily family;
  SharedNumbers shared;
  SystemNumbers numbers;
  std::vector<std::string> fitted;  // which of the numbers were fitted to this system's measurements
};

// What the wiring leaves of the rates that a system has by its data sheet: less than 1 where cables are cut, slow or
// shared. The flows of `sim` find it (sim/collective_time.hpp).
struct NetworkShare {
  double ring = 1;
  double tree = 1;
  double domain = 1;  // links to the switches that reduce
  double pairs = 1;
};

struct CostOptions {
  int concurrent_groups = 1;
  int ranks_per_domain = 0;
  NetworkShare share;
  std::optional<NcclAlgorithm> only;  // what the tuner may choose; not with an all-to-all
};

struct CollectiveCost {
  double time_s = 0;
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  int channels = 1;
  double chunk_bytes = 0;  // that travels at once on a channel
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;
};

// `ranks` fill whole domains, in the order of devices (`ranks_per_domain` 0), or lie `ranks_per_domain` in each.
// `concurrent_groups` groups of the same kind run at the same time on the same domains. Groups of different ranks have
// links and interfaces of their own, so they cost nothing until there are more of them than devices to run on. (What
// they share beyond the interfaces is for the flows of `sim` to say.) One rank takes no time.
CollectiveCost collective_cost(const CollectiveSystem& system, CollectiveVerb verb, int ranks, double bytes,
                               int concurrent_groups = 1, int ranks_per_domain = 0);
CollectiveCost collective_cost(const CollectiveSystem& system, CollectiveVerb verb, int ranks, double bytes,
                               const CostOptions& options);

// busbw / algbw of nccl-tests: 2(n-1)/n for an all-reduce, (n-1)/n for gathers, scatters and all-to-all, else 1.
double bus_factor(CollectiveVerb verb, int ranks);

struct CollectiveCatalog {
  NcclConstants nccl;
  std::map<std::string, NcclFamily> families;
  SharedNumbers shared;
  std::vector<CollectiveSystem> systems;  // complete: families and shared numbers are filled in
};

// Also refuses what contradicts itself. Errors have file, line and column.
Result<CollectiveCatalog> read_collectives(const std::string& path);

// By its name or by what a table of measurements calls it, upper and lower case alike; nullptr: not known.
const CollectiveSystem* find_system(const CollectiveCatalog& catalog, std::string_view name);
std::vector<std::string> system_names(const CollectiveCatalog& catalog);

// Any cluster: the measured system that is most like it (same family of devices, nearest domain) with the cluster's own
// rates and domain. Without one, the median of all systems with switches or with a mesh.
CollectiveSystem system_of(const CollectiveCatalog& catalog, const spec::Cluster& cluster);

}  // namespace twinpod::cluster
