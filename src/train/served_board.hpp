// What the workers of a run with servers leave for the process that started them, whatever becomes of them: their
// steps, and values that are evaluated behind the run.
//
//     Result<std::unique_ptr<Board>> board = make_board({.steps = 4000, .marks = 20, .values = 1000000});
//     ... fork ...
//     post(**board, step);                                  // any worker
//     if (take_mark(**board, 3)) set_aside(**board, 3, values);
//     ... records_of(**board), mark_of(**board, 3), read_values(**board, 3, ...)
//
// Steps lie in memory that is shared with processes forked later, values in a file without a name.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "ps/worker.hpp"
#include "train/served.hpp"

namespace twinpod::train {

struct BoardSize {
  std::int64_t steps = 0;   // of all workers; what comes above is counted and not kept
  std::int64_t marks = 0;   // values that can be set aside
  std::int64_t values = 0;  // numbers of each
};

struct Mark {
  std::atomic<int> taken = 0;
  std::atomic<int> ready = 0;
  std::int64_t time_ns = 0;
  std::int64_t clock = 0;
};

struct Posted {
  std::atomic<int> ready = 0;
  ServedStep step;
};

struct Board {
  Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board();

  BoardSize size;
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::FILE* file = nullptr;
  // In the memory:
  std::atomic<std::int64_t>* num_posted = nullptr;
  std::atomic<std::int64_t>* num_claimed = nullptr;  // parts of the work
  std::atomic<std::int64_t>* peak_bytes = nullptr;   // of a worker's rank
  Mark* marks = nullptr;
  Posted* posted = nullptr;
};

Result<std::unique_ptr<Board>> make_board(const BoardSize& size);

void post(Board& board, const ServedStep& step);
void note_peak(Board& board, std::int64_t bytes);

// Steps from `first` on that are there, up to one that is still being written. At the end, when all writers are gone,
// such a one is a step of nobody (worker -1), and the rest is given too.
std::vector<ServedStep> steps_from(const Board& board, std::int64_t first, bool ended);

// False: somebody else has it, or there is none.
bool take_mark(Board& board, std::int64_t mark);
// In the order of the shards.
void set_aside(Board& board, std::int64_t mark, std::int64_t clock, const std::vector<ps::Arrival>& values);
// False: they are not there.
bool read_values(const Board& board, std::int64_t mark, std::span<float> values);

}  // namespace twinpod::train
