// Collectives as schedules: phases of flows on the links of a graph, one phase after the other. Part of
// sim/collective_time.hpp, for what NCCL's tuner does not know.
#pragma once

#include "sim/collective_time.hpp"

namespace twinpod::sim {

// The fastest of the algorithms that are asked for, or of usual_algorithms, for each size.
Result<CollectiveTable> schedule_table(const CollectivePlace& place, const cluster::CollectiveSystem& system,
                                       const CollectiveRequest& request);

// Whether NCCL's tuner knows such machines: nodes, and no torus.
bool has_tuner(const cluster::Graph& graph);

// The most ranks of the first group that lie in one domain.
int ranks_of_domain(const CollectivePlace& place, const CollectiveGroups& groups);

}  // namespace twinpod::sim
