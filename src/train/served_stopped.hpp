// Servers and workers that are stopped (SIGSTOP, a debugger) and stay so. Everybody would wait for them: they are
// killed after a while, and what is done about dead ones is done about them.
//
//     StoppedProcesses stopped(20);
//     stopped.look(alive);     // now and then
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "ps/launch.hpp"

namespace twinpod::train {

class StoppedProcesses {
 public:
  explicit StoppedProcesses(double patience_s);

  // Of this process's own children. Looks ten times a second at most, however often it is called.
  void look(const std::vector<ps::Process>& alive);

 private:
  const std::int64_t patience_ns_;
  std::int64_t next_look_ns_ = 0;
  std::map<pid_t, std::int64_t> since_ns_ = {};  // when each was first seen so
};

}  // namespace twinpod::train
