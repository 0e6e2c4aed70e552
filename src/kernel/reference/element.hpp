// How the plain kernels read and write an element: they compute in Sum<T>.
#pragma once

#include "kernel/real.hpp"

namespace twinpod::kernel::reference {

inline float get(float x) { return x; }
inline float get(Bf16 x) { return to_float(x); }
inline double get(double x) { return x; }

inline void put(float& to, float x) { to = x; }
inline void put(Bf16& to, float x) { to = to_bf16(x); }
inline void put(double& to, double x) { to = x; }

}  // namespace twinpod::kernel::reference
