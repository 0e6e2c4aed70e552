// Memory for what a kernel packs, one for each thread that computes, kept from kernel to kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twinpod::kernel {

// So many bytes at least, from a multiple of 64 on; valid until the thread asks for more.
std::byte* room_of_thread(std::int64_t bytes);

}  // namespace twinpod::kernel
