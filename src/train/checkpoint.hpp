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
// done. After an error it goes to the next tier whose turn it is, from the same copy in memory; when there is none, it
// is given up. What it had written is removed first, as that takes room that the next one needs. The older checkpoints
// stay, and training goes on or ends as the tier says.
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
#include "store/lock.hpp"
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
  bool lacks_newest = false;        // at the end of the run the slowest tier has not its newest state; on rank 0
  double stall_s = 0;               // that training waited on this rank
  std::int64_t snapshot_bytes = 0;  // memory of the copy on this rank
  std::vector<std::string> errors;  // as they were said
};

// Tiers that are ready to be saved to.
struct Opened {
  std::int64_t number = 0;  // of the next checkpoint
  std::optional<Error> refused = std::nullopt;
  std::unique_ptr<Replicas> replicas = nullptr;
  std::vector<std::unique_ptr<store::StoreLock>> locks = {};  // of the tiers, on rank 0
};
class Saver {
 public:
  // What a rank's thread has come to; of all ranks, the largest of each.
  using Votes = std::array<std::int32_t, 3>;

  // `regions` have the live bytes, which stay where they are. `opened` is that of open_tiers, and was not refused.
  Saver(comm::Communicator& world, const CheckpointSettings& settings, std::vector<store::HeldRegion> regions,
        Opened opened);
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
  enum class Phase { idle, writing, replicating, committing, clearing };
  enum class Task { none, write, commit, clear };
  // What failed, as it stands in the votes: where several did, the last.
  enum class Failed { nothing, drain, tier, peers };

  static constexpr std::size_t kNoTier = SIZE_MAX;

  void run();
  Result<std::string> write_part();
  Result<std::string> write_shard_to(store::Files& files, const std::string& folder);
  Result<std::string> write_to_peers();
  Result<void> commit();
  Result<void> commit_on_tier();
  Result<void> clear();
  void note_failure(Failed what, const Error& error);
  std::size_t next_tier(std::size_t from) const;
  const store::Tier& tier() const { return settings_.tiers[tier_]; }
  void start(Task task);
  Result<void> collect_parts(std::int32_t words);
  Result<void> begin_replicas();
  Result<void> share_manifest();
  std::string where(Failed failed) const;
  Result<std::optional<Error>> give_up(Failed failed);
  void try_elsewhere(Failed failed);
  void end_clearing();
  void end_save();
  void note_errors();
  void empty_first_tier();

  comm::Communicator& world_;
  const CheckpointSettings& settings_;
  std::vector<store::HeldRegion> regions_;
  Snapshot snapshot_;
  std::vector<std::unique_ptr<store::StoreLock>> locks_;
  std::unique_ptr<Replicas> replicas_;   // nullptr: no peer keeps any
  std::unique_ptr<store::Drain> drain_;  // on rank 0, with several tiers
  std::size_t drain_errors_ = 0;         // that were told
  std::string newest_;                   // checkpoint that is durable on a tier
  std::size_t newest_tier_ = 0;          // which

  Phase phase_ = Phase::idle;
  std::int64_t number_;
  std::string name_;
  store::TrainingState state_;
  bool last_ = false;                                        // goes to every tier, as the first does
  bool to_peers_ = false;                                    // this one
  std::size_t tier_ = 0;                                     // that it is written to; kNoTier: none
  bool only_commits_ = false;                                // again: its parts are on the tier
  std::vector<std::size_t> failed_tiers_;                    // of this save, which have to be cleared
  std::vector<std::pair<std::size_t, std::string>> debris_;  // what could not be cleared, and is tried again
  std::int64_t replicated_ = 0;                              // number of the newest that all peers have; 0: none
  std::vector<std::string> parts_;                           // on rank 0, of all ranks
  std::string manifest_;                                     // of all, for the peers
  SaveReport report_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Task task_ = Task::none;  // to be done, or in hand
  bool ending_ = false;
  std::string part_;  // of this rank: a manifest as text; empty: it had nothing to write
  Failed failed_ = Failed::nothing;
  std::optional<Error> error_;
  std::optional<Error> side_error_;  // beside the save: it is saved all the same
  std::thread thread_;
};

// Rank 0 makes tiers that are not there, locks them, removes what saves before left unfinished, and says which number
// comes next. A store that another job saves to is refused, one that holds a run for a new one, and one with
// checkpoints of another version of the format. The error in it is the same on every rank.
Result<Opened> open_tiers(comm::Communicator& world, const CheckpointSettings& settings);

}  // namespace twinpod::train
