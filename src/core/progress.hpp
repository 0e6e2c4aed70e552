// A progress bar on standard error, and only when that is a terminal: logs and pipes never see it.
//
//     Progress progress("search", layouts.size());
//     for (...) { ...; progress.advance(); }
//     // gone again when it goes out of scope
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>

namespace twinpod {

bool is_terminal(std::FILE* stream);

// "search  [#########-----------]  45 %"
std::string progress_line(const std::string& label, std::size_t done, std::size_t total);

// Thread safe. Draws when the percentage changes, so at most a hundred times.
class Progress {
 public:
  Progress(std::string label, std::size_t total);
  Progress(std::string label, std::size_t total, std::FILE* stream, bool draws);  // for tests, and other streams
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::size_t count = 1);

 private:
  void draw(std::size_t done);

  const std::string label_;
  const std::size_t total_;
  std::FILE* const stream_;
  const bool draws_;
  std::atomic<std::size_t> done_ = 0;
  std::mutex drawing_;
  std::string drawn_;  // what is on the terminal
};

}  // namespace twinpod
