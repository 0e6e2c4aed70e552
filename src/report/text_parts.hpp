// Pieces of text that several reports have in common.
//
//     percent(0.1234)           "12.3 %"
//     signed_percent(0.1234)    "+12.3 %"
//     in_percent(0.1234)        "12.3", for a column whose head has the unit
//     usd_text(51.2e3)          "51.2 k USD"; "-" when it is not known
//     joined({"a", "b"})        "a, b"
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace twinpod::report {

inline std::string percent(double share, int decimals = 1) { return fmt::format("{:.{}f} %", 100 * share, decimals); }
inline std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }
inline std::string in_percent(double share) { return fmt::format("{:.1f}", 100 * share); }
inline std::string usd_text(double usd) { return format_count(usd) + " USD"; }
inline std::string usd_text(const std::optional<double>& usd) { return usd ? usd_text(*usd) : "-"; }
inline std::string joined(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

}  // namespace twinpod::report
