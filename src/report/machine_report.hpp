// What `bench machine` prints: what was measured, and how well the numbers of the cluster file fit it.
#pragma once

#include <string>

#include "machine/machine.hpp"

namespace twinpod::report {

struct MachineView {
  const machine::Machine& machine;
  const spec::Cluster& cluster;
  std::string file;  // that was written; empty: none
};

std::string machine_text(const MachineView& view);
std::string machine_json(const MachineView& view);

}  // namespace twinpod::report
