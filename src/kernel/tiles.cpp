#include "kernel/tiles.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "core/signals.hpp"
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

// Some virtual machines say that there are tiles and hide what they are like (leaf 0x1d of cpuid). So one is
// multiplied, and the signal that would end the process is caught.
bool tiles_compute() {
  constexpr std::array kSignals = {SIGILL, SIGSEGV, SIGBUS};
  bool right = false;
  return survives(kSignals, [&] { right = multiply_a_tile(); }) && right;
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
