// A Timeline as a trace that opens in ui.perfetto.dev or chrome://tracing: Chrome's trace event format, JSON.
//
//     const program::Timeline timeline = sim::timeline_of(run);
//     const Result<void> wrote = write_trace({program, timeline, run.kind_of_rank}, "step.json");
//
// A process is a kind of ranks (folded ranks are shown once, with their count), a thread is a lane, a slice is an op.
// Arrows go from a send to the pass that receives it, and along the members of a collective that joins several kinds.
// A counter shows the memory in use. docs/trace.md says what each event holds.
//
// Written as a stream, op after op: what is held is the arrows and the memory steps of one kind.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "program/timeline.hpp"

namespace twinpod::report {

struct TraceInput {
  const program::Program& program;
  const program::Timeline& timeline;
  const std::vector<int>& line_of_rank;  // which of Timeline::ranks a rank belongs to
};

// A step of more ops than viewers bear (400,000 on all kinds of ranks) is written coarsely: a slice is a pass on a
// lane.
enum class TraceDetail { ops, passes };
TraceDetail trace_detail(const TraceInput& input);

void write_trace(const TraceInput& input, std::ostream& out);
Result<void> write_trace(const TraceInput& input, const std::string& path);

}  // namespace twinpod::report
