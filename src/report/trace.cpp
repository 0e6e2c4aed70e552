#include "report/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "core/at.hpp"
#include "core/quote.hpp"
#include "report/trace_flows.hpp"

namespace twinpod::report {
namespace {

using program::Lane;
using program::Op;
using program::OpKind;
using program::PlacedOp;

constexpr std::size_t kFlushBytes = 1 << 20;
constexpr std::size_t kMaxSlices = 400'000;  // some 100 MB; viewers become slow beyond
constexpr std::int64_t kCoarseSteps = 2000;  // of the memory's curve in a coarse trace

// Threads are numbered apart from those of other processes: viewers take a thread's number for unique.
int thread_of(int process, Lane lane) { return process * 10 + static_cast<int>(lane) + 1; }

// Text that goes out in large pieces, one event on a line.
struct Sink {
  std::ostream& out;
  std::string text;
  bool first = true;

  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    text += first ? "\n" : ",\n";
    first = false;
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    if (text.size() >= kFlushBytes) flush();
  }
  void flush() {
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    text.clear();
  }
};

// Microseconds with three digits, in whole nanoseconds: so that slices that follow each other never overlap.
std::string micros(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string process_name(const program::RankTimeline& line, int stage) {
  std::string name = fmt::format("stage {}, rank {}", stage, line.rank);
  if (line.count > 1) name += fmt::format(" and {} like it", line.count - 1);
  return name;
}

void write_names(Sink& sink, const TraceInput& input, int process) {
  const program::RankTimeline& line = input.timeline.ranks[at(process - 1)];
  const int stage = input.program.kinds[at(line.kind)].stage;
  sink.event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process,
             double_quoted(process_name(line, stage)));
  sink.event(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", process, process);
  std::array<bool, program::kNumLanes> used{};
  program::for_each_op(input.program, line.kind, [&](const PlacedOp& op) {
    if (op.op->kind != OpKind::recv) used[static_cast<std::size_t>(op.op->lane)] = true;
  });
  for (int lane = 0; lane < program::kNumLanes; ++lane) {
    if (!used[at(lane)]) continue;
    const int thread = thread_of(process, static_cast<Lane>(lane));
    sink.event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", process, thread,
               name_of(static_cast<Lane>(lane)));
    sink.event(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", process,
               thread, lane);
  }
}

// When a rank computes: how much of a span of time that is.
class ComputeTime {
 public:
  ComputeTime(const program::Program& program, const program::RankTimeline& line) {
    std::size_t number = 0;
    program::for_each_op(program, line.kind, [&](const PlacedOp& op) {
      const program::OpSpan& span = line.ops[number++];
      if (op.op->lane != Lane::compute || op.op->kind != OpKind::compute) return;
      starts_.push_back(span.start_s);
      busy_before_.push_back(busy_before_.empty() ? 0 : busy_before_.back() + last_s_);
      last_s_ = span.end_s - span.start_s;
      lengths_.push_back(last_s_);
    });
  }
  double idle_s(const program::OpSpan& span) const {
    return std::max(0.0, span.end_s - span.start_s - (busy_until(span.end_s) - busy_until(span.start_s)));
  }

 private:
  double busy_until(double time_s) const {
    const auto i = std::upper_bound(starts_.begin(), starts_.end(), time_s) - starts_.begin();
    if (i == 0) return 0;
    const auto last = static_cast<std::size_t>(i - 1);
    return busy_before_[last] + std::min(lengths_[last], time_s - starts_[last]);
  }
  std::vector<double> starts_;  // one lane: in order, without overlap
  std::vector<double> lengths_;
  std::vector<double> busy_before_;
  double last_s_ = 0;
};

// One op, or in a coarse trace all ops of a pass on a lane.
struct Slice {
  PlacedOp op;  // the first
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  int ops = 0;  // 0: none yet
  double bytes = 0;
  double exposed_s = 0;
  std::vector<std::pair<const FlowPoint*, std::int64_t>> flows;  // with their times
};

// Of these there are few, and each is something else.
bool stands_alone(const program::Op& op) { return op.segment == program::Segment::checkpoint; }

std::string slice_name(PlacedOp op, TraceDetail detail) {
  if (detail == TraceDetail::passes && !stands_alone(*op.op)) {
    std::string name(op.block->pair ? "forward and backward" : name_of(op.block->phase));
    return op.op->lane == Lane::compute ? name : fmt::format("{}, {}", name, name_of(op.op->lane));
  }
  op.micro_batch = op.chunk = op.layer = -1;
  return op_text(op);
}

std::string slice_args(const Slice& slice, TraceDetail detail) {
  std::string args;
  const auto add = [&](std::string_view key, const auto& value) {
    fmt::format_to(std::back_inserter(args), "{}\"{}\":{}", args.empty() ? "" : ",", key, value);
  };
  const PlacedOp& op = slice.op;
  const bool single = detail == TraceDetail::ops;
  if (op.micro_batch >= 0) add("micro_batch", op.micro_batch);
  if (op.chunk >= 0) add("chunk", op.chunk);
  if (single && op.layer >= 0) add("layer", op.layer);
  if (!single) add("ops", slice.ops);
  if (op.op->kind == OpKind::compute) return args;
  add("bytes", static_cast<std::int64_t>(slice.bytes));
  if (single && op.op->kind == OpKind::collective) add("group", double_quoted(layout::name_of(op.op->group)));
  add("exposed_s", fmt::format("{:.9f}", slice.exposed_s));
  return args;
}

void write_slice(Sink& sink, int process, Slice& slice, TraceDetail detail, std::string& head) {
  if (slice.ops == 0) return;
  const int thread = thread_of(process, slice.op.op->lane);
  if (head.empty()) {
    const std::string_view category = name_of(slice.op.op->kind);
    head = fmt::format(R"("name":{},"cat":"{}")", double_quoted(slice_name(slice.op, detail)), category);
  }
  sink.event(R"({{"ph":"X",{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})", head, process, thread,
             micros(slice.start_ns), micros(slice.end_ns - slice.start_ns), slice_args(slice, detail));
  for (const auto& [point, time_ns] : slice.flows) {
    sink.event(R"({{"ph":"{}","name":"hands over","cat":"flow","id":{},"pid":{},"tid":{},"ts":{}{}}})",
               static_cast<char>(point->step), point->id, process, thread, micros(time_ns),
               point->step == FlowStep::start ? "" : R"(,"bp":"e")");
  }
  slice = {};
}

void add_op(Slice& slice, const PlacedOp& op, const program::OpSpan& span, double exposed_s) {
  if (slice.ops++ == 0) {
    slice.op = op;
    slice.start_ns = nanoseconds(span.start_s);
  }
  slice.end_ns = nanoseconds(span.end_s);
  slice.bytes += op.op->bytes;
  slice.exposed_s += exposed_s;
}

// Names and categories of slices, made once for each op of a block.
using Heads = std::vector<std::vector<std::string>>;

std::string& head_of(Heads& heads, const program::Program& program, const Slice& slice) {
  std::vector<std::string>& block = heads[static_cast<std::size_t>(slice.op.block - program.blocks.data())];
  block.resize(slice.op.block->ops.size());
  return block[at(slice.op.index)];
}

void write_slices(Sink& sink, const TraceInput& input, int process, std::span<const FlowPoint> flows) {
  const program::RankTimeline& line = input.timeline.ranks[at(process - 1)];
  const TraceDetail detail = trace_detail(input);
  const ComputeTime compute(input.program, line);
  Heads heads(input.program.blocks.size());
  std::array<Slice, program::kNumLanes> open;
  const auto write = [&](Slice& slice) {
    if (slice.ops > 0) write_slice(sink, process, slice, detail, head_of(heads, input.program, slice));
  };
  std::uint32_t number = 0;
  program::for_each_op(input.program, line.kind, [&](const PlacedOp& op) {
    const program::OpSpan& span = line.ops[number];
    Slice& slice = open[static_cast<std::size_t>(op.op->lane)];
    if (op.index == 0) std::for_each(open.begin(), open.end(), write);
    if (op.op->kind != OpKind::recv) {
      add_op(slice, op, span, op.op->kind == OpKind::compute ? 0 : compute.idle_s(span));
      for (; !flows.empty() && flows.front().op == number; flows = flows.subspan(1)) {
        slice.flows.emplace_back(&flows.front(), nanoseconds(span.start_s));
      }
      if (detail == TraceDetail::ops || stands_alone(*op.op)) write(slice);
    }
    ++number;
  });
  std::for_each(open.begin(), open.end(), write);
}

struct MemoryStep {
  std::int64_t time_ns = 0;
  double bytes = 0;  // that come, or go
};

std::vector<MemoryStep> memory_steps(const TraceInput& input, const program::RankTimeline& line) {
  std::vector<MemoryStep> steps;
  std::size_t number = 0;
  program::for_each_op(input.program, line.kind, [&](const PlacedOp& op) {
    const program::OpSpan& span = line.ops[number++];
    if (op.op->creates.count + op.op->frees.count == 0) return;
    const program::Shape& shape = input.program.shapes[at(op.block->shapes[op.op->half])];
    const auto sum = [&](const program::Range& range) {
      double bytes = 0;
      for (int i = range.first; i < range.first + range.count; ++i) {
        bytes += shape.buffers[at(op.block->buffers[at(i)])].bytes;
      }
      return bytes;
    };
    if (op.op->creates.count > 0) steps.push_back({nanoseconds(span.start_s), sum(op.op->creates)});
    if (op.op->frees.count > 0) steps.push_back({nanoseconds(span.end_s), -sum(op.op->frees)});
  });
  std::stable_sort(steps.begin(), steps.end(),
                   [](const MemoryStep& a, const MemoryStep& b) { return a.time_ns < b.time_ns; });
  return steps;
}

void write_memory(Sink& sink, const TraceInput& input, int process) {
  const program::RankTimeline& line = input.timeline.ranks[at(process - 1)];
  double bytes = 0;
  for (const program::Buffer& buffer : input.program.kinds[at(line.kind)].residents) bytes += buffer.bytes;
  const auto write = [&](std::int64_t time_ns, double value) {
    sink.event(R"({{"ph":"C","name":"memory in use","pid":{},"ts":{},"args":{{"bytes":{:.0f}}}}})", process,
               micros(time_ns), value);
  };
  const std::vector<MemoryStep> steps = memory_steps(input, line);
  if (steps.empty() || steps.front().time_ns > 0) write(0, bytes);
  // A coarse trace has the highest of each short while.
  const bool coarse = trace_detail(input) == TraceDetail::passes;
  const std::int64_t while_ns =
      coarse ? std::max<std::int64_t>(1, nanoseconds(input.timeline.step_s) / kCoarseSteps) : 1;
  double highest = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    bytes += steps[i].bytes;
    const bool is_last = i + 1 == steps.size();
    if (!is_last && steps[i + 1].time_ns == steps[i].time_ns) continue;
    highest = std::max(highest, bytes);
    if (!is_last && steps[i + 1].time_ns / while_ns == steps[i].time_ns / while_ns) continue;
    write(steps[i].time_ns, is_last ? bytes : highest);
    highest = 0;
  }
}

}  // namespace

TraceDetail trace_detail(const TraceInput& input) {
  std::size_t ops = 0;
  for (const program::RankTimeline& line : input.timeline.ranks) ops += line.ops.size();
  return ops > kMaxSlices ? TraceDetail::passes : TraceDetail::ops;
}

void write_trace(const TraceInput& input, std::ostream& out) {
  const std::vector<FlowPoint> flows = flow_points(input);
  Sink sink{out, {}};
  sink.text = fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"ranks":{},"step_s":{},"slices":"{}"}},"traceEvents":[)",
      input.line_of_rank.size(), input.timeline.step_s, trace_detail(input) == TraceDetail::ops ? "ops" : "passes");
  for (int process = 1; process <= static_cast<int>(input.timeline.ranks.size()); ++process) {
    write_names(sink, input, process);
    const auto [first, last] =
        std::equal_range(flows.begin(), flows.end(), FlowPoint{static_cast<std::uint32_t>(process - 1), 0, 0, {}},
                         [](const FlowPoint& a, const FlowPoint& b) { return a.line < b.line; });
    write_slices(sink, input, process, {first, last});
    write_memory(sink, input, process);
  }
  sink.text += "\n]}\n";
  sink.flush();
}

Result<void> write_trace(const TraceInput& input, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (out) write_trace(input, out);
  out.flush();
  if (!out) return input_error(fmt::format("cannot write `{}`", path), "a file in a folder that is there");
  return {};
}

}  // namespace twinpod::report
