// Collectives of a machine at hand, between the sizes and numbers of ranks that were timed there.
//
//     measured_s(cluster.measured, "all_reduce", 2, 1 << 20)
//
// Times are straight lines between points, on scales that are logarithmic both ways: neither the latency of small sizes
// nor the steps at the sizes of caches need a formula. Beyond the largest size, the last two points' rate goes on.
#pragma once

#include <optional>
#include <string_view>

#include "spec/measured.hpp"

namespace twinpod::cluster {

// None: not measured, or not between numbers of ranks that were.
std::optional<double> measured_s(const spec::Measured& measured, std::string_view verb, int ranks, double bytes);

// Seconds on the line through the points of one measurement. REQUIRES: it has a point.
double interpolated_s(const spec::MeasuredCollective& one, double bytes);

}  // namespace twinpod::cluster
