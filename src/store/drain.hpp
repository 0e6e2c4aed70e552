// A thread that copies checkpoints from the fastest tier to the slower ones while training goes on.
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

  // A checkpoint that is complete on the fastest tier. The last one of a run goes to all tiers, whatever their `every`.
  void add(const std::string& name, bool last = false);
  void finish();
  bool busy() const;  // something is being copied, or waits for it

  std::vector<TierStatus> status() const;  // as the tiers; the first is the fastest's, from which is copied
  std::int64_t num_left_out() const;
  // The first error of a tier with OnError::stop.
  std::optional<Error> fatal() const;

 private:
  void run();
  void copy_to_tiers(const std::string& name, bool last);
  void prune(std::size_t tier, const std::string& copied);
  void record(std::size_t tier, const Error& error);
  bool keep_pace(std::int64_t bytes);

  const std::vector<Tier> tiers_;
  const DrainOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> waiting_;
  bool last_waits_ = false;
  bool busy_ = false;
  bool stopping_ = false;
  std::vector<TierStatus> status_;
  std::int64_t num_left_out_ = 0;
  std::optional<Error> fatal_;
  std::chrono::steady_clock::time_point next_part_;  // of the thread alone
  std::thread thread_;
};

}  // namespace twinpod::store
