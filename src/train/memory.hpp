// Memory of a rank, counted: what is in use now, what was at most, and for what.
//
//     Memory memory;
//     void* buffer = memory.take(bytes, BufferKind::activations);     // aligned to 64 bytes, in huge pages if large
//     memory.give(buffer);
//     memory.peak_bytes(), memory.at_peak()[...]                      // by kind, when the peak was reached
//
// What is given back is kept for the next of the same size, because new pages cost more than a layer's memory traffic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "program/check.hpp"
#include "program/program.hpp"

namespace twinpod::train {

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  void* take(std::int64_t bytes, program::BufferKind kind);
  void give(void* memory);

  // Memory that was got elsewhere (shared with other ranks).
  void count(std::int64_t bytes, program::BufferKind kind);

  std::int64_t live_bytes() const { return live_; }
  std::int64_t peak_bytes() const { return peak_; }
  const program::BytesByKind& at_peak() const { return at_peak_; }

 private:
  struct Area {
    std::int64_t bytes = 0;
    std::size_t mapped = 0;
    program::BufferKind kind = program::BufferKind::working;  // of who has it, or had it last
  };
  std::map<void*, Area> areas_;                        // all there are
  std::map<std::int64_t, std::vector<void*>> unused_;  // by size
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  program::BytesByKind by_kind_{};  // now
  program::BytesByKind at_peak_{};
};

}  // namespace twinpod::train
