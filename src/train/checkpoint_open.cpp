#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/quote.hpp"
#include "store/checkpoints.hpp"
#include "train/agree.hpp"
#include "train/checkpoint.hpp"

namespace twinpod::train {
namespace {

// A store that holds a run is there for that one alone: pruning would remove it.
Result<void> open_tier(const store::Tier& tier, const std::vector<store::Tier>& resume_from, Opened& opened) {
  const Result<std::vector<std::string>> names = store::open_store(*tier.files, tier.root);
  if (!names) return tl::unexpected(names.error());
  Result<std::unique_ptr<store::StoreLock>> lock = store::lock_store(*tier.files, tier.root);
  if (!lock) return tl::unexpected(lock.error());
  opened.locks.push_back(std::move(*lock));
  const Result<std::vector<store::CheckpointInfo>> infos = store::list_checkpoints(*tier.files, tier.root);
  if (!infos) return tl::unexpected(infos.error());
  if (Result<void> known = store::check_versions(tier.root, *infos); !known) return known;
  const auto is_tier = [&](const store::Tier& other) { return other.files == tier.files && other.root == tier.root; };
  const bool resumes = std::any_of(resume_from.begin(), resume_from.end(), is_tier);
  if (resumes || std::all_of(infos->begin(), infos->end(), [](const auto& one) { return one.abandoned; })) {
    return store::clear_unfinished(*tier.files, tier.root);
  }
  return input_error(fmt::format("{} holds checkpoints of a run already", tier.root),
                     fmt::format("--resume {} goes on with it; or another folder", shell_quoted(tier.root)));
}

Result<void> check_peer(comm::Communicator& world, const PeerSettings& peer) {
  if (comm::size_of(world) == 1)
    return infeasible("one rank has no peer that could keep its checkpoints", "--ranks 2, or leave out the tier peer");
  if (peer.resumes || HostFiles(peer.host_folder()).numbers().empty()) return {};
  return input_error(fmt::format("{} holds checkpoints of a run already", peer.host_folder()),
                     "--resume goes on with it; or remove that folder on every host");
}

}  // namespace

Result<Opened> open_tiers(comm::Communicator& world, const CheckpointSettings& settings) {
  Result<void> own = settings.peer.wanted() ? check_peer(world, settings.peer) : Result<void>();
  Opened opened;
  std::array<std::int32_t, 1> number = {0};
  if (comm::rank_of(world) == 0) {
    for (const store::Tier& tier : settings.tiers) {
      if (own) own = open_tier(tier, settings.resume_from, opened);
    }
    const Result<std::int64_t> next = own ? store::next_number(settings.tiers) : 0;
    if (!next) own = tl::unexpected(next.error());
    if (next) number[0] = static_cast<std::int32_t>(*next);
  }
  if (settings.peer.wanted()) {
    const std::vector<std::int64_t> kept = HostFiles(settings.peer.host_folder()).numbers();
    if (!kept.empty()) number[0] = std::max(number[0], static_cast<std::int32_t>(kept.front() + 1));
  }
  const Result<std::optional<Error>> refused = agree(world, own, number);
  if (!refused) return tl::unexpected(refused.error());
  opened.number = number[0];
  opened.refused = *refused;
  if (*refused) return opened;
  Result<std::unique_ptr<Replicas>> replicas = make_replicas(world, settings.peer);
  if (!replicas) return tl::unexpected(replicas.error());
  opened.replicas = std::move(*replicas);
  return opened;
}

}  // namespace twinpod::train
