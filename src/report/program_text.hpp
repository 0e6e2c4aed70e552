// A Program in text, as JSON, and its pipeline as the picture known from papers.
//
//     ProgramView view{job, program, order, slots, memory};
//     program_text(view, -1)        // ops of all blocks, and what each stage does
//     pipeline_text(view, false)    // stages as rows, slots as columns
#pragma once

#include <string>
#include <vector>

#include "program/check.hpp"
#include "program/order.hpp"
#include "program/program.hpp"
#include "spec/job.hpp"

namespace twinpod::report {

struct ProgramView {
  const spec::Job& job;
  const program::Program& program;
  const program::Order& order;
  const program::Slots& slots;  // of `order`
  program::SlotWeights weights;
  std::vector<program::MemoryOverTime> memory;  // by stage
};

// A line for each stage: layers, ops, what it computes and moves, its bubble and its memory.
std::string program_summary(const ProgramView& view);

// Ops, block by block, and the order of blocks of each stage; of one stage only when `stage` is not below 0.
std::string program_text(const ProgramView& view, int stage);

// Stages as rows, slots as columns: F3 is the forward pass of micro-batch 3, B backward, W the weight half of it, in
// small letters for odd chunks. With colours: a terminal's.
std::string pipeline_text(const ProgramView& view, bool colours);

// Memory of each stage over its list, and the parts of its peak.
std::string program_memory_text(const ProgramView& view);

std::string program_json(const ProgramView& view, int stage);

// The picture as SVG: boxes with the numbers of micro-batches, shaded by chunk.
std::string pipeline_svg(const ProgramView& view);

}  // namespace twinpod::report
