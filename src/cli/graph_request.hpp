// The cluster that a command line means, as a graph, with what it asks to be cut or slowed down.
//
//     twinpod topology dgx-superpod-a100-140 --cut leaf3-spine2
//     twinpod collective all_to_all --on tpu-v4-4096 --slice 4x4x4 --slow 'chip(0,0,0)-chip(0,0,1)=0.5'
#pragma once

#include <string>
#include <vector>

#include "cli/args.hpp"
#include "cluster/graph.hpp"
#include "cluster/route.hpp"
#include "core/error.hpp"

namespace twinpod::cli {

// Flags of every command that takes a graph.
inline constexpr Flag kSliceFlag{"slice", "AxBxC", "a part of a torus: 4x4x8, 4x4x8_twisted", ""};
inline constexpr Flag kDevicesFlag{"devices", "N", "the same kind of machine with so many devices", ""};
inline constexpr Flag kCutFlag{
    "cut", "LINK", "cut cables: leaf3-spine2, or one of them: leaf3-spine2:0; with commas between them", ""};
inline constexpr Flag kSlowFlag{"slow", "LINK=FACTOR", "slow cables down: leaf3-spine2=0.5; with commas between them",
                                ""};
inline constexpr Flag kRoutingFlag{"routing", "NAME",
                                   "ecmp, rail, adaptive or dimension_order (default: what the machine would do)", ""};

struct GraphRequest {
  spec::Cluster cluster;
  cluster::Graph graph;
  cluster::Graph healthy;           // before anything was cut or slowed; empty: nothing was
  std::vector<std::string> faults;  // in words
  bool has_faults() const { return !faults.empty(); }
  const cluster::Graph& before() const { return has_faults() ? healthy : graph; }
};

// `name`: an entry of the catalog, the path of a cluster file, or of an NCCL topology (.xml). `devices`: in the place
// of
// --devices; 0: what the flag says.
Result<GraphRequest> read_graph_request(const Arguments& arguments, const std::string& name, int devices = 0);

Result<cluster::Routing> routing_of(const cluster::Graph& graph, const Arguments& arguments);

// At commas; one inside chip(1,2,3) is part of the name.
std::vector<std::string> split_outside_brackets(const std::string& text);

}  // namespace twinpod::cli
