// Between a number of devices that does and one that does not: the last that does, by node.
//
// What devices can do does not rise evenly with their number (17 nodes divide badly), so halving would go astray. Many
// numbers are looked at in one search instead, then those beyond the last that holds, until the steps are nodes.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "plan/questions.hpp"

namespace twinpod::plan {

inline constexpr int kNumbersAtOnce = 32;

// From `good`, which holds, towards `bad`, up or down: multiples of `unit` that hold, the one nearest to `bad` last.
// `best_on(counts)` gives the best of each count; `holds(answer)` says which will do.
template <typename BestOn, typename Holds>
std::vector<Answer> narrowed(int good, int bad, int unit, const BestOn& best_on, const Holds& holds) {
  const int way = good < bad ? 1 : -1;
  int from = way > 0 ? good / unit : (good + unit - 1) / unit;  // in units
  int to = way > 0 ? (bad + unit - 1) / unit : bad / unit;
  std::vector<Answer> holding;
  while (std::abs(to - from) > 1) {
    const int step = (std::abs(to - from) + kNumbersAtOnce - 1) / kNumbersAtOnce;
    std::vector<int> counts;
    for (int at = from + way * step; way * (to - at) > 0; at += way * step) counts.push_back(at * unit);
    std::vector<Answer> answers = best_on(counts);
    if (way < 0) std::reverse(answers.begin(), answers.end());
    for (Answer& answer : answers) {
      if (!holds(answer)) continue;
      from = answer.job.cluster.devices / unit;
      holding.push_back(std::move(answer));
    }
    // The next probe beyond the last that holds did not hold.
    const int next = from + way * step;
    if (way * (to - next) > 0) to = next;
  }
  return holding;
}

}  // namespace twinpod::plan
