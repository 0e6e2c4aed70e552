// How fast collectives are here: what `twinpod bench comm` does on every rank.
//
//     MeasureRequest request{.calls = {{.verb = Verb::all_reduce, .count = 1024}}};
//     Result<std::vector<Measurement>> rows = measure(world, request);      // the same on all ranks
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace twinpod::comm {

struct Measurement {
  Call call;              // without buffers
  std::size_t bytes = 0;  // as nccl-tests prints it
  std::string_view algorithm;
  double time_s = 0;           // of one call, on the slowest rank
  double in_place_time_s = 0;  // 0: not measured
  std::size_t wrong = 0;       // elements, on all ranks
  std::size_t in_place_wrong = 0;
  std::map<std::string, double> peers = {};  // seconds, by name
  double expected_s = 0;                     // by the simulator; 0: it has no answer
};

// Another library that does the same: seconds for a call, less than 0 if it cannot. Asked on rank 0 only.
struct Peer {
  std::string name;
  std::function<double(const Measurement& row, int iterations)> seconds;
};

struct MeasureRequest {
  std::vector<Call> calls = {};
  int iterations = 0;  // in a block; 0: as many as take about 3 ms
  int warmup = 2;
  int blocks = 12;               // the best counts: whatever else runs makes a program slower, never faster
  double most_s = 1e9;           // for a row: no more blocks after that, but at least two
  bool check = true;             // the results, exactly
  bool in_place = true;          // measured, too
  bool shared = true;            // buffers that all local ranks can reach
  std::vector<Peer> peers = {};  // measured in turn, block by block; on rank 0
};

Result<std::vector<Measurement>> measure(Communicator& communicator, const MeasureRequest& request);

}  // namespace twinpod::comm
