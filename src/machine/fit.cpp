#include <algorithm>
#include <cmath>

#include "machine/parts.hpp"

namespace twinpod::machine {
namespace {

double mean_error(std::span<const Unknown> unknowns, std::span<const double> measured, const Predict& predict) {
  double sum = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    sum += std::abs(std::log(std::max(predict(unknowns, i), 1e-300) / measured[i]));
  }
  return measured.empty() ? 0 : sum / static_cast<double>(measured.size());
}

}  // namespace

// One unknown after the other, up or down by a factor that shrinks when nothing helps any more.
double fit(std::span<Unknown> unknowns, std::span<const double> measured, const Predict& predict) {
  constexpr double kFirst = 4;
  constexpr double kLast = 1.001;
  double best = mean_error(unknowns, measured, predict);
  for (double factor = kFirst; factor > kLast;) {
    bool better = false;
    for (Unknown& unknown : unknowns) {
      for (const double step : {factor, 1 / factor}) {
        const double before = unknown.value;
        unknown.value = std::clamp(before * step, unknown.low, unknown.high);
        const double error = mean_error(unknowns, measured, predict);
        if (error < best) {
          best = error;
          better = true;
        } else {
          unknown.value = before;
        }
      }
    }
    if (!better) factor = std::sqrt(factor);
  }
  return best;
}

}  // namespace twinpod::machine
