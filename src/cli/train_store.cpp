#include "cli/train_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <filesystem>

#include "cli/job_request.hpp"
#include "core/hash.hpp"
#include "core/quote.hpp"
#include "spec/edit.hpp"
#include "spec/names.hpp"
#include "store/checkpoints.hpp"
#include "store/load.hpp"
#include "store/open_files.hpp"
#include "store/private_folder.hpp"
#include "train/checkpoint_state.hpp"

namespace twinpod::cli {
namespace {

namespace fs = std::filesystem;

bool is_address(const std::string& path) { return path.find("://") != std::string::npos; }

std::string whole_path(const std::string& path) {
  if (is_address(path)) return path;
  std::error_code failed;
  const fs::path whole = fs::absolute(path, failed).lexically_normal();
  return failed ? path : whole.string();
}

// runs/a/ and runs/a are one folder.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Memory of a peer stands beside the others: it is lost with the job, and not one of them sees all of it.
Result<train::PeerSettings> peer_of(const spec::Checkpoint& checkpoint, const spec::CheckpointTier& wanted) {
  if (wanted.every > 1) {
    return input_error(
        fmt::format("checkpoint.store: tier peer has `every: {}`, but keeps each checkpoint", wanted.every),
        "write `every` at the slower tiers");
  }
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') return infeasible("this host has no name");
  return train::PeerSettings{
      .root = wanted.path, .host = host.data(), .keep = wanted.keep > 0 ? wanted.keep : checkpoint.keep};
}

Result<store::Tier> tier_of(const spec::Checkpoint& checkpoint, const spec::CheckpointTier& wanted, TrainStore& store) {
  Result<store::OpenedStore> opened = store::open_files(wanted.path);
  if (!opened) return tl::unexpected(opened.error());
  store.files.push_back(opened->files);
  return store::Tier{
      .name = is_address(wanted.path) ? opened->tier : std::string(name_of(wanted.kind)),
      .files = store.files.back().get(),
      .root = opened->root,
      .every = wanted.every,
      .keep = wanted.keep > 0 ? wanted.keep : checkpoint.keep,
      .on_error = checkpoint.on_error == spec::OnError::stop ? store::OnError::stop : store::OnError::go_on};
}

std::string list_of_paths(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + double_quoted(whole_path(path));
  return "[" + text + "]";
}

std::string tiers_text(const spec::Checkpoint& checkpoint) {
  std::string text;
  for (const spec::CheckpointTier& tier : checkpoint.store) {
    const bool has_path = tier.kind != spec::TierKind::peer;  // its own follows from the others
    text += fmt::format("{}{{tier: {}{}{}, every: {}, keep: {}}}", text.empty() ? "" : ", ", name_of(tier.kind),
                        has_path ? ", path: " : "", has_path ? double_quoted(whole_path(tier.path)) : "", tier.every,
                        tier.keep > 0 ? tier.keep : checkpoint.keep);
  }
  return "[" + text + "]";
}

void forget(spec::Node* mapping, std::string_view key) {
  if (mapping == nullptr) return;
  for (std::size_t i = 0; i < mapping->keys.size(); ++i) {
    if (mapping->keys[i] != key) continue;
    mapping->keys.erase(mapping->keys.begin() + static_cast<std::ptrdiff_t>(i));
    mapping->items.erase(mapping->items.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

// A path on the command line starts at the current folder, not at the job's.
void complete_typed_path(spec::Node* node) {
  if (node == nullptr || node->kind != spec::Node::Kind::scalar || node->file == nullptr) return;
  if (fs::exists(node->scalar)) node->scalar = whole_path(node->scalar);
}

// Where memory without a path lies; anybody can guess it.
std::string memory_folder() { return fmt::format("/dev/shm/twinpod-{}", getuid()); }

// Also where a run is resumed from: another user's checkpoint is another user's run.
Result<void> check_memory(const spec::Job& job, const std::optional<SavedJob>& saved) {
  const std::string inside = memory_folder() + "/";
  bool used = saved && whole_path(saved->root).starts_with(inside);
  for (const spec::CheckpointTier& tier : job.checkpoint.store) used |= whole_path(tier.path).starts_with(inside);
  return used ? store::make_private_folder(memory_folder()) : Result<void>();
}

}  // namespace

std::string SavedJob::value(const std::string& key) const {
  const auto found = values.find(key);
  return found == values.end() ? "" : found->second;
}

int SavedJob::count(const std::string& key) const {
  const std::string text = value(key);
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Result<std::optional<SavedJob>> saved_job(const Arguments& arguments) {
  const std::optional<std::string> given = arguments.value("resume");
  if (!given) return std::nullopt;
  SavedJob saved;
  saved.root = without_slash(*given);
  const Result<store::OpenedStore> opened = store::open_files(*given);
  if (!opened) return tl::unexpected(opened.error());
  store::Files& files = *opened->files;
  const Result<std::vector<store::CheckpointInfo>> infos = store::list_checkpoints(files, opened->root);
  if (!infos) return tl::unexpected(infos.error());
  std::string problems;
  for (const store::CheckpointInfo& info : *infos) {
    saved.checkpoint = fmt::format("{}/{}", opened->root, info.name);
    const Result<store::Manifest> manifest = store::read_manifest(files, saved.checkpoint);
    if (info.complete && manifest) {
      saved.values = manifest->state.values;
      return saved;
    }
    problems += fmt::format("{}{}: {}", problems.empty() ? "" : "\n  ", saved.checkpoint, info.problem);
  }
  return infeasible(fmt::format("--resume {}: there is no whole checkpoint", saved.root),
                    problems.empty() ? "`twinpod train JOB --store DIR` saves there" : problems);
}

Result<spec::Request> request_of_saved(const SavedJob& saved, const Arguments& arguments,
                                       const std::vector<spec::Setting>& no_cluster) {
  if (saved.value("job").empty()) {
    return input_error(fmt::format("{} says nothing of its job", saved.checkpoint),
                       fmt::format("twinpod train JOB --resume {}", shell_quoted(saved.root)));
  }
  Arguments with_job = arguments;
  with_job.words = {saved.value("job_folder") + "/job.yaml"};
  Result<spec::Request> request = request_of("train", with_job, arguments.value_or("on", ""), no_cluster);
  if (request) request->text = saved.value("job");
  return request;
}

// Of memory without a path one that follows from the other tiers, so that whoever has those finds it.
void place_memory(spec::Job& job) {
  std::string others = job.name;
  for (const spec::CheckpointTier& tier : job.checkpoint.store) {
    if (!tier.path.empty() && tier.kind != spec::TierKind::memory) others += " " + whole_path(tier.path);
  }
  for (spec::CheckpointTier& tier : job.checkpoint.store) {
    const bool in_memory = tier.kind == spec::TierKind::memory || tier.kind == spec::TierKind::peer;
    if (in_memory && tier.path.empty())
      tier.path =
          fmt::format("{}/{:016x}{}", memory_folder(), fnv1a(others), tier.kind == spec::TierKind::peer ? "-peer" : "");
  }
}

bool saves_to(const spec::Job& job, const SavedJob& saved) {
  const auto is_there = [&](const spec::CheckpointTier& tier) {
    return whole_path(without_slash(tier.path)) == whole_path(saved.root);
  };
  return std::any_of(job.checkpoint.store.begin(), job.checkpoint.store.end(), is_there);
}

Result<TrainStore> train_store(const spec::Job& job, const std::optional<SavedJob>& saved) {
  TrainStore store;
  if (Result<void> ours = check_memory(job, saved); !ours) return tl::unexpected(ours.error());
  for (const spec::CheckpointTier& wanted : job.checkpoint.store) {
    if (wanted.kind == spec::TierKind::peer) {
      Result<train::PeerSettings> peer = peer_of(job.checkpoint, wanted);
      if (!peer) return tl::unexpected(peer.error());
      store.settings.peer = std::move(*peer);
      continue;
    }
    Result<store::Tier> tier = tier_of(job.checkpoint, wanted, store);
    if (!tier) return tl::unexpected(tier.error());
    store.settings.tiers.push_back(std::move(*tier));
  }
  store.settings.every = job.checkpoint.every;
  store.settings.empties_first =
      store.settings.tiers.size() > 1 && store.settings.tiers.front().name == name_of(spec::TierKind::memory);
  if (store.settings.peer.wanted() && store.settings.tiers.empty()) {
    return infeasible("checkpoint.store: memory of a peer alone is lost with the job",
                      "add a slower tier: [{tier: peer}, {tier: shared, path: runs/a, every: 10}]");
  }
  for (const spec::CheckpointTier& tier : job.checkpoint.store) {
    if (store.root.empty() && tier.kind != spec::TierKind::peer) store.root = tier.path;
  }
  if (!saved) return store;
  // Where it was saved, and every other tier of the same run.
  if (saves_to(job, *saved)) {
    store.settings.resume_from = store.settings.tiers;
    store.settings.peer.resumes = true;
    return store;
  }
  const Result<store::Tier> from = tier_of(job.checkpoint, {spec::TierKind::shared, saved->root}, store);
  if (!from) return tl::unexpected(from.error());
  store.settings.resume_from = {*from};
  return store;
}

Result<std::string> document_to_keep(spec::Node document, const spec::Job& job) {
  forget(document.find("layout"), "dp");
  forget(document.find("training"), "global_batch_tokens");
  if (job.training.target_loss == 0) forget(document.find("training"), "target_loss");
  complete_typed_path(document.find("model"));
  complete_typed_path(document.find("cluster"));
  std::vector<std::string> settings = {fmt::format("training.global_batch={:.0f}", job.training.global_batch)};
  if (!job.data.tokens.empty()) settings.push_back("data.tokens=" + double_quoted(whole_path(job.data.tokens)));
  if (!job.data.text.empty()) settings.push_back("data.text=" + list_of_paths(job.data.text));
  if (!job.checkpoint.store.empty()) settings.push_back("checkpoint.store=" + tiers_text(job.checkpoint));
  for (const std::string& setting : settings) {
    if (Result<void> set = spec::apply_setting(document, setting); !set) return tl::unexpected(set.error());
  }
  return spec::to_yaml(document);
}

Result<train::Values> values_to_keep(const spec::Node& document, const std::string& folder, const spec::Job& job,
                                     const data::Samples& samples) {
  train::Values values = train::facts_of(job, samples);
  Result<std::string> text = document_to_keep(document, job);
  if (!text) return tl::unexpected(text.error());
  values["job"] = std::move(*text);
  values["job_folder"] = folder;
  values["ranks"] = fmt::format("{}", job.cluster.devices);
  values["layout.dp"] = fmt::format("{}", spec::data_parallel(job));
  values["layout.tp"] = fmt::format("{}", job.layout.tp);
  values["layout.pp"] = fmt::format("{}", job.layout.pp);
  return values;
}

}  // namespace twinpod::cli
