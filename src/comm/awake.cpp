#include "comm/awake.hpp"

#include "comm/wait.hpp"

namespace twinpod::comm {

AwakeTime::AwakeTime() : start_ns_(now_ns()), last_ns_(start_ns_) {}

std::int64_t AwakeTime::passed_ns() {
  constexpr std::int64_t kStoppedNs = 1'000'000'000;
  const std::int64_t now = now_ns();
  if (now - last_ns_ > kStoppedNs) start_ns_ += now - last_ns_;
  last_ns_ = now;
  return now - start_ns_;
}

void AwakeTime::begin_anew() { start_ns_ = last_ns_ = now_ns(); }

}  // namespace twinpod::comm
