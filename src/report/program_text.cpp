#include "report/program_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "core/at.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "report/pipeline_actions.hpp"
#include "report/tables.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

using program::Block;
using program::Instance;
using program::Kind;
using program::Op;
using program::OpKind;
using program::Program;
using Json = nlohmann::ordered_json;

int layers_of(const Program& program, const Kind& kind) {
  std::size_t layers = 0;
  for (const program::Chunk& chunk : kind.chunks) layers += program.shapes[at(chunk.shape)].layers.size();
  return static_cast<int>(layers);
}

std::string headline(const ProgramView& view) {
  const Program& program = view.program;
  std::size_t instances = 0;
  for (const Kind& kind : program.kinds) instances += kind.instances.size();
  return fmt::format(
      "{}: one step on {}, {} stage{} of {}, {} micro-batch{} of {}, schedule {}\n{}{} blocks of ops, {} instances of "
      "them; a rank stands for the {} of its stage\n",
      view.job.name, counted(program.mesh.ranks(), "rank"), program.kinds.size(), program.kinds.size() == 1 ? "" : "s",
      program.chunks == 1 ? "1 chunk" : counted(program.chunks, "chunk"), program.micro_batches,
      program.micro_batches == 1 ? "" : "es", view.job.layout.micro_batch, schedule_text(view), idle_line(view.job),
      program.blocks.size(), with_thousands(static_cast<double>(instances)), with_thousands(program.ranks_of_kind()));
}

std::string flop_text(double flop) {
  std::string text = format_flop_per_s(flop);
  return text.substr(0, text.find("/s"));
}

std::string work_text(const program::Work& work, double share) {
  if (work.parameters > 0) return fmt::format("{} parameters", format_count(work.parameters));
  const double bytes = work.element_bytes + work.permute_bytes + work.table_bytes;
  std::string text = work.flop() > 0 ? flop_text(share * work.flop()) : "";
  if (bytes > 0) text += fmt::format("{}{}", text.empty() ? "" : " + ", format_bytes(share * bytes));
  return text;
}

std::string amount_text(const Program& program, const Op& op) {
  if (op.kind == OpKind::compute) return work_text(program.works[at(op.work)], op.share);
  const std::string bytes = format_bytes(op.bytes);
  if (op.kind != OpKind::collective) return fmt::format("{} {}", bytes, name_of(op.element));
  return fmt::format("{} {} over {} {}", bytes, name_of(op.element), layout::size(program.mesh, op.group),
                     layout::name_of(op.group));
}

std::string what_text(const Op& op) {
  if (op.kind == OpKind::compute) return fmt::format("{} {}", name_of(op.phase), name_of(op.segment));
  if (op.kind == OpKind::collective)
    return fmt::format("{} {} {}", collective::name_of(op.verb), name_of(op.phase), name_of(op.segment));
  std::string text = fmt::format("{} {}", name_of(op.kind), name_of(op.phase));
  if (op.kind == OpKind::read || op.kind == OpKind::write) {
    const bool data = op.tier == program::Tier::storage;
    return data ? "read training data" : fmt::format("{} {}, host memory", text, name_of(op.segment));
  }
  if (op.peer == program::Peer::next_chunk) text += op.kind == OpKind::send ? " to the next" : " from the next";
  if (op.peer == program::Peer::previous_chunk)
    text += op.kind == OpKind::send ? " to the previous" : " from the previous";
  if (op.peer == program::Peer::next_in_ring || op.peer == program::Peer::previous_in_ring)
    text += fmt::format(" keys and values, round {}", op.round);
  return text;
}

std::string buffers_text(const Program& program, const Block& block, const Op& op) {
  std::string text;
  const auto add = [&](char sign, const program::Range& range) {
    double bytes = 0;
    for (int k = range.first; k < range.first + range.count; ++k)
      bytes += program.shapes[at(block.shapes[op.half])].buffers[at(block.buffers[at(k)])].bytes;
    if (range.count > 0) text += fmt::format("{}{}{}", text.empty() ? "" : " ", sign, format_bytes(bytes));
  };
  add('+', op.creates);
  add('-', op.frees);
  return text;
}

std::string waits_text(const Block& block, const Op& op) {
  std::string text = op.entry ? (op.kind == OpKind::recv ? "its send" : "the pass before") : "";
  for (int k = op.waits.first; k < op.waits.first + op.waits.count; ++k)
    text += fmt::format("{}{}", text.empty() ? "" : " ", block.waits[at(k)]);
  return text;
}

std::string block_text(const ProgramView& view, int index) {
  const Program& program = view.program;
  const Block& block = program.blocks[at(index)];
  std::string text =
      fmt::format("\nblock {}: {}{}, {} ops\n", index, name_of(block.phase),
                  block.pair ? " beside the backward pass of another micro-batch" : "", block.ops.size());
  Table table(
      {{"op", Align::right}, {"lane"}, {"layer", Align::right}, {"what"}, {"how much"}, {"waits for"}, {"memory"}},
      {.indent = 2, .gap = 2, .header_rule = false});
  for (int i = 0; i < static_cast<int>(block.ops.size()); ++i) {
    const Op& op = block.ops[at(i)];
    table.row({fmt::format("{}{}", i, op.half == 1 ? "'" : ""), std::string(name_of(op.lane)),
               op.layer < 0 ? "" : fmt::format("{}", op.layer), what_text(op), amount_text(program, op),
               waits_text(block, op), buffers_text(program, block, op)});
  }
  return text + table.text();
}

// "F0 F1 F2 B0 F3 B1", with the block behind it where it changes: F0:2.
std::string list_text(const ProgramView& view, const Kind& kind) {
  std::string text;
  std::size_t column = 0;
  for (const Instance& instance : kind.instances) {
    const Block& block = view.program.blocks[at(instance.block)];
    std::string name =
        instance.chunk[0] < 0 ? "step" : action_text(block.phase, instance.micro_batch[0], instance.chunk[0]);
    if (block.pair) name += "&" + action_text(program::Phase::backward, instance.micro_batch[1], instance.chunk[1]);
    name += fmt::format(":{}", instance.block);
    if (column + name.size() > 110) {
      text += "\n   ";
      column = 0;
    }
    text += " " + name;
    column += name.size() + 1;
  }
  return text;
}

std::string sparkline(const std::vector<double>& values, double low, double high, std::size_t width) {
  constexpr std::array<const char*, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  const std::size_t columns = std::min(width, values.size());
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t first = c * values.size() / columns;
    const std::size_t end = std::max(first + 1, (c + 1) * values.size() / columns);
    const double most = *std::max_element(values.begin() + static_cast<std::ptrdiff_t>(first),
                                          values.begin() + static_cast<std::ptrdiff_t>(end));
    const double share = high > low ? (most - low) / (high - low) : 0;
    text += kBars[static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * 7.999)];
  }
  return text;
}

Json bytes_json(const program::Totals& totals) {
  Json json;
  for (const auto lane : {program::Lane::tensor, program::Lane::pipe, program::Lane::data, program::Lane::host})
    json[fmt::format("{}_bytes", name_of(lane))] = totals.bytes[static_cast<std::size_t>(lane)];
  return json;
}

Json memory_json(const program::MemoryOverTime& memory) {
  Json json;
  json["peak_bytes"] = memory.peak_bytes;
  json["resident_bytes"] = memory.resident_bytes;
  json["peak_op"] = memory.op.op == nullptr ? Json(nullptr) : Json(program::op_text(memory.op));
  for (int k = 0; k < program::kNumBufferKinds; ++k)
    json["parts"][fmt::format("{}_bytes", name_of(static_cast<program::BufferKind>(k)))] = memory.at_peak[at(k)];
  return json;
}

Json stage_json(const ProgramView& view, int k) {
  const Kind& kind = view.program.kinds[at(k)];
  const program::Totals totals = program::totals(view.program, k);
  Json json;
  json["stage"] = kind.stage;
  json["ranks"] = view.program.ranks_of_kind();
  json["layers"] = layers_of(view.program, kind);
  json["parameters"] = kind.parameters;
  json["instances"] = kind.instances.size();
  json["ops"] = static_cast<std::int64_t>(totals.ops);
  json["flop"] = totals.flop;
  json["moved"] = bytes_json(totals);
  json["bubble_slots"] = view.slots.bubble(k);
  json["micro_batches_in_flight"] = static_cast<double>(program::most_in_flight(view.order, k)) / view.order.chunks;
  json["memory"] = memory_json(view.memory[at(k)]);
  Json actions = Json::array();
  for (const program::Action& action : view.order.stages[at(k)])
    actions.push_back(action_text(action.phase, action.micro_batch, action.chunk));
  json["actions"] = actions;
  return json;
}

}  // namespace

std::string program_summary(const ProgramView& view) {
  const Program& program = view.program;
  Table table({{"stage", Align::right},
               {"layers", Align::right},
               {"parameters", Align::right},
               {"ops", Align::right},
               {"computes", Align::right},
               {"tensor", Align::right},
               {"pipe", Align::right},
               {"data", Align::right},
               {"in flight", Align::right},
               {"bubble", Align::right},
               {"peak memory", Align::right}},
              {.indent = 2, .gap = 2, .header_rule = true});
  for (int k = 0; k < static_cast<int>(program.kinds.size()); ++k) {
    const Kind& kind = program.kinds[at(k)];
    const program::Totals totals = program::totals(program, k);
    const auto moved = [&](program::Lane lane) {
      const double bytes = totals.bytes[static_cast<std::size_t>(lane)];
      return bytes > 0 ? format_bytes(bytes) : std::string("-");
    };
    table.row({fmt::format("{}", kind.stage), fmt::format("{}", layers_of(program, kind)),
               format_count(kind.parameters), with_thousands(totals.ops), flop_text(totals.flop),
               moved(program::Lane::tensor), moved(program::Lane::pipe), moved(program::Lane::data),
               fmt::format("{:.3g}", static_cast<double>(program::most_in_flight(view.order, k)) / view.order.chunks),
               fmt::format("{:.1f} %", 100 * view.slots.bubble(k) / view.slots.makespan),
               format_bytes(view.memory[at(k)].peak_bytes)});
  }
  return headline(view) + "\n" + table.text() +
         fmt::format("\n  of one rank and one step; bubble: in slots, F {:g}, B {:g}, W {:g}\n", view.weights.forward,
                     view.weights.backward_input, view.weights.backward_weight);
}

std::string program_text(const ProgramView& view, int stage) {
  const Program& program = view.program;
  std::set<int> used;
  for (const Kind& kind : program.kinds) {
    if (stage >= 0 && kind.stage != stage) continue;
    for (const Instance& instance : kind.instances) used.insert(instance.block);
  }
  std::string text = headline(view);
  for (const int block : used) text += block_text(view, block);
  text += "\nlists: pass and micro-batch, a dash and the chunk, a colon and the block\n";
  for (const Kind& kind : program.kinds) {
    if (stage >= 0 && kind.stage != stage) continue;
    text += fmt::format("stage {}:{}\n", kind.stage, list_text(view, kind));
  }
  return text;
}

std::string program_memory_text(const ProgramView& view) {
  constexpr std::size_t kWidth = 100;
  double low = view.memory.front().resident_bytes;
  double high = 0;
  for (const program::MemoryOverTime& memory : view.memory) {
    low = std::min(low, memory.resident_bytes);
    high = std::max(high, memory.peak_bytes);
  }
  Table table({{"stage", Align::right},
               {"peak", Align::right},
               {"parameters", Align::right},
               {"gradients", Align::right},
               {"optimizer", Align::right},
               {"activations", Align::right},
               {"communication", Align::right},
               {"other", Align::right},
               {"at"}},
              {.indent = 2, .gap = 2, .header_rule = true});
  std::string lines;
  for (std::size_t k = 0; k < view.memory.size(); ++k) {
    const program::MemoryOverTime& memory = view.memory[k];
    const auto part = [&](program::BufferKind kind) { return memory.at_peak[static_cast<std::size_t>(kind)]; };
    using program::BufferKind;
    table.row({fmt::format("{}", k), format_bytes(memory.peak_bytes), format_bytes(part(BufferKind::parameters)),
               format_bytes(part(BufferKind::gradients)), format_bytes(part(BufferKind::optimizer)),
               format_bytes(part(BufferKind::activations) + part(BufferKind::working)),
               format_bytes(part(BufferKind::communication)),
               format_bytes(part(BufferKind::update) + part(BufferKind::runtime)),
               memory.op.op == nullptr ? "the whole step" : program::op_text(memory.op)});
    lines += fmt::format("  {:>5}  {}\n", k, sparkline(memory.instances, low, high, kWidth));
  }
  return headline(view) + "\n" + table.text() +
         fmt::format("\nmemory over the step, from {} to {}, by the list of each stage\n\n{}", format_bytes(low),
                     format_bytes(high), lines);
}

std::string program_json(const ProgramView& view, int stage) {
  const Program& program = view.program;
  Json json;
  json["job"] = view.job.name;
  json["ranks"] = program.mesh.ranks();
  json["kinds"] = program.kinds.size();
  json["schedule"] = schedule_text(view);
  json["micro_batches"] = program.micro_batches;
  json["chunks"] = program.chunks;
  json["blocks"] = program.blocks.size();
  std::size_t instances = 0;
  std::size_t ops = 0;
  double peak = 0;
  double busy = 0;
  for (int k = 0; k < static_cast<int>(program.kinds.size()); ++k) {
    for (const Instance& instance : program.kinds[at(k)].instances) {
      ++instances;
      ops += program.blocks[at(instance.block)].ops.size();
    }
    busy += view.slots.busy(k);
    peak = std::max(peak, view.memory[at(k)].peak_bytes);
  }
  json["instances"] = instances;
  json["ops"] = ops;
  json["peak_memory_bytes"] = peak;
  json["slots"] = view.slots.makespan;
  json["bubble_fraction"] = 1 - busy / (view.slots.makespan * static_cast<double>(program.kinds.size()));
  json["stages"] = Json::array();
  for (int k = 0; k < static_cast<int>(program.kinds.size()); ++k) {
    if (stage < 0 || program.kinds[at(k)].stage == stage) json["stages"].push_back(stage_json(view, k));
  }
  return printed(json);
}

}  // namespace twinpod::report
