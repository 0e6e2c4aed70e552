// A collective on fresh buffers, checked, for the tests.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/verify.hpp"

namespace twinpod::comm {

inline std::string text_of(const Call& call, int ranks, bool in_place) {
  return fmt::format("{} by {} of {} {} {} on {} ranks, root {}{}", collective::name_of(call.verb),
                     name_of(call.choice), call.count, name_of(call.type), name_of(call.op), ranks, call.root,
                     in_place ? ", in place" : "");
}

// Buffers of a rank, `shift` bytes off alignment; shared ones if asked for.
struct CallBuffers {
  Communicator& communicator;
  void* memory = nullptr;
  std::vector<std::byte> own = {};
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* end = nullptr;

  CallBuffers(Communicator& c, const Call& call, bool in_place, bool shared, std::size_t shift) : communicator(c) {
    const auto ranks = static_cast<std::size_t>(size_of(c));
    const std::size_t part = call.count * size_of(call.type);
    const std::size_t whole = part * ranks;
    const std::size_t bytes = 2 * (whole + 128) + shift;
    if (shared) {
      memory = allocate(c, bytes).value();
    } else {
      own.resize(bytes);
    }
    input = (shared ? static_cast<std::byte*>(memory) : own.data()) + shift;
    output = input + whole + 128;
    end = output + whole + 128;
    std::memset(output, 0x5a, whole + 128);
    const std::size_t offset = static_cast<std::size_t>(rank_of(c)) * part;
    if (!in_place) return;
    const bool part_of_output = call.verb == Verb::all_gather || call.verb == Verb::gather;
    const bool part_of_input = call.verb == Verb::reduce_scatter || call.verb == Verb::scatter;
    if (part_of_output) input = output + offset;
    if (part_of_input) output = input + offset;
    if (!part_of_output && !part_of_input) output = input;
  }
  ~CallBuffers() {
    if (memory != nullptr) release(communicator, memory);
  }
  CallBuffers(const CallBuffers&) = delete;
  CallBuffers& operator=(const CallBuffers&) = delete;
};

// Empty: right. Else what went wrong.
inline std::string checked_run(Communicator& communicator, Call call, bool in_place, bool shared, std::size_t shift) {
  const int ranks = size_of(communicator);
  const int rank = rank_of(communicator);
  CallBuffers buffers(communicator, call, in_place, shared, shift);
  fill_input(call, rank, ranks, buffers.input);
  const std::size_t input_bytes = input_elements(call, rank, ranks) * size_of(call.type);
  const std::vector<std::byte> before(buffers.input, buffers.input + input_bytes);
  call.input = buffers.input;
  call.output = buffers.output;
  const Result<void> done = run(communicator, call);
  if (!done) return fmt::format("{}: {}", text_of(call, ranks, in_place), done.error().message);
  const std::size_t wrong = num_wrong(call, rank, ranks, buffers.output);
  if (wrong > 0) return fmt::format("{}: rank {} has {} wrong", text_of(call, ranks, in_place), rank, wrong);
  if (!in_place && input_bytes > 0 && std::memcmp(before.data(), buffers.input, input_bytes) != 0) {
    return fmt::format("{}: the input of rank {} was changed", text_of(call, ranks, in_place), rank);
  }
  return "";
}

}  // namespace twinpod::comm
