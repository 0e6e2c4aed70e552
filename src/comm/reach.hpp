// Memory of another process, read and written through the kernel (process_vm_readv): one copy instead of two.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace twinpod::comm {

// Lets other processes of this user in, where the kernel asks for that.
void allow_reaching();

// Whether the kernel lets us: containers and security modules may not. `address`: 8 readable bytes of that process.
bool may_reach(pid_t process, const void* address);

// False: that process is gone, or not ours.
bool read_remote(pid_t process, const void* from, void* to, std::size_t bytes);
bool write_remote(pid_t process, const void* from, void* to, std::size_t bytes);

}  // namespace twinpod::comm
