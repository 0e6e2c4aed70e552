// The mesh of ranks: which rank has which coordinates, and who belongs to a rank's groups.
//
//     const Result<Mesh> mesh = mesh_of(job);                    // tp fastest, then cp, dp, and pp slowest
//     coordinate(*mesh, 37, Axis::pp)                            // the stage of rank 37
//     members(*mesh, Group::data, 37)                            // the ranks that hold copies of its parameters
//
// A rank is a number with one digit for each axis. Experts are divided by axes of their own (etp, ep and the copies of
// an expert, edp) over the same ranks of a stage, as Megatron-LM does it. A group is described by a few spans of digits
// (its shape), so that members, positions and counts of a group come without a list of all groups: a mesh of a million
// ranks is as cheap as one of eight.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "spec/job.hpp"

namespace twinpod::layout {

enum class Axis { tp, cp, dp, pp };
inline constexpr int kNumAxes = 4;

// The first changes fastest from rank to rank.
using AxisOrder = std::array<Axis, kNumAxes>;
inline constexpr AxisOrder kUsualOrder = {Axis::tp, Axis::cp, Axis::dp, Axis::pp};      // Megatron's tp-cp-ep-dp-pp
inline constexpr AxisOrder kPipelineInside = {Axis::tp, Axis::cp, Axis::pp, Axis::dp};  // its tp-cp-ep-pp-dp

// Ranks that communicate with each other.
enum class Group {
  tensor,         // parts of every matrix
  context,        // parts of a sequence
  data,           // copies of the dense parameters: dp × cp
  shard,          // of those: ranks over which ZeRO shards (shard_group)
  replica,        // ranks that hold the same shard
  expert,         // ranks over which the experts of a layer are spread
  expert_tensor,  // parts of one expert's matrices
  expert_data,    // copies of the same experts
  domain,         // of `data`: ranks in one scale-up domain, who add up among themselves before they go to a server
  expert_domain,  // of `expert_data`: the same
  pipeline,       // all stages of one copy of the model
  ends,           // first and last stage, which share a tied embedding
  mirror,         // stages s and p - 1 - s, which hold copies of each other's chunks (DualPipe)
  model,          // of the dense parts of one copy: tensor × pipeline
  world,          // all
};
inline constexpr int kNumGroups = 15;

std::string_view name_of(Axis axis);
std::string_view name_of(Group group);

// A digit of a rank: (rank / stride) % size.
struct Span {
  int size = 1;
  int stride = 1;
  bool operator==(const Span&) const = default;
};

// A group's members differ in these digits and in no others. Fastest first; spans that follow each other without a gap
// are joined, and those of size 1 are left out.
using GroupShape = std::vector<Span>;

struct Mesh {
  AxisOrder order = kUsualOrder;
  int tp = 1, cp = 1, dp = 1, pp = 1;
  int ep = 1, etp = 1;
  int shard_group = 1;                          // ranks over which ZeRO shards dense parameters
  std::array<GroupShape, kNumGroups> shapes{};  // `ends` and `mirror`: see members()
  int ranks() const { return tp * cp * dp * pp; }
};

// Refuses an order in which experts or shard groups would be cut across stages: then the stages of an expert's copies
// would not be those of the others. REQUIRES: a job that passed layout::check.
Result<Mesh> mesh_of(const spec::Job& job, const AxisOrder& order = kUsualOrder);

int size(const Mesh& mesh, Axis axis);
int stride(const Mesh& mesh, Axis axis);  // between ranks that are neighbours on this axis
int coordinate(const Mesh& mesh, int rank, Axis axis);
using Coordinates = std::array<int, kNumAxes>;  // by Axis
Coordinates coordinates(const Mesh& mesh, int rank);
int rank_at(const Mesh& mesh, const Coordinates& at);

int size(const Mesh& mesh, Group group);
int num_groups(const Mesh& mesh, Group group);
std::vector<int> members(const Mesh& mesh, Group group, int rank);  // in rising order of position
int position(const Mesh& mesh, Group group, int rank);              // of the rank in members()

// The rank with another stage and the same other coordinates.
int rank_on_stage(const Mesh& mesh, int rank, int stage);

// The rank `by` places further in the group, around its end.
int neighbour(const Mesh& mesh, Group group, int rank, int by);

}  // namespace twinpod::layout
