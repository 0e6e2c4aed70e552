#include "sim/step_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "sim/step_loads.hpp"

namespace twinpod::sim {
namespace {

using layout::Group;
using program::Op;
using program::OpKind;
using Index = std::uint32_t;

Pattern pattern_for(const program::Program& program, const program::PlacedOp& at) {
  const Op& op = *at.op;
  Pattern pattern;
  pattern.lane = op.lane;
  pattern.group = op.group;
  if (op.kind == OpKind::collective) {
    pattern.sort = op.verb == collective::Verb::all_to_all ? Pattern::Sort::pairs : Pattern::Sort::ring;
    return pattern;
  }
  if (op.kind == OpKind::write) {
    pattern.sort = Pattern::Sort::store;
    pattern.tier = op.tier;
    return pattern;
  }
  if (op.peer == program::Peer::next_in_ring || op.peer == program::Peer::previous_in_ring) {
    pattern.sort = Pattern::Sort::around;
    return pattern;
  }
  const program::Chunk& chunk =
      program.kinds[static_cast<std::size_t>(at.kind)].chunks[static_cast<std::size_t>(at.chunk)];
  pattern.sort = Pattern::Sort::stage;
  pattern.group = Group::pipeline;
  pattern.from_kind = at.kind;
  pattern.to_stage = op.peer == program::Peer::next_chunk ? chunk.next_stage : chunk.previous_stage;
  return pattern;
}

bool communicates(const Op& op) {
  return op.kind == OpKind::collective || op.kind == OpKind::send ||
         (op.kind == OpKind::write && op.lane == program::Lane::drain);
}

// All patterns of a Program. Blocks are shared by instances, so that a block with a chunk is looked at once.
std::vector<Pattern> patterns_of(const StepInput& input) {
  const program::Program& program = input.program;
  std::vector<Pattern> patterns;
  for (int k = 0; k < static_cast<int>(program.kinds.size()); ++k) {
    const program::Kind& kind = program.kinds[static_cast<std::size_t>(k)];
    std::vector<char> seen(program.blocks.size() * static_cast<std::size_t>(program.chunks + 1) *
                           static_cast<std::size_t>(program.chunks + 1));
    for (int i = 0; i < static_cast<int>(kind.instances.size()); ++i) {
      const program::Instance& instance = kind.instances[static_cast<std::size_t>(i)];
      const auto block = static_cast<std::size_t>(instance.block);
      const std::size_t chunks = static_cast<std::size_t>(program.chunks) + 1;
      char& known = seen[(block * chunks + static_cast<std::size_t>(instance.chunk[0] + 1)) * chunks +
                         static_cast<std::size_t>(instance.chunk[1] + 1)];
      if (known) continue;
      known = 1;
      for (std::size_t o = 0; o < program.blocks[block].ops.size(); ++o) {
        if (!communicates(program.blocks[block].ops[o])) continue;
        Pattern pattern = pattern_for(program, program::placed(program, k, i, static_cast<int>(o)));
        auto found = std::find(patterns.begin(), patterns.end(), pattern);
        if (found == patterns.end()) found = patterns.insert(patterns.end(), pattern);
        const OpTime& time = input.times.ops[block][o];
        if (is_on_links(time)) found->bytes_per_s = std::max(found->bytes_per_s, time.bytes_per_s);
      }
    }
  }
  return patterns;
}

// What is built of ranks, joints and links, for the refinement.
class JointGraph {
 public:
  JointGraph(const StepInput& input, std::vector<Pattern> all_patterns)
      : patterns(std::move(all_patterns)), input_(input), ranks_(input.program.mesh.ranks()), layer_(input) {
    if (input.graph != nullptr) graph_links_ = static_cast<int>(input.graph->links.size());
    if (input.storage != nullptr) num_links_ = graph_links_ + input.storage->num_links();
    num_links_ = std::max(num_links_, graph_links_);
  }

  double rate(int link) const {
    return link < graph_links_ ? input_.graph->links[static_cast<std::size_t>(link)].bytes_per_s
                               : input_.storage->rate(link - graph_links_);
  }

  Result<void> build() {
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto slow = input_.slow.find(rank);
      nodes.right_colour.push_back(colour_of(
          1, {double(program::kind_of_rank(input_.program, rank)), slow == input_.slow.end() ? 1.0 : slow->second}));
    }
    joint_of_rank.assign(patterns.size(), {});
    for (std::size_t p = 0; p < patterns.size(); ++p) {
      joint_of_rank[p].assign(static_cast<std::size_t>(ranks_), kNone);
      const Result<void> added = add_pattern(p);
      if (!added) return added;
    }
    find_full();
    return {};
  }

  // Links that can be full, and who uses them: those of storage, or all.
  void join_links(bool all) {
    if (storage_links.empty() && !all) return;
    if (!joined.empty()) {
      nodes = std::move(alone_);
      link_nodes.clear();
      load_nodes.clear();
    } else if (!all) {
      alone_ = nodes;
    }
    joined = storage_links;
    if (all) joined.insert(joined.end(), links.begin(), links.end());
    link_node_.assign(static_cast<std::size_t>(num_links_), kNone);
    for (const int link : joined) {
      const bool of_storage = link >= graph_links_;
      link_node_[static_cast<std::size_t>(link)] = right(colour_of(of_storage ? 6 : 2, {rate(link)}));
      link_nodes.push_back(link_node_[static_cast<std::size_t>(link)]);
    }
    for (std::size_t joint = 0; joint < joint_nodes.size(); ++joint) join_links(joint);
  }

  const std::vector<Pattern> patterns;
  Bipartite nodes;
  std::vector<std::vector<Index>> joint_of_rank;  // by pattern: right node; of a transfer that of its sender
  std::vector<Index> joint_nodes;                 // right nodes
  std::vector<std::size_t> pattern_of_joint;
  std::shared_ptr<GroupLoads> groups = std::make_shared<GroupLoads>();
  std::vector<int> links;          // of the graph that can be full
  std::vector<int> storage_links;  // the same, of storage
  std::vector<int> joined;         // those that are part of `nodes`
  std::vector<Index> link_nodes;   // their right nodes
  struct LoadNode {
    Index left = 0;
    std::size_t joint = 0;
    double share = 0;
  };
  std::vector<LoadNode> load_nodes;  // left nodes that hold links

 private:
  Index right(std::uint64_t colour) {
    nodes.right_colour.push_back(colour);
    return static_cast<Index>(nodes.right_colour.size() - 1);
  }

  void begin_left(std::uint64_t colour) {
    nodes.left_colour.push_back(colour);
    nodes.left_count.push_back(1);
  }
  void end_left() { nodes.first.push_back(static_cast<Index>(nodes.right.size())); }

  // A joint with its members. It fills links with so much of what it puts on them, see add_group.
  void add_joint(std::size_t p, const std::vector<std::pair<int, int>>& members, std::vector<LinkLoad>& own,
                 double filling = 1) {
    const Index node = right(colour_of(3, {double(p)}));
    const std::size_t joint = joint_nodes.size();
    joint_nodes.push_back(node);
    pattern_of_joint.push_back(p);
    groups->filling.push_back(filling);
    for (std::size_t i = 0; i < members.size();) {  // members of a role together
      begin_left(colour_of(4, {double(p), double(members[i].second)}));
      nodes.right.push_back(node);
      const int role = members[i].second;
      for (; i < members.size() && members[i].second == role; ++i) {
        nodes.right.push_back(static_cast<Index>(members[i].first));
        if (role == 0) joint_of_rank[p][static_cast<std::size_t>(members[i].first)] = static_cast<Index>(joint);
      }
      end_left();
    }
    std::sort(own.begin(), own.end(), [](const LinkLoad& a, const LinkLoad& b) {
      return a.share != b.share ? a.share < b.share : a.link < b.link;
    });
    groups->loads.insert(groups->loads.end(), own.begin(), own.end());
    groups->first.push_back(static_cast<Index>(groups->loads.size()));
  }

  // Only links that everything that could use them at once would fill matter to anybody's time.
  void find_full() {
    std::vector<double> most(static_cast<std::size_t>(num_links_));
    for (std::size_t joint = 0; joint < joint_nodes.size(); ++joint) {
      const double rate = patterns[pattern_of_joint[joint]].bytes_per_s * groups->filling[joint];
      for (Index l = groups->first[joint]; l < groups->first[joint + 1]; ++l) {
        most[static_cast<std::size_t>(groups->loads[l].link)] += rate * static_cast<double>(groups->loads[l].share);
      }
    }
    constexpr double kFull = 1 + 1e-6;  // rounding is no contention
    for (int link = 0; link < num_links_; ++link) {
      if (most[static_cast<std::size_t>(link)] <= rate(link) * kFull) continue;
      (link < graph_links_ ? links : storage_links).push_back(link);
    }
  }

  // One left node for the links of each share.
  void join_links(std::size_t joint) {
    for (Index l = groups->first[joint]; l < groups->first[joint + 1];) {
      const float share = groups->loads[l].share;
      const std::size_t before = nodes.right.size();
      for (; l < groups->first[joint + 1] && groups->loads[l].share == share; ++l) {
        const Index node = link_node_[static_cast<std::size_t>(groups->loads[l].link)];
        if (node == kNone) continue;
        if (nodes.right.size() == before) {
          const double load = static_cast<double>(share) * groups->filling[joint];
          begin_left(colour_of(5, {double(pattern_of_joint[joint]), load}));
          load_nodes.push_back({static_cast<Index>(nodes.left_colour.size() - 1), joint, load});
          nodes.right.push_back(joint_nodes[joint]);
        }
        nodes.right.push_back(node);
      }
      if (nodes.right.size() > before) end_left();
    }
  }

  // The closed form gives a group in a torus all links of its chips, whatever its shape, and its numbers were fitted
  // that way. So a group alone takes that time: it fills a link at most, and what slows it down is others.
  Result<void> add_group(std::size_t p, const std::vector<int>& members, std::vector<LinkLoad>& own) {
    const Pattern& pattern = patterns[p];
    double filling = 1;
    if (pattern.bytes_per_s > 0 && pattern.sort == Pattern::Sort::pairs) {
      const Result<void> added = layer_.add_pairs(members, own);
      if (!added) return added;
    } else if (pattern.bytes_per_s > 0) {
      const Result<double> byte_s = layer_.add_rings(members, own);
      if (!byte_s) return tl::unexpected(byte_s.error());
      filling = 1 / std::max(1.0, *byte_s * pattern.bytes_per_s);
    }
    std::vector<std::pair<int, int>> roles;
    for (const int member : members) roles.emplace_back(member, 0);
    add_joint(p, roles, own, filling);
    return {};
  }

  // What one rank writes to a tier.
  Result<void> add_store(std::size_t p, int rank, std::vector<LinkLoad>& own) {
    if (input_.storage == nullptr) return {};
    const StorageLinks& storage = *input_.storage;
    const program::Tier tier = patterns[p].tier;
    if (tier == program::Tier::peer_memory) return layer_.add_replica(rank, storage.peer_distance, p, own);
    const int node = layer_.device(rank) / storage.devices_per_node;
    const auto add = [&](int link) { own.push_back({graph_links_ + link, 1}); };
    if (tier == program::Tier::local_disk) {
      add(storage.disk(node));
      return {};
    }
    add(tier == program::Tier::storage ? storage.shared() : storage.object());
    add(storage.way(node));
    if (storage.on_fabric) layer_.add_way_out(rank, own);
    return {};
  }

  Result<void> add_pattern(std::size_t p) {
    const Pattern& pattern = patterns[p];
    const layout::Mesh& mesh = input_.program.mesh;
    std::vector<LinkLoad> own;
    Result<void> added;
    for (int rank = 0; rank < ranks_ && added; ++rank) {
      own.clear();
      if (pattern.sort == Pattern::Sort::store) {
        added = add_store(p, rank, own);
        add_joint(p, {{rank, 0}}, own);
        continue;
      }
      if (pattern.sort == Pattern::Sort::stage || pattern.sort == Pattern::Sort::around) {
        if (pattern.from_kind >= 0 && program::kind_of_rank(input_.program, rank) != pattern.from_kind) continue;
        const int peer = pattern.sort == Pattern::Sort::stage ? layout::rank_on_stage(mesh, rank, pattern.to_stage)
                                                              : layout::neighbour(mesh, pattern.group, rank, 1);
        if (pattern.bytes_per_s > 0) added = layer_.add_transfer(rank, peer, p, own);
        add_joint(p, {{rank, 0}, {peer, 1}}, own);
        continue;
      }
      if (joint_of_rank[p][static_cast<std::size_t>(rank)] != kNone) continue;
      const std::vector<int> members = layout::members(mesh, pattern.group, rank);
      // A stage between the ends knows who they are, but is none of them.
      if (std::find(members.begin(), members.end(), rank) == members.end()) continue;
      added = add_group(p, members, own);
    }
    return added;
  }

  const StepInput& input_;
  int ranks_ = 0;
  LoadLayer layer_;
  int graph_links_ = 0;
  int num_links_ = 0;
  Bipartite alone_;  // without links
  std::vector<Index> link_node_;
};

void take_rank_kinds(const StepInput& input, const Partition& partition, StepNetwork& network) {
  const int ranks = input.program.mesh.ranks();
  std::unordered_map<Index, Index> kind_of_class;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [found, is_new] = kind_of_class.insert(
        {partition.right_class[static_cast<std::size_t>(rank)], static_cast<Index>(network.kinds.size())});
    if (is_new) {
      RankKind kind;
      kind.rank = rank;
      kind.count = 0;
      kind.program_kind = program::kind_of_rank(input.program, rank);
      const auto slow = input.slow.find(rank);
      if (slow != input.slow.end()) kind.slow = slow->second;
      network.kinds.push_back(kind);
    }
    network.kinds[found->second].count += 1;
    network.kind_of_rank.push_back(static_cast<int>(found->second));
  }
}

// Joints by class; what a kind of ranks takes part in follows from its first rank.
void take_joints(const StepInput& input, const JointGraph& graph, const Partition& partition, StepNetwork& network,
                 std::vector<Index>& joint_of_class) {
  joint_of_class.assign(partition.num_right, kNone);
  for (const Index node : graph.joint_nodes) {
    Index& joint = joint_of_class[partition.right_class[node]];
    if (joint != kNone) continue;
    joint = static_cast<Index>(network.joints.size());
    network.joints.emplace_back();
  }
  const std::size_t patterns = network.patterns.size();
  network.joint_of.assign(network.kinds.size() * patterns, kNone);
  network.peer_of.assign(network.kinds.size() * patterns, kNone);
  for (Index k = 0; k < network.kinds.size(); ++k) {
    const int rank = network.kinds[k].rank;
    for (std::size_t p = 0; p < patterns; ++p) {
      const Index made = graph.joint_of_rank[p][static_cast<std::size_t>(rank)];
      if (made == kNone) continue;
      const Index joint = joint_of_class[partition.right_class[graph.joint_nodes[made]]];
      network.joint_of[k * patterns + p] = joint;
      network.joints[joint].kinds.push_back(k);
      const Pattern& pattern = network.patterns[p];
      if (pattern.sort == Pattern::Sort::stage) {
        const int peer = layout::rank_on_stage(input.program.mesh, rank, pattern.to_stage);
        network.peer_of[k * patterns + p] = static_cast<Index>(network.kind_of_rank[static_cast<std::size_t>(peer)]);
      }
      if (pattern.sort == Pattern::Sort::around) {
        const int peer = layout::neighbour(input.program.mesh, pattern.group, rank, 1);
        network.peer_of[k * patterns + p] = static_cast<Index>(network.kind_of_rank[static_cast<std::size_t>(peer)]);
      }
    }
  }
}

// Kinds of links that can be full, and what each joint puts on one of them.
void take_links(const JointGraph& graph, const Partition& partition, const std::vector<Index>& joint_of_class,
                StepNetwork& network) {
  std::vector<Index> link_of_class(partition.num_right, kNone);
  std::vector<Index> stands_for(graph.nodes.right_colour.size(), kNone);  // kind of a link that stands for it
  for (std::size_t i = 0; i < graph.link_nodes.size(); ++i) {
    Index& kind = link_of_class[partition.right_class[graph.link_nodes[i]]];
    if (kind == kNone) {
      kind = static_cast<Index>(network.links.size());
      stands_for[graph.link_nodes[i]] = kind;
      network.links.push_back({graph.joined[i], 0, 0});
      network.flows.capacity.push_back(graph.rate(graph.joined[i]));
    }
    network.links[kind].count += 1;
  }
  std::vector<std::vector<KindVisit>> visits(network.joints.size());
  for (const JointGraph::LoadNode& node : graph.load_nodes) {
    std::vector<KindVisit>& own = visits[joint_of_class[partition.right_class[graph.joint_nodes[node.joint]]]];
    for (Index e = graph.nodes.first[node.left]; e < graph.nodes.first[node.left + 1]; ++e) {
      const Index link = stands_for[graph.nodes.right[e]];
      if (link == kNone) continue;
      const auto found = std::find_if(own.begin(), own.end(), [&](const KindVisit& v) { return v.link == link; });
      if (found == own.end()) {
        own.push_back({link, node.share});
      } else {
        found->load += node.share;
      }
    }
  }
  for (Index j = 0; j < network.joints.size(); ++j) {
    FlowKind flow;
    flow.first_visit = static_cast<Index>(network.flows.visits.size());
    flow.num_visits = static_cast<Index>(visits[j].size());
    network.flows.visits.insert(network.flows.visits.end(), visits[j].begin(), visits[j].end());
    network.flows.flows.push_back(flow);
    network.joints[j].flow = j;
    network.joints[j].contends = flow.num_visits > 0;
  }
}

StepNetwork network_of(const StepInput& input, const JointGraph& graph) {
  StepNetwork network;
  network.patterns = graph.patterns;
  const Partition partition = input.fold ? refine(graph.nodes) : all_different(graph.nodes);
  take_rank_kinds(input, partition, network);
  std::vector<Index> joint_of_class;
  take_joints(input, graph, partition, network, joint_of_class);
  take_links(graph, partition, joint_of_class, network);
  for (const Index node : graph.joint_nodes) {
    network.joint_of_group.push_back(joint_of_class[partition.right_class[node]]);
  }
  network.groups = graph.groups;
  return network;
}

Result<void> check_input(const StepInput& input) {
  const int ranks = input.program.mesh.ranks();
  for (const auto& [rank, factor] : input.slow) {
    if (rank < 0 || rank >= ranks)
      return input_error(fmt::format("there is no rank {}", rank), fmt::format("ranks are 0 to {}", ranks - 1));
    if (!(factor > 0))
      return input_error(fmt::format("rank {} is {} times as slow; expected a factor above 0", rank, factor));
  }
  if (!input.device_of_rank.empty() && input.device_of_rank.size() != static_cast<std::size_t>(ranks)) {
    return input_error(fmt::format("{} ranks are placed on {} devices", ranks, input.device_of_rank.size()));
  }
  if (input.graph != nullptr && input.device_of_rank.empty() && input.graph->num_devices() < ranks) {
    return input_error(
        fmt::format("{} ranks need as many devices; the graph has {}", ranks, input.graph->num_devices()));
  }
  return {};
}

}  // namespace

Result<StepNetworks> step_networks(const StepInput& input) {
  if (const Result<void> checked = check_input(input); !checked) return tl::unexpected(checked.error());
  const auto graph = std::make_shared<JointGraph>(input, patterns_of(input));
  if (const Result<void> built = graph->build(); !built) return tl::unexpected(built.error());
  StepNetworks networks;
  graph->join_links(/*all=*/false);
  networks.apart = network_of(input, *graph);
  networks.links = graph->links;
  networks.shared = [&input, graph] {
    graph->join_links(/*all=*/true);
    return network_of(input, *graph);
  };
  return networks;
}

std::uint32_t pattern_of(const StepNetwork& network, const program::Program& program, const program::PlacedOp& op) {
  if (!communicates(*op.op)) return kNone;
  const Pattern pattern = pattern_for(program, op);
  const auto found = std::find(network.patterns.begin(), network.patterns.end(), pattern);
  return static_cast<std::uint32_t>(found - network.patterns.begin());
}

}  // namespace twinpod::sim
