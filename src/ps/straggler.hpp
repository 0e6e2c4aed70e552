// Workers that are slower than the others, on purpose: the same choice of steps in a real run and in a simulated one.
//
//     const Result<Straggler> straggler = parse_straggler("any:3:0.1");   // each worker, 3 times slower in 1 step of
//     10 const double factor = slowdown(*straggler, worker, clock);          // 1 or 3
//
// A step of factor f takes f times as long as the same step would have taken; only the passes count, not the way to the
// servers.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/error.hpp"

namespace twinpod::ps {

inline constexpr int kAnyWorker = -1;

struct Straggler {
  int worker = kAnyWorker;  // its place among the workers
  double factor = 1;        // 1: nobody is slow
  double share = 1;         // of its steps
  std::uint64_t seed = 1;
};

// `0:2` worker 0 is always twice as slow; `any:3:0.1` each worker is three times as slow in one step of ten; `none`
Result<Straggler> parse_straggler(std::string_view text);

double slowdown(const Straggler& straggler, int worker, std::int64_t clock);

}  // namespace twinpod::ps
