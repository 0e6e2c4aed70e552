#include "train/served_stopped.hpp"

#include <signal.h>
#include <sys/wait.h>

#include "comm/wait.hpp"

namespace twinpod::train {
namespace {

// Without taking the notice away from whoever waits for the child's end.
bool is_stopped(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

}  // namespace

StoppedProcesses::StoppedProcesses(double patience_s) : patience_ns_(static_cast<std::int64_t>(patience_s * 1e9)) {}

void StoppedProcesses::look(const std::vector<ps::Process>& alive) {
  constexpr std::int64_t kPauseNs = 100'000'000;
  const std::int64_t now = comm::now_ns();
  if (now < next_look_ns_) return;
  next_look_ns_ = now + kPauseNs;
  for (const ps::Process& process : alive) {
    if (!is_stopped(process.pid)) {
      since_ns_.erase(process.pid);
    } else if (now - since_ns_.emplace(process.pid, now).first->second >= patience_ns_) {
      kill(process.pid, SIGKILL);
    }
  }
}

}  // namespace twinpod::train
