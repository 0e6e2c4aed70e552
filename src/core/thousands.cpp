#include "core/thousands.hpp"

#include <fmt/format.h>

#include <cmath>

namespace twinpod {

std::string with_thousands(double value) {
  if (std::fabs(value) < 100 && value != std::floor(value)) return fmt::format("{:.3g}", value);
  std::string digits = fmt::format("{:.0f}", value);
  const int first = value < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

}  // namespace twinpod
