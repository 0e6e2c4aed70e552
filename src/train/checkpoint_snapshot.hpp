// A copy of what a rank saves, taken while the next step computes.
//
//     Snapshot snapshot(bytes_to_copy);
//     snapshot.begin();                     // the step is done
//     snapshot.copy();                      // by the thread that saves, beside the next step's passes
//     snapshot.complete();                  // by the trainer, before it changes a parameter: copies what is left
//
// Parameters and optimizer state change in the update alone, so the passes of the next step are time enough. The memory
// is its own, taken once; it is not part of what the Program counts.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "train/memory.hpp"

namespace twinpod::train {

class Snapshot {
 public:
  explicit Snapshot(const std::vector<std::span<const std::byte>>& sources);

  // REQUIRES: what was begun before is complete.
  void begin();
  // Copies what nobody has copied yet. Another thread may do the same at the same time.
  void copy();
  // The same, and waits for what the other one has in hand.
  void complete();

  // Of the source with this number.
  std::span<const std::byte> bytes_of(std::size_t source) const { return copies_[source]; }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Part {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
  };
  Memory memory_;
  std::int64_t bytes_ = 0;
  std::vector<std::span<const std::byte>> copies_;
  std::vector<Part> parts_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> done_ = 0;
};

}  // namespace twinpod::train
