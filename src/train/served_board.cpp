#include "train/served_board.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "comm/wait.hpp"

namespace twinpod::train {
namespace {

bool is_mark(const Board& board, std::int64_t mark) { return mark >= 0 && mark < board.size.marks; }

off_t place_of(const Board& board, std::int64_t mark) {
  return static_cast<off_t>(mark * board.size.values) * static_cast<off_t>(sizeof(float));
}

bool write_all(int file, const void* data, std::size_t bytes, off_t at) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t wrote = pwrite(file, from, bytes, at);
    if (wrote <= 0) return false;
    from += wrote;
    at += wrote;
    bytes -= static_cast<std::size_t>(wrote);
  }
  return true;
}

bool read_all(int file, void* data, std::size_t bytes, off_t at) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = pread(file, to, bytes, at);
    if (got <= 0) return false;
    to += got;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

Board::~Board() {
  if (memory != nullptr) munmap(memory, bytes);
  if (file != nullptr) static_cast<void>(std::fclose(file));
}

Result<std::unique_ptr<Board>> make_board(const BoardSize& size) {
  auto board = std::make_unique<Board>();
  board->size = size;
  const auto marks = static_cast<std::size_t>(size.marks);
  const auto steps = static_cast<std::size_t>(size.steps);
  constexpr std::size_t kHead = 128;
  board->bytes = kHead + marks * sizeof(Mark) + steps * sizeof(Posted);
  void* const memory = mmap(nullptr, board->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return infeasible(fmt::format("{} bytes for the steps of the workers", board->bytes));
  board->memory = memory;
  board->file = std::tmpfile();
  if (board->file == nullptr) {
    return infeasible(fmt::format("no temporary file for values to evaluate: {}", std::strerror(errno)), "room in /tmp");
  }
  auto* const bytes = static_cast<std::byte*>(memory);
  board->num_posted = new (bytes) std::atomic<std::int64_t>(0);
  board->num_claimed = new (bytes + 32) std::atomic<std::int64_t>(0);
  board->peak_bytes = new (bytes + 64) std::atomic<std::int64_t>(0);
  // Zero bytes, as the kernel gives them, are marks and steps that are not there.
  board->marks = reinterpret_cast<Mark*>(bytes + kHead);
  board->posted = reinterpret_cast<Posted*>(bytes + kHead + marks * sizeof(Mark));
  return board;
}

void post(Board& board, const ServedStep& step) {
  const std::int64_t place = board.num_posted->fetch_add(1);
  if (place >= board.size.steps) return;
  Posted& posted = board.posted[place];
  posted.step = step;
  posted.ready.store(1, std::memory_order_release);
}

void note_peak(Board& board, std::int64_t bytes) {
  std::int64_t most = board.peak_bytes->load();
  while (most < bytes && !board.peak_bytes->compare_exchange_weak(most, bytes)) {
  }
}

std::vector<ServedStep> steps_from(const Board& board, std::int64_t first, bool ended) {
  std::vector<ServedStep> steps;
  const std::int64_t end = std::min(board.num_posted->load(), board.size.steps);
  for (std::int64_t i = first; i < end; ++i) {
    const bool ready = board.posted[i].ready.load(std::memory_order_acquire) != 0;
    if (!ready && !ended) break;
    steps.push_back(ready ? board.posted[i].step : ServedStep{.worker = -1});
  }
  return steps;
}

bool take_mark(Board& board, std::int64_t mark) {
  return is_mark(board, mark) && board.marks[mark].taken.load() == 0 && board.marks[mark].taken.exchange(1) == 0;
}

void set_aside(Board& board, std::int64_t mark, std::int64_t clock, const std::vector<ps::Arrival>& values) {
  Mark& to = board.marks[mark];
  to.time_ns = comm::now_ns();
  to.clock = clock;
  off_t at = place_of(board, mark);
  for (const ps::Arrival& one : values) {
    const std::span<const std::byte> bytes = one.values.bytes;
    if (!write_all(fileno(board.file), bytes.data(), bytes.size(), at)) return;  // a full disk: a point less
    at += static_cast<off_t>(bytes.size());
  }
  to.ready.store(1, std::memory_order_release);
}

bool read_values(const Board& board, std::int64_t mark, std::span<float> values) {
  if (!is_mark(board, mark) || board.marks[mark].ready.load(std::memory_order_acquire) == 0) return false;
  return read_all(fileno(board.file), values.data(), values.size_bytes(), place_of(board, mark));
}

}  // namespace twinpod::train
