// A folder with a name that others can guess, in a place where all may write, such as /dev/shm/twinpod-1000.
//
//     if (Result<void> ours = make_private_folder("/dev/shm/twinpod-1000"); !ours) ...    // another user made it
#pragma once

#include <string>

#include "core/error.hpp"

namespace twinpod::store {

// Makes it for its owner alone, unless it is there. Refused when it is no folder, a symbolic link, another user's, or
// one that others can write to: whoever made it could read what is put in it, or exchange it.
Result<void> make_private_folder(const std::string& path);

}  // namespace twinpod::store
