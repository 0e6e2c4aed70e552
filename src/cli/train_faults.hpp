// Deaths on purpose, of the processes of `twinpod train --servers`: what happens then can be rehearsed, and is tested.
//
//     Result<Faults> faults = parse_faults("kill:server:1@20,kill:worker:0@40", choice);
//     const train::ServedWatch watch = killer(*faults, steps);     // SIGKILL, behind the 20th and the 40th step
//     parse_faults("random:6", choice)                             // six processes, any, spread over the run
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "ps/choice.hpp"
#include "train/served_run.hpp"

namespace twinpod::cli {

struct Fault {
  ps::Role role = ps::Role::server;
  int place = 0;
  std::int64_t step = 0;  // of all workers
};

struct Faults {
  std::vector<Fault> list = {};
  int random = 0;
  int count() const { return static_cast<int>(list.size()) + random; }
};

// "" is none.
Result<Faults> parse_faults(const std::string& text, const ps::Choice& choice);

// Null when there is nothing to kill.
train::ServedWatch killer(const Faults& faults, int steps);

}  // namespace twinpod::cli
