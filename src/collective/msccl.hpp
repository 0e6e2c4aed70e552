// Schedules in the XML of MSCCL (microsoft/msccl, Azure/msccl-executor-nccl, msccl-tools): <algo> holds a <gpu> for
// each rank, that holds thread blocks <tb> with at most one peer to send to and one to receive from, and these hold
// <step>s, which run one after another. Thread blocks run at the same time and wait for each other by `depid` and
// `deps`.
//
//     Result<std::string> xml = to_msccl(*make_schedule(Verb::all_reduce, Algorithm::ring, 8, {}), "ring8");
//     Result<Schedule> theirs = from_msccl(text, "allreduce_a100.xml");   // proved, or refused
#pragma once

#include <string>
#include <string_view>

#include "collective/schedule.hpp"
#include "core/error.hpp"

namespace twinpod::collective {

// Refuses what MSCCL cannot say: send, barrier, a switch that adds up, and parts of different sizes. A root other than
// 0 is in an attribute of our own, `root`, which MSCCL passes over.
Result<std::string> to_msccl(const Schedule& schedule, std::string_view name);

// Steps are laid out in rounds as early as they can run: a thread block sends and then receives at most once in a
// round. A message that arrives before its receiver is ready waits in scratch chunks that are added for it, and what is
// received, added up and sent on without being kept (rrs) has scratch chunks too. The result has passed check().
// Errors have the line, and name the rank, thread block and step.
Result<Schedule> from_msccl(std::string_view xml, std::string_view file = "");

}  // namespace twinpod::collective
