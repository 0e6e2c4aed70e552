// Time in which this process could run: what it was stopped for, as by Ctrl-Z, says nothing of the others.
//
//     AwakeTime time;
//     while (!done()) if (time.passed_ns() > timeout_ns) ...      // looks more often than once a second
#pragma once

#include <cstdint>

namespace twinpod::comm {

class AwakeTime {
 public:
  AwakeTime();
  std::int64_t passed_ns();
  void begin_anew();

 private:
  std::int64_t start_ns_;
  std::int64_t last_ns_;  // when it was looked at
};

}  // namespace twinpod::comm
