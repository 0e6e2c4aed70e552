// NCCL's description of a node (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE) as a graph.
//
//     Result<Graph> node = read_nccl_topology("system.xml");
//
// Elements: system > cpu > pci > (pci | gpu > nvlink | nic > net). CPUs are joined to each other, PCIe devices to what
// they stand in, GPUs to the GPUs and NVSwitches that their nvlink elements name by bus id. A tclass of 0x068 is an
// NVSwitch; all of them are one vertex, as messages are striped over them. Link rates: PCIe from link_speed and
// link_width; NVLink by the sm of the GPU; net from its speed in Mbit/s. What is malformed is an input error with its
// line.
#pragma once

#include <string>
#include <string_view>

#include "cluster/graph.hpp"
#include "core/error.hpp"

namespace twinpod::cluster {

Result<Graph> read_nccl_topology(const std::string& path);
Result<Graph> parse_nccl_topology(std::string_view text, const std::string& file);

}  // namespace twinpod::cluster
