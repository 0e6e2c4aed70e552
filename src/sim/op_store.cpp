#include "sim/op_store.hpp"

#include <sys/mman.h>

#include <new>
#include <type_traits>

namespace twinpod::sim {

std::shared_ptr<OpRun[]> make_ops(std::size_t count) {
  constexpr std::size_t kLargePage = std::size_t{1} << 21;
  const std::size_t bytes = count * sizeof(OpRun);
  if (bytes < kLargePage) return std::make_shared<OpRun[]>(count);
  void* const room = ::operator new (bytes, std::align_val_t{kLargePage});
#ifdef MADV_HUGEPAGE
  // A hint: where it is not taken, all is as with small pages.
  madvise(room, bytes, MADV_HUGEPAGE);
#endif
  auto* const ops = static_cast<OpRun*>(room);
  std::uninitialized_default_construct_n(ops, count);
  static_assert(std::is_trivially_destructible_v<OpRun>);
  return {ops, [](OpRun* made) { ::operator delete (made, std::align_val_t{kLargePage}); }};
}

}  // namespace twinpod::sim
