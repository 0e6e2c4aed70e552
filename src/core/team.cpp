#include "core/team.hpp"

#include <sched.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace twinpod {
namespace {

// The next loop often comes at once, and to be woken up takes as long as a short one. Until then the core is for
// whoever wants it.
template <typename Changed>
bool comes_soon(const Changed& changed) {
  constexpr auto kAwake = std::chrono::microseconds(1000);
  const auto end = std::chrono::steady_clock::now() + kAwake;
  while (!changed()) {
    if (std::chrono::steady_clock::now() > end) return false;
    sched_yield();
  }
  return true;
}

}  // namespace

Team::Team(int helpers) {
  try {
    for (int i = 0; i < helpers; ++i) helpers_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {  // those that are there help
  }
}

Team::~Team() {
  ends_ = true;
  ++loops_;
  loops_.notify_all();
}

void Team::work() noexcept {
  try {
    while (true) {
      const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= count_) return;
      (*body_)(i);
    }
  } catch (...) {
    next_ = count_;
    if (!threw_.exchange(true)) thrown_ = std::current_exception();
  }
}

void Team::help() {
  std::uint32_t seen = 0;
  while (!ends_) {
    if (!comes_soon([&] { return loops_ != seen; })) loops_.wait(seen);
    seen = loops_;
    // First in, then a look whether the loop is still there: who calls looks the other way round.
    ++inside_;
    if (open_) work();
    --inside_;
  }
}

void Team::run(std::size_t count, const std::function<void(std::size_t)>& body) {
  body_ = &body;
  count_ = count;
  next_ = 0;
  open_ = true;
  ++loops_;
  loops_.notify_all();
  work();
  open_ = false;
  while (inside_ != 0) sched_yield();
  if (!threw_) return;
  threw_ = false;
  std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}  // namespace twinpod
