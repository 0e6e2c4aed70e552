#include "comm/wait.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "comm/awake.hpp"

namespace twinpod::comm {
namespace {

constexpr long kSleepNs = 5'000'000;  // how late an abort may be noticed

long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value, const timespec* timeout) {
  static_assert(sizeof(*word) == sizeof(std::uint32_t));
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

}  // namespace

bool is_crowded(int ranks) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < ranks;
}

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

void pause_briefly() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

Patience patience_of(bool crowded, double timeout_s, const std::atomic<std::uint32_t>* abort) {
  return {.looks = crowded ? 20 : 1000,
          .yields = crowded ? 100 : 500,
          .timeout_ns = static_cast<std::int64_t>(timeout_s * 1e9),
          .abort = abort};
}

void wake_all(WaitWord& word) { futex(&word.value, FUTEX_WAKE, INT_MAX, nullptr); }

void sleep_on(WaitWord& word, std::uint32_t seen) {
  const timespec slice{0, kSleepNs};
  futex(&word.value, FUTEX_WAIT, seen, &slice);
}

Waited wait_longer(WaitWord& word, std::uint32_t wanted, const Patience& patience) {
  for (int i = 0; i < patience.looks; ++i) {
    if (has_reached(word, wanted)) return Waited::reached;
    if (i >= kQuickLooks) pause_briefly();
  }
  AwakeTime time;
  for (int i = 0; i < patience.yields; ++i) {
    if (has_reached(word, wanted)) return Waited::reached;
    sched_yield();
  }
  Waited waited = Waited::reached;
  word.waiters.fetch_add(1, std::memory_order_seq_cst);
  while (true) {
    const std::uint32_t seen = word.value.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(seen - wanted) >= 0) break;
    waited = patience.abort->load(std::memory_order_acquire) != 0 ? Waited::aborted
             : time.passed_ns() > patience.timeout_ns             ? Waited::timed_out
                                                                  : Waited::reached;
    if (waited != Waited::reached) break;
    sleep_on(word, seen);
  }
  word.waiters.fetch_sub(1, std::memory_order_relaxed);
  return waited;
}

}  // namespace twinpod::comm
