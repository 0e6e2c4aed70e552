// What the simulator expects of this machine, beside what `bench comm` measures.
#pragma once

#include <string>
#include <vector>

#include "cli/args.hpp"
#include "comm/measure.hpp"
#include "spec/cluster.hpp"

namespace twinpod::cli {

struct Expectation {
  std::string basis;  // where the numbers come from, in words
  spec::Cluster cluster;
};

// Of --on FILE. Refuses a cluster with fewer devices than ranks.
Result<Expectation> expectation_from_file(const Arguments& arguments, const std::string& file);

// From messages between two ranks, measured now. On all ranks.
Result<Expectation> expectation_from_messages(comm::Communicator& world, const std::string& transport);

// Fills in expected_s of each row; 0 where the simulator has no answer.
void expect(const Expectation& expectation, int ranks, std::vector<comm::Measurement>& rows);

}  // namespace twinpod::cli
