// Blocks that run alike every time: a step has most of its blocks a thousand times, and what happens inside one depends
// on nobody else once it has begun. Then its ops stand at fixed times after its start.
//
//     const Template made = make_template(program.blocks[b], times.ops[b], {network, kind, patterns});
//     if (made.holds) ...                               // made.ops[i].start_s after the start of the block
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program/program.hpp"
#include "sim/op_time.hpp"
#include "sim/step.hpp"
#include "sim/step_network.hpp"

namespace twinpod::sim {

struct Template {
  bool known = false;
  bool holds = false;
  std::vector<OpRun> ops;  // of the two lanes; `after` is a number of the block's op
  std::vector<std::uint32_t> members;
  double first_s[2] = {0, 0};  // start of the first op, by lane
  double end_s[2] = {0, 0};    // of the last
  std::uint32_t last[2] = {kNone, kNone};
  std::vector<std::pair<std::uint32_t, double>> moved;  // bytes, by joint
};

inline constexpr program::Lane kTemplateLanes[2] = {program::Lane::compute, program::Lane::tensor};

// Place in kTemplateLanes; -1: not there.
inline int template_lane(const program::Op& op) {
  return op.lane == kTemplateLanes[0] ? 0 : op.lane == kTemplateLanes[1] ? 1 : -1;
}

inline const int* waits_of(const program::Block& block, const program::Op& op) {
  return block.waits.data() + op.waits.first;
}

// Who runs the block.
struct TemplateUser {
  const StepNetwork& network;
  std::uint32_t kind = 0;                      // of ranks
  const std::vector<std::uint32_t>& patterns;  // of the block's ops
};

// The block alone, from its first op on; one with an op that others can hold up has no template.
Template make_template(const program::Block& block, const std::vector<OpTime>& times, const TemplateUser& user);

}  // namespace twinpod::sim
