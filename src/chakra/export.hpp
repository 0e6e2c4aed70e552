// A Program as Chakra execution traces, and back.
//
//     const Result<Written> written = write_chakra({program, timeline, line_of_rank}, "traces", false);
//     const Result<program::Program> again = read_chakra("traces");
//
// The folder gets step.RANK.et for the lowest rank of each kind, or for every rank, and comm_group.json with the
// members of the groups. docs/chakra.md says how ops become nodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "program/timeline.hpp"

namespace twinpod::chakra {

struct ExportInput {
  const program::Program& program;
  const program::Timeline& timeline;     // durations of compute nodes
  const std::vector<int>& line_of_rank;  // which of Timeline::ranks a rank belongs to
};

struct Written {
  int files = 0;
  std::size_t nodes = 0;
};

Result<Written> write_chakra(const ExportInput& input, const std::string& folder, bool all_ranks);

// Files of write_chakra. Refuses those of others, and those whose nodes are not what their Program says.
Result<program::Program> read_chakra(const std::string& folder);

// One rank's file as bytes.
std::string chakra_file(const ExportInput& input, int rank);

}  // namespace twinpod::chakra
