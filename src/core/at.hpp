// An int as the place in a vector: v[at(i)]. REQUIRES: i >= 0.
#pragma once

#include <cstddef>

namespace twinpod {

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace twinpod
