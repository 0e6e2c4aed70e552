#include "ps/worker.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "ps/bytes.hpp"
#include "ps/state.hpp"

namespace twinpod::ps {
namespace {

Line& line_of(Worker& worker, ShardId shard) { return worker.lines[static_cast<std::size_t>(shard)]; }

Message from_worker(const Worker& worker, Kind kind, ShardId shard) {
  return {.kind = kind, .from = worker.id, .shard = shard, .worker = worker.id, .clock = worker.clock};
}

// To where it belongs in this view; nowhere while the worker is not in it.
void send(const Worker& worker, Message message, Outbox& out) {
  const bool reads = message.kind == Kind::pull || message.kind == Kind::squares;
  message.to = reads ? tail_of(worker.view, message.shard) : head_of(worker.view, message.shard);
  message.view = worker.view.number;
  if (worker.is_member && message.to != kNobody) out.push_back(std::move(message));
}

void send_to_controller(const Worker& worker, Kind kind, std::uint64_t sequence, Outbox& out) {
  out.push_back({.kind = kind, .role = Role::worker, .from = worker.id, .to = kController, .sequence = sequence});
}

void add(Worker& worker, Message message, Outbox& out) {
  Line& line = line_of(worker, message.shard);
  message.sequence = ++line.sequence;
  worker.counters.pushed_bytes += message.payload.bytes.size();
  send(worker, message, out);
  line.unacked.push_back(std::move(message));
}

void ask(Worker& worker, ShardId shard, std::int64_t clock, Outbox& out) {
  Line& line = line_of(worker, shard);
  Message message = from_worker(worker, Kind::pull, shard);
  message.clock = clock;
  message.sequence = line.sequence;
  send(worker, message, out);
  line.pull = std::move(message);
  line.pull_is_old = false;
  line.pending = -1;
}

// Everybody's place is known: start behind the furthest shard, and tell the others that nothing comes before.
void settle(Worker& worker, Outbox& out) {
  std::int64_t start = 0;
  for (const Arrival& arrival : worker.arrived) start = std::max(start, arrival.oldest + 1);
  const std::vector<Arrival> answers = std::move(worker.arrived);
  worker.arrived.clear();
  worker.clock = start;
  for (const Arrival& answer : answers) {
    if (answer.oldest + 1 >= start) continue;
    Message message = from_worker(worker, Kind::clock, answer.shard);
    message.clock = start - 1;
    add(worker, std::move(message), out);
  }
}

void count_staleness(Worker& worker, const Message& message) {
  const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(0, message.clock - 1 - message.oldest));
  std::vector<std::uint64_t>& histogram = worker.counters.staleness;
  if (histogram.size() <= missing) histogram.resize(missing + 1);
  ++histogram[missing];
}

void handle_values(Worker& worker, const Message& message, Outbox& out) {
  Line& line = line_of(worker, message.shard);
  // An answer to an earlier question may lack what was pushed since.
  if (!line.pull || line.pull->clock != message.clock || line.pull->sequence != message.sequence) return;
  const std::span<const float> values = floats_of(message.payload);
  const Shard& shard = worker.shards[static_cast<std::size_t>(message.shard)];
  if (static_cast<std::int64_t>(values.size()) != shard.count) return;
  line.pull.reset();
  line.pending = -1;
  worker.counters.pulled_bytes += message.payload.bytes.size();
  worker.arrived.push_back({message.shard, message.clock, message.oldest, message.payload});
  if (message.clock != kAskOnly) return count_staleness(worker, message);
  if (worker.arrived.size() == worker.shards.size()) settle(worker, out);
}

void send_norm(const Worker& worker, ShardId shard, Outbox& out) {
  Message message = from_worker(worker, Kind::norm, shard);
  message.clock = worker.norm.clock;
  message.rate = worker.norm.value;
  if (std::isfinite(worker.norm.value)) send(worker, std::move(message), out);
}

// Whoever has the squares of all shards tells the norm to all: it is the same for everybody.
void make_norm(Worker& worker, std::int64_t clock, Outbox& out) {
  std::vector<std::vector<double>> squares;
  for (const Line& line : worker.lines) {
    const auto found = line.squares.find(clock);
    if (found == line.squares.end()) return;
    squares.push_back(found->second);
  }
  worker.norm = {clock, norm_of(worker.shards, squares)};
  for (ShardId shard = 0; shard < static_cast<ShardId>(worker.shards.size()); ++shard) send_norm(worker, shard, out);
}

void handle_squares(Worker& worker, const Message& message, Outbox& out) {
  Line& line = line_of(worker, message.shard);
  const std::size_t parts =
      std::max<std::size_t>(1, worker.shards[static_cast<std::size_t>(message.shard)].parts.size());
  const std::size_t found = message.payload.bytes.size() / sizeof(double);
  if (message.payload.bytes.size() % sizeof(double) != 0 || (found != 0 && found != parts)) return;
  ByteReader reader{message.payload.bytes};
  line.squares[message.clock] = reader.take_all<double>(found);
  if (line.squares.size() > static_cast<std::size_t>(kKeptSquares)) line.squares.erase(line.squares.begin());
  if (line.pull) line.pending = std::max(line.pending, message.clock);
  if (worker.norm.clock == message.clock) return send_norm(worker, message.shard, out);  // it did not get there
  make_norm(worker, message.clock, out);
}

// Shards that have no squares of the clock for this worker may be further: somebody else told them the norm.
void ask_for_squares(Worker& worker, std::int64_t clock, Outbox& out) {
  for (ShardId shard = 0; shard < static_cast<ShardId>(worker.shards.size()); ++shard) {
    if (line_of(worker, shard).squares.contains(clock)) continue;
    Message message = from_worker(worker, Kind::squares, shard);
    message.clock = clock;
    send(worker, std::move(message), out);
  }
}

void handle_ack(Worker& worker, const Message& message) {
  Line& line = line_of(worker, message.shard);
  if (message.entry == Kind::initial) return line.initial.reset();
  line.acked = std::max(line.acked, message.sequence);
  while (!line.unacked.empty() && line.unacked.front().sequence <= message.sequence) line.unacked.pop_front();
}

void resend_pushes(Worker& worker, Line& line, Outbox& out) {
  if (line.initial) send(worker, *line.initial, out);
  for (const Message& message : line.unacked) send(worker, message, out);
  worker.counters.resent += line.unacked.size();
}

void acknowledge_view(const Worker& worker, Outbox& out) {
  out.push_back(
      {.kind = Kind::view_ack, .role = Role::worker, .from = worker.id, .to = kController, .view = worker.view.number});
}

void handle_view(Worker& worker, const Message& message, Outbox& out) {
  Result<View> view = decode_view(message.payload);
  if (!view || view->chains.size() != worker.shards.size()) return;
  if (view->number > worker.view.number) {
    worker.view = std::move(*view);
    const bool was_member = worker.is_member;
    worker.is_member = std::binary_search(worker.view.workers.begin(), worker.view.workers.end(), worker.id);
    if (!was_member && worker.is_member) worker.barriers = worker.released = message.sequence;
    worker.expelled = worker.expelled || (was_member && !worker.is_member);
    for (Line& line : worker.lines) {
      resend_pushes(worker, line, out);
      if (line.pull) send(worker, *line.pull, out);
    }
  }
  acknowledge_view(worker, out);
}

void tick_line(Worker& worker, Line& line, Outbox& out) {
  const std::uint64_t first = line.unacked.empty() ? 0 : line.unacked.front().sequence;
  if (line.initial || (first != 0 && first == line.resent)) resend_pushes(worker, line, out);
  line.resent = first;
  if (line.pull && line.pull_is_old) send(worker, *line.pull, out);
  line.pull_is_old = line.pull.has_value();
}

}  // namespace

void start(Worker& worker, Outbox& out) {
  worker.lines.resize(worker.shards.size());
  send_to_controller(worker, Kind::join, 0, out);
}

void begin(Worker& worker, Outbox& out) {
  for (ShardId shard = 0; shard < static_cast<ShardId>(worker.shards.size()); ++shard)
    ask(worker, shard, kAskOnly, out);
}

bool is_ready(const Worker& worker) { return worker.clock >= 0; }

void set_initial(Worker& worker, ShardId shard, Payload values, Outbox& out) {
  Message message = from_worker(worker, Kind::initial, shard);
  message.payload = std::move(values);
  send(worker, message, out);
  line_of(worker, shard).initial = std::move(message);
}

void push(Worker& worker, ShardId shard, Payload gradient, const PushOptions& options, Outbox& out) {
  Message message = from_worker(worker, Kind::push, shard);
  message.encoding = options.encoding;
  message.rate = options.rate;
  message.payload = std::move(gradient);
  add(worker, std::move(message), out);
}

void pull(Worker& worker, ShardId shard, Outbox& out) { ask(worker, shard, worker.clock, out); }

void advance(Worker& worker, std::int64_t clock) { worker.clock = std::max(worker.clock + 1, clock); }

void enter_barrier(Worker& worker, Outbox& out) { send_to_controller(worker, Kind::barrier, ++worker.barriers, out); }

bool is_acknowledged(const Worker& worker) {
  return std::all_of(worker.lines.begin(), worker.lines.end(),
                     [](const Line& line) { return line.unacked.empty() && !line.initial; });
}

void leave(Worker& worker, Outbox& out) {
  worker.leaving = true;
  send_to_controller(worker, Kind::leave, 0, out);
}

void handle(Worker& worker, const Message& message, Outbox& out) {
  if (message.kind == Kind::view) return handle_view(worker, message, out);
  if (message.kind == Kind::barrier) {
    worker.released = std::max(worker.released, message.sequence);
    return;
  }
  if (message.shard < 0 || static_cast<std::size_t>(message.shard) >= worker.lines.size()) return;
  if (message.kind == Kind::values) return handle_values(worker, message, out);
  if (message.kind == Kind::squares) return handle_squares(worker, message, out);
  if (message.kind == Kind::ack) return handle_ack(worker, message);
}

void tick(Worker& worker, Outbox& out) {
  if (worker.view.number == 0) send_to_controller(worker, Kind::join, 0, out);
  if (worker.view.number > 0) acknowledge_view(worker, out);  // a receipt, and a sign of life
  if (worker.leaving && !worker.expelled) send_to_controller(worker, Kind::leave, 0, out);
  if (!is_released(worker)) send_to_controller(worker, Kind::barrier, worker.barriers, out);
  std::set<std::int64_t> pending;
  for (Line& line : worker.lines) {
    if (line.pull && line.pull_is_old && line.pending >= 0) pending.insert(line.pending);
    tick_line(worker, line, out);
  }
  for (const std::int64_t clock : pending) ask_for_squares(worker, clock, out);
}

}  // namespace twinpod::ps
