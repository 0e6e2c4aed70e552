// Network interfaces that messages share (sim/served.hpp): each of those that pass at a moment gets the same part.
//
//     Port port{25e9};
//     join(port, 0.0, 1e9, 7);                  // message 7 of 1 GB begins to pass
//     next_s(port);                             // when the first of them will be through, if no other comes
//     for (auto message : leave(port, now)) ... // that are through now
//
// `passed` is how many bytes of a message have passed that was there from the beginning (virtual time of processor
// sharing): so a message is through when it has grown by its length, and nothing is counted for each of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace twinpod::sim {

// Acknowledgements and requests: they go between the packets of the others.
inline constexpr double kSmallBytes = 4096;

struct Port {
  using Passing = std::pair<double, std::uint32_t>;  // `passed` at its end, the message

  double bytes_per_s = 1e9;
  double passed = 0;
  double last_s = 0;  // the moment of which `passed` is
  double busy_s = 0;
  double woken_s = std::numeric_limits<double>::infinity();  // when somebody will look at it again
  std::priority_queue<Passing, std::vector<Passing>, std::greater<>> messages = {};
};

inline void advance(Port& port, double now_s) {
  if (!port.messages.empty()) {
    const double seconds = now_s - port.last_s;
    port.passed += seconds * port.bytes_per_s / static_cast<double>(port.messages.size());
    port.busy_s += seconds;
  } else {
    port.passed = 0;
  }
  port.last_s = now_s;
}

inline void join(Port& port, double now_s, double bytes, std::uint32_t message) {
  advance(port, now_s);
  port.messages.emplace(port.passed + bytes, message);
}

// REQUIRES: a message passes.
inline double next_s(const Port& port) {
  const double left = std::max(0.0, port.messages.top().first - port.passed);
  return port.last_s + left * static_cast<double>(port.messages.size()) / port.bytes_per_s;
}

inline std::vector<std::uint32_t> leave(Port& port, double now_s) {
  advance(port, now_s);
  // Within a nanosecond: the clock is not exact to the byte in long runs, and it must go on.
  const double rounding = 1e-3 + 1e-9 * (port.passed + port.bytes_per_s);
  std::vector<std::uint32_t> through;
  while (!port.messages.empty() && port.messages.top().first <= port.passed + rounding) {
    through.push_back(port.messages.top().second);
    port.messages.pop();
  }
  return through;
}

}  // namespace twinpod::sim
