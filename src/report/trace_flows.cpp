#include "report/trace_flows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "core/at.hpp"

namespace twinpod::report {
namespace {

using program::Block;
using program::Instance;
using program::Op;
using program::OpKind;
using program::Program;

constexpr int kNone = -1;

// An op of a line: instance and index in its block.
struct Place {
  int line = kNone;
  int instance = kNone;
  int op = kNone;
};

class FlowFinder {
 public:
  explicit FlowFinder(const TraceInput& input)
      : input_(input), program_(input.program), coarse_(trace_detail(input) == TraceDetail::passes) {
    for (const program::RankTimeline& line : input.timeline.ranks) {
      std::vector<std::uint32_t>& first = first_.emplace_back();
      std::uint32_t next = 0;
      for (const Instance& instance : instances(line.kind)) {
        first.push_back(next);
        next += static_cast<std::uint32_t>(program_.blocks[at(instance.block)].ops.size());
      }
    }
  }

  std::vector<FlowPoint> run() {
    for (int line = 0; line < static_cast<int>(input_.timeline.ranks.size()); ++line) {
      add_transfers(line);
      add_collectives(line);
    }
    std::sort(points_.begin(), points_.end(), [](const FlowPoint& a, const FlowPoint& b) {
      return std::tie(a.line, a.op, a.id) < std::tie(b.line, b.op, b.id);
    });
    return std::move(points_);
  }

 private:
  const std::vector<Instance>& instances(int kind) const { return program_.kinds[at(kind)].instances; }
  const program::RankTimeline& timeline(int line) const { return input_.timeline.ranks[at(line)]; }
  const Instance& instance_at(const Place& p) const { return instances(timeline(p.line).kind)[at(p.instance)]; }
  const Block& block_at(const Place& p) const { return program_.blocks[at(instance_at(p).block)]; }
  std::uint32_t number(const Place& p) const {
    return first_[at(p.line)][at(p.instance)] + static_cast<std::uint32_t>(p.op);
  }
  const program::OpSpan& span(const Place& p) const { return timeline(p.line).ops[number(p)]; }
  bool takes_time(const Place& p) const { return nanoseconds(span(p).end_s) > nanoseconds(span(p).start_s); }

  // The places in the order of their time make one arrow; fewer than two of them, none.
  void add_flow(std::vector<Place> places) {
    std::erase_if(places, [&](const Place& p) { return !takes_time(p); });
    if (places.size() < 2) return;
    std::stable_sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
      return nanoseconds(span(a).start_s) < nanoseconds(span(b).start_s);
    });
    for (std::size_t i = 0; i < places.size(); ++i) {
      FlowStep step = i == 0 ? FlowStep::start : FlowStep::step;
      if (i + 1 == places.size()) step = FlowStep::finish;
      points_.push_back({static_cast<std::uint32_t>(places[i].line), number(places[i]), next_id_, step});
    }
    ++next_id_;
  }

  // A recv takes no lane and is no slice: the arrow goes to the op that uses what arrived.
  static int user_of(const Block& block, int recv) {
    for (int o = recv + 1; o < static_cast<int>(block.ops.size()); ++o) {
      const Op& op = block.ops[at(o)];
      const auto begin = block.waits.begin() + op.waits.first;
      if (op.kind != OpKind::recv && std::count(begin, begin + op.waits.count, recv) > 0) return o;
    }
    return kNone;
  }

  static bool runs_forward(const Block& block, int half) {
    return block.pair ? half == 0 : block.phase == program::Phase::forward;
  }

  // The pipe send of an instance that carries the micro-batch in the direction of the receiver's pass.
  int sending_op(const Place& sender, int micro_batch, bool forward) const {
    const Block& block = block_at(sender);
    for (int o = 0; o < static_cast<int>(block.ops.size()); ++o) {
      const Op& op = block.ops[at(o)];
      const bool sends = op.kind == OpKind::send && op.lane == program::Lane::pipe;
      if (!sends || runs_forward(block, op.half) != forward) continue;
      if (instance_at(sender).micro_batch[op.half] == micro_batch) return o;
    }
    return kNone;
  }

  Place sender_of(const Place& receiver) const {
    const Block& block = block_at(receiver);
    const Op& recv = block.ops[at(receiver.op)];
    const int rank = timeline(receiver.line).rank;
    if (recv.peer == program::Peer::previous_in_ring) {
      const int neighbour = layout::neighbour(program_.mesh, recv.group, rank, -1);
      return {input_.line_of_rank[at(neighbour)], receiver.instance, receiver.op - 1};
    }
    const Instance& instance = instance_at(receiver);
    const program::Source& source = instance.from[recv.half];
    if (source.kind < 0) return {};
    const int from = layout::rank_on_stage(program_.mesh, rank, program_.kinds[at(source.kind)].stage);
    Place sender{input_.line_of_rank[at(from)], source.instance, kNone};
    sender.op = sending_op(sender, instance.micro_batch[recv.half], runs_forward(block, recv.half));
    return sender;
  }

  void add_transfers(int line) {
    const std::vector<Instance>& list = instances(timeline(line).kind);
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Block& block = program_.blocks[at(list[at(i)].block)];
      for (int o = 0; o < static_cast<int>(block.ops.size()); ++o) {
        if (block.ops[at(o)].kind != OpKind::recv) continue;
        const Place sender = sender_of({line, i, o});
        const int user = user_of(block, o);
        if (sender.op >= 0 && user >= 0) add_flow({sender, {line, i, user}});
      }
    }
  }

  // Lines that have members in the groups of a line's ranks, itself among them.
  const std::vector<int>& joined_lines(int line, layout::Group group) {
    const auto [found, is_new] = joined_.try_emplace({line, group});
    if (is_new) {
      std::set<int> lines;
      for (const int member : layout::members(program_.mesh, group, timeline(line).rank)) {
        lines.insert(input_.line_of_rank[at(member)]);
      }
      found->second.assign(lines.begin(), lines.end());
    }
    return found->second;
  }

  // A line's collectives over a group, in order: the n-th of one member is the n-th of every other.
  const std::vector<Place>& collectives(int line, layout::Group group) {
    const auto [found, is_new] = collectives_.try_emplace({line, group});
    if (!is_new) return found->second;
    const std::vector<Instance>& list = instances(timeline(line).kind);
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Block& block = program_.blocks[at(list[at(i)].block)];
      for (int o = 0; o < static_cast<int>(block.ops.size()); ++o) {
        const Op& op = block.ops[at(o)];
        if (op.kind != OpKind::collective || op.group != group) continue;
        // One arrow is enough for a slice that is a whole pass.
        if (coarse_ && !found->second.empty() && found->second.back().instance == i) continue;
        found->second.push_back({line, i, o});
      }
    }
    return found->second;
  }

  void add_collectives(int line) {
    for (int g = 0; g < layout::kNumGroups; ++g) {
      const auto group = static_cast<layout::Group>(g);
      if (collectives(line, group).empty()) continue;
      const std::vector<int>& lines = joined_lines(line, group);
      if (lines.size() < 2 || lines.front() != line) continue;
      for (std::size_t n = 0; n < collectives(line, group).size(); ++n) {
        std::vector<Place> places;
        for (const int other : lines) {
          const std::vector<Place>& list = collectives(other, group);
          if (n < list.size()) places.push_back(list[n]);
        }
        add_flow(std::move(places));
      }
    }
  }

  const TraceInput& input_;
  const Program& program_;
  bool coarse_ = false;
  std::vector<std::vector<std::uint32_t>> first_;  // op of each instance, by line
  std::map<std::pair<int, layout::Group>, std::vector<int>> joined_;
  std::map<std::pair<int, layout::Group>, std::vector<Place>> collectives_;
  std::vector<FlowPoint> points_;
  std::uint32_t next_id_ = 1;
};

}  // namespace

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::vector<FlowPoint> flow_points(const TraceInput& input) { return FlowFinder(input).run(); }

}  // namespace twinpod::report
