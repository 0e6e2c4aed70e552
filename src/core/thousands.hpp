// Numbers that people read digit by digit: money, hours, counts.
//
//     with_thousands(1234567) == "1,234,567"
//     with_thousands(7.3777) == "7.38"           what is small and no whole number keeps three digits
//     counted(1, "rank") == "1 rank", counted(2000, "rank") == "2,000 ranks", counted(0, "copy", "copies") == "0
//     copies"
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace twinpod {

std::string with_thousands(double value);

// A number and what there are so many of. Without `several`, those are named like the one with an s.
std::string counted(double number, std::string_view one, std::string_view several = {});
template <typename Whole>
requires std::is_integral_v<Whole> std::string counted(Whole number, std::string_view one,
                                                       std::string_view several = {}) {
  return counted(static_cast<double>(number), one, several);
}

}  // namespace twinpod
