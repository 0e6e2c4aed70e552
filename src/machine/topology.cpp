// What the machine consists of, from hwloc.
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "machine/machine.hpp"

namespace twinpod::machine {
namespace {

using Topology = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

int count(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(1, hwloc_get_nbobjs_by_type(topology, type));
}

std::string info(hwloc_obj_t object, const char* name) {
  const char* const text = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name);
  return text == nullptr ? "" : text;
}

double last_cache_bytes(hwloc_topology_t topology) {
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
    if (cache != nullptr) return static_cast<double>(cache->attr->cache.size);
  }
  return 0;
}

std::string vendor_of(const std::string& text) {
  if (text.find("Intel") != std::string::npos) return "Intel";
  if (text.find("AMD") != std::string::npos) return "AMD";
  return text;
}

}  // namespace

std::string host_name() {
  std::array<char, 64> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Machine topology_of_this_host() {
  Machine machine;
  machine.host = host_name();
  getloadavg(&machine.load, 1);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return machine;
  const Topology topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) return machine;
  const hwloc_obj_t package = hwloc_get_obj_by_type(raw, HWLOC_OBJ_PACKAGE, 0);
  machine.processor = info(package, "CPUModel");
  if (machine.processor.empty()) machine.processor = "processor";
  machine.vendor = vendor_of(info(package, "CPUVendor"));
  machine.cores = count(raw, HWLOC_OBJ_CORE);
  machine.sockets = count(raw, HWLOC_OBJ_PACKAGE);
  machine.numa_nodes = count(raw, HWLOC_OBJ_NUMANODE);
  machine.memory_bytes = static_cast<double>(hwloc_get_root_obj(raw)->total_memory);
  machine.cache_bytes = last_cache_bytes(raw);
  return machine;
}

bool is_busy(const Machine& machine) { return machine.load > 0.25 * machine.cores; }

}  // namespace twinpod::machine
