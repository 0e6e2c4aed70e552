// What a rank knows, inside the module: its world, its groups, and how operations begin, wait and fail.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/copy.hpp"
#include "comm/huge_pages.hpp"
#include "comm/recording.hpp"
#include "comm/shared.hpp"
#include "comm/transport.hpp"
#include "comm/wait.hpp"

namespace twinpod::comm {

struct MpiFunctions;  // mpi_transport.hpp
struct Worker;        // worker.cpp

// One rank of a run.
// Of a rank's arena.
struct TakenMemory {
  std::size_t bytes = 0;
  bool huge = false;  // in huge pages
};

struct World {
  int rank = 0;
  int size = 1;
  Options options;
  Transport transport;
  Patience patience;
  bool local = false;
  bool may_reach = false;      // the memory of other ranks, through the kernel
  HugePages huge_pages;        // of this rank, if others reach it
  Segment segment;             // if local
  RankState* state = nullptr;  // in the segment if local
  std::atomic<std::uint32_t> never_aborts = 0;
  const MpiFunctions* mpi = nullptr;                    // if not local
  std::map<std::size_t, std::size_t> free_memory = {};  // of the arena: bytes at an offset
  std::map<const void*, TakenMemory> taken_memory = {};
  int next_group = 1;          // if not local
  std::uint32_t fault_at = 0;  // the operation at which options.fault happens here; 0: never
};

using ScheduleKey = std::tuple<int, int, int, int, int, int, std::vector<int>, bool, bool>;

struct Communicator {
  World* world = nullptr;
  std::uint32_t group = 0;
  int rank = 0;
  std::vector<int> members = {};    // ranks of the world
  std::vector<Block*> blocks = {};  // of the members, if local
  std::uint32_t sequence = 0;       // of the last collective
  std::uint32_t all_entered = 0;    // an operation that all have entered
  std::uint32_t stage = 0;          // of the last step of a long one
  void* native = nullptr;           // MPI's own communicator
  std::map<ScheduleKey, std::shared_ptr<const collective::Schedule>> schedules = {};
  std::unique_ptr<Worker, void (*)(Worker*)> worker{nullptr, nullptr};

  int size() const { return static_cast<int>(members.size()); }
};

// What a member says about the operation that this rank is in.
inline Entry& entry_of(const Communicator& communicator, int member) {
  return communicator.blocks[static_cast<std::size_t>(member)]->entries[communicator.sequence % kTurns];
}

Communicator whole_world(World& world);

// The end of an operation that did not come about: finds out why, tells all ranks, writes the recording.
Error failure_of(World& world, Waited waited);
// The same for the launcher, which is no rank. Returns what stands already if somebody was first.
std::string settle_failure(const Segment& segment, const Options& options);

// Waits with progress until the message is done. `communicator`: the one whose collective it belongs to, to notice that
// the others called something else; nullptr for point-to-point.
Waited wait_for_message(World& world, Message& message, const Communicator* communicator);

// Collectives between local ranks, without messages.
Waited run_inlined(Communicator& communicator, const Call& call, std::uint64_t signature);
Waited run_bulk(Communicator& communicator, const Call& call, std::uint64_t signature);
Waited run_mapped(Communicator& communicator, const Call& call);
Waited run_remote(Communicator& communicator, const Call& call);
// Whether the ranks can get at each other's buffers, as memory of their own or through the kernel.
bool can_map(const Communicator& communicator, const Call& call);
bool can_reach(const Communicator& communicator);
// Takes the next entry, writes what this is about, and leaves the rest and publishing it to the caller.
Waited enter(Communicator& communicator, std::uint64_t signature, std::uint32_t turns = kTurns);
// Waits until a member has entered, and looks whether it is for the same.
Waited await_entry(Communicator& communicator, int member, std::uint64_t signature);
// The next step of a long operation: says that this rank has come so far, and waits until all have. Between the two a
// rank may do what concerns nobody else: the others come meanwhile.
void arrive(Communicator& communicator);
Waited await_others(Communicator& communicator);
Waited meet(Communicator& communicator);

// What is left of a Choice in the end, without its shape.
struct Pick {
  Method method = Method::automatic;
  collective::Algorithm algorithm = collective::Algorithm::ring;
};
Pick pick_for(const Communicator& communicator, const Call& call, bool shared);
// Whether windows are faster than the kernel for buffers that are not shared; alike on all ranks.
bool prefers_windows(const Communicator& communicator, const Call& call);

// A schedule, as messages.
Result<void> run_scheduled(Communicator& communicator, const Call& call, collective::Algorithm algorithm,
                           std::uint64_t signature, Waited& waited);
// Whether a member entered this operation for something else.
bool has_mismatch(const Communicator& communicator);

// Everything that must be alike on all ranks.
std::uint64_t signature_of(const Call& call, Method method);
bool is_divided(Verb verb);
std::size_t bytes_of(const Communicator& communicator, const Call& call);  // as nccl-tests prints it
// What a rank puts in: a buffer, or its part of one.
std::size_t contribution_bytes(const Communicator& communicator, const Call& call);
Result<void> check(const Communicator& communicator, const Call& call);
Result<void> check_choice(const Communicator& communicator, const Call& call);

// Says when this rank's fault is due.
void plan_fault(World& world);
// A collective, now, on this thread.
Result<void> perform(Communicator& communicator, const Call& call);
// Whether there are non-blocking operations that have to come first.
bool has_pending(const Communicator& communicator);

}  // namespace twinpod::comm
