// Removes a folder with all that is in it, and follows no symbolic link. A handler of a signal may call it.
#pragma once

namespace twinpod {

bool remove_tree(const char* path);  // true: nothing is there any more

}  // namespace twinpod
