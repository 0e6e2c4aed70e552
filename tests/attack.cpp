// Runs commands of the program in processes of their own and looks for what must never be: a crash, a hang, memory
// without bound, or a number in an answer that is none. tests/mutate.sh and tests/flags.sh say what to run.
//
//     twinpod_attack mutate CASES COUNT SEED KEEP    COUNT commands on damaged files; those that fail stay in KEEP
//     twinpod_attack run COMMANDS                    each line a command, its words separated by tabs
//
// A line of CASES: a name, a folder or `-`, a file (in the folder), and the words of a command, separated by tabs. `@`
// in a word stands for the damaged file, or for the folder with the damaged file in it. A command is forked rather than
// started: what the loader does for the program takes ten times as long as most refusals.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.hpp"
#include "core/guarded.hpp"
#include "core/rng.hpp"

namespace {

namespace fs = std::filesystem;
using twinpod::Rng;
using Words = std::vector<std::string>;

constexpr double kMostSeconds = 5;
constexpr double kKillSeconds = 60;     // of the wall: the machine may be busy
constexpr double kPatienceSeconds = 6;  // then what works long is told to end
constexpr rlim_t kMostCpuSeconds = 20;
constexpr long kMostKilobytes = 500L << 10;
constexpr rlim_t kMostData = rlim_t{4} << 30;  // for the sake of the machine

std::size_t pick(Rng& rng, std::size_t count) { return static_cast<std::size_t>(rng.below(count)); }

template <typename T>
const T& one_of(Rng& rng, const T* first, std::size_t count) {
  return first[pick(rng, count)];
}

// ---- one command

struct Outcome {
  int status = 0;
  double wall_s = 0;
  double cpu_s = 0;
  long kilobytes = 0;
  std::string out;
  std::string err;
};

std::string all_of(int file) {
  std::string text(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, pread(file, text.data(), text.size(), 0))));
  return text;
}

// What trains or measures works as long as it is asked to, and says how far it is. It has to end when it is told to.
bool works_long(const Words& words) {
  return !words.empty() && (words[0] == "train" || words[0] == "bench" || words[0] == "study");
}

[[noreturn]] void be_command(const Words& words, const std::string& folder, int out, int err) {
  setpgid(0, 0);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  const rlimit data{kMostData, kMostData};
  setrlimit(RLIMIT_DATA, &data);
  const rlimit cpu{kMostCpuSeconds, kMostCpuSeconds};
  if (!works_long(words)) setrlimit(RLIMIT_CPU, &cpu);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (chdir(folder.c_str()) != 0) _exit(99);
  const int status = twinpod::cli::run(words);
  std::fflush(nullptr);
  _exit(status);
}

Outcome outcome_of(const Words& words, const std::string& folder) {
  static const int out = memfd_create("out", 0);
  static const int err = memfd_create("err", 0);
  for (const int file : {out, err}) {
    static_cast<void>(!ftruncate(file, 0));
    lseek(file, 0, SEEK_SET);
  }
  Outcome outcome;
  std::fflush(nullptr);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const pid_t child = fork();
  if (child == 0) be_command(words, folder, out, err);
  rusage used{};
  for (useconds_t nap = 200; wait4(child, &outcome.status, WNOHANG, &used) == 0;
       nap = std::min<useconds_t>(2 * nap, 5000)) {
    usleep(nap);
    if (seconds() > kPatienceSeconds && works_long(words)) kill(-child, SIGINT);
    if (seconds() < kKillSeconds) continue;
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
  }
  kill(-child, SIGKILL);  // whoever it left behind
  const auto time_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  outcome.wall_s = seconds();
  outcome.cpu_s = time_of(used.ru_utime) + time_of(used.ru_stime);
  outcome.kilobytes = used.ru_maxrss;
  outcome.out = all_of(out);
  outcome.err = all_of(err);
  return outcome;
}

// ---- what must never be

std::size_t quotes_before(const std::string& text, std::size_t end) {
  std::size_t quotes = 0;
  for (std::size_t i = 0; i < end; ++i) {
    if (text[i] == '\\')
      ++i;
    else
      quotes += text[i] == '"' ? 1 : 0;
  }
  return quotes;
}

// "inf" or "nan" that stands alone; text in quotes is somebody's name.
bool has_no_number(std::string text, bool json) {
  if (json) text = nlohmann::json::parse(text, nullptr, false).dump();
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto in_word = [&](std::size_t at) {
    const auto c = static_cast<unsigned char>(text[at]);
    return std::isalnum(c) != 0 || c == '_' || c == '"' || c == '/' || c == '.' || c == '`' || c == '\'' || c == '-';
  };
  for (const std::string_view word : {"inf", "nan"}) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      if (json && quotes_before(text, at) % 2 == 1) continue;
      const std::size_t begin = at > 0 && text[at - 1] == '-' ? at - 1 : at;
      if ((begin == 0 || !in_word(begin - 1)) && (end == text.size() || !in_word(end))) return true;
    }
  }
  return false;
}

// Empty: nothing is wrong with it.
std::string fault_of(const Outcome& outcome, const Words& words) {
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  if (outcome.wall_s >= kKillSeconds) return "does not end";
  const bool ended = works_long(words) && outcome.wall_s > kPatienceSeconds;
  if (ended && (WIFSIGNALED(outcome.status) ? WTERMSIG(outcome.status) == SIGINT : WEXITSTATUS(outcome.status) > 128))
    return "";
  if (WIFSIGNALED(outcome.status)) return fmt::format("killed by signal {}", WTERMSIG(outcome.status));
  const int status = WEXITSTATUS(outcome.status);
  if (status > 2) return fmt::format("exit status {}", status);
  if (outcome.kilobytes > kMostKilobytes) return fmt::format("{} MB", outcome.kilobytes >> 10);
  // Other work on the machine is no fault of the command, and its threads run at the same time.
  if (std::min(outcome.wall_s, outcome.cpu_s) > kMostSeconds && !works_long(words))
    return fmt::format("{:.1f} s", outcome.wall_s);
  if (json && !nlohmann::json::accept(outcome.out)) return "--json, and no JSON";
  if (status == 0 && has_no_number(outcome.out, json)) return "a number that is none, and exit status 0";
  if (status != 0 && outcome.err.empty()) return fmt::format("exit status {} without a message", status);
  if (outcome.err.find("there is no more memory") != std::string::npos) return "memory came to an end";
  return "";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

volatile std::sig_atomic_t g_stop = 0;  // who has seen enough still gets the sum of it

// What became of all of them.
struct Tally {
  long runs = 0;
  long done = 0;
  long refused = 0;
  long nets = 0;  // refused only by the last net under all arithmetic
  long faults = 0;
  double slowest_s = 0;
  long most_kilobytes = 0;
  std::map<std::string, int> nets_by;

  bool take(const Outcome& outcome, const std::string& fault) {
    ++runs;
    ++(WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0 ? done : refused);
    const bool net = outcome.err.find("no finite number") != std::string::npos;
    nets += net ? 1 : 0;
    if (net) ++nets_by[first_line(outcome.err)];
    slowest_s = std::max(slowest_s, std::min(outcome.wall_s, outcome.cpu_s));
    most_kilobytes = std::max(most_kilobytes, outcome.kilobytes);
    faults += fault.empty() ? 0 : 1;
    return fault.empty();
  }
  int told() const {
    for (const auto& [line, count] : nets_by) fmt::print("net {}x {}\n", count, line);
    fmt::print("{} runs: {} answered, {} refused ({} by the last net), {} faults; slowest {:.1f} s, most {} MB\n", runs,
               done, refused, nets, faults, slowest_s, most_kilobytes >> 10);
    return faults > 0 ? 1 : 0;
  }
};

// ---- damage

constexpr std::array kNumbers = {"0",
                                 "-1",
                                 "1",
                                 "2",
                                 "3",
                                 "1e308",
                                 "-1e308",
                                 "1e-308",
                                 "5e-324",
                                 "1e30",
                                 "1e18",
                                 "1e15",
                                 "NaN",
                                 ".nan",
                                 "inf",
                                 "-inf",
                                 ".inf",
                                 "2147483647",
                                 "2147483648",
                                 "4294967296",
                                 "9223372036854775807",
                                 "9223372036854775808",
                                 "18446744073709551615",
                                 "99999999999",
                                 "1000000",
                                 "65536",
                                 "4096",
                                 "0.5",
                                 "1e999",
                                 "0x10",
                                 "-0",
                                 "1000 TB",
                                 "007",
                                 "1e5"};
constexpr std::array kOther = {"null", "true",   "\"text\"", "[]", "{}",   "[1, 2]",  "{\"a\": 1}", "~", "\"\"",
                               "''",   "[[[]]]", "\\",       "*a", "&a 1", "!!int 3", "\xff\xfe",   "\t"};

// Where numbers stand, or names.
std::vector<std::pair<std::size_t, std::size_t>> pieces_of(const std::string& text, bool numbers) {
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  const auto belongs = [&](std::size_t i, bool first) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (!numbers) return std::isalpha(c) != 0 || c == '_' || (!first && (std::isdigit(c) != 0 || c == '-'));
    return std::isdigit(c) != 0 || (!first && (c == '.' || c == 'e' || c == '+'));
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    while (i < text.size() && belongs(i, i == begin)) ++i;
    if (i > begin) pieces.emplace_back(begin, i - begin);
    i += i == begin ? 1 : 0;
  }
  return pieces;
}

void replace_piece(std::string& text, Rng& rng, bool numbers) {
  const auto pieces = pieces_of(text, numbers);
  if (pieces.empty()) return;
  const auto [at, size] = pieces[pick(rng, pieces.size())];
  const auto [other, length] = pieces[pick(rng, pieces.size())];
  const std::size_t way = pick(rng, 10);
  std::string value = text.substr(other, length);
  if (way < 7 && numbers) value = one_of(rng, kNumbers.data(), kNumbers.size());
  if (way < 3 && !numbers) value = std::string(pick(rng, 2) == 0 ? 100 : 70'000, 'x');
  if (way == 8) value = one_of(rng, kOther.data(), kOther.size());
  if (way == 9 && numbers) value = text.substr(at, size) + "000000000";
  text.replace(at, size, value);
}

void change_lines(std::string& text, Rng& rng) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (lines.size() < 2) return;
  const std::size_t a = pick(rng, lines.size());
  const std::size_t b = pick(rng, lines.size());
  const std::size_t way = pick(rng, 4);
  if (way == 0) lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(a));
  if (way == 1) lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(a), lines[b]);
  if (way == 2) std::swap(lines[a], lines[b]);
  if (way == 3) lines[a] = std::string(pick(rng, 8), ' ') + lines[a];
  text = fmt::format("{}\n", fmt::join(lines, "\n"));
}

void change_bytes(std::string& text, Rng& rng) {
  if (text.empty()) return;
  const std::size_t at = pick(rng, text.size());
  const std::size_t size = std::min(text.size() - at, 1 + pick(rng, 64));
  const std::size_t way = pick(rng, 7);
  if (way == 0) text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << rng.below(8)));
  if (way == 1) text[at] = static_cast<char>(rng.below(256));
  if (way == 2) text.erase(at, size);
  if (way == 3) text.insert(pick(rng, text.size()), text.substr(at, size));
  if (way == 4 && pick(rng, 4) == 0) text.resize(at);
  if (way == 5) {
    static constexpr std::array kNests = {"[", "{\"a\":", "<a>", "{a: ", "(", "- "};
    const std::string nest = one_of(rng, kNests.data(), kNests.size());
    std::string deep;
    for (std::size_t i = 0, depth = pick(rng, 2) == 0 ? 70 : 50'000; i < depth; ++i) deep += nest;
    text.insert(at, deep);
  }
  if (way == 6) {  // a number as machines write it
    static constexpr std::array<std::uint64_t, 8> kWhole = {
        0, 1, ~0ULL, 1ULL << 31, 1ULL << 63, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000};
    const std::uint64_t value = one_of(rng, kWhole.data(), kWhole.size());
    const std::size_t width = std::min<std::size_t>(text.size() - at, std::size_t{1} << pick(rng, 4));
    for (std::size_t i = 0; i < width; ++i) text[at + i] = static_cast<char>(value >> (8 * i));
  }
}

bool is_text(const std::string& text) {
  return std::none_of(text.begin(),
                      text.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(text.size(), 4096)),
                      [](char c) { return c == '\0' || (static_cast<unsigned char>(c) < 9); });
}

// A file that is mostly as it was: what is refused at its first byte tries nothing else.
std::string damaged(const std::string& good, Rng& rng) {
  std::string text = good;
  const bool readable = is_text(good);
  const std::size_t times = 1 + pick(rng, 3);
  for (std::size_t i = 0; i < times; ++i) {
    const std::size_t way = pick(rng, 10);
    if (way < 5 && readable) replace_piece(text, rng, true);
    if (way == 5 && readable) replace_piece(text, rng, false);
    if ((way == 6 || way == 7) && readable) change_lines(text, rng);
    if (way > 7 || !readable) change_bytes(text, rng);
  }
  return text;
}

// ---- what is run

struct Case {
  std::string name;
  std::string place;  // of the damaged file
  std::string given;  // what `@` stands for
  std::string good;   // as it was
  Words words;
};

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

Words split(const std::string& line) {
  Words words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, '\t');) words.push_back(word);
  return words;
}

std::vector<Case> cases_of(const std::string& file, const std::string& scratch) {
  std::vector<Case> cases;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    Words words = split(line);
    if (words.size() < 4) continue;
    Case one;
    one.name = words[0];
    const std::string own = fmt::format("{}/{}", scratch, cases.size());
    fs::create_directories(own);
    const bool alone = words[1] == "-";
    const std::string original = alone ? words[2] : words[1] + "/" + words[2];
    one.given = alone ? own + "/" + fs::path(words[2]).filename().string() : own + "/folder";
    one.place = alone ? one.given : one.given + "/" + words[2];
    if (!alone) fs::copy(words[1], one.given, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    one.good = read(original);
    if (one.good.empty()) fmt::print("empty {}\n", original);
    one.words.assign(words.begin() + 3, words.end());
    for (std::string& word : one.words) {
      const std::size_t at = word.find('@');
      if (at != std::string::npos) word.replace(at, 1, one.given);
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

void report(const std::string& fault, const Words& words, const Outcome& outcome, const std::string& kept) {
  fmt::print("not ok {}: twinpod {}{}\n    {}\n", fault, fmt::join(words, " "), kept.empty() ? "" : "  # " + kept,
             last_line(outcome.err.empty() ? outcome.out : outcome.err).substr(0, 200));
  std::fflush(stdout);
}

int mutate(const std::string& file, long count, std::uint64_t seed, const std::string& keep) {
  const std::string scratch = fmt::format("{}/{}", fs::temp_directory_path().string(), getpid());
  const std::vector<Case> cases = cases_of(file, scratch);
  if (cases.empty()) return 2;
  Rng rng(seed);
  Tally tally;
  for (long i = 0; i < count && g_stop == 0; ++i) {
    const Case& one = cases[static_cast<std::size_t>(i) % cases.size()];
    const std::string text = damaged(one.good, rng);
    write(one.place, text);
    Words words = one.words;
    if (pick(rng, 2) == 0) words.emplace_back("--json");
    const Outcome outcome = outcome_of(words, scratch);
    const std::string fault = fault_of(outcome, words);
    if (!tally.take(outcome, fault)) {
      const std::string kept = fmt::format("{}/{}-{}-{}", keep, one.name, i, fs::path(one.place).filename().string());
      fs::create_directories(keep);
      write(kept, text);
      report(fault, words, outcome, kept);
    }
    write(one.place, one.good);
  }
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  return tally.told();
}

int run_each(const std::string& file) {
  const std::string scratch = fmt::format("{}/{}", fs::temp_directory_path().string(), getpid());
  fs::create_directories(scratch);
  Tally tally;
  std::ifstream stream(file);
  for (std::string line; g_stop == 0 && std::getline(stream, line);) {
    const Words words = split(line);
    const Outcome outcome = outcome_of(words, scratch);
    const std::string fault = fault_of(outcome, words);
    if (!tally.take(outcome, fault)) report(fault, words, outcome, "");
  }
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  return tally.told();
}

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  twinpod::end_with_a_message_when_terminated();
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { g_stop = 1; });
  if (words.size() == 5 && words[0] == "mutate") {
    return mutate(words[1], std::stol(words[2]), std::stoull(words[3]), words[4]);
  }
  if (words.size() == 2 && words[0] == "run") return run_each(words[1]);
  fmt::print(stderr, "usage: twinpod_attack mutate CASES COUNT SEED KEEP | run COMMANDS\n");
  return 2;
}
