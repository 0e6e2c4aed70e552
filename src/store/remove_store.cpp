// The end of a store: of one in memory, when its run has ended.
#include "store/checkpoints.hpp"
#include "store/save.hpp"

namespace twinpod::store {

Result<void> remove_store(Files& files, const std::string& root) {
  const Result<std::vector<std::string>> names = files.list(root);
  if (!names) return tl::unexpected(names.error());
  bool others = false;
  for (const std::string& name : *names) {
    const bool latest = name.starts_with(kLatestFile);
    others |= !latest && checkpoint_number(name) < 0;
    Result<void> removed;
    if (latest) removed = files.remove(root + "/" + name);
    if (checkpoint_number(name) >= 0) removed = remove_checkpoint(files, root, name);
    if (!removed) return removed;
  }
  return others ? Result<void>() : files.remove(root);
}

}  // namespace twinpod::store
