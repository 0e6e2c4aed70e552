#include "core/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/quote.hpp"

namespace twinpod {
namespace {

constexpr std::size_t kCells = 20;
constexpr const char* kClearLine = "\r\x1b[K";

// Rounded down, so that 100 means done. Doubles, because done * 100 might not fit.
std::size_t part_of(std::size_t whole, std::size_t done, std::size_t total) {
  if (done >= total) return whole;
  return static_cast<std::size_t>(static_cast<double>(whole) * static_cast<double>(done) / static_cast<double>(total));
}

}  // namespace

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) != 0; }

std::string progress_line(const std::string& label, std::size_t done, std::size_t total) {
  const std::size_t filled = part_of(kCells, done, total);
  const std::string bar = std::string(filled, '#') + std::string(kCells - filled, '-');
  return fmt::format("{}  [{}] {:3} %", one_line(label), bar, part_of(100, done, total));
}

Progress::Progress(std::string label, std::size_t total)
    : Progress(std::move(label), total, stderr, is_terminal(stderr)) {}

Progress::Progress(std::string label, std::size_t total, std::FILE* stream, bool draws)
    : label_(std::move(label)), total_(total), stream_(stream), draws_(draws) {}

Progress::~Progress() {
  if (drawn_.empty()) return;
  std::fputs(kClearLine, stream_);
  std::fflush(stream_);
}

void Progress::advance(std::size_t count) {
  const std::size_t before = done_.fetch_add(count);
  if (!draws_ || part_of(100, before, total_) == part_of(100, before + count, total_)) return;
  draw(done_);
}

void Progress::draw(std::size_t done) {
  const std::lock_guard lock(drawing_);
  std::string line = progress_line(label_, done, total_);
  if (line == drawn_) return;
  std::fputs((kClearLine + line).c_str(), stream_);
  std::fflush(stream_);
  drawn_ = std::move(line);
}

}  // namespace twinpod
