// Numbers that people read digit by digit: money, hours, counts.
//
//     with_thousands(1234567) == "1,234,567"
//     with_thousands(7.3777) == "7.38"           what is small and no whole number keeps three digits
#pragma once

#include <string>

namespace twinpod {

std::string with_thousands(double value);

}  // namespace twinpod
