// What one rank cannot do ends the work of all of them, together and in peace: its error becomes everybody's.
//
//     const Result<std::optional<Error>> refused = agree(world, read_batch(...));
//     if (!refused) ...     // the ranks lost each other
//     if (*refused) ...     // the same error on every rank: of the lowest that has one
//
// Votes travel with it for nothing: of each the largest of all ranks comes back.
//
// A rank that just left would be a failure of the run, with a recording; wrong data is none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "comm/communicator.hpp"
#include "core/error.hpp"

namespace twinpod::train {

// Every rank calls it, with what it came to itself.
Result<std::optional<Error>> agree(comm::Communicator& world, const Result<void>& own,
                                   std::span<std::int32_t> votes = {});

}  // namespace twinpod::train
