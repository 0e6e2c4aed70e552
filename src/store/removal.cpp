// What leaves a store: checkpoints, what failed saves left, what was set aside, and at the end of a run in memory all
// of it. Nothing goes that no save wrote.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "store/checkpoints.hpp"
#include "store/lock.hpp"
#include "store/save.hpp"

namespace twinpod::store {
namespace {

constexpr std::string_view kDamaged = "damaged-";

// The manifest, then the rest, then the folder. With `all` a folder that somebody put in it is the one thing that
// stays.
Result<void> remove_folder(Files& files, const std::string& root, const std::string& name, bool all) {
  const std::string folder = root + "/" + name;
  Result<std::vector<std::string>> names = files.list(folder);
  if (!names) return tl::unexpected(names.error());
  const std::string manifest(kManifestFile);
  if (const auto found = std::find(names->begin(), names->end(), manifest); found != names->end()) {
    names->erase(found);
    if (Result<void> removed = files.remove(folder + "/" + manifest); !removed) return removed;
    if (Result<void> synced = files.sync_folder(folder); !synced) return synced;
  }
  bool others = false;
  for (const std::string& file : *names) {
    others |= !all && !is_name_of_save(file);
    if (!all && !is_name_of_save(file)) continue;
    if (Result<void> removed = files.remove(folder + "/" + file); !removed) return removed;
  }
  if (others) return {};
  if (Result<void> removed = files.remove(folder); !removed) return removed;
  return files.sync_folder(root);
}

Result<bool> has_manifest(Files& files, const std::string& root, const std::string& name) {
  return files.exists(fmt::format("{}/{}/{}", root, name, kManifestFile));
}

Result<bool> is_unfinished(Files& files, const std::string& root, const std::string& name) {
  const Result<bool> committed = has_manifest(files, root, name);
  if (!committed || *committed) return committed ? Result<bool>(false) : committed;
  const Result<std::vector<std::string>> names = files.list(root + "/" + name);
  if (!names) return tl::unexpected(names.error());
  return std::all_of(names->begin(), names->end(), is_name_of_save);
}

}  // namespace

bool is_name_of_save(const std::string& name) {
  std::string_view file = name;
  if (file.ends_with(kPartial)) file.remove_suffix(kPartial.size());
  if (file == kManifestFile) return true;
  int rank = -1;
  constexpr std::string_view kShard = "shard-";
  if (!file.starts_with(kShard)) return false;
  std::from_chars(file.data() + kShard.size(), file.data() + file.size(), rank);
  return rank >= 0 && file == shard_file(rank);
}

std::string damaged_name(std::int64_t number) { return fmt::format("{}{:06}", kDamaged, number); }

std::int64_t damaged_number(const std::string& name) {
  if (!name.starts_with(kDamaged)) return -1;
  std::int64_t number = -1;
  std::from_chars(name.data() + kDamaged.size(), name.data() + name.size(), number);
  return damaged_name(number) == name ? number : -1;
}

Result<void> remove_checkpoint(Files& files, const std::string& root, const std::string& name) {
  return remove_folder(files, root, name, false);
}

Result<void> drop_unfinished(Files& files, const std::string& root, const std::string& name) {
  const Result<bool> there = files.exists(root + "/" + name);
  if (!there) return tl::unexpected(there.error());
  if (!*there) return {};
  const Result<bool> unfinished = is_unfinished(files, root, name);
  if (!unfinished) return tl::unexpected(unfinished.error());
  return *unfinished ? remove_checkpoint(files, root, name) : Result<void>();
}

// All are tried, whatever becomes of one. What cannot be looked at, such as a link, is nothing that a save left.
Result<void> clear_unfinished(Files& files, const std::string& root) {
  const Result<std::vector<std::string>> names = files.list(root);
  if (!names) return tl::unexpected(names.error());
  Result<void> done;
  for (const std::string& name : *names) {
    Result<void> one;
    const bool unfinished = checkpoint_number(name) >= 0 && is_unfinished(files, root, name).value_or(false);
    if (unfinished) one = remove_checkpoint(files, root, name);
    if (name == std::string(kLatestFile) + std::string(kPartial)) one = files.remove(root + "/" + name);
    if (done && !one) done = one;
  }
  return done;
}

Result<std::vector<std::string>> list_set_aside(Files& files, const std::string& root) {
  Result<std::vector<std::string>> names = files.list(root);
  if (names) std::erase_if(*names, [](const std::string& name) { return damaged_number(name) < 0; });
  return names;
}

Result<void> remove_set_aside(Files& files, const std::string& root, const std::string& name) {
  return remove_folder(files, root, name, true);
}

Result<void> remove_store(Files& files, const std::string& root) {
  const Result<std::vector<std::string>> names = files.list(root);
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name : *names) {
    Result<void> removed;
    if (name.starts_with(kLatestFile) || name == kLockFile) removed = files.remove(root + "/" + name);
    if (checkpoint_number(name) >= 0) removed = remove_checkpoint(files, root, name);
    if (!removed) return removed;
  }
  const Result<std::vector<std::string>> left = files.list(root);
  if (!left) return tl::unexpected(left.error());
  return left->empty() ? files.remove(root) : Result<void>();
}

}  // namespace twinpod::store
