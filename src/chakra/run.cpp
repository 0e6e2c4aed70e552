#include "chakra/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "chakra/messages.hpp"
#include "cluster/device_time.hpp"
#include "cluster/network.hpp"

namespace twinpod::chakra {
namespace {

using Index = std::uint32_t;

bool is_communication(const WorkNode& node) {
  return node.kind == NodeKind::send || node.kind == NodeKind::recv || node.kind == NodeKind::collective;
}

// How long a node takes when nothing is in its way.
class Timer {
 public:
  Timer(const Workload& workload, const WorkloadPlace& place) : place_(place) {
    const int ranks = workload.alike ? place.ranks : static_cast<int>(workload.ranks.size());
    for (const WorkGroup& group : workload.groups) groups_.push_back(placed(group.members, ranks));
  }

  double alone_s(const WorkNode& node) const {
    if (node.duration_s > 0) return node.duration_s;
    const spec::Device& device = place_.cluster.device;
    const double memory = device.memory_bytes_per_s * place_.physics.memory_efficiency;
    if (node.kind == NodeKind::compute) {
      const double peak = cluster::usable_peak(device, spec::Precision::bf16) * place_.physics.gemm_efficiency_bf16;
      return std::max(peak > 0 ? node.flop / peak : 0, memory > 0 ? node.bytes / memory : 0);
    }
    const double rate = device.host_bytes_per_s > 0 ? device.host_bytes_per_s : memory;
    return rate > 0 ? node.bytes / rate : 0;
  }

  double send_s(const WorkNode& node, int rank) const {
    return cluster::collective_s(place_.cluster, place_.physics, cluster::Verb::send, node.bytes,
                                 placed({rank, node.peer}, 2));
  }

  // bytes: what one member puts in.
  double collective_s(const WorkNode& node) const {
    const cluster::Group& group = groups_[static_cast<std::size_t>(node.group)];
    if (group.ranks <= 1) return 0;
    const auto time = [&](cluster::Verb verb, double bytes) {
      return cluster::collective_s(place_.cluster, place_.physics, verb, bytes, group);
    };
    switch (node.verb) {
      case collective::Verb::all_gather:
      case collective::Verb::gather:
        return time(cluster::Verb::all_gather, node.bytes * group.ranks);
      case collective::Verb::reduce_scatter:
      case collective::Verb::reduce:
        return time(cluster::Verb::reduce_scatter, node.bytes);
      case collective::Verb::scatter:
      case collective::Verb::broadcast:
        return time(cluster::Verb::all_gather, node.bytes);
      case collective::Verb::all_to_all:
        return cluster::exchange_s(place_.cluster, place_.physics, group,
                                   node.bytes * (group.per_domain - 1) / group.ranks,
                                   node.bytes * (group.ranks - group.per_domain) / group.ranks);
      case collective::Verb::barrier:
        return time(cluster::Verb::all_reduce, 0);
      default:
        return time(cluster::Verb::all_reduce, node.bytes);
    }
  }

 private:
  // Rank r is on device r.
  cluster::Group placed(const std::vector<int>& members, int ranks) const {
    if (members.empty()) return cluster::group_of(place_.cluster, ranks, 1);
    const auto parts_of = [&](int size) {
      std::set<int> parts;
      for (const int member : members) parts.insert(member / std::max(1, size));
      return static_cast<double>(parts.size());
    };
    const double count = static_cast<double>(members.size());
    const int unit = place_.cluster.non_blocking_devices;
    return {count, count / parts_of(place_.cluster.scale_up_domain), unit > 0 ? parts_of(unit) : 1};
  }

  const WorkloadPlace& place_;
  std::vector<cluster::Group> groups_;
};

struct NodeRef {
  Index rank = 0;
  Index node = 0;
  bool operator<(const NodeRef& other) const { return std::tie(rank, node) < std::tie(other.rank, other.node); }
};

// A node becomes ready or ends.
struct Event {
  double time_s = 0;
  bool ends = false;
  NodeRef ref;
  bool operator>(const Event& other) const {
    return std::tie(time_s, ends, ref.node, ref.rank) >
           std::tie(other.time_s, other.ends, other.ref.node, other.ref.rank);
  }
};

struct Meeting {
  std::size_t expected = 0;
  std::vector<NodeRef> here;
};

class Executor {
 public:
  Executor(const Workload& workload, const WorkloadPlace& place) : workload_(workload), timer_(workload, place) {
    run_.ranks.resize(workload.ranks.size());
    for (Index r = 0; r < workload.ranks.size(); ++r) add_rank(r);
  }

  Result<WorkloadRun> run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.ends) {
        ended(event.ref, event.time_s);
      } else {
        ready(event.ref, event.time_s);
      }
    }
    for (Index r = 0; r < workload_.ranks.size(); ++r) {
      for (Index n = 0; n < workload_.ranks[r].nodes.size(); ++n) {
        if (span({r, n}).end_s < 0) return stuck({r, n});
      }
    }
    return std::move(run_);
  }

 private:
  const WorkNode& node(NodeRef ref) const { return workload_.ranks[ref.rank].nodes[ref.node]; }
  NodeSpan& span(NodeRef ref) { return run_.ranks[ref.rank].nodes[ref.node]; }

  void add_rank(Index r) {
    const std::vector<WorkNode>& nodes = workload_.ranks[r].nodes;
    run_.ranks[r].nodes.resize(nodes.size());
    run_.nodes += nodes.size();
    std::vector<Index>& waiting = waiting_.emplace_back(nodes.size(), 0);
    std::vector<std::vector<Index>>& followers = followers_.emplace_back(nodes.size());
    std::vector<Index>& turns = turns_.emplace_back(nodes.size(), 0);
    std::map<int, Index> next_turn;
    for (Index n = 0; n < nodes.size(); ++n) {
      waiting[n] = static_cast<Index>(nodes[n].waits.size());
      for (const Index before : nodes[n].waits) followers[before].push_back(n);
      if (nodes[n].kind == NodeKind::collective) turns[n] = next_turn[nodes[n].group]++;
      if (waiting[n] == 0) events_.push({0, false, {r, n}});
      const bool works = !is_communication(nodes[n]) && nodes[n].kind != NodeKind::metadata;
      if (works && nodes[n].duration_s <= 0 && nodes[n].flop <= 0 && nodes[n].bytes <= 0) ++run_.untimed;
    }
  }

  // Lanes by rank and number; groups have numbers from kFirstGroup on.
  static constexpr int kCompute = 0;
  static constexpr int kHost = 1;
  static constexpr int kMemory = 2;
  static constexpr int kSend = 3;
  static constexpr int kFirstGroup = 4;
  double& free_s(Index rank, int lane) { return lanes_[{rank, lane}]; }

  void ready(NodeRef ref, double now) {
    switch (node(ref).kind) {
      case NodeKind::metadata:
        start(ref, now, now);
        break;
      case NodeKind::collective:
        come(ref, now);
        break;
      case NodeKind::recv:
        receive(ref, now);
        break;
      default:
        run_on_lane(ref, now);
    }
  }

  void run_on_lane(NodeRef ref, double now) {
    const WorkNode& one = node(ref);
    int lane = one.on_host ? kHost : kCompute;
    if (one.kind == NodeKind::load || one.kind == NodeKind::store || one.kind == NodeKind::other) lane = kMemory;
    if (one.kind == NodeKind::send) lane = kSend;
    const double seconds =
        one.kind == NodeKind::send ? timer_.send_s(one, static_cast<int>(ref.rank)) : timer_.alone_s(one);
    double& free = free_s(ref.rank, lane);
    const double begin = std::max(now, free);
    free = begin + seconds;
    start(ref, begin, free);
  }

  void start(NodeRef ref, double begin, double end) {
    span(ref).start_s = begin;
    events_.push({end, true, ref});
  }

  void come(NodeRef ref, double now) {
    const WorkNode& one = node(ref);
    const WorkGroup& group = workload_.groups[static_cast<std::size_t>(one.group)];
    const Index turn = turns_[ref.rank][ref.node];
    Meeting& meeting = meetings_[{one.group, turn}];
    meeting.here.push_back(ref);
    const std::size_t members = group.members.empty() ? workload_.ranks.size() : group.members.size();
    if (meeting.here.size() < (workload_.alike ? 1 : members)) return;
    double begin = now;
    double seconds = 0;
    for (const NodeRef& member : meeting.here) {
      begin = std::max(begin, free_s(member.rank, kFirstGroup + one.group));
      seconds = std::max(seconds, timer_.collective_s(node(member)));
    }
    for (const NodeRef& member : meeting.here) {
      free_s(member.rank, kFirstGroup + one.group) = begin + seconds;
      start(member, begin, begin + seconds);
    }
    meetings_.erase({one.group, turn});
  }

  // From, to, tag: messages of a channel arrive in their order.
  using Channel = std::tuple<int, int, std::int64_t>;

  void receive(NodeRef ref, double now) {
    const Channel channel{node(ref).peer, static_cast<int>(ref.rank), node(ref).tag};
    std::deque<double>& arrived = arrived_[channel];
    span(ref).start_s = now;
    if (arrived.empty()) {
      receivers_[channel].push_back(ref);
      return;
    }
    arrived.pop_front();
    start(ref, now, now);
  }

  void deliver(NodeRef ref, double now) {
    const Channel channel{static_cast<int>(ref.rank), node(ref).peer, node(ref).tag};
    std::deque<NodeRef>& receivers = receivers_[channel];
    if (receivers.empty()) {
      arrived_[channel].push_back(now);
      return;
    }
    events_.push({now, true, receivers.front()});
    receivers.pop_front();
  }

  void ended(NodeRef ref, double now) {
    span(ref).end_s = now;
    run_.step_s = std::max(run_.step_s, now);
    if (node(ref).kind == NodeKind::send) deliver(ref, now);
    for (const Index next : followers_[ref.rank][ref.node]) {
      if (--waiting_[ref.rank][next] == 0) events_.push({now, false, {ref.rank, next}});
    }
  }

  // The first node that never ended, or what it waits for in the end.
  tl::unexpected<Error> stuck(NodeRef ref) {
    std::set<NodeRef> seen;
    bool moved = true;
    while (moved && waiting_[ref.rank][ref.node] > 0 && seen.insert(ref).second) {
      moved = false;
      for (const Index before : node(ref).waits) {
        if (span({ref.rank, before}).end_s >= 0) continue;
        ref.node = before;
        moved = true;
        break;
      }
    }
    const WorkNode& one = node(ref);
    std::string why = "waits for itself, through what it waits for";
    if (waiting_[ref.rank][ref.node] == 0) {
      why = one.kind == NodeKind::recv ? fmt::format("no send of rank {} with tag {} comes to it", one.peer, one.tag)
                                       : missing_members(ref);
    }
    return file_error(workload_.ranks[ref.rank].file,
                      fmt::format("node {} `{}` never ends: {}", one.id, one.name, why));
  }

  std::string missing_members(NodeRef ref) {
    const WorkNode& one = node(ref);
    const WorkGroup& group = workload_.groups[static_cast<std::size_t>(one.group)];
    const Index turn = turns_[ref.rank][ref.node];
    std::set<int> missing(group.members.begin(), group.members.end());
    for (Index r = 0; group.members.empty() && r < workload_.ranks.size(); ++r) missing.insert(static_cast<int>(r));
    for (const NodeRef& member : meetings_[{one.group, turn}].here) missing.erase(static_cast<int>(member.rank));
    return fmt::format("rank {} never comes to collective {} of group `{}`", missing.empty() ? -1 : *missing.begin(),
                       turn, group.name);
  }

  const Workload& workload_;
  Timer timer_;
  WorkloadRun run_;
  std::vector<std::vector<Index>> waiting_;
  std::vector<std::vector<std::vector<Index>>> followers_;
  std::vector<std::vector<Index>> turns_;  // of collectives: which of its group
  std::map<std::pair<Index, int>, double> lanes_;
  std::map<std::pair<int, Index>, Meeting> meetings_;
  std::map<Channel, std::deque<double>> arrived_;
  std::map<Channel, std::deque<NodeRef>> receivers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

using Spans = std::vector<std::pair<double, double>>;

// Spans that touch become one.
Spans joined(Spans spans) {
  std::sort(spans.begin(), spans.end());
  Spans result;
  for (const auto& [start, end] : spans) {
    if (!result.empty() && start <= result.back().second) {
      result.back().second = std::max(result.back().second, end);
    } else {
      result.emplace_back(start, end);
    }
  }
  return result;
}

double length(const Spans& spans) {
  double sum = 0;
  for (const auto& [start, end] : spans) sum += end - start;
  return sum;
}

double common_length(const Spans& a, const Spans& b) {
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    (a[i].second < b[j].second ? i : j) += 1;
  }
  return sum;
}

// A recv that waits for a send that has not started waits for a rank, not for the network: it is not counted.
void add_shares(const RankWork& work, RankRun& run) {
  Spans compute;
  Spans communication;
  for (std::size_t n = 0; n < work.nodes.size(); ++n) {
    const NodeSpan& span = run.nodes[n];
    run.end_s = std::max(run.end_s, span.end_s);
    const NodeKind kind = work.nodes[n].kind;
    if (kind == NodeKind::compute && !work.nodes[n].on_host) compute.emplace_back(span.start_s, span.end_s);
    if (kind == NodeKind::collective || kind == NodeKind::send) communication.emplace_back(span.start_s, span.end_s);
  }
  compute = joined(std::move(compute));
  communication = joined(std::move(communication));
  run.compute_s = length(compute);
  run.communication_s = length(communication);
  run.exposed_s = run.communication_s - common_length(compute, communication);
}

}  // namespace

Result<WorkloadRun> run_workload(const Workload& workload, const WorkloadPlace& place) {
  const int ranks = workload.alike ? place.ranks : static_cast<int>(workload.ranks.size());
  if (ranks > place.cluster.devices) {
    return infeasible(fmt::format("the workload has {} ranks, but {} has {} devices", ranks, place.cluster.name,
                                  place.cluster.devices),
                      "--on a larger cluster");
  }
  for (const RankWork& rank : workload.ranks) {
    for (const WorkNode& node : rank.nodes) {
      if (!workload.alike || (node.kind != NodeKind::send && node.kind != NodeKind::recv)) continue;
      return file_error(
          rank.file,
          fmt::format("node {} `{}`: a single file stands for all ranks, but this one has a peer", node.id, node.name),
          "--workload FOLDER with the files of all ranks");
    }
  }
  Result<WorkloadRun> run = Executor(workload, place).run();
  if (!run) return run;
  for (std::size_t r = 0; r < run->ranks.size(); ++r) add_shares(workload.ranks[r], run->ranks[r]);
  return run;
}

}  // namespace twinpod::chakra
