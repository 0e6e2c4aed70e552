// What checkpoints go through on their way to their tiers, as links beside those of the graph: the disks of each node,
// the way of each node to storage, the file system and the object store of all.
//
//     StorageLinks storage{.devices_per_node = 8, .num_nodes = 16, .disk_bytes_per_s = 14e9, .shared_bytes_per_s =
//     50e9}; storage.rate(storage.disk(3))                        // 14e9
//
// They share as other links do: max-min fairly among what is written at the same moment. Numbers of these links begin
// at 0; the step engine counts them behind those of the graph.
#pragma once

#include <limits>
#include <string>

#include "program/program.hpp"

namespace twinpod::sim {

struct StorageLinks {
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  int devices_per_node = 1;
  int num_nodes = 1;
  int peer_distance = 0;                 // devices from a rank's to that of its peer, who holds a replica
  double disk_bytes_per_s = kNoLimit;    // of one node
  double node_bytes_per_s = kNoLimit;    // of one node, to the file system and the object store
  double shared_bytes_per_s = kNoLimit;  // file system
  double object_bytes_per_s = kNoLimit;  // object store
  bool on_fabric = false;                // what goes to storage uses the NICs that training uses, too

  int num_links() const { return 2 * num_nodes + 2; }
  int disk(int node) const { return node; }
  int way(int node) const { return num_nodes + node; }
  int shared() const { return 2 * num_nodes; }
  int object() const { return 2 * num_nodes + 1; }

  double rate(int link) const {
    if (link == shared()) return shared_bytes_per_s;
    if (link == object()) return object_bytes_per_s;
    return link < num_nodes ? disk_bytes_per_s : node_bytes_per_s;
  }
};

}  // namespace twinpod::sim
