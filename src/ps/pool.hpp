// Buffers that are used again: fresh memory costs a page fault for each page, more than copying to it.
//
//     BufferPool pool;
//     const Payload payload = ...{.owner = pool.take(bytes), ...};     // goes back when the last message lets go
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <vector>

namespace twinpod::ps {

class BufferPool {
 public:
  // Whole cache lines.
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    const std::size_t size = (bytes + kGrain - 1) / kGrain * kGrain;
    std::vector<Block>& free = (*free_)[size];
    Block block;
    if (free.empty()) {
      block = Block(static_cast<std::byte*>(::operator new(size, kAlignment)));
    } else {
      block = std::move(free.back());
      free.pop_back();
    }
    std::byte* const data = block.release();
    return {data, [size, kept = std::weak_ptr(free_)](std::byte* memory) {
              Block back(memory);
              const std::shared_ptr<FreeBlocks> blocks = kept.lock();
              if (blocks != nullptr && (*blocks)[size].size() < kMostFree) (*blocks)[size].push_back(std::move(back));
            }};
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  static constexpr std::size_t kGrain = 4096;
  static constexpr std::size_t kMostFree = 64;  // of one size

  struct Release {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  using Block = std::unique_ptr<std::byte, Release>;
  using FreeBlocks = std::map<std::size_t, std::vector<Block>>;
  std::shared_ptr<FreeBlocks> free_ = std::make_shared<FreeBlocks>();
};

}  // namespace twinpod::ps
