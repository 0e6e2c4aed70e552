// The event loop of flows: runs folded programs from event to event. Used by flow.cpp only.
//
// Repetitions are taken at once when that is exact: whenever all running programs of an island stand between two
// repetitions, as they did before in the same phases, what happened since then happens again, as often as all of them
// have repetitions left and nothing from outside comes before.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/flow_kinds.hpp"

namespace twinpod::sim {

struct EventTimes {
  std::vector<ProgramTimes> programs;  // of kinds.programs
  std::size_t events = 0;
};

// REQUIRES: programs do not wait for each other in a circle; flows with bytes cross links that have capacity.
EventTimes run_events(const Kinds& kinds, bool skip_repeats);

}  // namespace twinpod::sim
