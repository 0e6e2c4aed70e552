#include "train/rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace twinpod::train {

double rate_at(const spec::Recipe& recipe, int step, int steps) {
  const double top = recipe.learning_rate;
  if (step < recipe.warmup) return top * (step + 1) / recipe.warmup;
  const int first = recipe.decay == spec::RateDecay::wsd
                        ? std::max(recipe.warmup, static_cast<int>(std::lround(steps * (1 - recipe.decay_share))))
                        : recipe.warmup;
  // 0 where the fall begins, 1 at the last step.
  const double way = steps - 1 > first ? std::clamp((step - first) / static_cast<double>(steps - 1 - first), 0.0, 1.0)
                                       : (step > first ? 1.0 : 0.0);
  double left = 1;
  if (recipe.decay == spec::RateDecay::cosine) left = 0.5 * (1 + std::cos(std::numbers::pi * way));
  if (recipe.decay == spec::RateDecay::linear || recipe.decay == spec::RateDecay::wsd) left = 1 - way;
  return top * (recipe.final_share + (1 - recipe.final_share) * left);
}

}  // namespace twinpod::train
