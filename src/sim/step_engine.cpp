#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>

#include "sim/flow_rates.hpp"
#include "sim/op_store.hpp"
#include "sim/step.hpp"
#include "sim/step_apart.hpp"
#include "sim/step_network.hpp"
#include "sim/step_template.hpp"

namespace twinpod::sim {
namespace {

using program::Lane;
using program::Op;
using program::OpKind;
using Index = std::uint32_t;

// What the engine needs of a block, found once.
struct BlockPlan {
  std::vector<Index> lane_ops[program::kNumLanes];  // recvs take no lane
  std::vector<Index> recvs;
  Index send[2] = {kNone, kNone};  // on the pipe lane, by half
};

BlockPlan plan_of(const program::Block& block) {
  BlockPlan plan;
  for (Index o = 0; o < block.ops.size(); ++o) {
    const Op& op = block.ops[o];
    if (op.kind == OpKind::recv) {
      plan.recvs.push_back(o);
    } else {
      plan.lane_ops[static_cast<std::size_t>(op.lane)].push_back(o);
    }
    if (op.kind == OpKind::send && op.lane == Lane::pipe) plan.send[op.half] = o;
  }
  return plan;
}

// Where an op's pattern is looked up, for each op of a block with a pair of chunks.
struct InstancePlan {
  std::vector<Index> patterns;  // by op
};

// How far a lane of a kind of ranks has come.
struct LaneState {
  Index instance = 0;
  Index place = 0;  // in lane_ops of the instance's block
  double free_s = 0;
  Index last_op = kNone;  // that it ran
  bool waits = false;     // its op is under way, and when it ends is not known yet
};

struct KindState {
  const program::Kind* list = nullptr;
  std::vector<Index> first_op;       // of each instance, and the end
  std::vector<Index> unfinished;     // ops of each instance that have not ended
  std::vector<double> instance_end;  // of those that have
  std::vector<Index> instance_last;  // op that ended last
  LaneState lanes[program::kNumLanes];
  std::vector<Template> templates;  // by block with its chunks
  bool queued = false;
};

// Ranks that have come to a collective.
struct Meeting {
  Index arrived = 0;
  double start_s = 0;
  OpRef last;  // who came last
  std::vector<OpRef> ops;
};

// Communication that shares links, on its way.
struct Transfer {
  Index joint = 0;
  std::vector<OpRef> ops;  // of all members; of a send: the sender's
  OpTime time;
  double start_s = 0;
  bool hidden_part = false;  // what comes after the release
  double remaining = 0;      // seconds at full rate
  double since_s = 0;
  double rate = 0;  // share of the full rate
  Index version = 0;
};

struct Event {
  double time_s = 0;
  Index transfer = 0;
  Index version = 0;  // kNone: it begins to move
  bool operator>(const Event& other) const {
    if (time_s != other.time_s) return time_s > other.time_s;
    return transfer > other.transfer;
  }
};

class Engine {
 public:
  Engine(const StepInput& input, StepNetwork& network)
      : input_(input), program_(input.program), network_(network), share_(network.flows) {
    for (const program::Block& block : program_.blocks) blocks_.push_back(plan_of(block));
    moved_.assign(network_.joints.size(), 0);
    meetings_.resize(network_.joints.size());
    transfer_of_flow_.assign(network_.joints.size(), kNone);
    full_since_.assign(network_.links.size(), -1);
    listeners_.resize(network_.kinds.size());
    for (const RankKind& kind : network_.kinds) add_kind(kind);
    make_room();
    make_pattern_tables();
  }

  Result<void> run() {
    for (Index k = 0; k < states_.size(); ++k) wake(k);
    while (true) {
      propagate();
      if (events_.empty()) break;
      next_event();
    }
    return check_done();
  }

  // When what uses links moved, by joint.
  std::vector<std::vector<Moving>> moving() const {
    std::vector<std::vector<Moving>> all(network_.joints.size());
    for (Index k = 0; k < states_.size(); ++k) {
      for (Index i = 0; i < states_[k].unfinished.size(); ++i) add_moving(k, i, all);
    }
    return all;
  }

  StepRun result() {
    StepRun run = timed_result();
    run.link_bytes = link_bytes();
    const std::size_t of_graph = input_.graph == nullptr ? 0 : input_.graph->links.size();
    run.storage_bytes.assign(run.link_bytes.begin() + static_cast<std::ptrdiff_t>(of_graph), run.link_bytes.end());
    run.link_bytes.resize(of_graph);
    std::erase_if(network_.links, [](const FullLink& link) { return link.full_s <= 0; });
    std::stable_sort(network_.links.begin(), network_.links.end(),
                     [](const FullLink& a, const FullLink& b) { return a.full_s > b.full_s; });
    run.full_links = std::move(network_.links);
    run.kinds = std::move(network_.kinds);
    run.ops = std::move(ops_);
    run.kind_of_rank = std::move(network_.kind_of_rank);
    run.events = num_events_;
    run.contention_s = contention_s_;
    return run;
  }

 private:
  void make_room() {
    std::size_t count = 0;
    for (const KindState& state : states_) count += state.first_op.back();
    ops_ = make_ops(count);
    OpRun* next = ops_.get();
    for (Index k = 0; k < states_.size(); ++k) {
      network_.kinds[k].ops = {next, states_[k].first_op.back()};
      next += states_[k].first_op.back();
    }
  }

  void add_kind(const RankKind& kind) {
    KindState state;
    state.list = &program_.kinds[static_cast<std::size_t>(kind.program_kind)];
    state.first_op = first_ops(program_, kind.program_kind);
    for (std::size_t i = 0; i + 1 < state.first_op.size(); ++i) {
      state.unfinished.push_back(state.first_op[i + 1] - state.first_op[i]);
    }
    state.instance_end.assign(state.unfinished.size(), 0);
    state.instance_last.assign(state.unfinished.size(), kNone);
    const std::size_t chunks = static_cast<std::size_t>(program_.chunks) + 1;
    state.templates.resize(program_.blocks.size() * chunks * chunks);
    states_.push_back(std::move(state));
  }

  // Patterns of the ops, for each block with each pair of chunks that a Program's kind has.
  void make_pattern_tables() {
    const std::size_t chunks = static_cast<std::size_t>(program_.chunks) + 1;
    tables_.resize(program_.kinds.size());
    for (std::size_t k = 0; k < program_.kinds.size(); ++k) {
      tables_[k].resize(program_.blocks.size() * chunks * chunks);
      const program::Kind& kind = program_.kinds[k];
      for (std::size_t i = 0; i < kind.instances.size(); ++i) {
        InstancePlan& plan = tables_[k][table_place(kind.instances[i])];
        const auto block = static_cast<std::size_t>(kind.instances[i].block);
        if (!plan.patterns.empty() || program_.blocks[block].ops.empty()) continue;
        for (std::size_t o = 0; o < program_.blocks[block].ops.size(); ++o) {
          plan.patterns.push_back(
              pattern_of(network_, program_,
                         program::placed(program_, static_cast<int>(k), static_cast<int>(i), static_cast<int>(o))));
        }
      }
    }
  }
  std::size_t table_place(const program::Instance& instance) const {
    const std::size_t chunks = static_cast<std::size_t>(program_.chunks) + 1;
    return (static_cast<std::size_t>(instance.block) * chunks + static_cast<std::size_t>(instance.chunk[0] + 1)) *
               chunks +
           static_cast<std::size_t>(instance.chunk[1] + 1);
  }
  const std::vector<Index>& patterns(Index k, const program::Instance& instance) const {
    return tables_[static_cast<std::size_t>(network_.kinds[k].program_kind)][table_place(instance)].patterns;
  }
  Index pattern(Index k, Index instance, Index op) const {
    return patterns(k, states_[k].list->instances[instance])[op];
  }

  void wake(Index k) {
    if (states_[k].queued) return;
    states_[k].queued = true;
    queue_.push_back(k);
  }

  OpRun& run_of(Index k, Index instance, Index op) { return network_.kinds[k].ops[states_[k].first_op[instance] + op]; }

  // Everything that follows from what is known.
  void propagate() {
    while (!queue_.empty()) {
      const Index k = queue_.back();
      queue_.pop_back();
      states_[k].queued = false;
      bool moved = true;
      while (moved) {
        moved = false;
        for (int lane = 0; lane < program::kNumLanes; ++lane) moved = advance(k, lane) || moved;
      }
    }
  }

  // Runs a lane as far as it goes.
  bool advance(Index k, int lane_number) {
    KindState& state = states_[k];
    LaneState& lane = state.lanes[lane_number];
    bool moved = false;
    while (!lane.waits && lane.instance < state.list->instances.size()) {
      const program::Instance& instance = state.list->instances[lane.instance];
      const std::vector<Index>& ops =
          blocks_[static_cast<std::size_t>(instance.block)].lane_ops[static_cast<std::size_t>(lane_number)];
      if (lane.place >= ops.size()) {
        ++lane.instance;
        lane.place = 0;
        continue;
      }
      if (lane_number == 0 && lane.place == 0 && run_template(k, lane.instance)) {
        moved = true;
        continue;
      }
      if (!start(k, lane, lane.instance, ops[lane.place])) break;
      ++lane.place;
      moved = true;
    }
    return moved;
  }

  struct Ready {
    double time_s = 0;
    OpRef after;
    Cause cause = Cause::nothing;
    void wait(double at, OpRef what, Cause why) {
      if (at < time_s || (at == time_s && cause != Cause::nothing)) return;
      time_s = at;
      after = what;
      cause = why;
    }
  };

  // Runs the two lanes of a block at once, if it has a template and nothing before it is in the way.
  bool run_template(Index k, Index instance) {
    KindState& state = states_[k];
    const program::Instance& at = state.list->instances[instance];
    Template& made = state.templates[table_place(at)];
    if (!made.known) {
      const auto block = static_cast<std::size_t>(at.block);
      made = make_template(program_.blocks[block], input_.times.ops[block], {network_, k, patterns(k, at)});
    }
    LaneState* lanes[2] = {&state.lanes[static_cast<std::size_t>(kTemplateLanes[0])],
                           &state.lanes[static_cast<std::size_t>(kTemplateLanes[1])]};
    if (!made.holds) return false;
    const program::Block& block = program_.blocks[static_cast<std::size_t>(at.block)];
    const Op& first = block.ops[made.members.front()];
    const int leading = template_lane(first);
    for (const int lane : {0, 1}) {
      if (made.last[lane] == kNone) continue;
      skip_empty(state, *lanes[lane], kTemplateLanes[lane]);
      if (lanes[lane]->waits || lanes[lane]->instance != instance || lanes[lane]->place != 0) return false;
    }
    Ready ready;
    if (lanes[leading]->last_op != kNone) ready.wait(lanes[leading]->free_s, {k, lanes[leading]->last_op}, Cause::lane);
    for (int w = 0; w < first.waits.count; ++w) {
      if (!released(k, instance, static_cast<Index>(waits_of(block, first)[w]), ready)) return false;
    }
    if (!entered(k, at, first, ready)) return false;
    for (const Index recv : blocks_[static_cast<std::size_t>(at.block)].recvs) {
      const OpRun& arrived = run_of(k, instance, recv);
      if (arrived.release_s < 0 || arrived.release_s > ready.time_s) return false;
    }
    const int other = 1 - leading;
    if (made.last[other] != kNone && lanes[other]->last_op != kNone &&
        lanes[other]->free_s > ready.time_s + made.first_s[other]) {
      return false;
    }
    place_template(k, instance, made, ready);
    return true;
  }

  // A lane that has nothing to do in an instance goes on to the next.
  void skip_empty(const KindState& state, LaneState& lane, Lane which) const {
    while (lane.instance < state.list->instances.size()) {
      const auto block = static_cast<std::size_t>(state.list->instances[lane.instance].block);
      if (lane.place < blocks_[block].lane_ops[static_cast<std::size_t>(which)].size()) return;
      ++lane.instance;
      lane.place = 0;
    }
  }

  void place_template(Index k, Index instance, const Template& made, const Ready& ready) {
    KindState& state = states_[k];
    const Index base = state.first_op[instance];
    const double start = ready.time_s;
    for (std::size_t i = 0; i < made.members.size(); ++i) {
      const OpRun& op = made.ops[i];
      OpRun& run = network_.kinds[k].ops[base + made.members[i]];
      run.start_s = start + op.start_s;
      run.release_s = start + op.release_s;
      run.end_s = start + op.end_s;
      run.after = {k, base + op.after.op};
      run.cause = op.cause;
    }
    OpRun& first = network_.kinds[k].ops[base + made.members.front()];
    first.after = ready.after;
    first.cause = ready.cause;
    for (const auto& [joint, bytes] : made.moved) moved_[joint] += bytes;
    for (const int lane : {0, 1}) {
      if (made.last[lane] == kNone) continue;
      LaneState& own = state.lanes[static_cast<std::size_t>(kTemplateLanes[lane])];
      own.free_s = start + made.end_s[lane];
      own.last_op = base + made.last[lane];
      own.instance = instance + 1;
      own.place = 0;
      if (own.free_s >= state.instance_end[instance]) {
        state.instance_end[instance] = own.free_s;
        state.instance_last[instance] = own.last_op;
      }
    }
    state.unfinished[instance] -= static_cast<Index>(made.members.size());
    num_events_ += made.members.size();
  }

  // When a recv's bytes have arrived; false: not known yet.
  bool arrival(Index k, Index instance, Index op, OpRun& run) {
    if (run.end_s >= 0) return true;
    const program::Instance& at = states_[k].list->instances[instance];
    const program::Block& block = program_.blocks[static_cast<std::size_t>(at.block)];
    const Op& recv = block.ops[op];
    Ready ready;
    for (int w = 0; w < recv.waits.count; ++w) {
      const auto waited = static_cast<Index>(waits_of(block, recv)[w]);
      // The send of a ring stands before its recv; what arrives is the neighbour's.
      if (block.ops[waited].kind == OpKind::send && recv.peer == program::Peer::previous_in_ring) continue;
      if (!released(k, instance, waited, ready)) return false;
    }
    Index from_kind = kNone;
    Index from_instance = instance;
    Index from_op = kNone;
    if (recv.peer == program::Peer::previous_in_ring) {
      const int neighbour = layout::neighbour(program_.mesh, recv.group, network_.kinds[k].rank, -1);
      from_kind = static_cast<Index>(network_.kind_of_rank[static_cast<std::size_t>(neighbour)]);
      from_op = op - 1;
    } else {
      const program::Source& source = at.from[recv.half];
      const int rank = layout::rank_on_stage(program_.mesh, network_.kinds[k].rank,
                                             program_.kinds[static_cast<std::size_t>(source.kind)].stage);
      from_kind = static_cast<Index>(network_.kind_of_rank[static_cast<std::size_t>(rank)]);
      from_instance = static_cast<Index>(source.instance);
      from_op = sending_op(from_kind, from_instance, at.micro_batch[recv.half], block, recv.half);
    }
    if (from_op == kNone) return false;
    const OpRun& sent = run_of(from_kind, from_instance, from_op);
    if (sent.release_s < 0) {
      std::vector<Index>& listeners = listeners_[from_kind];
      if (std::find(listeners.begin(), listeners.end(), k) == listeners.end()) listeners.push_back(k);
      return false;
    }
    ready.wait(sent.release_s, {from_kind, states_[from_kind].first_op[from_instance] + from_op}, Cause::arrival);
    run.start_s = std::min(sent.start_s, ready.time_s);  // while its bytes were on their way
    run.release_s = run.end_s = ready.time_s;
    run.after = ready.after;
    run.cause = ready.cause;
    finished(k, instance, op);
    return true;
  }

  static bool runs_forward(const program::Block& block, int half) {
    return block.pair ? half == 0 : block.phase == program::Phase::forward;
  }

  // The send of an instance that carries a micro-batch in the direction of the receiver's pass.
  Index sending_op(Index k, Index instance, int micro_batch, const program::Block& receiver, int receiver_half) const {
    const program::Instance& sender = states_[k].list->instances[instance];
    const program::Block& block = program_.blocks[static_cast<std::size_t>(sender.block)];
    const bool forward = runs_forward(receiver, receiver_half);
    for (int half = 0; half < (block.pair ? 2 : 1); ++half) {
      if (runs_forward(block, half) == forward && sender.micro_batch[half] == micro_batch) {
        return blocks_[static_cast<std::size_t>(sender.block)].send[half];
      }
    }
    return kNone;
  }

  // Adds when an op of the block is released; false: not known yet.
  bool released(Index k, Index instance, Index op, Ready& ready) {
    OpRun& run = run_of(k, instance, op);
    const auto block = static_cast<std::size_t>(states_[k].list->instances[instance].block);
    if (run.release_s < 0) {
      if (program_.blocks[block].ops[op].kind != OpKind::recv || !arrival(k, instance, op, run)) return false;
    }
    ready.wait(run.release_s, {k, states_[k].first_op[instance] + op}, Cause::wait);
    return true;
  }

  bool entered(Index k, const program::Instance& instance, const Op& op, Ready& ready) {
    const program::Source& source = instance.from[op.half];
    if (!op.entry || source.kind < 0) return true;
    const auto before = static_cast<Index>(source.instance);
    KindState& state = states_[k];
    if (state.unfinished[before] > 0) {
      // Recvs are looked at when somebody asks for them.
      const auto block = static_cast<std::size_t>(state.list->instances[before].block);
      for (const Index recv : blocks_[block].recvs) arrival(k, before, recv, run_of(k, before, recv));
      if (state.unfinished[before] > 0) return false;
    }
    ready.wait(state.instance_end[before], {k, state.instance_last[before]}, Cause::wait);
    return true;
  }

  // Starts the op that a lane has come to, if what it waits for is known.
  bool start(Index k, LaneState& lane, Index instance, Index op_number) {
    const program::Instance& at = states_[k].list->instances[instance];
    const program::Block& block = program_.blocks[static_cast<std::size_t>(at.block)];
    const Op& op = block.ops[op_number];
    Ready ready;
    if (lane.last_op != kNone) ready.wait(lane.free_s, {k, lane.last_op}, Cause::lane);
    for (int w = 0; w < op.waits.count; ++w) {
      const auto waited = static_cast<Index>(waits_of(block, op)[w]);
      if (!released(k, instance, waited, ready)) return false;
    }
    if (!entered(k, at, op, ready)) return false;
    OpRun& run = run_of(k, instance, op_number);
    run.start_s = ready.time_s;
    run.after = ready.after;
    run.cause = ready.cause;
    lane.last_op = states_[k].first_op[instance] + op_number;
    const OpTime& time = input_.times.ops[static_cast<std::size_t>(at.block)][op_number];
    const OpRef ref{k, lane.last_op};
    ++num_events_;
    if (op.kind == OpKind::collective) {
      meet(ref, instance, op_number, time);
    } else if (op.kind == OpKind::send || op.lane == Lane::drain) {
      lane.waits = true;
      begin({ref}, network_.joint(k, pattern(k, instance, op_number)), time, ready.time_s);
    } else {
      const double factor = op.kind == OpKind::compute && op.lane == Lane::compute ? network_.kinds[k].slow : 1;
      end_alone(lane, run, ready.time_s, time.seconds() * factor, time.exposed);
      finished(k, instance, op_number);
    }
    return true;
  }

  static void end_alone(LaneState& lane, OpRun& run, double start_s, double seconds, double exposed) {
    run.release_s = start_s + seconds * exposed;
    run.end_s = start_s + seconds;
    lane.free_s = run.end_s;
  }

  void meet(OpRef ref, Index instance, Index op_number, const OpTime& time) {
    const Index joint = network_.joint(ref.kind, pattern(ref.kind, instance, op_number));
    const double come_s = network_.kinds[ref.kind].ops[ref.op].start_s;
    lane_of(ref).waits = true;
    std::vector<Meeting>& open = meetings_[joint];
    // A kind of ranks comes to the meetings of a joint in their order.
    Meeting* meeting = nullptr;
    for (Meeting& one : open) {
      const bool here = std::any_of(one.ops.begin(), one.ops.end(), [&](OpRef o) { return o.kind == ref.kind; });
      if (!here) {
        meeting = &one;
        break;
      }
    }
    if (meeting == nullptr) meeting = &open.emplace_back();
    if (meeting->arrived == 0 || come_s > meeting->start_s) {
      meeting->start_s = come_s;
      meeting->last = ref;
    }
    ++meeting->arrived;
    meeting->ops.push_back(ref);
    if (meeting->arrived < network_.joints[joint].kinds.size()) return;
    Meeting whole = std::move(*meeting);
    open.erase(open.begin() + (meeting - open.data()));
    for (const OpRef& member : whole.ops) {
      OpRun& run = network_.kinds[member.kind].ops[member.op];
      if (run.start_s >= whole.start_s) continue;
      run.start_s = whole.start_s;
      run.after = whole.last;
      run.cause = Cause::member;
    }
    begin(std::move(whole.ops), joint, time, whole.start_s);
  }

  LaneState& lane_of(OpRef ref) {
    const Index instance = instance_of(ref);
    const program::Block& block =
        program_.blocks[static_cast<std::size_t>(states_[ref.kind].list->instances[instance].block)];
    const Op& op = block.ops[ref.op - states_[ref.kind].first_op[instance]];
    return states_[ref.kind].lanes[static_cast<std::size_t>(op.lane)];
  }
  Index instance_of(OpRef ref) const {
    const std::vector<Index>& first = states_[ref.kind].first_op;
    return static_cast<Index>(std::upper_bound(first.begin(), first.end(), ref.op) - first.begin()) - 1;
  }

  // Communication starts: alone on its links, or as a flow among others.
  void begin(std::vector<OpRef> ops, Index joint, const OpTime& time, double start_s) {
    if (joint != kNone) moved_[joint] += time.transfer_s * time.bytes_per_s;
    if (joint == kNone || !network_.joints[joint].contends || !is_on_links(time)) {
      release(ops, start_s + time.seconds() * time.exposed);
      end(ops, start_s + time.seconds());
      return;
    }
    Index number = static_cast<Index>(transfers_.size());
    if (free_transfers_.empty()) {
      transfers_.emplace_back();
    } else {
      number = free_transfers_.back();
      free_transfers_.pop_back();
    }
    Transfer& transfer = transfers_[number];
    const Index version = transfer.version + 1;
    transfer = {joint, std::move(ops), time, start_s, false, time.transfer_s * time.exposed, 0, 0, version};
    events_.push({start_s + time.latency_s * time.exposed, number, kNone});
  }

  void release(const std::vector<OpRef>& ops, double time_s) {
    for (const OpRef& ref : ops) {
      network_.kinds[ref.kind].ops[ref.op].release_s = time_s;
      wake(ref.kind);
      for (const Index listener : listeners_[ref.kind]) wake(listener);
      listeners_[ref.kind].clear();
    }
  }

  void end(const std::vector<OpRef>& ops, double time_s) {
    for (const OpRef& ref : ops) {
      network_.kinds[ref.kind].ops[ref.op].end_s = time_s;
      LaneState& lane = lane_of(ref);
      lane.waits = false;
      lane.free_s = time_s;
      const Index instance = instance_of(ref);
      finished(ref.kind, instance, ref.op - states_[ref.kind].first_op[instance]);
      wake(ref.kind);
    }
  }

  void finished(Index k, Index instance, Index op) {
    KindState& state = states_[k];
    const OpRun& run = run_of(k, instance, op);
    if (run.end_s >= state.instance_end[instance]) {
      state.instance_end[instance] = run.end_s;
      state.instance_last[instance] = state.first_op[instance] + op;
    }
    --state.unfinished[instance];
  }

  // The next moment at which a transfer begins to move or has moved its part.
  void next_event() {
    const double now = events_.top().time_s;
    std::vector<Index> arrived;
    while (!events_.empty() && events_.top().time_s == now) {
      const Event event = events_.top();
      events_.pop();
      Transfer& transfer = transfers_[event.transfer];
      if (event.version == kNone) {
        // It takes no more than it would alone, and leaves the rest to others.
        network_.flows.flows[network_.joints[transfer.joint].flow].max_bytes_per_s = transfer.time.bytes_per_s;
        enter(share_, network_.joints[transfer.joint].flow);
        transfer_of_flow_[network_.joints[transfer.joint].flow] = event.transfer;
        transfer.since_s = now;
        transfer.rate = 0;
      } else if (event.version == transfer.version) {
        leave(share_, network_.joints[transfer.joint].flow);
        transfer_of_flow_[network_.joints[transfer.joint].flow] = kNone;
        arrived.push_back(event.transfer);
      }
    }
    for (const Index number : arrived) arrive(number, now);
    change_rates(now);
    ++num_events_;
  }

  void arrive(Index number, double now) {
    Transfer& transfer = transfers_[number];
    if (!transfer.hidden_part) {
      release(transfer.ops, now);
      const double hidden = 1 - transfer.time.exposed;
      if (hidden > 0) {
        transfer.hidden_part = true;
        transfer.remaining = transfer.time.transfer_s * hidden;
        ++transfer.version;
        events_.push({now + transfer.time.latency_s * hidden, number, kNone});
        return;
      }
    }
    contention_s_ += now - transfer.start_s - transfer.time.seconds();
    end(transfer.ops, now);
    ++transfer.version;
    free_transfers_.push_back(number);
  }

  void change_rates(double now) {
    const std::vector<Index>& changed = refresh(share_);
    // Flows are held by a link when they would be faster without it.
    for (const Index link : share_.links) {
      double& since = full_since_[link];
      if (since >= 0) network_.links[link].full_s += now - since;
      const bool full = share_.free_capacity[link] <= 1e-9 * network_.flows.capacity[link];
      since = full && !share_.on_link[link].empty() ? now : -1;
    }
    for (const Index flow : changed) {
      const Index number = transfer_of_flow_[flow];
      if (number == kNone) continue;
      Transfer& transfer = transfers_[number];
      transfer.remaining -= transfer.rate * (now - transfer.since_s);
      transfer.since_s = now;
      transfer.rate = share_.rate[flow] / transfer.time.bytes_per_s;
      ++transfer.version;
      const double left = std::max(0.0, transfer.remaining);
      events_.push({now + left / transfer.rate, number, transfer.version});
    }
  }

  Result<void> check_done() const {
    for (Index k = 0; k < states_.size(); ++k) {
      for (std::size_t i = 0; i < states_[k].unfinished.size(); ++i) {
        if (states_[k].unfinished[i] > 0) return never_ends(k, states_[k].first_op[i]);
      }
    }
    return {};
  }

  // Names the first op from there on that has no end.
  Result<void> never_ends(Index k, Index from) const {
    const std::span<const OpRun> ops = network_.kinds[k].ops;
    const auto found = std::find_if(ops.begin() + from, ops.end(), [](const OpRun& op) { return op.end_s < 0; });
    const program::PlacedOp op =
        op_at(program_, network_.kinds[k].program_kind, static_cast<Index>(found - ops.begin()));
    return input_error(fmt::format("rank {} never comes to an end of: {}", network_.kinds[k].rank, op_text(op)),
                       "ops wait for each other; twinpod program checks a schedule");
  }

  // When a kind of ranks ends, from the first of its ops on where each begins when it can.
  double seconds_of(Index k) const {
    const std::vector<double>& ends = states_[k].instance_end;
    const double last = ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
    if (!program_.validates_later) return last;
    double first = std::numeric_limits<double>::infinity();
    for (const OpRun& op : network_.kinds[k].ops) first = std::min(first, op.start_s);
    return last - first;
  }

  // The op that ends last, the first of them.
  OpRef last_op() const {
    OpRef last;
    double latest = -1;
    for (Index k = 0; k < states_.size(); ++k) {
      const std::vector<double>& ends = states_[k].instance_end;
      const auto found = std::max_element(ends.begin(), ends.end());
      if (found == ends.end() || *found <= latest) continue;
      latest = *found;
      last = {k, states_[k].first_op[static_cast<std::size_t>(found - ends.begin())]};
      while (network_.kinds[k].ops[last.op].end_s < latest) ++last.op;
    }
    return last;
  }

  StepRun timed_result() const {
    StepRun run;
    // From one step to the next, when ranks begin it one after the other as they ended this one.
    for (Index k = 0; k < states_.size(); ++k) run.ops_s = std::max(run.ops_s, seconds_of(k));
    run.last = last_op();
    run.step_s = run.ops_s + input_.times.tail_s;
    return run;
  }

  std::vector<double> link_bytes() const {
    std::size_t links = input_.graph == nullptr ? 0 : input_.graph->links.size();
    if (input_.storage != nullptr) links += static_cast<std::size_t>(input_.storage->num_links());
    std::vector<double> bytes(links, 0);
    const GroupLoads& groups = *network_.groups;
    for (std::size_t g = 0; g < network_.joint_of_group.size(); ++g) {
      const double moved = moved_[network_.joint_of_group[g]];
      for (Index l = groups.first[g]; l < groups.first[g + 1]; ++l) {
        bytes[static_cast<std::size_t>(groups.loads[l].link)] += moved * static_cast<double>(groups.loads[l].share);
      }
    }
    return bytes;
  }

  // Of an instance; of a joint's members the first one tells.
  void add_moving(Index k, Index instance, std::vector<std::vector<Moving>>& all) const {
    const program::Instance& at = states_[k].list->instances[instance];
    const std::vector<Index>& own = patterns(k, at);
    const std::vector<OpTime>& times = input_.times.ops[static_cast<std::size_t>(at.block)];
    for (std::size_t o = 0; o < own.size(); ++o) {
      if (own[o] == kNone || !is_on_links(times[o])) continue;
      const Index joint = network_.joint(k, own[o]);
      if (joint == kNone || network_.joints[joint].kinds.front() != k) continue;
      const OpRun& run = network_.kinds[k].ops[states_[k].first_op[instance] + o];
      const OpTime& time = times[o];
      const double exposed = time.exposed;
      const double rate = time.bytes_per_s;
      all[joint].push_back({run.start_s + time.latency_s * exposed, run.release_s, rate});
      if (exposed < 1) all[joint].push_back({run.release_s + time.latency_s * (1 - exposed), run.end_s, rate});
    }
  }

  const StepInput& input_;
  const program::Program& program_;
  StepNetwork& network_;
  FairShare share_;
  std::shared_ptr<OpRun[]> ops_;  // of all kinds
  std::vector<BlockPlan> blocks_;
  std::vector<std::vector<InstancePlan>> tables_;
  std::vector<KindState> states_;
  std::vector<Index> queue_;
  std::vector<std::vector<Index>> listeners_;   // kinds that wait for a send of each kind
  std::vector<std::vector<Meeting>> meetings_;  // by joint
  std::vector<Transfer> transfers_;
  std::vector<Index> free_transfers_;
  std::vector<Index> transfer_of_flow_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<double> moved_;       // bytes that one rank sent, by joint
  std::vector<double> full_since_;  // by kind of link; -1: it is not
  std::size_t num_events_ = 0;
  double contention_s_ = 0;
};

}  // namespace

Result<StepRun> run_step(const StepInput& input) {
  Result<StepNetworks> networks = step_networks(input);
  if (!networks) return tl::unexpected(networks.error());
  const bool could_contend = !networks->links.empty();
  // Unfolded all is spelled out, links included.
  if (input.fold || !could_contend) {
    Engine apart(input, networks->apart);
    if (const Result<void> done = apart.run(); !done) return tl::unexpected(done.error());
    if (!could_contend || !in_the_way(*input.graph, *networks, apart.moving())) return apart.result();
  }
  StepNetwork shared = networks->shared();
  Engine engine(input, shared);
  if (const Result<void> done = engine.run(); !done) return tl::unexpected(done.error());
  return engine.result();
}

}  // namespace twinpod::sim
