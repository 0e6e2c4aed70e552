#include "store/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/load.hpp"
#include "store/save.hpp"

namespace twinpod::store {
namespace {

// Whether a file is there in its length: `problem` says why not, and `damaged` that it was looked at.
void check_shard(Files& files, const std::string& path, std::int64_t bytes, CheckpointInfo& info) {
  const auto add = [&](const std::string& problem, bool damaged) {
    if (info.problem.empty()) info.problem = problem;
    info.damaged |= damaged;
  };
  const Result<bool> there = files.exists(path);
  if (!there) return add(to_string(there.error()), false);
  if (!*there) return add(path + " is missing", true);
  const Result<File> file = files.open(path);
  if (!file) return add(to_string(file.error()), false);
  const Result<std::int64_t> size = files.size(*file);
  const Result<void> closed = files.close(*file);
  if (!size) return add(to_string(size.error()), false);
  if (!closed) return add(to_string(closed.error()), false);
  if (*size != bytes) add(fmt::format("{} has {} bytes, {} were written", path, *size, bytes), true);
}

// Only what a save leaves may be taken for what one left: others name folders as we do.
void examine_unfinished(Files& files, const std::string& folder, CheckpointInfo& info) {
  const Result<std::vector<std::string>> names = files.list(folder);
  if (!names) {
    info.problem = to_string(names.error());
    return;
  }
  const auto foreign = std::find_if_not(names->begin(), names->end(), is_name_of_save);
  info.abandoned = foreign == names->end();
  info.problem = info.abandoned ? "it has no manifest: the save did not end"
                                : fmt::format("it has no manifest, but {}, which no save wrote", *foreign);
}

void examine_manifest(Files& files, const std::string& folder, CheckpointInfo& info) {
  const Result<Bytes> bytes = read_manifest_bytes(files, folder);
  if (!bytes) {
    info.problem = to_string(bytes.error());
    return;
  }
  const Result<Manifest> manifest = parse_manifest(text_of(*bytes), fmt::format("{}/{}", folder, kManifestFile));
  if (!manifest) {
    info.problem = to_string(manifest.error());
    info.other_version = other_version(text_of(*bytes));
    info.damaged = info.other_version == 0;
    return;
  }
  info.step = manifest->state.step;
  info.bytes = total_bytes(*manifest);
  info.num_shards = static_cast<std::int64_t>(manifest->shards.size());
  for (const Shard& shard : manifest->shards) check_shard(files, folder + "/" + shard.file, shard.bytes, info);
  info.complete = info.problem.empty();
}

CheckpointInfo examine(Files& files, const std::string& root, const std::string& name) {
  CheckpointInfo info;
  info.name = name;
  info.number = checkpoint_number(name);
  const std::string folder = root + "/" + name;
  const Result<bool> there = files.exists(fmt::format("{}/{}", folder, kManifestFile));
  if (!there) {
    info.problem = to_string(there.error());
  } else if (*there) {
    examine_manifest(files, folder, info);
  } else {
    examine_unfinished(files, folder, info);
  }
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
  // One that cannot be read, because somebody put something else in its place, is written anew.
  const bool leaves = !named || std::find(leaving.begin(), leaving.end(), *named) != leaving.end();
  return leaves ? move_latest(files, root, newest) : Result<void>();
}

Result<void> set_aside(Files& files, const std::string& root, const std::string& name) {
  const std::string path = root + "/" + name;
  const std::string to = root + "/" + damaged_name(checkpoint_number(name));
  if (Result<void> renamed = files.rename(path, to); !renamed) return renamed;
  return files.sync_folder(root);
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

Result<void> check_versions(const std::string& root, const std::vector<CheckpointInfo>& infos) {
  const auto other = std::find_if(infos.begin(), infos.end(), [](const auto& info) { return info.other_version != 0; });
  if (other == infos.end()) return {};
  return infeasible(fmt::format("{}/{} is of version {} of the format, but this twinpod knows version {}", root,
                                other->name, other->other_version, kManifestVersion),
                    "use the twinpod that wrote it, or another folder: nothing is written to a store, or removed from "
                    "it, that holds what is not known");
}

std::int64_t highest_number(const std::vector<std::string>& names) {
  std::int64_t number = 0;
  for (const std::string& name : names) number = std::max({number, checkpoint_number(name), damaged_number(name)});
  return number;
}

PrunePlan plan_pruning(const std::vector<CheckpointInfo>& infos, const PruneRule& rule) {
  int num_kept = 0;
  PrunePlan plan;
  for (const CheckpointInfo& info : infos) {
    const bool enough = num_kept >= std::max(rule.keep, 1);
    const bool named = info.name == rule.whole || (info.complete && rule.every > 0 && info.step % rule.every == 0);
    const bool may_go = info.number < rule.below && !named;
    if (may_go && ((enough && info.complete) || (info.abandoned && num_kept > 0))) {
      plan.removed.push_back(info.name);
    } else if (may_go && enough && info.damaged) {
      plan.set_aside.push_back(info.name);
    } else if (info.complete) {
      ++num_kept;
    }
  }
  return plan;
}

Result<int> prune_checkpoints(Files& files, const std::string& root, int keep, std::int64_t below) {
  const Result<PrunePlan> pruned = prune_checkpoints(files, root, PruneRule{.keep = keep, .below = below});
  if (!pruned) return tl::unexpected(pruned.error());
  return static_cast<int>(pruned->removed.size());
}

Result<PrunePlan> prune_checkpoints(Files& files, const std::string& root, const PruneRule& rule) {
  const Result<std::vector<CheckpointInfo>> infos = list_checkpoints(files, root);
  if (!infos) return tl::unexpected(infos.error());
  if (Result<void> known = check_versions(root, *infos); !known) return tl::unexpected(known.error());
  PrunePlan plan = plan_pruning(*infos, rule);
  if (!files.has_rename()) plan.set_aside.clear();
  std::vector<std::string> leaving = plan.removed;
  leaving.insert(leaving.end(), plan.set_aside.begin(), plan.set_aside.end());
  if (leaving.empty()) return plan;
  std::vector<std::string> kept;
  for (const CheckpointInfo& info : *infos) {
    const bool leaves = std::find(leaving.begin(), leaving.end(), info.name) != leaving.end();
    if (info.complete && !leaves) kept.push_back(info.name);
  }
  if (Result<void> safe = make_durable(files, root, kept); !safe) return tl::unexpected(safe.error());
  if (Result<void> right = keep_latest_right(files, root, kept.front(), leaving); !right) {
    return tl::unexpected(right.error());
  }
  Result<void> done;
  const auto note = [&](const Result<void>& one) {
    if (done && !one) done = one;
  };
  for (const std::string& name : plan.set_aside) note(set_aside(files, root, name));
  for (const std::string& name : plan.removed) note(remove_checkpoint(files, root, name));
  if (!done) return tl::unexpected(done.error());
  return plan;
}

}  // namespace twinpod::store
