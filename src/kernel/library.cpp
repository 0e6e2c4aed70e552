#include "kernel/library.hpp"

#include <sys/syscall.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace twinpod::kernel {
namespace {

// Linux gives the tiles of AMX only to who asks for them. Some virtual machines have the instructions but hide what
// the tiles are like (leaf 0x1d of cpuid); oneDNN 2.6 uses them all the same and is killed.
bool ask_once() {
#ifdef __x86_64__
  constexpr unsigned kPalettes = 0x1d;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILE_DATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool known = __get_cpuid_count(kPalettes, 0, &a, &b, &c, &d) != 0 && a > 0;
  if (known && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return true;
  dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
#endif
  return false;
}

}  // namespace

bool ask_for_tiles() {
  static const bool tiles = ask_once();
  return tiles;
}

dnnl::matmul make_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                         const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul(dnnl::matmul::primitive_desc(engine, a, b, c, attributes));
#else
  return dnnl::matmul(dnnl::matmul::primitive_desc({a, b, c}, attributes, engine));
#endif
}

}  // namespace twinpod::kernel
