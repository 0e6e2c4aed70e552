// Ranks on this machine: threads of this process, or processes of their own with this one looking after them.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "comm/reach.hpp"
#include "comm/world.hpp"
#include "core/guarded.hpp"
#include "core/signals.hpp"

namespace twinpod::comm {
namespace {

constexpr int kLookEveryMs = 20;  // for ranks that were stopped; an end is noticed at once
constexpr std::int64_t kLastWordsNs = 700'000'000;

void fill_world(World& world, const Segment& segment, int rank, const Options& options) {
  world.rank = rank;
  world.size = segment.ranks;
  world.options = options;
  world.patience = patience_of(segment.crowded, options.timeout_s, &header_of(segment).abort);
  world.local = true;
  world.segment = segment;
  world.state = &state_of(segment, rank);
  world.state->pid = getpid();
  start_clock(*world.state);
  plan_fault(world);
  if (segment.arena_bytes > 0) world.free_memory[0] = segment.arena_bytes;
  world.may_reach = options.kernel_copies && !segment.one_process && may_reach(getppid(), segment.base);
  world.transport = local_transport(segment, rank, world.may_reach, &world.huge_pages);
}

void note_end(RankState& state, const Error* error) {
  if (error != nullptr) {
    const std::string text = error->message.substr(0, state.error.size() - 1);
    std::memcpy(state.error.data(), text.data(), text.size());
  }
  state.status = static_cast<int>(error == nullptr ? RankStatus::finished : RankStatus::failed);
}

// One rank from beginning to end.
Result<std::string> live(const Segment& segment, int rank, const Options& options, const Body& body) {
  World world;
  fill_world(world, segment, rank, options);
  Result<std::string> answer;
  {
    Communicator communicator = whole_world(world);
    answer = guarded([&] { return body(communicator); });
  }
  world.transport.close(world.transport.state);
  note_end(*world.state, answer ? nullptr : &answer.error());
  // A rank that gives up keeps the others waiting, so they are told.
  if (!answer && header_of(segment).abort == 0) settle_failure(segment, options);
  return answer;
}

// The failure that all agree on, if there is one; else what the rank itself said.
Error failure_in(const Segment& segment, const Error& own) {
  const Header& header = header_of(segment);
  if (header.abort == 0) return own;
  Error error = own;
  error.kind = own.kind;
  error.message = header.failure.data();
  return error;
}

}  // namespace

Result<std::string> run_threads(int ranks, const Options& options, const Body& body) {
  const Result<Segment> segment = make_segment(ranks, true);
  if (!segment) return tl::unexpected(segment.error());
  std::vector<Result<std::string>> answers(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { answers[static_cast<std::size_t>(rank)] = live(*segment, rank, options, body); });
  }
  for (std::thread& thread : threads) thread.join();
  Result<std::string> answer = answers[0];
  for (const Result<std::string>& one : answers) {
    if (one || !answer) continue;
    answer = one;
  }
  if (!answer) answer = tl::unexpected(failure_in(*segment, answer.error()));
  unmap_segment(*segment);
  return answer;
}

namespace {

struct Child {
  pid_t pid = 0;
  int watch = -1;  // readable when it has ended
  bool gone = false;
  std::int64_t stopped_ns = 0;  // since when it is
};

// Ranks keep to cores of their own: two that share one wait for each other for a whole turn of the scheduler, and it
// likes to wake a rank where the one it waited for runs. With more ranks than cores they are dealt out in turn, so that
// neighbours are on different ones; if that does not come out even, the scheduler shares better than we do.
void keep_to_own_cores(int rank, int ranks) {
  cpu_set_t allowed;
  cpu_set_t own;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int cores = CPU_COUNT(&allowed);
  if (cores < ranks && ranks % cores != 0) return;
  for (int core = 0, index = 0; core < CPU_SETSIZE && index < cores; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    if (cores < ranks ? rank % cores == index : index * ranks / cores == rank) CPU_SET(core, &own);
    ++index;
  }
  sched_setaffinity(0, sizeof own, &own);
}

// The rest of a rank's process; never returns.
[[noreturn]] void be_rank(const Segment& segment, int rank, const Options& options,
                          const Body& body) noexcept {  // nothing of the launcher is cleaned up by a rank
  allow_reaching();
  keep_to_own_cores(rank, segment.ranks);
  const Result<std::string> answer = live(segment, rank, options, body);
  if (answer && rank == 0) {
    Header& header = header_of(segment);
    std::byte* const place = arena_of(segment, 0) + segment.arena_bytes - ((answer->size() + 4096) / 4096 * 4096);
    std::memcpy(place, answer->data(), answer->size());
    header.result = reinterpret_cast<const char*>(place);
    header.result_bytes = answer->size();
  }
  std::fflush(nullptr);
  _exit(answer ? 0 : 1);
}

// An end that nobody expected is told to all ranks.
void note_exit(const Segment& segment, const Options& options, int rank, int status) {
  RankState& state = state_of(segment, rank);
  const auto said = static_cast<RankStatus>(state.status.load());
  if (said == RankStatus::finished || said == RankStatus::failed) return;
  state.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  state.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  state.status = static_cast<int>(RankStatus::died);
  settle_failure(segment, options);
}

void look_after(const Segment& segment, const Options& options, std::vector<Child>& children, int rank) {
  Child& child = children[static_cast<std::size_t>(rank)];
  int status = 0;
  while (!child.gone && waitpid(child.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == child.pid) {
    RankState& state = state_of(segment, rank);
    if (WIFSTOPPED(status)) {
      state.signal = WSTOPSIG(status);
      state.status = static_cast<int>(RankStatus::stopped);
      child.stopped_ns = now_ns();
    } else if (WIFCONTINUED(status)) {
      state.signal = 0;
      state.status = static_cast<int>(RankStatus::running);
      child.stopped_ns = 0;
    } else {
      child.gone = true;
      forget_child(child.pid);
      close(child.watch);
      child.watch = -1;
      note_exit(segment, options, rank, status);
    }
  }
}

// The others notice a rank that is stopped. One that is alone has nobody but us.
void look_for_stop(const Segment& segment, const Options& options, const Child& child) {
  if (segment.ranks > 1 || child.gone || child.stopped_ns == 0 || header_of(segment).abort != 0) return;
  if (static_cast<double>(now_ns() - child.stopped_ns) > options.timeout_s * 1e9) settle_failure(segment, options);
}

void wait_for_ends(const std::vector<Child>& children) {
  std::vector<pollfd> watches;
  for (const Child& child : children) {
    if (!child.gone) watches.push_back({child.watch, POLLIN, 0});
  }
  poll(watches.data(), watches.size(), kLookEveryMs);
}

bool all_gone(const std::vector<Child>& children) {
  return std::all_of(children.begin(), children.end(), [](const Child& child) { return child.gone; });
}

// Until all have ended. After a failure the others have a moment to end by themselves.
void look_after_all(const Segment& segment, const Options& options, std::vector<Child>& children) {
  std::int64_t failed_at = 0;
  while (!all_gone(children)) {
    wait_for_ends(children);
    for (int rank = 0; rank < segment.ranks; ++rank) look_after(segment, options, children, rank);
    look_for_stop(segment, options, children.front());
    if (failed_at == 0 && header_of(segment).abort == 2) failed_at = now_ns();
    if (failed_at == 0 || now_ns() - failed_at < kLastWordsNs) continue;
    for (const Child& child : children) {
      if (!child.gone) kill(child.pid, SIGKILL);
    }
  }
}

Result<void> fork_ranks(const Segment& segment, const Options& options, const Body& body,
                        std::vector<Child>& children) {
  allow_reaching();
  std::fflush(nullptr);
  for (int rank = 0; rank < segment.ranks; ++rank) {
    const pid_t pid = fork_child();
    if (pid == 0) be_rank(segment, rank, options, body);
    if (pid < 0) {
      for (const Child& child : children) kill(child.pid, SIGKILL);
      for (const Child& child : children) {
        waitpid(child.pid, nullptr, 0);
        forget_child(child.pid);
      }
      return infeasible(fmt::format("rank {}: fork failed: {}", rank, std::strerror(errno)), "fewer ranks");
    }
    children.push_back({pid, static_cast<int>(syscall(SYS_pidfd_open, pid, 0))});
  }
  return {};
}

Result<std::string> answer_of(const Segment& segment) {
  const Header& header = header_of(segment);
  if (header.abort != 0) {
    return infeasible(header.failure.data(), "`twinpod doctor FILE` explains a recording");
  }
  return header.result == nullptr ? std::string() : std::string(header.result, header.result_bytes);
}

}  // namespace

Result<std::string> run_processes(int ranks, const Options& options, const Body& body) {
  const Result<Segment> segment = make_segment(ranks, false);
  if (!segment) return tl::unexpected(segment.error());
  std::vector<Child> children;
  const Result<void> forked = fork_ranks(*segment, options, body, children);
  if (forked) look_after_all(*segment, options, children);
  Result<std::string> answer = forked ? answer_of(*segment) : tl::unexpected(forked.error());
  unmap_segment(*segment);
  return answer;
}

}  // namespace twinpod::comm
