// Makes the graph of a cluster from its facts.
//
//     Result<Graph> pod = build_graph(*catalog.cluster("dgx-superpod-a100-140"));
//     pod->devices.size() == 1120
//
//     spec::Cluster tpu = *catalog.cluster("tpu-v4-4096");
//     apply_slice(tpu, "4x4x8_twisted");
//     Result<Graph> slice = build_graph(tpu);
//
// A scale-up domain is a switch (NVLink), a mesh (xGMI, HCCS) or a torus (ICI); PCIe switches and NICs join the devices
// of a node to the fabric: a tree of switches with or without rails, or a dragonfly. Counts, ports and routes come from
// this one graph. What a cluster's file does not say is assumed, and graph.assumed says so.
#pragma once

#include <string_view>
#include <vector>

#include "cluster/graph.hpp"
#include "core/error.hpp"
#include "spec/cluster.hpp"

namespace twinpod::cluster {

// Refuses what needs more ports than a switch has, and what leaves two devices without a route.
Result<Graph> build_graph(const spec::Cluster& cluster);

// Part of a torus: `4x4x8`, `4x4x8_twisted`. Sets devices and the axes; refuses what the pod cannot hold.
Result<void> apply_slice(spec::Cluster& cluster, std::string_view text);

// Shapes of a slice of so many chips that the pod can hold: of whole cubes or within one where it is made of cubes.
// Ranks go along the last axis first, so 4x8 and 8x4 are two. Empty: there is none, or the cluster is no torus.
std::vector<std::vector<int>> slice_shapes(const spec::Cluster& cluster, int chips);

// n x n x 2n and n x 2n x 2n whose axes all close to rings.
bool can_be_twisted(const spec::Cluster& cluster, const std::vector<int>& shape);

// The shape of slice_shapes that is most like another one; empty: there is none.
std::vector<int> nearest_slice(const spec::Cluster& cluster, int chips, const std::vector<int>& wanted);

// The first `devices` devices of a cluster, or the same kind of machine with that many. The fabric grows by its rule.
Result<void> apply_devices(spec::Cluster& cluster, int devices);

}  // namespace twinpod::cluster
