// The known name nearest to one that was not found, for error messages: "did you mean h100-sxm?".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twinpod {

// Edit distance with transpositions (optimal string alignment), upper and lower case alike.
int edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance (a candidate that contains the name, or is contained in it, counts as near);
// empty when nothing is near enough to help.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace twinpod
