#include "train/checkpoint_gather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "store/save.hpp"
#include "train/agree.hpp"

namespace twinpod::train {
namespace {

constexpr std::int64_t kMaxManifestBytes = std::int64_t{1} << 32;

// One checkpoint that is being gathered, as one rank sees it.
struct Gather {
  comm::Communicator& world;
  std::string name;
  std::string folder;  // of this rank
  HostFiles files;
  store::Manifest manifest = {};
  std::vector<std::int32_t> owners = {};  // of each shard: ranks less the lowest that sees it; 0: nobody
};

std::int32_t vote_of(const comm::Communicator& world) { return comm::size_of(world) - comm::rank_of(world); }

bool sees(Gather& gather, const store::Shard& shard) {
  const std::string path = gather.files.find(gather.name, shard.file);
  return !path.empty() && gather.files.bytes_of(path) == shard.bytes;
}

// Of the lowest rank that has one, to all; a host without gets it.
Result<Result<void>> gather_manifest(Gather& gather) {
  const std::string file(store::kManifestFile);
  std::string text;
  const std::string path = gather.files.find(gather.name, file);
  const Result<store::Bytes> read =
      path.empty() ? store::Bytes() : store::read_whole(gather.files, path, kMaxManifestBytes);
  if (read) text = store::text_of(*read);
  std::array<std::int32_t, 1> owner = {text.empty() ? 0 : vote_of(gather.world)};
  const Result<std::optional<Error>> agreed = agree(gather.world, {}, owner);
  if (!agreed) return tl::unexpected(agreed.error());
  if (owner[0] == 0) return Result<void>(infeasible(fmt::format("{}: no host can read its manifest", gather.name)));
  const bool had_none = text.empty();
  Result<void> shared = share_text(gather.world, comm::size_of(gather.world) - owner[0], text);
  if (!shared) return tl::unexpected(shared.error());
  Result<store::Manifest> manifest = store::parse_manifest(text, gather.folder + "/" + file);
  if (!manifest) return Result<void>(tl::unexpected(manifest.error()));
  gather.manifest = std::move(*manifest);
  if (!had_none) return Result<void>();
  if (Result<void> made = make_path(gather.files, gather.folder); !made) return made;
  return store::write_new_file(gather.files, gather.folder + "/" + file, store::bytes_of(text));
}

Result<Result<void>> find_owners(Gather& gather) {
  for (const store::Shard& shard : gather.manifest.shards)
    gather.owners.push_back(sees(gather, shard) ? vote_of(gather.world) : 0);
  const Result<std::optional<Error>> agreed = agree(gather.world, {}, gather.owners);
  if (!agreed) return tl::unexpected(agreed.error());
  const auto lost = std::find(gather.owners.begin(), gather.owners.end(), 0);
  if (lost == gather.owners.end()) return Result<void>();
  const auto index = static_cast<std::size_t>(lost - gather.owners.begin());
  return Result<void>(infeasible(fmt::format("{} in the memory of peers: no host that is left has {}", gather.name,
                                             gather.manifest.shards[index].file)));
}

// One shard from a rank to another. Bytes are moved whatever goes wrong at either end, so that both ends go on: an
// error of the sender shows in the checksums.
Result<Result<void>> pass_on(Gather& gather, const store::Shard& shard, int from, int to) {
  constexpr std::int64_t kPiece = 16 << 20;
  const bool sends = comm::rank_of(gather.world) == from;
  const std::string path = fmt::format("{}/{}", gather.folder, shard.file);
  MappedFile file;
  Result<void> own = sends ? Result<void>() : make_path(gather.files, gather.folder);
  if (own)
    own = sends ? file.open(gather.files, gather.files.find(gather.name, shard.file))
                : file.create(gather.files, path + std::string(store::kPartial), shard.bytes);
  std::vector<std::byte> room(file.size() == shard.bytes ? 0 : std::min(kPiece, shard.bytes));
  for (std::int64_t moved = 0; moved < shard.bytes; moved += kPiece) {
    std::byte* at = room.empty() ? file.data() + moved : room.data();
    const auto bytes = static_cast<std::size_t>(std::min(kPiece, shard.bytes - moved));
    const Result<void> sent = sends ? comm::send(gather.world, at, bytes, to) : Result<void>();
    const Result<std::size_t> received = sends ? bytes : comm::receive(gather.world, at, bytes, from);
    if (!sent) return tl::unexpected(sent.error());
    if (!received) return tl::unexpected(received.error());
  }
  file.close();
  if (own && !sends) own = store::give_name(gather.files, path);
  return own;
}

// In the same order on all ranks, so that nobody waits for one who waits for it.
Result<Result<void>> gather_shards(Gather& gather, const std::vector<bool>& needed) {
  const int ranks = comm::size_of(gather.world);
  const int rank = comm::rank_of(gather.world);
  const std::vector<store::Shard>& shards = gather.manifest.shards;
  std::vector<std::int32_t> wanted(shards.size() * static_cast<std::size_t>(ranks));
  const auto wants = [&](std::size_t shard, int of) -> std::int32_t& {
    return wanted[shard * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(of)];
  };
  for (std::size_t i = 0; i < shards.size(); ++i) wants(i, rank) = needed[i] && !sees(gather, shards[i]) ? 1 : 0;
  const Result<std::optional<Error>> agreed = agree(gather.world, {}, wanted);
  if (!agreed) return tl::unexpected(agreed.error());
  Result<void> own;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const int from = ranks - gather.owners[i];
    for (int to = 0; to < ranks; ++to) {
      if (wants(i, to) == 0 || (rank != from && rank != to)) continue;
      const Result<Result<void>> passed = pass_on(gather, shards[i], from, to);
      if (!passed) return passed;
      if (own) own = *passed;
    }
  }
  return own;
}

}  // namespace

Result<std::int64_t> newest_of_peers(comm::Communicator& world, const PeerSettings& settings, std::int64_t below) {
  std::array<std::int32_t, 1> newest = {0};
  if (!settings.wanted()) return 0;
  for (const std::int64_t number : HostFiles(settings.host_folder()).numbers()) {
    if (number < below) newest[0] = std::max(newest[0], static_cast<std::int32_t>(number));
  }
  const Result<std::optional<Error>> agreed = agree(world, {}, newest);
  if (!agreed) return tl::unexpected(agreed.error());
  return newest[0];
}

Result<std::optional<Error>> gather_from_peers(comm::Communicator& world, const PeerSettings& settings,
                                               std::int64_t number, const Needed& needed) {
  const std::string name = store::checkpoint_name(number);
  Gather gather{.world = world,
                .name = name,
                .folder = fmt::format("{}/{}", rank_folder(settings, comm::rank_of(world)), name),
                .files = HostFiles(settings.host_folder())};
  using Step = std::function<Result<Result<void>>()>;
  const std::array<Step, 3> steps = {[&] { return gather_manifest(gather); }, [&] { return find_owners(gather); },
                                     [&] { return gather_shards(gather, needed(gather.manifest)); }};
  for (const Step& step : steps) {
    const Result<Result<void>> own = step();
    if (!own) return tl::unexpected(own.error());
    Result<std::optional<Error>> agreed = agree(world, *own);
    if (!agreed || *agreed) return agreed;
  }
  return std::nullopt;
}

}  // namespace twinpod::train
