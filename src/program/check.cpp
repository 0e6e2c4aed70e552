#include "program/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/units.hpp"
#include "program/check_parts.hpp"

namespace twinpod::program {
namespace {

std::string pass_text(Phase phase, int micro_batch, int chunk) {
  return fmt::format("{} of micro-batch {}, chunk {}", name_of(phase), micro_batch, chunk);
}

// ---- structure ----

Result<void> check_block(const Program& program, int index) {
  const Block& block = program.blocks[at(index)];
  const auto inside = [](const Range& range, std::size_t size) {
    return range.first >= 0 && range.count >= 0 && at(range.first) + at(range.count) <= size;
  };
  for (int i = 0; i < static_cast<int>(block.ops.size()); ++i) {
    const Op& op = block.ops[at(i)];
    const auto wrong = [&](std::string_view what) {
      return input_error(fmt::format("program: block {}, op {}: {}", index, i, what));
    };
    if (op.half > 1 || (op.half == 1 && !block.pair)) return wrong("a second half in a block that is no pair");
    const int shape = block.shapes[op.half];
    if (shape < 0 || at(shape) >= program.shapes.size()) return wrong(fmt::format("shape {} is not there", shape));
    if (op.work >= static_cast<int>(program.works.size())) return wrong(fmt::format("work {} is not there", op.work));
    if (op.kind == OpKind::compute && op.work < 0) return wrong("computes, but has no work");
    if (!inside(op.waits, block.waits.size())) return wrong("its list of waits is not there");
    for (const Range& range : {op.creates, op.frees, op.uses}) {
      if (!inside(range, block.buffers.size())) return wrong("its list of buffers is not there");
      for (int k = range.first; k < range.first + range.count; ++k) {
        const int buffer = block.buffers[at(k)];
        if (buffer < 0 || at(buffer) >= program.shapes[at(shape)].buffers.size())
          return wrong(fmt::format("buffer {} is not there", buffer));
      }
    }
    for (int k = op.waits.first; k < op.waits.first + op.waits.count; ++k) {
      const int wait = block.waits[at(k)];
      if (wait < 0 || wait >= i) return wrong(fmt::format("waits for op {}, which does not come before it", wait));
    }
  }
  return {};
}

Result<void> check_instance(const Program& program, int kind, int index) {
  const Kind& own = program.kinds[at(kind)];
  const Instance& instance = own.instances[at(index)];
  const auto wrong = [&](const std::string& what) {
    return input_error(fmt::format("program: {}, instance {}: {}", who(program, kind), index, what));
  };
  if (instance.block < 0 || at(instance.block) >= program.blocks.size())
    return wrong(fmt::format("block {} is not there", instance.block));
  for (int half = 0; half < 2; ++half) {
    if (instance.chunk[half] >= static_cast<int>(own.chunks.size()))
      return wrong(fmt::format("chunk {} is not there", instance.chunk[half]));
    if (instance.micro_batch[half] >= program.micro_batches)
      return wrong(fmt::format("micro-batch {} of {}", instance.micro_batch[half], program.micro_batches));
    const Source& from = instance.from[half];
    if (from.kind < 0) continue;
    if (at(from.kind) >= program.kinds.size() || from.instance < 0 ||
        at(from.instance) >= program.kinds[at(from.kind)].instances.size())
      return wrong(fmt::format("comes behind instance {} of stage {}, which is not there", from.instance, from.kind));
    if (from.kind == kind && from.instance >= index)
      return wrong(fmt::format("comes behind instance {} of its own list, which is later: deadlock", from.instance));
  }
  return {};
}

Result<void> check_kind(const Program& program, int kind) {
  const Kind& own = program.kinds[at(kind)];
  const int stages = program.mesh.pp;
  const auto is_stage = [&](int stage) { return stage >= -1 && stage < stages; };
  if (own.stage != kind)
    return input_error(fmt::format("program: kind {0} is stage {1}, but must be stage {0}", kind, own.stage));
  for (const Chunk& chunk : own.chunks) {
    if (chunk.shape < 0 || at(chunk.shape) >= program.shapes.size())
      return input_error(fmt::format("program: {}: shape {} of a chunk is not there", who(program, kind), chunk.shape));
    if (!is_stage(chunk.next_stage) || !is_stage(chunk.previous_stage))
      return input_error(fmt::format("program: {}: a chunk stands between stages {} and {}, but there are {}",
                                     who(program, kind), chunk.previous_stage, chunk.next_stage, stages));
  }
  for (int i = 0; i < static_cast<int>(own.instances.size()); ++i) {
    Result<void> good = check_instance(program, kind, i);
    if (!good) return good;
  }
  return {};
}

Result<void> check_structure(const Program& program) {
  if (static_cast<int>(program.kinds.size()) != program.mesh.pp)
    return input_error(
        fmt::format("program: {} kinds of ranks, but the mesh has {} stages", program.kinds.size(), program.mesh.pp));
  for (int i = 0; i < static_cast<int>(program.blocks.size()); ++i) {
    Result<void> good = check_block(program, i);
    if (!good) return good;
  }
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    Result<void> good = check_kind(program, kind);
    if (!good) return good;
  }
  return {};
}

// ---- passes ----

// What was seen of one micro-batch of a chunk: forward, backward of inputs, weights.
struct Seen {
  bool forward = false;
  bool input = false;
  bool weights = false;
};

Result<void> see(const Program& program, int kind, Phase phase, int micro_batch, int chunk, Seen& seen) {
  const auto wrong = [&](std::string_view what) {
    return input_error(
        fmt::format("program: {}: {} {}", who(program, kind), pass_text(phase, micro_batch, chunk), what));
  };
  if (phase == Phase::forward) {
    if (seen.forward) return wrong("is there twice");
    seen.forward = true;
    return {};
  }
  if (is_input_backward(phase)) {
    if (!seen.forward) return wrong("comes before its forward pass");
    if (seen.input) return wrong("is there twice");
    seen.input = true;
  }
  if (phase == Phase::backward || phase == Phase::backward_weight) {
    if (!seen.input) return wrong("comes before the gradients of its inputs");
    if (seen.weights) return wrong("is there twice");
    seen.weights = true;
  }
  return {};
}

Result<void> check_passes(const Program& program) {
  std::vector<int> entered(at(program.micro_batches), 0);
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    const Kind& own = program.kinds[at(kind)];
    std::vector<Seen> seen(own.chunks.size() * at(program.micro_batches));
    for (const Instance& instance : own.instances) {
      const Block& block = block_of(program, instance);
      for (int half = 0; half < (block.pair ? 2 : 1); ++half) {
        const int m = instance.micro_batch[half];
        const int c = instance.chunk[half];
        if (m < 0 || c < 0) continue;
        Seen& own_seen = seen[at(c) * at(program.micro_batches) + at(m)];
        Result<void> good = see(program, kind, phase_of(block, half), m, c, own_seen);
        if (!good) return good;
        if (phase_of(block, half) == Phase::forward && own.chunks[at(c)].position == 0) ++entered[at(m)];
      }
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (seen[i].forward == seen[i].weights) continue;
      return input_error(fmt::format("program: {}: the backward pass of micro-batch {}, chunk {} is missing",
                                     who(program, kind), i % at(program.micro_batches), i / at(program.micro_batches)));
    }
  }
  for (int m = 0; m < program.micro_batches; ++m) {
    if (entered[at(m)] != 1)
      return input_error(
          fmt::format("program: micro-batch {} enters the model {} times, but must enter it once", m, entered[at(m)]));
  }
  return {};
}

// ---- waiting ----

// Lists are run side by side as far as they go. An instance can run when those that it comes behind have run: ops of a
// list wait for earlier ones only, so what is left at the end waits in a circle.
Result<void> check_deadlock(const Program& program) {
  std::vector<int> done(program.kinds.size(), 0);
  const auto can_run = [&](const Instance& instance) {
    return std::all_of(std::begin(instance.from), std::end(instance.from),
                       [&](const Source& from) { return from.kind < 0 || done[at(from.kind)] > from.instance; });
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t k = 0; k < program.kinds.size(); ++k) {
      const std::vector<Instance>& list = program.kinds[k].instances;
      while (at(done[k]) < list.size() && can_run(list[at(done[k])])) {
        ++done[k];
        moved = true;
      }
    }
  }
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    const std::vector<Instance>& list = program.kinds[at(kind)].instances;
    if (at(done[at(kind)]) == list.size()) continue;
    const Instance& stuck = list[at(done[at(kind)])];
    for (const Source& from : stuck.from) {
      if (from.kind < 0 || done[at(from.kind)] > from.instance) continue;
      return wrong_at(program, placed(program, kind, done[at(kind)], 0),
                      fmt::format("deadlock: it waits for instance {} of {}, which waits at its instance {}",
                                  from.instance, who(program, from.kind), done[at(from.kind)]));
    }
  }
  return {};
}

// ---- collectives that join stages ----

bool joins_stages(const Program& program, layout::Group group) {
  using layout::Group;
  return program.mesh.pp > 1 && (group == Group::world || group == Group::pipeline || group == Group::model ||
                                 group == Group::ends || group == Group::mirror);
}

std::vector<int> joined_stages(const Program& program, layout::Group group, int stage) {
  const int last = program.mesh.pp - 1;
  if (group == layout::Group::ends) return {0, last};
  if (group == layout::Group::mirror) return {stage, last - stage};
  std::vector<int> all(at(last + 1));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

using Call = std::tuple<layout::Group, collective::Verb, double>;

Result<void> check_joint_collectives(const Program& program) {
  std::vector<std::map<Call, int>> calls(program.kinds.size());  // how often, by kind: stage s is kind s
  for (std::size_t kind = 0; kind < program.kinds.size(); ++kind) {
    for (const Instance& instance : program.kinds[kind].instances) {
      for (const Op& op : block_of(program, instance).ops) {
        if (op.kind == OpKind::collective && joins_stages(program, op.group))
          ++calls[kind][{op.group, op.verb, op.bytes}];
      }
    }
  }
  for (int kind = 0; kind < static_cast<int>(calls.size()); ++kind) {
    for (const auto& [call, times] : calls[at(kind)]) {
      const auto& [group, verb, bytes] = call;
      for (const int other : joined_stages(program, group, kind)) {
        const auto found = calls[at(other)].find(call);
        if (found != calls[at(other)].end() && found->second == times) continue;
        return input_error(fmt::format("program: {}: {} of {} bytes over {}, but {} does not take part",
                                       who(program, kind), collective::name_of(verb), bytes, layout::name_of(group),
                                       who(program, other)));
      }
    }
  }
  return {};
}

// ---- buffers ----

enum class Life : std::uint8_t { none, alive, freed };

struct Lives {
  std::vector<std::vector<Life>> of;  // by chunk and micro-batch; the last is the step's own
  const Program& program;

  std::vector<Life>& at_op(const PlacedOp& op) {
    const std::size_t index = op.chunk < 0 || op.micro_batch < 0
                                  ? of.size() - 1
                                  : at(op.chunk) * at(program.micro_batches) + at(op.micro_batch);
    std::vector<Life>& lives = of[index];
    const std::size_t count = program.shapes[at(op.block->shapes[op.op->half])].buffers.size();
    if (lives.size() < count) lives.resize(count, Life::none);
    return lives;
  }
};

Result<void> touch(const Program& program, const PlacedOp& op, Lives& lives) {
  std::vector<Life>& own = lives.at_op(op);
  const std::vector<int>& list = op.block->buffers;
  const auto name = [&](int buffer) {
    const Buffer& one = program.shapes[at(op.block->shapes[op.op->half])].buffers[at(buffer)];
    return fmt::format("buffer {} ({} of {})", buffer, name_of(one.kind), format_bytes(one.bytes));
  };
  for (int k = 0; k < op.op->creates.count; ++k) {
    const int buffer = list[at(op.op->creates.first + k)];
    if (own[at(buffer)] != Life::none) return wrong_at(program, op, name(buffer) + " is created twice");
    own[at(buffer)] = Life::alive;
  }
  for (int k = 0; k < op.op->uses.count; ++k) {
    const int buffer = list[at(op.op->uses.first + k)];
    if (own[at(buffer)] == Life::none) return wrong_at(program, op, name(buffer) + " is used before it is there");
    if (own[at(buffer)] == Life::freed) return wrong_at(program, op, name(buffer) + " is used after it is freed");
  }
  for (int k = 0; k < op.op->frees.count; ++k) {
    const int buffer = list[at(op.op->frees.first + k)];
    if (own[at(buffer)] != Life::alive)
      return wrong_at(
          program, op,
          name(buffer) + (own[at(buffer)] == Life::none ? " is freed, but was never created" : " is freed twice"));
    own[at(buffer)] = Life::freed;
  }
  return {};
}

Result<void> check_buffers(const Program& program, int kind) {
  const std::size_t passes = program.kinds[at(kind)].chunks.size() * at(program.micro_batches);
  Lives lives{std::vector<std::vector<Life>>(passes + 1), program};
  Result<void> good;
  for_each_op(program, kind, [&](const PlacedOp& op) {
    if (good && op.op->creates.count + op.op->frees.count + op.op->uses.count > 0) good = touch(program, op, lives);
  });
  if (!good) return good;
  for (std::size_t i = 0; i < lives.of.size(); ++i) {
    const auto left = std::find(lives.of[i].begin(), lives.of[i].end(), Life::alive);
    if (left == lives.of[i].end()) continue;
    return input_error(fmt::format("program: {}: buffer {} of micro-batch {}, chunk {} is never freed",
                                   who(program, kind), left - lives.of[i].begin(), i % at(program.micro_batches),
                                   i / at(program.micro_batches)));
  }
  return {};
}

}  // namespace

Result<void> check(const Program& program) {
  for (const auto rule : {check_structure, check_passes, check_transfers, check_deadlock, check_joint_collectives}) {
    Result<void> good = rule(program);
    if (!good) return good;
  }
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    Result<void> good = check_buffers(program, kind);
    if (!good) return good;
  }
  return {};
}

}  // namespace twinpod::program
