// A Timeline: what happened in a step, op by op. A simulator and a trainer make the same type, so that both are judged
// by the same code.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace twinpod::program {

// Of each block's ops, as a Program has them, when nobody is waited for; below 0: not known.
using OpSeconds = std::vector<std::vector<double>>;

struct OpSpan {
  double start_s = -1;
  double release_s = -1;  // who waits for it may go on; before its end when the rest of it hides behind others
  double end_s = -1;
};

// Of one rank, or of `count` ranks that did the same at the same times.
struct RankTimeline {
  int rank = 0;  // the lowest of them
  int count = 1;
  int kind = 0;             // of the Program
  std::vector<OpSpan> ops;  // in the order of the kind's list
};

struct Timeline {
  double step_s = 0;
  std::vector<RankTimeline> ranks;
};

}  // namespace twinpod::program
