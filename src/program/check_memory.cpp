// Memory of a rank over the ops of its list.
#include <fmt/format.h>

#include <algorithm>

#include "core/units.hpp"
#include "program/check.hpp"

namespace twinpod::program {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// How a block moves the memory in use: the same for every micro-batch.
struct BlockMemory {
  double highest = 0;  // over what was in use before it
  int op = -1;         // during which
  BytesByKind then{};  // parts of it
  BytesByKind after{};
};

BlockMemory memory_of_block(const Program& program, const Block& block) {
  BlockMemory memory;
  BytesByKind now{};
  double sum = 0;
  for (int i = 0; i < static_cast<int>(block.ops.size()); ++i) {
    const Op& op = block.ops[at(i)];
    const auto buffer = [&](int k) {
      return program.shapes[at(block.shapes[op.half])].buffers[at(block.buffers[at(k)])];
    };
    for (int k = op.creates.first; k < op.creates.first + op.creates.count; ++k) {
      sum += buffer(k).bytes;
      now[static_cast<std::size_t>(buffer(k).kind)] += buffer(k).bytes;
    }
    if (memory.op < 0 || sum > memory.highest) {
      memory.highest = sum;
      memory.op = i;
      memory.then = now;
    }
    for (int k = op.frees.first; k < op.frees.first + op.frees.count; ++k) {
      sum -= buffer(k).bytes;
      now[static_cast<std::size_t>(buffer(k).kind)] -= buffer(k).bytes;
    }
  }
  memory.after = now;
  return memory;
}

double sum_of(const BytesByKind& bytes) {
  double sum = 0;
  for (const double one : bytes) sum += one;
  return sum;
}

void add(BytesByKind& sum, const BytesByKind& other) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

}  // namespace

MemoryOverTime memory_of(const Program& program, int kind) {
  const Kind& own = program.kinds[at(kind)];
  std::vector<BlockMemory> blocks(program.blocks.size());
  std::vector<bool> known(program.blocks.size(), false);
  MemoryOverTime memory;
  BytesByKind now{};
  for (const Buffer& buffer : own.residents) now[static_cast<std::size_t>(buffer.kind)] += buffer.bytes;
  memory.resident_bytes = memory.peak_bytes = sum_of(now);
  memory.at_peak = now;
  for (int i = 0; i < static_cast<int>(own.instances.size()); ++i) {
    const int block = own.instances[at(i)].block;
    if (!known[at(block)]) blocks[at(block)] = memory_of_block(program, program.blocks[at(block)]);
    known[at(block)] = true;
    const BlockMemory& moves = blocks[at(block)];
    const double highest = sum_of(now) + moves.highest;
    memory.instances.push_back(highest);
    if (moves.op >= 0 && highest > memory.peak_bytes) {
      memory.peak_bytes = highest;
      memory.at_peak = now;
      add(memory.at_peak, moves.then);
      memory.op = placed(program, kind, i, moves.op);
    }
    add(now, moves.after);
  }
  return memory;
}

Result<void> check_memory(const Program& program) {
  if (program.memory_bytes <= 0) return {};
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    const MemoryOverTime memory = memory_of(program, kind);
    if (memory.peak_bytes <= program.memory_bytes) continue;
    const int stage = program.kinds[at(kind)].stage;
    const std::string when = memory.op.op == nullptr ? "for the whole step"
                                                     : fmt::format("at op {}, {}", memory.op.index, op_text(memory.op));
    return infeasible(fmt::format("program: the ranks of stage {} need {} {}, but a device has {}: {} too much", stage,
                                  format_bytes(memory.peak_bytes), when, format_bytes(program.memory_bytes),
                                  format_bytes(memory.peak_bytes - program.memory_bytes)),
                      "try recompute full, more tp or pp, or a higher zero; `twinpod plan` finds layouts that fit");
  }
  return {};
}

}  // namespace twinpod::program
