// Whether the process that owns a store still lives.
#pragma once

#include "store/lock.hpp"

namespace twinpod::store {

// Numbers of processes mean there what they mean here: the same host, since the same start, in the same container.
bool is_on_this_host(const Owner& owner);
// REQUIRES: is_on_this_host().
bool is_alive(const Owner& owner);

}  // namespace twinpod::store
