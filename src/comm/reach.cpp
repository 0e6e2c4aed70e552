#include "comm/reach.hpp"

#include <sys/prctl.h>
#include <sys/uio.h>

#include <cstdint>

namespace twinpod::comm {
namespace {

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

// The kernel moves at most about 2 GB at a time.
bool move_all(Transfer transfer, pid_t process, std::byte* own, std::byte* other, std::size_t bytes) {
  while (bytes > 0) {
    const iovec here{own, bytes};
    const iovec there{other, bytes};
    const ssize_t moved = transfer(process, &here, 1, &there, 1, 0);
    if (moved <= 0) return false;
    own += moved;
    other += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

}  // namespace

void allow_reaching() { prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }

bool may_reach(pid_t process, const void* address) {
  std::uint64_t word = 0;
  return read_remote(process, address, &word, sizeof word);
}

bool read_remote(pid_t process, const void* from, void* to, std::size_t bytes) {
  auto* const other = static_cast<std::byte*>(const_cast<void*>(from));  // NOLINT: only read
  return move_all(process_vm_readv, process, static_cast<std::byte*>(to), other, bytes);
}

bool write_remote(pid_t process, const void* from, void* to, std::size_t bytes) {
  auto* const own = static_cast<std::byte*>(const_cast<void*>(from));  // NOLINT: only read
  return move_all(process_vm_writev, process, own, static_cast<std::byte*>(to), bytes);
}

}  // namespace twinpod::comm
