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

std::string counted(double number, std::string_view one, std::string_view several) {
  if (number == 1) return fmt::format("1 {}", one);
  return several.empty() ? fmt::format("{} {}s", with_thousands(number), one)
                         : fmt::format("{} {}", with_thousands(number), several);
}

}  // namespace twinpod
