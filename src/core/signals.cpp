#include "core/signals.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <new>

#include "core/remove_tree.hpp"

namespace twinpod {
namespace {

constexpr std::array kEnds = {SIGINT, SIGTERM, SIGHUP};
constexpr std::int64_t kTogetherNs = 500'000'000;  // signals that come as one

// Of this process and its children.
struct Shared {
  std::atomic<std::uint64_t> wishes = 0;  // a bit for each signal that is one
  std::atomic<int> asked = 0;
};

struct Child {
  std::atomic<pid_t> pid = 0;  // 0: a free place
  std::atomic<bool> executes = false;
};

struct Folder {
  std::atomic<bool> taken = false;
  std::array<char, PATH_MAX> path{};
};

std::atomic<Shared*> shared = nullptr;
std::atomic<bool> is_child = false;
std::atomic<std::int64_t> first_ns = 0;  // when this process got its first wish
std::array<Child, 512> children;
std::array<Folder, 4> folders;
sigset_t mask_at_start;

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

std::uint64_t bit(int signal) { return std::uint64_t{1} << static_cast<unsigned>(signal); }

sigset_t set_of(std::span<const int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// A number that has been given to another process since is left alone.
bool is_ours(pid_t pid) {
  siginfo_t info{};
  return pid != 0 && waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Children's children become ours. They are programs, which have a moment to clean up.
void end_children() {
  constexpr std::int64_t kPatienceNs = 3'000'000'000;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const Child& child : children) {
    if (const pid_t pid = child.pid; is_ours(pid)) kill(pid, child.executes ? SIGTERM : SIGKILL);
  }
  const std::int64_t end = now_ns() + kPatienceNs;
  const timespec pause{0, 2'000'000};
  pid_t ended = 0;
  while (((ended = waitpid(-1, nullptr, WNOHANG)) >= 0 || errno == EINTR) && now_ns() < end) {
    if (ended == 0) nanosleep(&pause, nullptr);
  }
}

[[noreturn]] void end_by(int signal) {
  if (!is_child) {
    end_children();
    for (const Folder& folder : folders) {
      if (folder.taken) remove_tree(folder.path.data());
    }
  }
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  const sigset_t only = set_of({&signal, 1});
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal);
  _exit(128 + signal);  // of a container's first process, which no signal ends by default
}

// Whether it is the first one, or belongs to it.
bool is_wish(int signal) {
  Shared& all = *shared.load();
  if ((all.wishes & bit(signal)) == 0) return false;
  int nobody = 0;
  all.asked.compare_exchange_strong(nobody, signal);
  const std::int64_t now = now_ns();
  std::int64_t first = 0;
  return is_child || first_ns.compare_exchange_strong(first, now) || now - first < kTogetherNs;
}

void told_to_end(int signal) {
  const int error = errno;
  if (!is_wish(signal)) end_by(signal);
  errno = error;
}

// A reader that is gone is an error of the write, and not the end of a run: sockets lose theirs, too. A handler rather
// than SIG_IGN, which the programs that are executed would inherit.
void reader_is_gone(int /*signal*/) {}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_mask = set_of(kEnds);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

bool has_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

// The kernel refuses one that cannot hold the registers, which are 11 KiB with tiles.
class Stack {
 public:
  Stack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;  // a sanitizer's, say
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, kGuard, PROT_NONE);
    stack_t own{};
    own.ss_sp = static_cast<char*>(memory) + kGuard;
    own.ss_size = kBytes - kGuard;
    if (sigaltstack(&own, nullptr) == 0) {
      memory_ = memory;
    } else {
      munmap(memory, kBytes);
    }
  }
  ~Stack() {
    if (memory_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (sigaltstack(&none, nullptr) == 0) munmap(memory_, kBytes);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

 private:
  static constexpr std::size_t kGuard = 1 << 16;  // a page of any size
  static constexpr std::size_t kBytes = kGuard + (1 << 18);
  void* memory_ = nullptr;
};

// Those of others, of whom we do not know when they install them.
void move_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0 || !has_handler(action) || (action.sa_flags & SA_ONSTACK) != 0)
      continue;
    action.sa_flags |= SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void take_signals() {
  if (shared != nullptr) return;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared = new (memory) Shared;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_at_start);
  own_signal_stack();
  for (const int signal : kEnds) {
    if (signal != SIGHUP || !is_ignored(signal)) handle(signal, told_to_end);  // ignored: by nohup
  }
  if (!is_ignored(SIGPIPE)) handle(SIGPIPE, reader_is_gone);
}

void wish_for(std::initializer_list<int> signals) {
  if (shared == nullptr) return;
  std::uint64_t wishes = 0;
  for (const int signal : signals) wishes |= bit(signal);
  shared.load()->wishes = wishes;
}

const std::atomic<int>& wished() {
  static const std::atomic<int> nobody = 0;
  return shared == nullptr ? nobody : shared.load()->asked;
}

void forget_wish() {
  if (shared == nullptr) return;
  shared.load()->wishes = 0;
  shared.load()->asked = 0;
  first_ns = 0;
}

namespace {

// The rest of fork_child() on the child's side; `before` is the mask that its parent had.
void begin_child(ChildKind kind, pid_t parent, const sigset_t& before) {
  prctl(PR_SET_PDEATHSIG, kind == ChildKind::executes ? SIGTERM : SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before we could ask to be told
  is_child = true;
  for (Child& child : children) child.pid = 0;
  if (shared == nullptr) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  } else if (kind == ChildKind::executes) {
    // One signal, which is ours: mpirun takes a second one as a wish to leave everything as it is.
    setpgid(0, 0);
    pthread_sigmask(SIG_SETMASK, &mask_at_start, nullptr);
  } else {
    constexpr std::array kOfTheTerminal = {SIGINT, SIGHUP};
    const sigset_t terminal = set_of(kOfTheTerminal);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_sigmask(SIG_BLOCK, &terminal, nullptr);
  }
}

void remember_child(ChildKind kind, pid_t pid) {
  for (Child& child : children) {
    pid_t free = 0;
    if (!child.pid.compare_exchange_strong(free, pid)) continue;
    child.executes = kind == ChildKind::executes;
    return;
  }
}

}  // namespace

pid_t fork_child(ChildKind kind) {
  const sigset_t ends = set_of(kEnds);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &ends, &before);  // or there might be a child that nobody ends
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int error = errno;
  if (pid == 0) {
    begin_child(kind, parent, before);
    return 0;
  }
  if (pid > 0) remember_child(kind, pid);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

void forget_child(pid_t pid) {
  for (Child& child : children) {
    pid_t there = pid;
    if (child.pid.compare_exchange_strong(there, 0)) return;
  }
}

void end_without_reader() { end_by(SIGPIPE); }

void own_signal_stack() {
  thread_local const Stack stack;
  thread_local const bool moved = (move_handlers(), true);
  static_cast<void>(stack);
  static_cast<void>(moved);
}

namespace {

sigjmp_buf& way_back() {
  static sigjmp_buf place;
  return place;
}

}  // namespace

bool survives(std::span<const int> signals, const std::function<void()>& work) {
  own_signal_stack();
  struct sigaction catching {};
  catching.sa_handler = [](int) { siglongjmp(way_back(), 1); };
  catching.sa_flags = SA_ONSTACK;
  std::array<struct sigaction, NSIG> before{};
  for (const int signal : signals) sigaction(signal, &catching, &before[static_cast<std::size_t>(signal)]);
  volatile bool survived = false;  // survives the jump
  if (sigsetjmp(way_back(), 1) == 0) {
    work();
    survived = true;
  }
  for (const int signal : signals) sigaction(signal, &before[static_cast<std::size_t>(signal)], nullptr);
  return survived;
}

void remove_at_end(const char* folder) {
  if (std::strlen(folder) >= PATH_MAX) return;
  for (Folder& one : folders) {
    if (one.taken || one.path[0] != '\0') continue;
    std::strcpy(one.path.data(), folder);  // NOLINT: its length was looked at
    one.taken = true;
    return;
  }
}

void keep_at_end(const char* folder) {
  for (Folder& one : folders) {
    if (!one.taken || std::strcmp(one.path.data(), folder) != 0) continue;
    one.taken = false;
    one.path[0] = '\0';
  }
}

}  // namespace twinpod
