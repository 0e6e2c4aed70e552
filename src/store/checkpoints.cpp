#include "store/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/load.hpp"
#include "store/save.hpp"

namespace twinpod::store {
namespace {

Result<void> check_length(Files& files, const std::string& path, std::int64_t bytes) {
  const Result<File> file = files.open(path);
  if (!file) return tl::unexpected(file.error());
  const Result<std::int64_t> size = files.size(*file);
  const Result<void> closed = files.close(*file);
  if (!size) return tl::unexpected(size.error());
  if (!closed) return closed;
  if (*size == bytes) return {};
  return infeasible(fmt::format("{} has {} bytes, {} were written", path, *size, bytes));
}

CheckpointInfo examine(Files& files, const std::string& root, const std::string& name) {
  CheckpointInfo info;
  info.name = name;
  info.number = checkpoint_number(name);
  const std::string folder = root + "/" + name;
  const Result<bool> there = files.exists(fmt::format("{}/{}", folder, kManifestFile));
  info.abandoned = there && !*there;
  if (!there || !*there) {
    info.problem = there ? "it has no manifest: the save did not end" : to_string(there.error());
    return info;
  }
  const Result<Manifest> manifest = read_manifest(files, folder);
  if (!manifest) {
    info.problem = to_string(manifest.error());
    return info;
  }
  info.step = manifest->state.step;
  info.bytes = total_bytes(*manifest);
  info.num_shards = static_cast<std::int64_t>(manifest->shards.size());
  for (const Shard& shard : manifest->shards) {
    const Result<void> good = check_length(files, folder + "/" + shard.file, shard.bytes);
    if (!good && info.problem.empty()) info.problem = to_string(good.error());
  }
  info.complete = info.problem.empty();
  return info;
}

// A process that was killed may have named a manifest and not synced the name. Its shards were synced before.
Result<void> make_durable(Files& files, const std::string& root, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (Result<void> synced = files.sync_folder(root + "/" + name); !synced) return synced;
  }
  return files.sync_folder(root);
}

// A process that was killed may have left `latest` behind the newest.
Result<void> keep_latest_right(Files& files, const std::string& root, const std::string& newest,
                               const std::vector<std::string>& leaving) {
  const Result<std::string> named = latest_name(files, root);
  if (!named) return tl::unexpected(named.error());
  const bool leaves = std::find(leaving.begin(), leaving.end(), *named) != leaving.end();
  return leaves ? move_latest(files, root, newest) : Result<void>();
}

}  // namespace

Result<std::vector<CheckpointInfo>> list_checkpoints(Files& files, const std::string& root) {
  const Result<bool> there = files.exists(root);
  if (!there) return tl::unexpected(there.error());
  std::vector<CheckpointInfo> infos;
  if (!*there) return infos;
  const Result<std::vector<std::string>> names = files.list(root);
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name : *names) {
    if (checkpoint_number(name) >= 0) infos.push_back(examine(files, root, name));
  }
  std::sort(infos.begin(), infos.end(),
            [](const CheckpointInfo& a, const CheckpointInfo& b) { return a.number > b.number; });
  return infos;
}

Result<WholeCheckpoint> newest_whole(Files& files, const std::string& root) {
  const Result<std::vector<CheckpointInfo>> infos = list_checkpoints(files, root);
  if (!infos) return tl::unexpected(infos.error());
  WholeCheckpoint found;
  for (const CheckpointInfo& info : *infos) {
    std::string problem = info.problem;
    if (info.complete) {
      Result<Manifest> manifest = verify_checkpoint(files, root + "/" + info.name);
      if (manifest) {
        found.name = info.name;
        found.manifest = std::move(*manifest);
        return found;
      }
      problem = to_string(manifest.error());
    }
    found.passed_over.push_back(fmt::format("{}: {}", info.name, problem));
  }
  return infeasible(fmt::format("{} has no whole checkpoint", root),
                    fmt::format("{}", fmt::join(found.passed_over, "\n  ")));
}

Result<void> remove_checkpoint(Files& files, const std::string& root, const std::string& name) {
  const std::string folder = root + "/" + name;
  Result<std::vector<std::string>> names = files.list(folder);
  if (!names) return tl::unexpected(names.error());
  const std::string manifest(kManifestFile);
  if (const auto found = std::find(names->begin(), names->end(), manifest); found != names->end()) {
    names->erase(found);
    if (Result<void> removed = files.remove(folder + "/" + manifest); !removed) return removed;
    if (Result<void> synced = files.sync_folder(folder); !synced) return synced;
  }
  for (const std::string& file : *names) {
    if (Result<void> removed = files.remove(folder + "/" + file); !removed) return removed;
  }
  if (Result<void> removed = files.remove(folder); !removed) return removed;
  return files.sync_folder(root);
}

std::vector<std::string> checkpoints_to_remove(const std::vector<CheckpointInfo>& infos, const PruneRule& rule) {
  int num_kept = 0;
  std::vector<std::string> leaving;
  for (const CheckpointInfo& info : infos) {
    const bool enough = num_kept >= std::max(rule.keep, 1);
    const bool named = info.name == rule.whole || (info.complete && rule.every > 0 && info.step % rule.every == 0);
    if (info.number < rule.below && !named && (enough || (info.abandoned && num_kept > 0))) {
      leaving.push_back(info.name);
    } else if (info.complete) {
      ++num_kept;
    }
  }
  return leaving;
}

Result<int> prune_checkpoints(Files& files, const std::string& root, int keep, std::int64_t below) {
  return prune_checkpoints(files, root, PruneRule{.keep = keep, .below = below});
}

Result<int> prune_checkpoints(Files& files, const std::string& root, const PruneRule& rule) {
  const Result<std::vector<CheckpointInfo>> infos = list_checkpoints(files, root);
  if (!infos) return tl::unexpected(infos.error());
  const std::vector<std::string> leaving = checkpoints_to_remove(*infos, rule);
  if (leaving.empty()) return 0;
  std::vector<std::string> kept;
  for (const CheckpointInfo& info : *infos) {
    const bool leaves = std::find(leaving.begin(), leaving.end(), info.name) != leaving.end();
    if (info.complete && !leaves) kept.push_back(info.name);
  }
  if (Result<void> safe = make_durable(files, root, kept); !safe) return tl::unexpected(safe.error());
  if (Result<void> right = keep_latest_right(files, root, kept.front(), leaving); !right) {
    return tl::unexpected(right.error());
  }
  for (const std::string& name : leaving) {
    if (Result<void> removed = remove_checkpoint(files, root, name); !removed) return tl::unexpected(removed.error());
  }
  return static_cast<int>(leaving.size());
}

}  // namespace twinpod::store
