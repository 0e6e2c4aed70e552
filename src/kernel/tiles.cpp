#include "kernel/tiles.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csetjmp>
#include <csignal>
#endif

namespace twinpod::kernel {
namespace {

#ifdef __x86_64__
bool processor_has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kFeatures = 7, kBf16 = 1U << 22U, kTiles = 1U << 24U;
  return __get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTiles) != 0;
}

// Linux keeps them from processes that do not ask, because they make every switch of threads longer.
bool linux_gives_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

sigjmp_buf& way_back() {
  static sigjmp_buf place;
  return place;
}

// Some virtual machines say that there are tiles and hide what they are like (leaf 0x1d of cpuid). So one is
// multiplied, and the signal that would end the process is caught.
bool tiles_compute() {
  constexpr std::array kSignals = {SIGILL, SIGSEGV, SIGBUS};
  struct sigaction catching {};
  catching.sa_handler = [](int) { siglongjmp(way_back(), 1); };
  std::array<struct sigaction, kSignals.size()> before{};
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &catching, &before[i]);
  volatile bool right = false;  // survives the jump
  if (sigsetjmp(way_back(), 1) == 0) right = multiply_a_tile();
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  return right;
}
#endif

}  // namespace

bool has_tiles() {
#ifdef __x86_64__
  static const bool has = processor_has_tiles() && linux_gives_tiles() && tiles_compute();
  return has;
#else
  return false;
#endif
}

}  // namespace twinpod::kernel
