// A rank's samples of a step, read by another thread while the step before is computed.
//
//     Prefetcher prefetcher(samples, rank, first_step);
//     Batch batch;
//     while (...) {
//       if (Result<void> read = prefetcher.next(batch); !read) return read;   // batch.step is first_step, then one
//       more ...
//       ... batch.tokens, batch.labels ...
//     }
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/samples.hpp"

namespace twinpod::data {

// Element ((micro_batch · samples of a micro-batch) + index) · sequence + position; the same for labels.
struct Batch {
  std::int64_t step = -1;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;
};

// What a data-parallel rank works on in a step.
Result<void> read_batch(const Samples& samples, std::int64_t step, std::int64_t data_parallel_rank, Batch& batch);

// One micro-batch of it.
std::span<const std::int32_t> micro_batch_of(const Samples& samples, const std::vector<std::int32_t>& values,
                                             std::int64_t micro_batch);

// One caller. The samples must outlive it. After an error it gives the same one again. Ends when the batch that is
// being read is done, without waiting for the caller.
class Prefetcher {
 public:
  Prefetcher(const Samples& samples, std::int64_t data_parallel_rank, std::int64_t first_step);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next step's. The caller's old buffers are filled next, so nothing is allocated after the second step.
  Result<void> next(Batch& batch);

 private:
  void read_all();

  const Samples& samples_;
  const std::int64_t rank_;
  std::int64_t step_;  // to be read next
  std::mutex mutex_;   // guards what follows
  std::condition_variable changed_;
  bool ready_ = false;  // ahead_ and read_ are for the caller; otherwise they are the thread's
  bool ending_ = false;
  Batch ahead_;
  Result<void> read_;
  std::thread thread_;  // not joinable: the system gave none, and the caller reads for itself
};

}  // namespace twinpod::data
