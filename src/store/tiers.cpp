#include "store/tiers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "store/checkpoints.hpp"
#include "store/extents.hpp"
#include "store/load.hpp"
#include "store/save.hpp"

namespace twinpod::store {
namespace {

// A shard on its way, both ends open.
Result<void> copy_extents(Files& from, const File& source, Files& to, const File& target, const Manifest& manifest,
                          const Shard& shard, const OnProgress& progress) {
  const OnExtents put = [&](const ExtentRange& range, std::span<const std::byte> bytes) -> Result<void> {
    // It is the reader's buffer, so this one is done before the next.
    Result<void> written = to.begin_write(target, range.first * manifest.extent_bytes, bytes);
    if (written) written = to.wait(target, 0);
    if (!written) return written;
    if (!progress || progress(static_cast<std::int64_t>(bytes.size()))) return {};
    return infeasible(fmt::format("copying to {} was stopped", target.path));
  };
  Result<void> copied = read_ranges(from, source, manifest, shard, all_extents(manifest, shard), put);
  return copied ? to.sync(target) : copied;
}

Result<void> copy_shard(const Tier& from, const Tier& to, const std::string& name, const Manifest& manifest,
                        const Shard& shard, const OnProgress& progress) {
  const std::string path = fmt::format("{}/{}/{}", to.root, name, shard.file);
  const Result<File> source = from.files->open(fmt::format("{}/{}/{}", from.root, name, shard.file));
  if (!source) return tl::unexpected(source.error());
  const Result<File> target = to.files->create(path_while_written(*to.files, path));
  if (!target) {
    (void)from.files->close(*source);
    return tl::unexpected(target.error());
  }
  const Result<void> copied = copy_extents(*from.files, *source, *to.files, *target, manifest, shard, progress);
  (void)from.files->close(*source);  // it was only read
  const Result<void> closed = to.files->close(*target);
  if (!copied) return copied;
  if (!closed) return closed;
  return give_name(*to.files, path);
}

// false: it is there already. What has a manifest is never removed here, not even when it cannot be read: perhaps only
// this once, and the other copy may be in a memory that is gone tomorrow.
Result<bool> make_room(const Tier& to, const std::string& name, const Manifest& manifest) {
  if (const auto opened = open_store(*to.files, to.root); !opened) return tl::unexpected(opened.error());
  const std::string folder = to.root + "/" + name;
  const Result<bool> there = to.files->exists(folder);
  if (!there) return there;
  if (*there) {
    const Result<bool> committed = to.files->exists(fmt::format("{}/{}", folder, kManifestFile));
    if (!committed) return committed;
    if (*committed) {
      const Result<Manifest> known = read_manifest(*to.files, folder);
      if (!known) return tl::unexpected(known.error());
      if (*known == manifest) return false;
      return infeasible(fmt::format("{} is another checkpoint than {} of the faster tier", folder, name),
                        "move one of them away: two runs have saved to this store");
    }
    Result<void> removed = remove_checkpoint(*to.files, to.root, name);
    if (!removed) return tl::unexpected(removed.error());
  }
  if (Result<void> made = to.files->make_folder(folder); !made) return tl::unexpected(made.error());
  if (Result<void> synced = to.files->sync_folder(to.root); !synced) {
    (void)to.files->remove(folder);
    return tl::unexpected(synced.error());
  }
  return true;
}

// Whoever put it there may have been killed before its name was durable, or `latest` moved.
Result<void> acknowledge_again(const Tier& to, const std::string& name) {
  if (Result<void> synced = to.files->sync_folder(to.root + "/" + name); !synced) return synced;
  const Result<std::string> named = latest_name(*to.files, to.root);
  if (!named) return tl::unexpected(named.error());
  if (checkpoint_number(*named) < checkpoint_number(name)) return move_latest(*to.files, to.root, name);
  return to.files->sync_folder(to.root);
}

Result<void> copy_shards(const Tier& from, const Tier& to, const std::string& name, const Manifest& manifest,
                         const OnProgress& progress) {
  for (const Shard& shard : manifest.shards) {
    if (Result<void> copied = copy_shard(from, to, name, manifest, shard, progress); !copied) return copied;
  }
  if (Result<void> synced = to.files->sync_folder(to.root + "/" + name); !synced) return synced;
  return commit_checkpoint(*to.files, to.root, name, manifest);
}

// Of another tier with a checkpoint of the same name, only the manifest is read: it has the checksums of all the rest.
Result<void> check_same_on(const std::vector<Tier>& tiers, const FoundOnTier& found) {
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    if (i == found.tier) continue;
    const Result<Manifest> other = read_manifest(*tiers[i].files, tiers[i].root + "/" + found.name);
    if (!other || *other == found.manifest) continue;  // what cannot be read is not there, or damaged
    return infeasible(
        fmt::format("{} of tier {} ({}, step {}) is another checkpoint than that of tier {} ({}, step {})", found.name,
                    tiers[i].name, tiers[i].root, other->state.step, tiers[found.tier].name, tiers[found.tier].root,
                    found.manifest.state.step),
        "two runs have saved to these tiers: name one of them alone, or move one checkpoint away");
  }
  return {};
}

}  // namespace

Result<std::int64_t> copy_checkpoint(const Tier& from, const Tier& to, const std::string& name,
                                     const OnProgress& progress) {
  const Result<Manifest> manifest = read_manifest(*from.files, from.root + "/" + name);
  if (!manifest) return tl::unexpected(manifest.error());
  const Result<bool> wanted = make_room(to, name, *manifest);
  if (!wanted) return tl::unexpected(wanted.error());
  if (!*wanted) {
    if (Result<void> again = acknowledge_again(to, name); !again) return tl::unexpected(again.error());
    return 0;
  }
  const Result<void> copied = copy_shards(from, to, name, *manifest, progress);
  if (!copied) {
    (void)drop_unfinished(*to.files, to.root, name);  // the next one needs its room
    return tl::unexpected(copied.error());
  }
  return total_bytes(*manifest);
}

Result<FoundOnTier> newest_on_tiers(const std::vector<Tier>& tiers) {
  FoundOnTier found;
  std::vector<std::tuple<std::int64_t, std::size_t, std::string>> candidates;  // newest first, then fastest
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const Result<std::vector<CheckpointInfo>> infos = list_checkpoints(*tiers[i].files, tiers[i].root);
    if (!infos) found.passed_over.push_back(fmt::format("tier {}: {}", tiers[i].name, to_string(infos.error())));
    if (!infos) continue;
    for (const CheckpointInfo& info : *infos) candidates.emplace_back(-info.number, i, info.name);
  }
  std::sort(candidates.begin(), candidates.end());
  for (const auto& [negative, tier, name] : candidates) {
    Result<Manifest> manifest = verify_checkpoint(*tiers[tier].files, tiers[tier].root + "/" + name);
    if (manifest) {
      found.tier = tier;
      found.name = name;
      found.manifest = std::move(*manifest);
      if (Result<void> same = check_same_on(tiers, found); !same) return tl::unexpected(same.error());
      return found;
    }
    found.passed_over.push_back(fmt::format("{} on tier {}: {}", name, tiers[tier].name, to_string(manifest.error())));
  }
  return infeasible("no tier has a whole checkpoint", fmt::format("{}", fmt::join(found.passed_over, "\n  ")));
}

Result<std::int64_t> next_number(const std::vector<Tier>& tiers) {
  std::int64_t number = 1;
  for (const Tier& tier : tiers) {
    const Result<bool> there = tier.files->exists(tier.root);
    if (!there) return tl::unexpected(there.error());
    if (!*there) continue;
    const Result<std::vector<std::string>> names = tier.files->list(tier.root);
    if (!names) return tl::unexpected(names.error());
    number = std::max(number, highest_number(*names) + 1);
  }
  return number;
}

}  // namespace twinpod::store
