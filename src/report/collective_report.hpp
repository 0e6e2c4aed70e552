// What `twinpod collective` prints: the table that nccl-tests would, predicted.
#pragma once

#include <string>
#include <vector>

#include "sim/collective_time.hpp"

namespace twinpod::report {

struct CollectiveView {
  const spec::Cluster& cluster;
  const cluster::Graph& graph;
  const sim::CollectiveRequest& request;
  const sim::CollectiveTable& table;
  const sim::CollectiveTable* healthy = nullptr;  // before anything was cut or slowed
  std::vector<std::string> faults;
  std::string routing;
  double seconds = 0;  // that the prediction took
};

std::string collective_text(const CollectiveView& view);
std::string collective_json(const CollectiveView& view);

}  // namespace twinpod::report
