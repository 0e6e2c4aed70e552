// The arrows of a trace: who hands what to whom.
#pragma once

#include <cstdint>
#include <vector>

#include "report/trace.hpp"

namespace twinpod::report {

enum class FlowStep : char { start = 's', step = 't', finish = 'f' };

// An end of an arrow, or a place that it passes.
struct FlowPoint {
  std::uint32_t line = 0;  // of Timeline::ranks
  std::uint32_t op = 0;    // in the kind's list
  std::uint32_t id = 0;    // of the arrow
  FlowStep step = FlowStep::start;
};

// Sorted by line and op. Every arrow starts once and finishes once, later or at the same time, on ops that take time.
std::vector<FlowPoint> flow_points(const TraceInput& input);

// Nanoseconds: what viewers resolve.
std::int64_t nanoseconds(double seconds);

}  // namespace twinpod::report
