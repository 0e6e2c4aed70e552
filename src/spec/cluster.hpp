// Devices, links, nodes and clusters as plain structs.
//
// A cluster is `nodes` equal nodes of `devices_per_node` equal devices. Two networks matter to a training step: the
// scale-up network (NVLink, ICI, xGMI, HCCS), which joins `scale_up_domain` devices, and the scale-out network
// (InfiniBand, Ethernet, DCN), which joins the domains. Bandwidths are one direction, per device.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "spec/measured.hpp"
#include "spec/source.hpp"
#include "spec/topology.hpp"

namespace twinpod::spec {

enum class Precision { fp32, tf32, fp16, bf16, fp8, fp4 };
inline constexpr int kNumPrecisions = 6;

// Below 16 bits: inputs of products must be cast and scaled.
inline bool is_narrow(Precision precision) { return precision == Precision::fp8 || precision == Precision::fp4; }

// Above 16 bits: nothing of the job runs in a 16-bit type.
inline bool is_wide(Precision precision) { return precision == Precision::fp32 || precision == Precision::tf32; }

struct Device {
  std::string name;                  // as people write it
  std::string entry;                 // its name in the catalog; empty: written in the job
  std::vector<std::string> aliases;  // as other sources print it
  std::string vendor;
  std::string family;  // devices whose kernels behave alike share measured efficiencies: "a100", "h100", ...
  std::array<double, kNumPrecisions> peak_flop_per_s{};  // dense; 0: not supported
  double memory_bytes = 0;
  double memory_bytes_per_s = 0;
  double host_bytes_per_s = 0;  // to the host's memory, one direction
  int compute_units = 0;        // streaming multiprocessors; 0: systolic arrays, no waves
  double power_w = 0;
  double usd_per_hour = 0;  // 0: not known
  std::string price_basis;
  Origin price_origin = Origin::user;
  int year = 0;
  Source source;
};

enum class ScaleUpKind { none, switched, mesh, torus };

struct Link {
  std::string name;
  std::string entry;
  double bytes_per_s = 0;  // one direction
  double latency_s = 0;
  Source source;
};

// One kind of server (or rack that acts as one).
struct NodeType {
  std::string name;
  std::string entry;
  std::string device;  // entry of the catalog
  int devices = 0;
  ScaleUpKind scale_up = ScaleUpKind::switched;
  double scale_up_bytes_per_s = 0;  // one direction, per device, all its links together
  int scale_up_domain = 0;          // devices joined by it, of several nodes too (NVL72: 72)
  int nics = 0;
  double nic_bytes_per_s = 0;  // one direction, of one NIC
  NodeTopology topology;
  double power_w = 0;  // whole node; 0: devices * device power
  double host_memory_bytes = 0;
  double disk_read_bytes_per_s = 0;  // all local disks together; 0: not known
  double disk_write_bytes_per_s = 0;
  double usd_per_hour = 0;  // whole node; 0: from the device
  std::string price_basis;
  Origin price_origin = Origin::user;
  Source source;
};

// Where checkpoints can go, and how fast: bytes/s; 0: not known, or there is none.
struct Storage {
  double node_write_bytes_per_s = 0;  // of one node to the shared file system or the object store; 0: as its NICs
  bool on_fabric = false;             // through the NICs and switches that training uses; else a network of its own
  double local_read_bytes_per_s = 0;  // all disks of one node together
  double local_write_bytes_per_s = 0;
  double object_read_bytes_per_s = 0;  // whole cluster
  double object_write_bytes_per_s = 0;
};

struct Cluster {
  std::string name;
  std::string entry;  // its name in the catalog; empty: not from there
  std::string node;   // entry of its kind of node; empty: not from the catalog
  Device device;
  int devices = 0;
  int devices_per_node = 8;
  int scale_up_domain = 8;  // devices joined by the scale-up network (8, 72, a whole torus)
  ScaleUpKind scale_up = ScaleUpKind::switched;
  double scale_up_bytes_per_s = 0;   // one direction, per device
  double scale_out_bytes_per_s = 0;  // one direction, per device; 0: there is none (one domain)
  double scale_out_latency_s = 5e-6;
  double oversubscription = 1;     // of the scale-out network beyond its first non-blocking unit
  int non_blocking_devices = 0;    // devices of that unit; 0: all
  int nics_per_node = 0;           // 0: one a device
  NodeTopology node_topology;      // wiring inside a scale-up domain
  Topology topology;               // wiring beyond it
  double node_power_w = 0;         // 0: devices only
  double host_memory_bytes = 0;    // of one node; 0: not known
  double usd_per_device_hour = 0;  // 0: device.usd_per_hour
  std::string price_basis;
  Origin price_origin = Origin::user;
  double storage_read_bytes_per_s = 0;  // whole cluster; 0: not known
  double storage_write_bytes_per_s = 0;
  Storage storage;    // the other tiers
  Measured measured;  // of a machine at hand
  Source source;
};

}  // namespace twinpod::spec
