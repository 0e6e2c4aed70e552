// Waiting for another rank: first by looking again and again, then by giving the core away, then asleep; never for
// ever.
#pragma once

#include <atomic>
#include <cstdint>

namespace twinpod::comm {

// A counter that ranks wait for. It only grows, and wraps around.
struct WaitWord {
  std::atomic<std::uint32_t> value = 0;
  std::atomic<std::uint32_t> waiters = 0;  // that may be asleep
};

// mismatched: the others came, but for something else.
enum class Waited { reached, aborted, timed_out, mismatched };

struct Patience {
  int looks = 0;   // before giving the core away
  int yields = 0;  // before sleeping
  std::int64_t timeout_ns = 0;
  const std::atomic<std::uint32_t>* abort = nullptr;  // not 0: stop waiting
};

// Looks without a pause between them: a pause takes as long as a line of cache from core to core.
inline constexpr int kQuickLooks = 100;

// Whether there are more ranks than cores that this process may use.
bool is_crowded(int ranks);

// In a crowd, looking only keeps the one that is waited for from running.
Patience patience_of(bool crowded, double timeout_s, const std::atomic<std::uint32_t>* abort);

inline bool has_reached(const WaitWord& word, std::uint32_t wanted) {
  return static_cast<std::int32_t>(word.value.load(std::memory_order_acquire) - wanted) >= 0;
}

void wake_all(WaitWord& word);

inline void publish(WaitWord& word, std::uint32_t value) {
  // In one order with the waiter's: either it sees the value or we see it waiting.
  word.value.exchange(value, std::memory_order_seq_cst);
  if (word.waiters.load(std::memory_order_seq_cst) != 0) wake_all(word);
}

Waited wait_longer(WaitWord& word, std::uint32_t wanted, const Patience& patience);

inline Waited wait_for(WaitWord& word, std::uint32_t wanted, const Patience& patience) {
  return has_reached(word, wanted) ? Waited::reached : wait_longer(word, wanted, patience);
}

// One short sleep until the word changes from `seen`, at most a few milliseconds.
void sleep_on(WaitWord& word, std::uint32_t seen);

void pause_briefly();
std::int64_t now_ns();

// Asks for a line of cache for this core alone, because it will be written soon. Who writes to a line that others have
// read waits for it otherwise. (The compiler's own prefetch for writing only asks to read, unless it is told which
// processor to expect; older ones take this instruction for nothing.)
inline void prefetch_to_write(const void* address) {
#ifdef __x86_64__
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

// The cheapest clock there is, in units of its own: the recorder reads it twice in each operation.
inline std::int64_t now_ticks() {
#ifdef __x86_64__
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#else
  return now_ns();
#endif
}

}  // namespace twinpod::comm
