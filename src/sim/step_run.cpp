// What a finished step says about itself.
#include <algorithm>

#include "sim/step.hpp"

namespace twinpod::sim {

program::RankTimeline timeline_of(const RankKind& kind) {
  return {kind.rank, kind.count, kind.program_kind, {kind.ops.begin(), kind.ops.end()}};
}

program::Timeline timeline_of(const StepRun& run) {
  program::Timeline timeline;
  timeline.step_s = run.step_s;
  for (const RankKind& kind : run.kinds) timeline.ranks.push_back(timeline_of(kind));
  return timeline;
}

std::vector<std::uint32_t> first_ops(const program::Program& program, int program_kind) {
  std::vector<std::uint32_t> first = {0};
  for (const program::Instance& instance : program.kinds[static_cast<std::size_t>(program_kind)].instances) {
    const auto ops = program.blocks[static_cast<std::size_t>(instance.block)].ops.size();
    first.push_back(first.back() + static_cast<std::uint32_t>(ops));
  }
  return first;
}

program::PlacedOp op_at(const program::Program& program, int program_kind, std::uint32_t op) {
  const std::vector<std::uint32_t> first = first_ops(program, program_kind);
  const auto after = std::upper_bound(first.begin(), first.end(), op);
  const auto instance = static_cast<std::uint32_t>(after - first.begin()) - 1;
  return program::placed(program, program_kind, static_cast<int>(instance), static_cast<int>(op - first[instance]));
}

std::vector<OpRef> critical_path(const StepRun& run) {
  std::vector<OpRef> path;
  if (run.kinds.empty() || run.kinds[run.last.kind].ops.empty()) return path;
  OpRef at = run.last;
  while (true) {
    path.push_back(at);
    const OpRun& op = run.kinds[at.kind].ops[at.op];
    if (op.cause == Cause::nothing) break;
    at = op.after;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace twinpod::sim
