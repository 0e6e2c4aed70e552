#include "sim/step_template.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace twinpod::sim {
namespace {

using program::Lane;
using program::Op;
using program::OpKind;
using Index = std::uint32_t;

// Whether an op waits for one that computes or communicates inside the block.
bool waits_for_member(const program::Block& block, const Op& op) {
  return std::any_of(waits_of(block, op), waits_of(block, op) + op.waits.count,
                     [&](int w) { return template_lane(block.ops[static_cast<std::size_t>(w)]) >= 0; });
}

// Whether an op may be part: a later one must follow from the first.
bool may_join(const program::Block& block, const Op& op, const Template& made) {
  const int lane = template_lane(op);
  if (lane < 0 || (op.kind != OpKind::compute && op.kind != OpKind::collective)) return false;
  if (made.members.empty()) return true;
  return !op.entry && (made.last[lane] != kNone || waits_for_member(block, op));
}

// When the op begins after the start of the block, and why; false: others can hold it up.
bool place_op(const program::Block& block, const Op& op, const std::vector<double>& released, const Template& made,
              OpRun& run) {
  run.start_s = 0;
  const auto wait = [&](double until, Index what, Cause why) {
    if (until < run.start_s || (until == run.start_s && run.cause != Cause::nothing)) return;
    run.start_s = until;
    run.after.op = what;
    run.cause = why;
  };
  const int lane = template_lane(op);
  if (made.last[lane] != kNone) wait(made.end_s[lane], made.last[lane], Cause::lane);
  for (int w = 0; w < op.waits.count; ++w) {
    const auto waited = static_cast<Index>(waits_of(block, op)[w]);
    if (std::isinf(released[waited])) return false;
    wait(released[waited], waited, Cause::wait);
  }
  return true;
}

void add_member(Index number, int lane, const OpRun& run, Template& made) {
  if (made.last[lane] == kNone) made.first_s[lane] = run.start_s;
  made.end_s[lane] = run.end_s;
  made.last[lane] = number;
  made.members.push_back(number);
  made.ops.push_back(run);
}

}  // namespace

Template make_template(const program::Block& block, const std::vector<OpTime>& times, const TemplateUser& user) {
  Template made;
  made.known = true;
  std::vector<double> released(block.ops.size(), 0);
  for (Index o = 0; o < block.ops.size(); ++o) {
    const Op& op = block.ops[o];
    if (op.kind == OpKind::recv && op.lane == Lane::pipe) continue;
    if (op.kind == OpKind::send && op.lane == Lane::pipe) {
      released[o] = std::numeric_limits<double>::infinity();
      continue;
    }
    OpRun run;
    if (!may_join(block, op, made) || !place_op(block, op, released, made, run)) return made;
    double seconds = times[o].seconds();
    if (op.kind == OpKind::collective) {
      const Index joint = user.network.joint(user.kind, user.patterns[o]);
      if (joint == kNone || user.network.joints[joint].kinds.size() != 1) return made;
      if (user.network.joints[joint].contends && is_on_links(times[o])) return made;
      made.moved.emplace_back(joint, times[o].transfer_s * times[o].bytes_per_s);
    } else {
      seconds *= user.network.kinds[user.kind].slow;
    }
    run.release_s = released[o] = run.start_s + seconds * times[o].exposed;
    run.end_s = run.start_s + seconds;
    add_member(o, template_lane(op), run, made);
  }
  made.holds = !made.members.empty();
  return made;
}

}  // namespace twinpod::sim
