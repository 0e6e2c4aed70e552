#include "cli/train_teller.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>

#include "core/progress.hpp"
#include "core/quote.hpp"
#include "report/train_report.hpp"

namespace twinpod::cli {
namespace {

// A line that is wider than the terminal would not be drawn over.
std::string fitting(std::string line) {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && line.size() >= size.ws_col)
    line.resize(size.ws_col - 1U);
  return line;
}

}  // namespace

Teller::Teller(const spec::Job& job, double peak_flop_per_s, std::ofstream& metrics)
    : job_(job), peak_flop_per_s_(peak_flop_per_s), metrics_(metrics), draws_(is_terminal(stderr)) {}

void Teller::tell(const train::StepNote& note) {
  write_metrics(note);
  if (!draws_) return;
  constexpr std::size_t kSteps = 20;  // over which the rate is taken
  constexpr std::chrono::milliseconds kPause(100);
  seconds_.push_back(note.seconds);
  if (seconds_.size() > kSteps) seconds_.erase(seconds_.begin());
  if (note.evaluation_loss > 0) evaluation_loss_ = note.evaluation_loss;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - drawn_at_ < kPause && note.step + 1 < note.steps) return;
  const double mean_s = std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
  const report::ProgressView view{job_, note, mean_s, evaluation_loss_, peak_flop_per_s_};
  fmt::print(stderr, "\r\033[K{}", fitting(one_line(report::progress_text(view))));
  std::fflush(stderr);
  drawn_at_ = now;
  drawn_ = true;
}

// The run is worth more than its lines, so it goes on without them.
void Teller::write_metrics(const train::StepNote& note) {
  if (!metrics_.is_open() || !metrics_error_.empty()) return;
  if (metrics_ << report::metrics_line(job_, note) << std::flush) return;
  metrics_error_ = fmt::format("metrics from step {} on: {}", note.step + 1, std::strerror(errno));
  warn("not written: " + metrics_error_);
}

void Teller::warn(const std::string& text) {
  fmt::print(stderr, "{}twinpod: {}{}", drawn_ ? "\r\033[K" : "", printable(text), text.ends_with('\n') ? "" : "\n");
  std::fflush(stderr);
}

void Teller::end() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

}  // namespace twinpod::cli
