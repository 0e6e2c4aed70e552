#include "ps/server.hpp"

#include <algorithm>

#include "ps/bytes.hpp"

namespace twinpod::ps {
namespace {

// A replica with its place in the chain.
struct Site {
  Server& server;
  ShardId shard;
  Replica& replica;
  NodeId before = kNobody;  // kNobody: it is the head
  NodeId after = kNobody;   // kNobody: it is the tail
};

Site site_of(Server& server, ShardId shard, Replica& replica) {
  const Chain& chain = server.view.chains[static_cast<std::size_t>(shard)];
  const auto place = static_cast<std::size_t>(place_of(server.view, shard, server.id));
  return {.server = server,
          .shard = shard,
          .replica = replica,
          .before = place == 0 ? kNobody : chain[place - 1].server,
          .after = place + 1 == chain.size() ? kNobody : chain[place + 1].server};
}

const Shard& shard_of(const Site& site) { return site.server.shards[static_cast<std::size_t>(site.shard)]; }

Message from_server(const Site& site, Kind kind, NodeId to) {
  return {.kind = kind, .from = site.server.id, .to = to, .shard = site.shard, .view = site.server.view.number};
}

void acknowledge(const Site& site, const Message& entry, Outbox& out) {
  if (entry.entry == Kind::view || entry.entry == Kind::norm) return;
  Message ack = from_server(site, Kind::ack, entry.worker);
  ack.entry = entry.entry;
  ack.worker = entry.worker;
  ack.sequence = entry.sequence;
  out.push_back(std::move(ack));
}

void acknowledge_back(const Site& site, std::uint64_t position, Outbox& out) {
  if (site.before == kNobody) return;
  Message ack = from_server(site, Kind::backup_ack, site.before);
  ack.position = position;
  out.push_back(std::move(ack));
}

void answer(const Site& site, const Message& pull, Outbox& out) {
  const ShardState& state = site.replica.state;
  Message values = from_server(site, Kind::values, pull.from);
  values.worker = pull.worker;
  values.sequence = pull.sequence;
  values.clock = pull.clock;
  // Who only asks is to start behind what is closed.
  values.oldest =
      pull.clock == kAskOnly ? closed_clock(site.server.settings, state) : oldest_clock(site.server.settings, state);
  values.position = state.position;
  values.payload = share_values(state);
  ++site.server.counters.pulls;
  site.server.counters.pulled_bytes += values.payload.bytes.size();
  out.push_back(std::move(values));
}

void tell_squares(const Site& site, NodeId to, std::int64_t clock, Outbox& out) {
  const std::optional<std::vector<double>> squares = squares_at(site.replica.state, clock);
  if (!squares) return;
  ByteWriter writer;
  writer.put_all(std::span<const double>(*squares));
  Message message = from_server(site, Kind::squares, to);
  message.clock = clock;
  message.payload = payload_of(std::move(writer.bytes));
  out.push_back(std::move(message));
}

// Those that wait for a norm get what it is made of, once; when they ask again, again.
void answer_pulls(const Site& site, Outbox& out) {
  const ShardState& state = site.replica.state;
  const bool tells = state.pending && site.replica.told_squares != state.version;
  std::erase_if(site.replica.pulls, [&](const Message& pull) {
    const bool may = may_read(site.server.settings, state, pull);
    if (may) answer(site, pull, out);
    if (!may && tells) tell_squares(site, pull.from, state.version, out);
    return may;
  });
  if (tells) site.replica.told_squares = state.version;
}

// The tail has everything up to this position.
void commit(const Site& site, std::uint64_t position, Outbox& out) {
  std::deque<Message>& unacked = site.replica.unacked;
  while (!unacked.empty() && unacked.front().position <= position) {
    if (site.before == kNobody) acknowledge(site, unacked.front(), out);
    unacked.pop_front();
  }
  acknowledge_back(site, position, out);
}

// An entry whose turn it is.
void accept(const Site& site, Message entry, Outbox& out) {
  apply(site.server.settings, entry, site.replica.state, site.server.team);
  entry.kind = Kind::forward;
  entry.from = site.server.id;
  entry.to = site.after;
  entry.view = site.server.view.number;
  if (site.after != kNobody) {
    out.push_back(entry);
    site.replica.unacked.push_back(std::move(entry));
    return;
  }
  if (site.before == kNobody) acknowledge(site, entry, out);
  acknowledge_back(site, entry.position, out);
  answer_pulls(site, out);
}

// The last push of the worker that every copy has.
std::uint64_t committed_sequence(const Replica& replica, const Progress& progress) {
  for (const Message& entry : replica.unacked) {
    const bool counted = entry.entry == Kind::push || entry.entry == Kind::clock;
    if (counted && entry.worker == progress.worker) return entry.sequence - 1;
  }
  return progress.sequence;
}

bool has_unacked_initial(const Replica& replica) {
  return std::any_of(replica.unacked.begin(), replica.unacked.end(),
                     [](const Message& entry) { return entry.entry == Kind::initial; });
}

// A push again: its acknowledgement may have been lost, or is still to come.
void handle_repeated(const Site& site, const Message& message, const Progress& progress, Outbox& out) {
  ++site.server.counters.duplicates;
  Message entry = message;
  entry.entry = message.kind;
  entry.sequence = committed_sequence(site.replica, progress);
  if (entry.sequence >= message.sequence) acknowledge(site, entry, out);
}

void handle_push(const Site& site, const Message& message, Outbox& out) {
  const ShardState& state = site.replica.state;
  const Progress* const progress = progress_of(state, message.worker);
  if (site.before != kNobody || !site.replica.has_state || progress == nullptr) return;
  if (message.sequence <= progress->sequence) return handle_repeated(site, message, *progress, out);
  if (message.sequence > progress->sequence + 1) return;  // one before it is still on its way, and will come again
  Message entry = message;
  entry.entry = message.kind;
  entry.position = state.position + 1;
  if (!problem_with(state, entry).empty()) {
    ++site.server.counters.refused;
    return;
  }
  ++site.server.counters.pushes;
  site.server.counters.pushed_bytes += message.payload.bytes.size();
  accept(site, std::move(entry), out);
}

void handle_initial(const Site& site, const Message& message, Outbox& out) {
  const ShardState& state = site.replica.state;
  if (site.before != kNobody || !site.replica.has_state) return;
  Message entry = message;
  entry.entry = Kind::initial;
  entry.position = state.position + 1;
  if (state.initialised) {
    if (!has_unacked_initial(site.replica)) acknowledge(site, entry, out);
  } else if (problem_with(state, entry).empty()) {
    accept(site, std::move(entry), out);
  } else {
    ++site.server.counters.refused;
  }
}

void handle_pull(const Site& site, const Message& message, Outbox& out) {
  if (site.after != kNobody || !site.replica.has_state) return;
  std::erase_if(site.replica.pulls, [&](const Message& pull) { return pull.worker == message.worker; });
  if (may_read(site.server.settings, site.replica.state, message)) return answer(site, message, out);
  ++site.server.counters.waits;
  site.replica.pulls.push_back(message);
  if (site.replica.state.pending) tell_squares(site, message.from, site.replica.state.version, out);
}

// By a worker that has the squares of other shards, and lacks those of this one: it may be further already.
void handle_squares(const Site& site, const Message& message, Outbox& out) {
  if (site.after == kNobody && site.replica.has_state) tell_squares(site, message.from, message.clock, out);
}

// All workers say the same; the first counts.
void handle_norm(const Site& site, const Message& message, Outbox& out) {
  const ShardState& state = site.replica.state;
  if (site.before != kNobody || !site.replica.has_state || !state.pending || message.clock != state.version) return;
  Message entry = message;
  entry.entry = Kind::norm;
  entry.position = state.position + 1;
  if (problem_with(state, entry).empty()) return accept(site, std::move(entry), out);
  ++site.server.counters.refused;
}

void handle_forward(const Site& site, const Message& message, Outbox& out) {
  Replica& replica = site.replica;
  if (message.from != site.before || !replica.has_state) return;
  const std::uint64_t next = replica.state.position + 1;
  if (message.position > next) return;  // one before it is still on its way, and will come again
  if (message.position == next) {
    if (problem_with(replica.state, message).empty()) return accept(site, message, out);
    ++site.server.counters.refused;
    return;
  }
  // Again: the acknowledgement may have been lost.
  const std::uint64_t held = replica.unacked.empty() ? replica.state.position : replica.unacked.front().position - 1;
  if (held >= message.position) acknowledge_back(site, held, out);
}

void tell_synced(const Site& site, Outbox& out) {
  Message message = from_server(site, Kind::synced, kController);
  message.position = site.replica.since;
  out.push_back(std::move(message));
}

void send_state(const Site& site, Outbox& out) {
  Message state = from_server(site, Kind::state, site.after);
  state.payload = encode_state(site.replica.state);
  ++site.server.counters.states_sent;
  out.push_back(std::move(state));
}

void handle_state(const Site& site, const Message& message, Outbox& out) {
  Replica& replica = site.replica;
  if (replica.has_state || message.from != site.before) return;
  Result<ShardState> state = decode_state(message.payload, shard_of(site), site.server.memory);
  if (!state) {
    ++site.server.counters.refused;
    return;
  }
  replica.state = std::move(*state);
  replica.has_state = true;
  tell_synced(site, out);
  // Who is behind it came with it or later, and has nothing yet either.
  if (site.after != kNobody) return send_state(site, out);
  acknowledge_back(site, replica.state.position, out);
}

void handle_state_request(const Site& site, const Message& message, Outbox& out) {
  if (site.replica.has_state && message.from == site.after) send_state(site, out);
}

void resend(const Site& site, Outbox& out) {
  for (Message& entry : site.replica.unacked) {
    entry.to = site.after;
    entry.view = site.server.view.number;
    out.push_back(entry);
  }
}

// Workers come and go at one place of the log, the same for all copies.
void log_workers(const Site& site, Outbox& out) {
  const ShardState& state = site.replica.state;
  const std::vector<NodeId>& workers = site.server.view.workers;
  const bool same = std::equal(workers.begin(), workers.end(), state.workers.begin(), state.workers.end(),
                               [](NodeId id, const Progress& p) { return id == p.worker; });
  if (same) return;
  Message entry{.entry = Kind::view, .shard = site.shard, .position = state.position + 1};
  entry.payload = encode_workers(workers);
  accept(site, std::move(entry), out);
}

// What a replica does when the view is new.
void enter_view(const Site& site, Outbox& out) {
  Replica& replica = site.replica;
  const bool is_first = replica.since == 1 && site.before == kNobody;
  if (!replica.has_state && is_first) {
    replica.state = empty_state(shard_of(site), site.server.memory);
    replica.has_state = true;
    tell_synced(site, out);
  }
  if (!replica.has_state) {
    if (site.before != kNobody) out.push_back(from_server(site, Kind::state_request, site.before));
    return;
  }
  if (site.after != kNobody) {
    replica.pulls.clear();  // workers ask the new tail
    resend(site, out);
  } else {
    commit(site, replica.state.position, out);
  }
  if (site.before == kNobody) log_workers(site, out);
  if (site.after == kNobody) answer_pulls(site, out);
}

void install(Server& server, View view, Outbox& out) {
  server.view = std::move(view);
  const auto there = std::find(server.view.servers.begin(), server.view.servers.end(), server.id);
  server.expelled = there == server.view.servers.end();
  for (ShardId shard = 0; shard < static_cast<ShardId>(server.shards.size()); ++shard) {
    const int place = place_of(server.view, shard, server.id);
    if (place < 0) {
      server.replicas.erase(shard);
      continue;
    }
    const Chain& chain = server.view.chains[static_cast<std::size_t>(shard)];
    const std::uint64_t since = chain[static_cast<std::size_t>(place)].since;
    Replica& replica = server.replicas[shard];
    // It was out of the chain in between: what it has may not be what the others have.
    if (replica.since != since) replica = Replica{.since = since};
    enter_view(site_of(server, shard, replica), out);
  }
}

void handle_view(Server& server, const Message& message, Outbox& out) {
  Result<View> view = decode_view(message.payload);
  if (!view || (view->number > 0 && view->chains.size() != server.shards.size())) {
    ++server.counters.refused;
    return;
  }
  if (view->number > server.view.number) install(server, std::move(*view), out);
  out.push_back({.kind = Kind::view_ack, .from = server.id, .to = kController, .view = server.view.number});
}

void handle_at(const Site& site, const Message& message, Outbox& out) {
  const bool same_view = message.view == site.server.view.number;
  switch (message.kind) {
    case Kind::initial:
      return handle_initial(site, message, out);
    case Kind::push:
    case Kind::clock:
      return handle_push(site, message, out);
    case Kind::pull:
      return handle_pull(site, message, out);
    case Kind::squares:
      return handle_squares(site, message, out);
    case Kind::norm:
      return handle_norm(site, message, out);
    case Kind::forward:
      if (same_view) handle_forward(site, message, out);
      return;
    case Kind::backup_ack:
      if (same_view && message.from == site.after) commit(site, message.position, out);
      return;
    case Kind::state_request:
      if (same_view) handle_state_request(site, message, out);
      return;
    case Kind::state:
      if (same_view) handle_state(site, message, out);
      return;
    case Kind::synced:
      if (message.position == site.replica.since) site.replica.told = true;
      return;
    default:
      ++site.server.counters.refused;
  }
}

void tick_at(const Site& site, Outbox& out) {
  Replica& replica = site.replica;
  if (!replica.has_state) {
    if (site.before != kNobody) out.push_back(from_server(site, Kind::state_request, site.before));
    return;
  }
  if (!replica.told) tell_synced(site, out);
  const std::uint64_t first = replica.unacked.empty() ? 0 : replica.unacked.front().position;
  if (first != 0 && first == replica.resent) resend(site, out);
  replica.resent = first;
}

}  // namespace

void start(const Server& server, Outbox& out) {
  out.push_back({.kind = Kind::join, .role = Role::server, .from = server.id, .to = kController});
}

void handle(Server& server, const Message& message, Outbox& out) {
  if (message.kind == Kind::view) return handle_view(server, message, out);
  const auto found = server.replicas.find(message.shard);
  if (found == server.replicas.end()) return;
  handle_at(site_of(server, message.shard, found->second), message, out);
}

void tick(Server& server, Outbox& out) {
  if (server.view.number == 0) return start(server, out);
  // A receipt, and a sign of life.
  out.push_back({.kind = Kind::view_ack, .from = server.id, .to = kController, .view = server.view.number});
  for (auto& [shard, replica] : server.replicas) tick_at(site_of(server, shard, replica), out);
}

}  // namespace twinpod::ps
