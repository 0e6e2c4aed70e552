#include "cli/stop_signal.hpp"

#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <new>

namespace twinpod::cli {
namespace {

using Asked = std::atomic<int>;
static_assert(Asked::is_always_lock_free);

// Shared with processes that are forked later: a terminal sends a signal to all of them, `kill` to one.
std::atomic<Asked*> shared = nullptr;

void note_signal(int signal) {
  if (Asked* asked = shared) asked->store(signal);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  void* memory = mmap(nullptr, sizeof(Asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared = new (memory) Asked(0);
  handle(SIGINT, note_signal);
  handle(SIGTERM, note_signal);
}

StopSignal::~StopSignal() {
  handle(SIGINT, SIG_DFL);
  handle(SIGTERM, SIG_DFL);
  munmap(shared.exchange(nullptr), sizeof(Asked));
}

int StopSignal::asked() const { return *shared.load(); }

}  // namespace twinpod::cli
