#include "core/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace twinpod {
namespace {

// Everything that a Progress with this many steps writes.
std::string written(std::size_t steps, bool draws) {
  std::FILE* file = std::tmpfile();
  {
    Progress progress("search", steps, file, draws);
    for (std::size_t i = 0; i < steps; ++i) progress.advance();
  }
  std::rewind(file);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), size);
  std::fclose(file);
  return text;
}

TEST(Progress, LineShowsBarAndPercentage) {
  EXPECT_EQ(progress_line("search", 9, 20), "search  [#########-----------]  45 %");
  EXPECT_EQ(progress_line("search", 0, 20), "search  [--------------------]   0 %");
  EXPECT_EQ(progress_line("search", 20, 20), "search  [####################] 100 %");
}

TEST(Progress, HundredPercentMeansDone) {
  EXPECT_EQ(progress_line("x", 999, 1000), "x  [###################-]  99 %");
  EXPECT_EQ(progress_line("x", 0, 0), "x  [####################] 100 %");
}

TEST(Progress, NothingIsWrittenWhenNotOnATerminal) { EXPECT_EQ(written(100, false), ""); }

TEST(Progress, LineIsClearedAtTheEnd) {
  const std::string text = written(2, true);
  EXPECT_EQ(text, "\r\x1b[Ksearch  [##########----------]  50 %\r\x1b[Ksearch  [####################] 100 %\r\x1b[K");
}

TEST(Progress, DrawsAtMostOnceForEachPercent) {
  const std::string text = written(100000, true);
  EXPECT_LE(std::count(text.begin(), text.end(), '%'), 101);
}

TEST(Progress, FileIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(is_terminal(file));
  std::fclose(file);
}

}  // namespace
}  // namespace twinpod
