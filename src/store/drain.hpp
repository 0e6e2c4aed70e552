// A thread that copies checkpoints from the tier that they were saved to, which is the fastest unless that failed, to
// the slower ones while training goes on.
//
//     Drain drain(tiers, {.bytes_per_s = 500e6});
//     ... save to tiers[0] ...
//     drain.add(name);                                   // returns at once
//     if (const auto error = drain.fatal()) ...          // a tier failed that must not: stop training
//     drain.finish();                                    // everything that was added is where it should be, or has
//     failed
//
// Checkpoints go to their tiers in order; when it falls behind, those between the one that is being copied and the
// newest are left out, and counted. Each tier is pruned after a newer checkpoint is durable on it; the fastest, too,
// but never of what is still to be copied.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/tiers.hpp"

namespace twinpod::store {

struct DrainOptions {
  double bytes_per_s = 0;  // at most, so that training is not slowed; 0: no limit
};

struct TierStatus {
  std::string newest;  // durable there
  std::int64_t num_copied = 0;
  std::int64_t bytes = 0;
  std::vector<std::string> errors;
};

class Drain {
 public:
  // REQUIRES: at least one tier; their Files outlive this.
  explicit Drain(std::vector<Tier> tiers, const DrainOptions& options = {});
  // Stops at once; what was not copied is not.
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  // A checkpoint that is complete on a tier, whence it goes to those behind it. The last one of a run goes to all of
  // them, whatever their `every`.
  void add(const std::string& name, bool last = false, std::size_t tier = 0);
  void finish();
  bool busy() const;  // something is being copied, or waits for it

  std::vector<TierStatus> status() const;  // as the tiers
  std::int64_t num_left_out() const;
  // The first error of a tier with OnError::stop.
  std::optional<Error> fatal() const;

 private:
  // What waits for its turn.
  struct Waiting {
    std::string name;
    bool last = false;
    std::size_t tier = 0;  // that has it
  };

  void run();
  void copy_to_tiers(const Waiting& one);
  Result<std::int64_t> copy_from_any(const std::vector<std::size_t>& sources, std::size_t to, const std::string& name);
  void clear(std::size_t tier, const std::string& but);
  void prune(std::size_t tier, const std::string& copied);
  void record(std::size_t tier, const Error& error);
  bool keep_pace(std::int64_t bytes);

  const std::vector<Tier> tiers_;
  const DrainOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Waiting> waiting_;
  bool busy_ = false;
  bool stopping_ = false;
  std::vector<TierStatus> status_;
  std::int64_t num_left_out_ = 0;
  std::optional<Error> fatal_;
  std::chrono::steady_clock::time_point next_part_;  // of the thread alone, as are those
  std::vector<std::vector<std::string>> debris_;     // of each tier: copies that failed, and could not be removed
  std::thread thread_;
};

}  // namespace twinpod::store
