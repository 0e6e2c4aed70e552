#include "store/pick.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/nearest.hpp"
#include "store/load.hpp"
#include "store/save.hpp"

namespace twinpod::store {
namespace {

struct SplitPath {
  std::string folder;
  std::string name;
};

SplitPath split(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return {".", path};
  return {path.substr(0, std::max<std::size_t>(slash, 1)), path.substr(slash + 1)};
}

tl::unexpected<Error> not_there(const OpenedStore& store) {
  const SplitPath parts = split(store.root);
  const std::string nearest =
      nearest_name(parts.name, store.files->list(parts.folder).value_or(std::vector<std::string>()));
  const std::string above = split(store.address).folder;
  const std::string hint = above == "." ? nearest : above + "/" + nearest;
  return input_error(fmt::format("{}: there is no such store", store.address),
                     nearest.empty() ? "" : fmt::format("did you mean {}?", hint));
}

std::string steps_text(const std::vector<CheckpointInfo>& infos) {
  std::vector<std::int64_t> steps;
  for (const CheckpointInfo& info : infos) {
    if (info.complete) steps.push_back(info.step);
  }
  return fmt::format("{}", fmt::join(steps, ", "));
}

// The last word is the nearest step's.
tl::unexpected<Error> no_such_step(const std::string& root, const std::vector<CheckpointInfo>& infos,
                                   std::int64_t step) {
  const CheckpointInfo* nearest = nullptr;
  for (const CheckpointInfo& info : infos) {
    const bool nearer = nearest == nullptr || std::abs(info.step - step) < std::abs(nearest->step - step);
    if (info.complete && nearer) nearest = &info;
  }
  return input_error(fmt::format("{} has no complete checkpoint of step {}, but of {}", root, step, steps_text(infos)),
                     fmt::format("did you mean --step {}?", nearest->step));
}

Result<std::string> choose(const std::string& root, const std::vector<CheckpointInfo>& infos,
                           std::optional<std::int64_t> step) {
  const bool any = std::any_of(infos.begin(), infos.end(), [](const CheckpointInfo& info) { return info.complete; });
  if (!any) {
    return infeasible(infos.empty() ? fmt::format("{} has no checkpoints", root)
                                    : fmt::format("{} has no complete checkpoint: {}: {}", root, infos.front().name,
                                                  infos.front().problem));
  }
  const auto found = std::find_if(infos.begin(), infos.end(), [&](const CheckpointInfo& info) {
    return info.complete && (!step || info.step == *step);
  });
  if (found == infos.end()) return no_such_step(root, infos, *step);
  return found->name;
}

}  // namespace

Result<ExistingStore> open_existing(const std::string& address) {
  Result<OpenedStore> store = open_files(address);
  if (!store) return tl::unexpected(store.error());
  const Result<bool> there = store->files->exists(store->root);
  if (!there) return tl::unexpected(there.error());
  if (!*there) return not_there(*store);
  ExistingStore existing{*store, ""};
  const SplitPath parts = split(store->root);
  if (checkpoint_number(parts.name) < 0) return existing;
  // Of the checkpoint's store, below which no link is followed.
  existing.checkpoint = parts.name;
  existing.store.root = parts.folder;
  existing.store.address = split(store->address).folder;
  if (existing.store.tier == "object") return existing;
  Result<OpenedStore> above = open_files(parts.folder);
  if (!above) return tl::unexpected(above.error());
  existing.store.files = above->files;
  return existing;
}

Result<PickedCheckpoint> pick_checkpoint(const std::string& address, std::optional<std::int64_t> step) {
  const Result<ExistingStore> existing = open_existing(address);
  if (!existing) return tl::unexpected(existing.error());
  PickedCheckpoint picked{existing->store, existing->checkpoint, {}};
  if (picked.name.empty()) {
    const Result<std::vector<CheckpointInfo>> infos = list_checkpoints(*picked.store.files, picked.store.root);
    if (!infos) return tl::unexpected(infos.error());
    Result<std::string> name = choose(picked.store.address, *infos, step);
    if (!name) return tl::unexpected(name.error());
    picked.name = *name;
  }
  Result<Manifest> manifest = read_manifest(*picked.store.files, picked.folder());
  if (!manifest) return tl::unexpected(manifest.error());
  picked.manifest = std::move(*manifest);
  if (!step || picked.manifest.state.step == *step) return picked;
  return input_error(fmt::format("{} is of step {}, not {}", picked.address(), picked.manifest.state.step, *step),
                     "without --step, or with the address of the store");
}

}  // namespace twinpod::store
