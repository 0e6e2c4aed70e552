// Threads that stay and share loops with the one that has them, for loops of some tens of microseconds and more.
//
//     Team team(1);                                               // one helper
//     team.run(chunks, [&](std::size_t i) { add(chunk(i)); });    // returns when all are done
//
// parallel_for (parallel.hpp) makes its threads anew, which takes longer than such a loop. A helper that is not awake
// in time is not waited for: who calls does what nobody else has begun. Which thread runs which index is not fixed, so
// a body may write only to what belongs to its index. The first exception of a body ends the loop and reaches who
// called. One loop at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace twinpod {

class Team {
 public:
  // With fewer helpers, down to none, when the system gives no more threads.
  explicit Team(int helpers);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void run(std::size_t count, const std::function<void(std::size_t)>& body);

 private:
  void help();
  void work() noexcept;

  // Of the loop at hand. Written while no helper is inside.
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> threw_ = false;
  std::exception_ptr thrown_;

  std::atomic<std::uint32_t> loops_ = 0;  // begun so far; helpers wait for the next
  std::atomic<int> inside_ = 0;           // helpers that look at the loop
  std::atomic<bool> open_ = false;        // whether they may
  std::atomic<bool> ends_ = false;
  std::vector<std::jthread> helpers_;
};

// Fewer parts of some microseconds are done sooner than a helper is there.
inline constexpr std::size_t kLeastParts = 8;

// body(first, length) for parts of [0, count): all of it at once without a team, or where there are few parts. Each
// part but the last has `part` elements.
template <typename Body>
void in_parts(Team* team, std::size_t count, std::size_t part, const Body& body) {
  if (team == nullptr || count < kLeastParts * part) return body(std::size_t{0}, count);
  team->run((count + part - 1) / part,
            [&](std::size_t i) { body(i * part, count - i * part < part ? count - i * part : part); });
}

}  // namespace twinpod
