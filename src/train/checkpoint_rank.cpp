#include "train/checkpoint_rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <type_traits>

#include "core/half.hpp"
#include "store/checkpoints.hpp"
#include "store/load.hpp"
#include "train/agree.hpp"
#include "train/checkpoint_gather.hpp"
#include "train/checkpoint_regions.hpp"

namespace twinpod::train {
namespace {

template <typename T>
constexpr bool kHasMaster = !std::is_same_v<T, Sum<T>>;

template <typename T>
std::string dtype_of() {
  return sizeof(Sum<T>) == sizeof(double) ? "F64" : "F32";
}

template <typename E>
std::span<std::byte> writable_bytes(E* first, std::int64_t count) {
  return std::as_writable_bytes(std::span<E>(first, static_cast<std::size_t>(count)));
}

// Where an element that this rank updates lies; `first` is in the piece.
template <typename T>
Sum<T>* place_of(Rank<T>& rank, Kept kept, const Owned& own, std::int64_t first) {
  const std::int64_t place = own.place + first - own.first;
  if (kept == Kept::mean) return rank.mean + place;
  if (kept == Kept::square) return rank.square + place;
  if constexpr (kHasMaster<T>) {
    return rank.master + place;
  } else {
    return rank.parameters + (rank.shards_parameters ? place : own.piece->offset + first);
  }
}

// Elements of a piece that a rank holds, whether it updates them or not.
struct HeldPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t place = 0;  // in the rank's parameters
};

template <typename T>
HeldPart held_part(const Rank<T>& rank, const Piece& piece) {
  if (!rank.shards_parameters) return {0, piece.elements(), piece.offset};
  const std::int64_t part = piece.elements() / rank.pieces.shards;
  return {rank.dp_rank * part, part, piece.offset / rank.pieces.shards};
}

// The optimizer's state, and the parameters as it knows them. Of a tied table the head's copy, too. Imported weights
// have no state: it stays as a new run begins.
template <typename T>
void want_owned(Rank<T>& rank, const store::Manifest& manifest, std::vector<store::WantedRegion>& wanted) {
  const bool has_state = !is_imported(manifest.state);
  for (const Owned& own : rank.owned) {
    for (const PlacedRegion& placed :
         regions_of_part(*own.piece, own.first, own.count, rank.job.layout.tp, rank.tp_rank)) {
      for (const Kept kept : kept_of(rank.job)) {
        if (kept == Kept::parameter ? !kHasMaster<T> : !has_state) continue;  // the former: want_parameters
        wanted.push_back({kept_name(kept, placed.tensor), dtype_of<T>(), placed.region,
                          writable_bytes(place_of(rank, kept, own, placed.first), placed.count)});
      }
    }
  }
}

// The parameters of a piece to where they are computed with, or to `room` when that has another type.
template <typename T>
void want_parameters(Rank<T>& rank, const Piece& piece, std::vector<Sum<T>>& room,
                     std::vector<store::WantedRegion>& wanted) {
  const HeldPart part = held_part(rank, piece);
  Sum<T>* to = nullptr;
  if constexpr (kHasMaster<T>) {
    room.assign(static_cast<std::size_t>(part.count), Sum<T>{0});
    to = room.data();
  } else {
    to = rank.parameters + part.place;
  }
  for (const PlacedRegion& placed : regions_of_part(piece, part.first, part.count, rank.job.layout.tp, rank.tp_rank)) {
    wanted.push_back(
        {placed.tensor, dtype_of<T>(), placed.region, writable_bytes(to + (placed.first - part.first), placed.count)});
  }
}

// Rounded as the update rounds them. A piece at a time, so that little room is needed.
Result<void> load_rounded(Rank<Bf16>& rank, store::Files& files, const std::string& folder,
                          const store::Manifest& manifest) {
  std::vector<float> room;
  for (const std::vector<Piece>& chunk : rank.pieces.chunks) {
    for (const Piece& piece : chunk) {
      std::vector<store::WantedRegion> wanted;
      want_parameters(rank, piece, room, wanted);
      const Result<std::int64_t> loaded = store::load_regions(files, folder, manifest, wanted);
      if (!loaded) return tl::unexpected(loaded.error());
      Bf16* const to = rank.parameters + held_part(rank, piece).place;
      std::transform(room.begin(), room.end(), to, [](float value) { return to_bf16(value); });
    }
  }
  return {};
}

// A checkpoint that may be loaded: number, tier, name. Newest first, then fastest.
using Candidate = std::tuple<std::int64_t, std::size_t, std::string>;

std::vector<Candidate> candidates_of(const std::vector<store::Tier>& tiers, std::vector<std::string>& passed_over) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const Result<std::vector<store::CheckpointInfo>> infos = store::list_checkpoints(*tiers[i].files, tiers[i].root);
    if (!infos) passed_over.push_back(to_string(infos.error()));
    if (!infos) continue;
    for (const store::CheckpointInfo& info : *infos) {
      if (info.complete) candidates.emplace_back(-info.number, i, info.name);
      if (!info.complete) passed_over.push_back(fmt::format("{}/{}: {}", tiers[i].root, info.name, info.problem));
    }
  }
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

// Which one rank 0 would take next; tier -1: there is none.
struct Choice {
  int tier = -1;
  std::int64_t number = 0;
};

Result<Choice> agreed_choice(comm::Communicator& world, const std::vector<Candidate>& candidates, std::size_t next) {
  std::array<std::int32_t, 2> votes = {0, 0};
  if (next < candidates.size()) {
    votes[0] = static_cast<std::int32_t>(std::get<1>(candidates[next])) + 1;
    votes[1] = static_cast<std::int32_t>(-std::get<0>(candidates[next]));
  }
  const Result<std::optional<Error>> agreed = agree(world, {}, votes);
  if (!agreed) return tl::unexpected(agreed.error());
  return Choice{votes[0] - 1, votes[1]};
}

// Loads one. An error that all have comes back in `refused` when the checkpoint is of another run, else in `damaged`.
template <typename T>
Result<void> try_one(Rank<T>& rank, const store::Tier& tier, const Values& facts, Resumed& resumed,
                     std::optional<Error>& damaged) {
  Result<store::Manifest> manifest = store::read_manifest(*tier.files, resumed.checkpoint);
  Result<void> own = manifest ? Result<void>() : tl::unexpected(manifest.error());
  Result<std::optional<Error>> agreed = agree(rank.world, own);
  if (!agreed) return tl::unexpected(agreed.error());
  if (damaged = *agreed; damaged) return {};

  Result<Position> position = position_in(manifest->state, resumed.checkpoint);
  if (!position) own = tl::unexpected(position.error());
  if (position && !is_imported(manifest->state)) own = check_facts(manifest->state.values, facts, resumed.checkpoint);
  agreed = agree(rank.world, own);
  if (!agreed) return tl::unexpected(agreed.error());
  if (resumed.refused = *agreed; resumed.refused) return {};
  resumed.position = std::move(*position);

  agreed = agree(rank.world, load(rank, *tier.files, resumed.checkpoint, *manifest));
  if (!agreed) return tl::unexpected(agreed.error());
  damaged = *agreed;
  return {};
}

// Shards with anything that this rank loads.
template <typename T>
std::vector<bool> shards_needed(Rank<T>& rank, const store::Manifest& manifest) {
  std::vector<store::WantedRegion> wanted;
  std::vector<Sum<T>> unused;  // nothing is loaded yet
  want_owned(rank, manifest, wanted);
  for (const std::vector<Piece>& chunk : rank.pieces.chunks) {
    for (const Piece& piece : chunk) want_parameters(rank, piece, unused, wanted);
  }
  std::vector<bool> needed(manifest.shards.size());
  for (const store::WantedRegion& one : wanted) {
    const store::StoredTensor* tensor = store::find_tensor(manifest, one.tensor);
    if (tensor == nullptr || tensor->shape.size() != one.region.size.size()) continue;  // refused when it is loaded
    for (const store::StoredRegion& stored : tensor->regions) {
      if (store::overlap(stored.region, one.region)) needed[static_cast<std::size_t>(stored.shard)] = true;
    }
  }
  return needed;
}

template <typename T>
Result<void> try_peers(Rank<T>& rank, const PeerSettings& peer, std::int64_t number, const Values& facts,
                       Resumed& resumed, std::optional<Error>& damaged) {
  HostFiles files(peer.host_folder());
  const store::Tier tier{.name = "peer", .files = &files, .root = peer.host_folder()};
  const Needed needed = [&](const store::Manifest& manifest) { return shards_needed(rank, manifest); };
  const Result<std::optional<Error>> lost = gather_from_peers(rank.world, peer, number, needed);
  if (!lost) return tl::unexpected(lost.error());
  damaged = *lost;
  return damaged ? Result<void>() : try_one(rank, tier, facts, resumed, damaged);
}

}  // namespace

template <typename T>
std::vector<store::HeldRegion> regions_held(Rank<T>& rank) {
  std::vector<store::HeldRegion> held;
  for (OwnedRegion& region : regions_to_save(rank.job, rank.program, rank.pieces, rank.rank, dtype_of<T>())) {
    const Sum<T>* first = place_of(rank, region.kept, rank.owned[region.owned], region.first);
    const auto count = static_cast<std::size_t>(store::num_elements(region.held.region.size));
    region.held.bytes = std::as_bytes(std::span<const Sum<T>>(first, count));
    held.push_back(std::move(region.held));
  }
  return held;
}

template <typename T>
Result<void> load(Rank<T>& rank, store::Files& files, const std::string& folder, const store::Manifest& manifest) {
  std::vector<store::WantedRegion> wanted;
  want_owned(rank, manifest, wanted);
  if constexpr (kHasMaster<T>) {
    if (Result<void> loaded = load_rounded(rank, files, folder, manifest); !loaded) return loaded;
  } else {
    std::vector<Sum<T>> unused;
    for (const std::vector<Piece>& chunk : rank.pieces.chunks) {
      for (const Piece& piece : chunk) want_parameters(rank, piece, unused, wanted);
    }
  }
  const Result<std::int64_t> loaded = store::load_regions(files, folder, manifest, wanted);
  return loaded ? Result<void>() : tl::unexpected(loaded.error());
}

template <typename T>
Result<Resumed> resume(Rank<T>& rank, const std::vector<store::Tier>& tiers, const Values& facts,
                       const PeerSettings& peer) {
  Resumed resumed;
  std::vector<Candidate> candidates;
  std::size_t next = 0;
  std::int64_t below = INT32_MAX;  // of peers
  if (rank.rank == 0) candidates = candidates_of(tiers, resumed.passed_over);
  while (true) {
    const Result<Choice> choice = agreed_choice(rank.world, candidates, next);
    if (!choice) return tl::unexpected(choice.error());
    const Result<std::int64_t> of_peers = newest_of_peers(rank.world, peer, below);
    if (!of_peers) return tl::unexpected(of_peers.error());
    const bool by_peers = *of_peers > 0 && *of_peers >= choice->number;
    if (!by_peers && choice->tier < 0) break;
    const std::int64_t number = by_peers ? *of_peers : choice->number;
    const store::Tier* tier = by_peers ? nullptr : &tiers[static_cast<std::size_t>(choice->tier)];
    resumed.checkpoint =
        fmt::format("{}/{}", by_peers ? peer.host_folder() : tier->root, store::checkpoint_name(number));
    std::optional<Error> damaged;
    Result<void> tried = by_peers ? try_peers(rank, peer, number, facts, resumed, damaged)
                                  : try_one(rank, *tier, facts, resumed, damaged);
    if (!tried) return tl::unexpected(tried.error());
    if (resumed.refused || !damaged) return resumed;
    resumed.passed_over.push_back(fmt::format("{}: {}", resumed.checkpoint, to_string(*damaged)));
    if (by_peers) below = number;
    if (!by_peers) ++next;
  }
  resumed.refused = infeasible(fmt::format("{} has no whole checkpoint to resume from", tiers.front().root),
                               fmt::format("{}", fmt::join(resumed.passed_over, "\n  ")))
                        .value();
  return resumed;
}

#define TWINPOD_INSTANTIATE(T)                                                                     \
  template std::vector<store::HeldRegion> regions_held(Rank<T>&);                                  \
  template Result<void> load(Rank<T>&, store::Files&, const std::string&, const store::Manifest&); \
  template Result<Resumed> resume(Rank<T>&, const std::vector<store::Tier>&, const Values&, const PeerSettings&)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
