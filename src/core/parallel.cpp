#include "core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

namespace twinpod {
namespace {

constexpr std::size_t kChunksPerThread = 16;  // small enough to even out bodies of unequal length

class Loop {
 public:
  Loop(std::size_t count, std::size_t num_threads, const std::function<void(std::size_t)>& body)
      : count_(count), chunk_(std::max<std::size_t>(1, count / (num_threads * kChunksPerThread))), body_(body) {}

  // Takes chunks until none is left. Every thread of the loop runs this.
  void work() noexcept {
    try {
      take_chunks();
    } catch (...) {
      if (!threw_.exchange(true)) thrown_ = std::current_exception();
    }
  }

  // REQUIRES: all threads have ended.
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  void take_chunks() {
    while (!threw_.load(std::memory_order_relaxed)) {
      const std::size_t first = next_.fetch_add(chunk_, std::memory_order_relaxed);
      if (first >= count_) return;
      const std::size_t last = std::min(count_, first + chunk_);
      for (std::size_t i = first; i < last; ++i) body_(i);
    }
  }

  const std::size_t count_;
  const std::size_t chunk_;
  const std::function<void(std::size_t)>& body_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> threw_ = false;
  std::exception_ptr thrown_;
};

}  // namespace

int num_hardware_threads() {
  static const int number = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // reads a file
  return number;
}

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body, int num_threads) {
  if (count == 0) return;
  const int wanted = num_threads > 0 ? num_threads : num_hardware_threads();
  const std::size_t threads = std::min(count, static_cast<std::size_t>(wanted));
  Loop loop(count, threads, body);
  std::vector<std::jthread> helpers;  // joined when it goes out of scope
  helpers.reserve(threads - 1);
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back([&loop] { loop.work(); });
  } catch (const std::system_error&) {  // the system gives no more threads: those that run do the work
  }
  loop.work();
  helpers.clear();
  loop.rethrow();
}

}  // namespace twinpod
