// Getting a checkpoint back from the memory of peers (checkpoint_peer.hpp), whichever hosts are left.
//
//     std::int64_t number = newest_of_peers(world, settings, INT32_MAX).value();          // 0: there is none
//     Result<std::optional<Error>> lost = gather_from_peers(world, settings, number, needed);
//     HostFiles files(settings.host_folder());                                             // has all that was needed
//
// What a rank needs and its host has not is sent by the lowest rank that sees it, a shard at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "train/checkpoint_peer.hpp"

namespace twinpod::train {

// All ranks: of those that any host has a manifest of, the newest with a smaller number.
Result<std::int64_t> newest_of_peers(comm::Communicator& world, const PeerSettings& settings, std::int64_t below);

// Which shards a rank needs.
using Needed = std::function<std::vector<bool>(const store::Manifest& manifest)>;

// All ranks. The inner error is the same on every rank: it is not whole any more.
Result<std::optional<Error>> gather_from_peers(comm::Communicator& world, const PeerSettings& settings,
                                               std::int64_t number, const Needed& needed);

}  // namespace twinpod::train
