// A workload made elsewhere: Chakra execution traces, one file for each rank.
//
//     const Result<Workload> workload = read_workload("traces");          // traces/NAME.0.et, traces/NAME.1.et, ...
//     const Result<WorkloadRun> run = run_workload(*workload, place);     // chakra/run.hpp
//
// A single file stands for all ranks of a cluster, who do the same. Members of process groups come from the folder's
// comm_group.json ({"name": [ranks]}, as ASTRA-sim has it); where it does not name a group, its members are the ranks
// whose files do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collective/names.hpp"
#include "core/error.hpp"

namespace twinpod::chakra {

enum class NodeKind : std::uint8_t { metadata, load, store, compute, send, recv, collective, other };

struct WorkNode {
  std::uint64_t id = 0;
  std::string name;
  NodeKind kind = NodeKind::metadata;
  std::vector<std::uint32_t> waits;  // nodes of the same rank, by index
  double duration_s = 0;             // 0: not given
  bool on_host = false;
  double flop = 0;   // num_ops
  double bytes = 0;  // tensor_size; of communication comm_size: what one rank puts in
  collective::Verb verb = collective::Verb::all_reduce;
  int group = 0;  // of a collective: index into Workload::groups
  int peer = -1;  // of a send or recv
  std::int64_t tag = 0;
};

struct RankWork {
  std::string file;
  std::vector<WorkNode> nodes;
  std::vector<std::string> groups;  // names, by WorkNode::group until the ranks are joined
};

struct WorkGroup {
  std::string name;          // empty: all ranks
  std::vector<int> members;  // empty: all ranks
};

struct Workload {
  bool alike = false;  // one list that stands for all ranks
  std::vector<RankWork> ranks;
  std::vector<WorkGroup> groups;
};

Result<Workload> read_workload(const std::string& path);

// One rank's file.
Result<RankWork> parse_rank(std::string_view text, const std::string& file);

using GroupMembers = std::map<std::string, std::vector<int>>;

// Ranks 0, 1, ... as one workload.
Result<Workload> join_ranks(std::vector<RankWork> ranks, const GroupMembers& groups);

// NAME.3.et: 3; -1: no number.
int rank_of_file(const std::string& path);

// The .et files of a folder by their rank: 0, 1, ... without a gap if `complete`.
Result<std::map<int, std::string>> rank_files(const std::string& folder, bool complete);

}  // namespace twinpod::chakra
