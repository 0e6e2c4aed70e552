// The flight recorder: what every rank did last, and what that says about who is to blame when a run hangs or dies.
//
// Each rank keeps its last operations in shared memory, written only by itself. When something goes wrong they are
// copied into a Recording; diagnose() names the culprit. The program that is still running and `twinpod doctor`, which
// reads the file afterwards, ask the same function.
//
//     Recording recording = ...;                       // of a run, or read_recording("twinpod-failure.json")
//     diagnose(recording).message
//       == "rank 2 called broadcast of 64 bytes as operation 17 of world; the others called all_reduce of 128 bytes"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/names.hpp"
#include "comm/element.hpp"
#include "core/error.hpp"

namespace twinpod::comm {

// A collective or a point-to-point message of one rank. Plain data: it lies in shared memory.
struct Operation {
  std::uint32_t group = 0;     // 0: all ranks
  std::uint32_t sequence = 0;  // of the group, from 1; 0: point-to-point
  collective::Verb verb = collective::Verb::barrier;
  bool receives = false;  // point-to-point: a receive, not a send
  ElementType type = ElementType::f32;
  ReduceOp op = ReduceOp::sum;
  std::int32_t root = 0;    // of a rooted collective
  std::int32_t peer = -1;   // point-to-point: the other rank of the run
  std::int32_t tag = 0;     // point-to-point
  std::uint64_t bytes = 0;  // size as in collective/phases.hpp
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;  // 0: not over
};

enum class RankStatus { running, finished, failed, died, stopped };

struct RankRecord {
  int rank = 0;
  RankStatus status = RankStatus::running;
  int signal = 0;                          // that ended or stopped it
  int exit_status = 0;                     // if it ended by itself
  std::string error = {};                  // that it ended with
  std::vector<Operation> operations = {};  // the last ones, oldest first
  std::uint64_t num_operations = 0;        // in all
};

struct GroupRecord {
  std::uint32_t id = 0;
  std::vector<int> members = {};  // ranks of the run
};

struct Recording {
  double timeout_s = 0;
  std::int64_t now_ns = 0;  // when it was taken, on the clock of the operations
  std::vector<RankRecord> ranks = {};
  std::vector<GroupRecord> groups = {};
};

struct Diagnosis {
  int culprit = -1;  // -1: nobody alone
  std::string message = {};
};

// Who is to blame: whoever died or stopped; whoever called something else than the others; whoever ended early; whoever
// did not come, followed from rank to rank when the one that is waited for waits itself.
Diagnosis diagnose(const Recording& recording);

// Whether all ranks of the group have begun this operation, or whatever they call by its number.
bool all_came_to(const Recording& recording, const Operation& operation);

// `all_reduce of 4096 bytes, operation 17 of world`.
std::string described(const Operation& operation);
// A paragraph for people: the diagnosis, and for each rank what it did last.
std::string explained(const Recording& recording);

std::string recording_json(const Recording& recording);
Result<Recording> parse_recording(const std::string& text, const std::string& file);
Result<Recording> read_recording(const std::string& path);
// Recordings of single ranks, as a run over MPI leaves them, put together.
Recording merged(const std::vector<Recording>& recordings);

}  // namespace twinpod::comm
