// Failures on purpose: what happens when a rank dies, stops or does the wrong thing can be rehearsed, and is tested.
//
//     Options options{.timeout_s = 1, .fault = parse_fault("kill:2@17").value()};      // rank 2, operation 17 of world
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.hpp"

namespace twinpod::comm {

// `KIND:RANK@OPERATION`.
Result<Fault> parse_fault(const std::string& text);

// The call that a rank makes instead; false: it makes none. Kinds that end or stop the rank do so here, and do not
// return or only when it is continued.
bool commit_fault(FaultKind kind, Call& call);

}  // namespace twinpod::comm
