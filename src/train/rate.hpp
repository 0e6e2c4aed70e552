// The learning rate of a step.
#pragma once

#include "spec/recipe.hpp"

namespace twinpod::train {

// Steps count from 0; `steps` is how many there are.
double rate_at(const spec::Recipe& recipe, int step, int steps);

}  // namespace twinpod::train
