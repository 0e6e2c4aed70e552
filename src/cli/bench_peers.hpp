// Other libraries beside ours: programs that time one collective on request.
//
// A peer program reads lines `VERB BYTES TYPE OP ITERATIONS` and answers each with the seconds of one call, or -1. It
// sits still in between, so that it does not disturb what is measured next.
#pragma once

#include <string>
#include <vector>

#include "comm/measure.hpp"
#include "core/error.hpp"

namespace twinpod::cli {

// Names of the peers that were built.
std::vector<std::string> known_peers();

// Refuses a peer that is unknown or was not built.
Result<void> check_peers(const std::vector<std::string>& names);

// Starts them, for a run of so many ranks; they end when the last copy of a Peer goes away.
std::vector<comm::Peer> start_peers(const std::vector<std::string>& names, int ranks);

}  // namespace twinpod::cli
