// What joins the ranks of a Program (groups, transfers), which links that uses, and which of all these are alike.
// Used by the step engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/flow_kinds.hpp"
#include "sim/step.hpp"

namespace twinpod::sim {

// A way in which ranks communicate, the same for all ranks of the Program's kinds that take part.
struct Pattern {
  enum class Sort : std::uint8_t { ring, pairs, stage, around, store };
  Sort sort = Sort::ring;
  layout::Group group = layout::Group::tensor;  // ring, pairs, around
  int from_kind = -1;                           // stage: the sender's, and where it sends to
  int to_stage = -1;
  program::Tier tier = program::Tier::none;  // store: where a checkpoint goes
  program::Lane lane = program::Lane::data;
  double bytes_per_s = 0;  // the most that one rank sends
  bool operator==(const Pattern& other) const {
    return sort == other.sort && group == other.group && from_kind == other.from_kind && to_stage == other.to_stage &&
           tier == other.tier;
  }
};

// Groups (or transfers) of a pattern that are alike.
struct Joint {
  std::vector<std::uint32_t> kinds;  // of ranks, of its members, each once
  std::uint32_t flow = 0;            // index into StepNetwork::flows.flows
  bool contends = false;
};

// Of what a rank sends, so much goes over this link.
struct LinkLoad {
  int link = 0;
  float share = 0;
};

// What every joint of a Program, alike or not, puts on links.
struct GroupLoads {
  std::vector<std::uint32_t> first = {0};  // of each joint, and the end
  std::vector<LinkLoad> loads;             // by share, within a joint
  std::vector<double> filling;             // so much of it counts where a link is shared
};

constexpr std::uint32_t kNone = ~std::uint32_t{0};

struct StepNetwork {
  std::vector<Pattern> patterns;
  std::vector<RankKind> kinds;  // without their ops
  std::vector<int> kind_of_rank;
  std::vector<Joint> joints;
  std::vector<std::uint32_t> joint_of;        // of kind k in pattern p at [k * patterns + p]; kNone: it takes no part
  std::vector<std::uint32_t> peer_of;         // stage, around: the kind that receives what kind k sends in pattern p
  Kinds flows;                                // a flow for each joint, over the links that can be full
  std::vector<FullLink> links;                // kinds of links that can be full, in the order of flows.capacity
  std::vector<std::uint32_t> joint_of_group;  // of every joint of the Program, alike or not: its kind
  std::shared_ptr<const GroupLoads> groups;   // and what it puts on links

  std::uint32_t joint(std::uint32_t kind, std::size_t pattern) const {
    return joint_of[kind * patterns.size() + pattern];
  }
  std::uint32_t peer(std::uint32_t kind, std::size_t pattern) const {
    return peer_of[kind * patterns.size() + pattern];
  }
};

// A transfer of less than a microsecond, such as that of one number for the norm of the gradients, is in nobody's way.
inline bool is_on_links(const OpTime& time) { return time.bytes_per_s > 0 && time.transfer_s >= 1e-6; }

// A step in which nothing gets in the way of anything has far fewer kinds of ranks than one in which it could.
struct StepNetworks {
  StepNetwork apart;                    // as if no link were ever full, but those of storage
  std::vector<int> links;               // of the graph that could be: all that could use them at once would fill them
  std::function<StepNetwork()> shared;  // with these links
};

// The input must outlive the answer.
Result<StepNetworks> step_networks(const StepInput& input);

// Which pattern an op communicates in; kNone: none (computation, host, or on no link).
std::uint32_t pattern_of(const StepNetwork& network, const program::Program& program, const program::PlacedOp& op);

}  // namespace twinpod::sim
