// Prediction against measurement as a picture: an SVG with both axes logarithmic, one dot a run.
//
//     write_file("accuracy.svg", scatter_svg(cases));
#pragma once

#include <string>
#include <vector>

#include "validate/validation.hpp"

namespace twinpod::report {

// Dots are coloured by family of stacks; the band is 10 % to either side of a perfect prediction. Rows that the
// arithmetic does not cover are left out.
std::string scatter_svg(const std::vector<validate::Case>& cases);

}  // namespace twinpod::report
