// An MSCCL file as it is written, before it is laid out in rounds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collective/schedule.hpp"
#include "core/error.hpp"

namespace twinpod::collective::msccl {

// What the letters of a step's type say: r receive, s send, r (second) reduce, c copy.
struct Type {
  std::string_view name;
  bool receives = false;
  bool sends = false;
  bool reduces = false;
  bool keeps = false;  // what was received is written to dst
  bool local = false;  // cpy, re
};
const Type* type_named(std::string_view name);

struct Op {
  const Type* type = nullptr;
  Buffer source = Buffer::input;
  int source_chunk = 0;
  Buffer target = Buffer::input;
  int target_chunk = 0;
  int count = 0;
  int waits_for_block = -1;  // place of the thread block in its rank; -1: for nobody
  int waits_for_step = -1;
  int line = 0;
};

struct Block {
  int id = 0;
  int send = -1;
  int receive = -1;
  int channel = 0;
  int line = 0;
  std::vector<Op> ops = {};
};

inline constexpr int kMaxChunks = 1 << 20;  // of a buffer
inline constexpr int kMaxCells = 1 << 22;   // chunks of all buffers of all ranks: what can be proved

struct Program {
  Schedule schedule;                      // without its rounds
  std::vector<std::vector<Block>> ranks;  // the thread blocks of each
};

// "rank 3, thread block 1, step 2"
std::string where(int rank, const Block& block, int step);

Result<Program> parse(std::string_view xml);

// The rounds, and scratch chunks for what waits.
Result<Schedule> lay_out(const Program& program);

tl::unexpected<Error> refuse_at(int line, std::string message, std::string hint = "");

}  // namespace twinpod::collective::msccl
