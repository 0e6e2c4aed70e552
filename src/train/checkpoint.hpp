// Saves a run while it trains: ranks copy what they hold, a thread of each writes it, rank 0 commits.
//
//     Saver saver(world, settings, regions, number);       // of open_tiers
//     for (...) {
//       std::array votes = saver.votes();                 // what this rank's thread has come to
//       agree(world, read, votes);                        // now what all have come to
//       saver.advance(votes);                             // parts to rank 0, commit, errors
//       run_step(rank, ...);                              // rank.before_update calls saver.before_update()
//       if (due) saver.begin(state);                      // returns at once
//     }
//     saver.finish();
//
// The threads never talk to other ranks: whatever ranks have to agree on they do between steps, with numbers that
// travel with the agreement that every step begins with anyway. A save is passed over while the one before is not
// done. After an error it is given up, the older checkpoints stay, and training goes on or ends as the tier says.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.hpp"
#include "store/drain.hpp"
#include "store/save.hpp"
#include "train/checkpoint_peer.hpp"
#include "train/checkpoint_snapshot.hpp"
#include "train/checkpoint_state.hpp"

namespace twinpod::train {

struct CheckpointSettings {
  std::vector<store::Tier> tiers = {};        // fastest first: ranks save to the first one; empty: nothing is saved
  std::vector<store::Tier> resume_from = {};  // empty: from the first step on
  int every = 0;                              // steps; 0: at the end only
  bool empties_first = false;                 // at the end, when a slower tier has the newest: it is memory
  PeerSettings peer = {};                     // beside the tiers, and faster; they take every so many then
  Values values = {};                         // kept with each checkpoint
};

// How saving went. The same on every rank but for the errors, which rank 0 has.
struct SaveReport {
  int saved = 0;
  int passed_over = 0;              // the one before was not done
  int failed = 0;                   // given up
  std::int64_t newest_step = 0;     // that is durable; 0: none
  double stall_s = 0;               // that training waited on this rank
  std::int64_t snapshot_bytes = 0;  // memory of the copy on this rank
  std::vector<std::string> errors;  // as they were said
};

class Saver {
 public:
  // What a rank's thread has come to; of all ranks, the largest of each.
  using Votes = std::array<std::int32_t, 3>;

  // `regions` have the live bytes, which stay where they are. `number` is that of the first checkpoint, on all ranks.
  Saver(comm::Communicator& world, const CheckpointSettings& settings, std::vector<store::HeldRegion> regions,
        std::int64_t number, std::unique_ptr<Replicas> replicas = nullptr);
  // What is not written then is not.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  Votes votes() const;
  // All ranks, with the agreed votes. An error that comes back in peace ends training on all ranks.
  Result<std::optional<Error>> advance(const Votes& agreed);
  // The first of a run and its last go to every tier: `--resume` reads the job there.
  void begin(const store::TrainingState& state, bool last = false);
  void before_update();
  // All ranks: until nothing is left to do. At the end of the run every tier gets the newest one.
  Result<std::optional<Error>> finish(bool at_end);

  // The newest is not in the memory of peers alone.
  bool is_on_tiers() const { return report_.saved == 0 || newest_ == name_; }
  bool idle() const { return phase_ == Phase::idle; }
  const SaveReport& report() const { return report_; }

 private:
  enum class Phase { idle, writing, replicating, committing };
  enum class Task { none, write, commit };

  void run();
  Result<std::string> write_part();
  Result<std::string> write_shard_to(store::Files& files, const std::string& folder);
  Result<void> commit();
  Result<void> commit_on_tier();
  void start(Task task);
  Result<void> collect_parts(std::int32_t words);
  Result<void> begin_replicas();
  Result<void> share_manifest();
  Result<std::optional<Error>> give_up();
  void end_save();
  void note_errors();
  void empty_first_tier();

  comm::Communicator& world_;
  const CheckpointSettings& settings_;
  std::vector<store::HeldRegion> regions_;
  Snapshot snapshot_;
  std::unique_ptr<Replicas> replicas_;   // nullptr: no peer keeps any
  std::unique_ptr<store::Drain> drain_;  // on rank 0, with several tiers
  std::size_t drain_errors_ = 0;         // that were told
  std::string newest_;                   // checkpoint that is durable on the first tier

  Phase phase_ = Phase::idle;
  std::int64_t number_;
  std::string name_;
  store::TrainingState state_;
  bool to_tiers_ = true;            // this one
  std::int64_t replicated_ = 0;     // number of the newest that all peers have; 0: none
  std::vector<std::string> parts_;  // on rank 0, of all ranks
  std::string manifest_;            // of all, for the peers
  SaveReport report_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Task task_ = Task::none;  // to be done, or in hand
  bool ending_ = false;
  std::string part_;  // of this rank: a manifest as text; empty: it had nothing to write
  std::optional<Error> error_;
  std::optional<Error> prune_error_;
  std::thread thread_;
};

// Rank 0 looks at the tiers, makes those that are not there, and says which number comes next; a store that holds a run
// is refused for a new one. The inner error is the same on every rank.
struct Opened {
  std::int64_t number = 0;
  std::optional<Error> refused;
  std::unique_ptr<Replicas> replicas = nullptr;
};
Result<Opened> open_tiers(comm::Communicator& world, const CheckpointSettings& settings);

}  // namespace twinpod::train
