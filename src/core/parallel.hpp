// Loops over indices on several threads, with the same result for any number of threads.
//
//     const std::vector<double> seconds =
//         parallel_map<double>(layouts.size(), [&](std::size_t i) { return step_time_s(layouts[i]); });
//
// Which thread runs which index is not fixed, so a body may write only to what belongs to its index. Sums over all
// indices are then made by the caller, in index order. The first exception of a body ends the loop and reaches the
// caller.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace twinpod {

// As many threads as the machine runs at once; at least 1.
int num_hardware_threads();

// Calls body(i) once for each i in [0, count) and returns when all are done. num_threads 0: as many as the machine has.
// Runs with fewer threads, down to the calling one, when the system gives no more.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body, int num_threads = 0);

// {body(0), ..., body(count - 1)}. REQUIRES: T is default-constructible and not bool.
template <typename T, typename Body>
std::vector<T> parallel_map(std::size_t count, const Body& body, int num_threads = 0) {
  std::vector<T> results(count);
  parallel_for(
      count, [&](std::size_t i) { results[i] = body(i); }, num_threads);
  return results;
}

}  // namespace twinpod
