// What the files of this module share.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace twinpod::machine {

std::string host_name();

// The same number on all ranks.
Result<double> largest_of_ranks(comm::Communicator& world, double value);

// A number that is looked for, above 0.
struct Unknown {
  double value = 1;
  double low = 1e-12;
  double high = 1e12;
};

// Moves the unknowns until predictions are near what was measured: the least mean of |ln(predicted / measured)|, which
// a few bad measurements do not move. Returns that mean, a typical relative error.
using Predict = std::function<double(std::span<const Unknown>, std::size_t point)>;
double fit(std::span<Unknown> unknowns, std::span<const double> measured, const Predict& predict);

}  // namespace twinpod::machine
