// Good job files, damaged in many ways: each is accepted, or refused with a file and a line, and in no time.
//
// The same damage in every run. TWINPOD_MUTATIONS=10000 asks for more of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/rng.hpp"
#include "spec/read.hpp"

namespace twinpod::spec {
namespace {

constexpr double kMostSeconds = 0.1;  // for one file

using Lines = std::vector<std::string>;

std::vector<std::string> good_jobs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TWINPOD_SOURCE_DIR "/examples")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

std::size_t pick(Rng& rng, std::size_t count) { return static_cast<std::size_t>(rng.below(count)); }

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (lines.empty()) lines.emplace_back();
  return lines;
}

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// ---- kinds of damage

void flip_bit(std::string& text, Rng& rng) {
  if (text.empty()) return;
  const std::size_t place = pick(rng, text.size());
  text[place] = static_cast<char>(static_cast<unsigned char>(text[place]) ^ (1U << rng.below(8)));
}

void delete_line(std::string& text, Rng& rng) {
  Lines lines = lines_of(text);
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(pick(rng, lines.size())));
  text = joined(lines);
}

void duplicate_line(std::string& text, Rng& rng) {
  Lines lines = lines_of(text);
  const std::string copy = lines[pick(rng, lines.size())];
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(pick(rng, lines.size() + 1)), copy);
  text = joined(lines);
}

void swap_keys(std::string& text, Rng& rng) {
  Lines lines = lines_of(text);
  std::string& a = lines[pick(rng, lines.size())];
  std::string& b = lines[pick(rng, lines.size())];
  const std::size_t colon_a = a.find(':');
  const std::size_t colon_b = b.find(':');
  if (&a == &b || colon_a == std::string::npos || colon_b == std::string::npos) return;
  const std::string key_a = a.substr(0, colon_a);
  const std::string key_b = b.substr(0, colon_b);
  a.replace(0, colon_a, key_b);
  b.replace(0, colon_b, key_a);
  text = joined(lines);
}

void set_extreme_number(std::string& text, Rng& rng) {
  constexpr std::array<const char*, 16> kExtremes{"0",
                                                  "-1",
                                                  "1",
                                                  "2147483647",
                                                  "2147483648",
                                                  "1e308",
                                                  "1e999",
                                                  "-1e30",
                                                  ".nan",
                                                  ".inf",
                                                  "1e-320",
                                                  "",
                                                  "99999999999999999999999",
                                                  "0x7f",
                                                  "1_0",
                                                  "3.5"};
  const std::size_t digit = text.find_first_of("0123456789", pick(rng, text.size() + 1));
  if (digit == std::string::npos) return;
  const std::size_t end = std::min(text.find_first_not_of("0123456789.e", digit), text.size());
  text.replace(digit, end - digit, kExtremes[pick(rng, kExtremes.size())]);
}

void truncate(std::string& text, Rng& rng) { text.resize(pick(rng, text.size() + 1)); }

void insert_piece(std::string& text, Rng& rng) {
  constexpr std::array<const char*, 20> kPieces{"[",
                                                "]",
                                                "{",
                                                "}",
                                                ":",
                                                "- ",
                                                "&a ",
                                                "*a",
                                                "!!str ",
                                                "\t",
                                                "---\n",
                                                "#",
                                                "'",
                                                "\"",
                                                "? ",
                                                "base: x",
                                                "model_type: llama\n",
                                                "null",
                                                "\xff",
                                                "a/b.yaml"};
  text.insert(pick(rng, text.size() + 1), kPieces[pick(rng, kPieces.size())]);
}

void mutate(std::string& text, Rng& rng) {
  constexpr std::array kKinds{flip_bit,           delete_line, duplicate_line, swap_keys,
                              set_extreme_number, truncate,    insert_piece};
  for (std::size_t i = 0; i <= rng.below(4); ++i) kKinds[pick(rng, kKinds.size())](text, rng);
}

// Of this thread, so that a busy machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int num_mutations() {
  const char* wish = std::getenv("TWINPOD_MUTATIONS");
  return wish == nullptr ? 2000 : std::max(1, std::atoi(wish));
}

TEST(Mutate, DamagedJobsAreAcceptedOrRefusedWithAPlace) {
  const std::vector<std::string> jobs = good_jobs();
  ASSERT_GE(jobs.size(), 5U);
  const Catalog catalog(TWINPOD_CATALOG_DIR);
  Rng rng(2026);
  int refused = 0;
  const int total = num_mutations();
  for (int i = 0; i < total; ++i) {
    std::string text = jobs[static_cast<std::size_t>(i) % jobs.size()];
    mutate(text, rng);
    const double start = cpu_seconds();
    const Result<Job> job = read_job_text(text, "job.yaml", catalog);
    ASSERT_LT(cpu_seconds() - start, kMostSeconds) << text;
    if (job) continue;
    ++refused;
    ASSERT_FALSE(job.error().file.empty()) << text;
    ASSERT_GE(job.error().line, 1) << text;
    ASSERT_FALSE(job.error().message.empty()) << text;
    ASSERT_EQ(job.error().kind, ErrorKind::input) << text;
  }
  EXPECT_GT(refused, total / 4) << "the damage should show";
  EXPECT_LT(refused, total) << "comments and names may be anything";
}

TEST(Mutate, EveryTruncationOfAGoodJobIsAcceptedOrRefusedWithAPlace) {
  const Catalog catalog(TWINPOD_CATALOG_DIR);
  const std::string job = good_jobs().front();
  for (std::size_t length = 0; length < job.size(); ++length) {
    const Result<Job> read = read_job_text(std::string_view(job).substr(0, length), "job.yaml", catalog);
    if (read) continue;
    ASSERT_GE(read.error().line, 1) << length;
  }
}

}  // namespace
}  // namespace twinpod::spec
