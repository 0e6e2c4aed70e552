#include "kernel/processor.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "core/quote.hpp"
#include "kernel/tiles.hpp"

namespace twinpod::kernel {
namespace {

Instructions best() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return has_tiles() ? Instructions::amx : Instructions::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Instructions::avx2;
#endif
  return Instructions::scalar;
}

// What the environment asks for, as far as the processor has it.
Instructions at_first() {
  const char* wish = std::getenv("TWINPOD_INSTRUCTIONS");
  if (wish == nullptr) return best();
  for (const Instructions lesser : {Instructions::scalar, Instructions::avx2, Instructions::avx512}) {
    if (wish == name_of(lesser) && lesser < best()) return lesser;
  }
  if (wish != name_of(best())) {
    std::fprintf(stderr, "TWINPOD_INSTRUCTIONS: %s is not there; expected scalar, avx2, avx512 or amx. Taking %s.\n",
                 shortened(wish, 60).c_str(), name_of(best()).data());
  }
  return best();
}

std::atomic<Instructions>& chosen() {
  static std::atomic<Instructions> instructions = at_first();
  return instructions;
}

}  // namespace

Instructions instructions() { return chosen().load(std::memory_order_relaxed); }
void use_instructions(Instructions instructions) { chosen() = instructions; }

std::string_view name_of(Instructions instructions) {
  switch (instructions) {
    case Instructions::scalar:
      return "scalar";
    case Instructions::avx2:
      return "avx2";
    case Instructions::avx512:
      return "avx512";
    case Instructions::amx:
      return "amx";
  }
  return "scalar";
}

void flush_denormals() {
#ifdef __x86_64__
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

}  // namespace twinpod::kernel
