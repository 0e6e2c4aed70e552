#include "ps/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "comm/copy.hpp"
#include "comm/wait.hpp"

namespace twinpod::ps {
namespace {

std::int64_t in_ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

// Servers that a new view has no more are not sent to; what still waits for them is dropped.
void forget_gone(const Link& link, const std::vector<NodeId>& before, const std::vector<NodeId>& now) {
  for (const NodeId id : before) {
    if (std::find(now.begin(), now.end(), id) == now.end()) link.forget(link.state, id);
  }
}

void publish_ack(const Client& client, ShardId shard) {
  const auto place = static_cast<std::size_t>(shard);
  if (place < client.worker.lines.size()) client.acked[place] = client.worker.lines[place].acked;
}

// What a server does with its time.
void count(ServerCounters& counters, const Message& message, std::int64_t begin_ns) {
  ++counters.messages;
  counters.busy_s += static_cast<double>(comm::now_ns() - begin_ns) * 1e-9;
  if (message.sent_ns > 0) counters.queued_s += static_cast<double>(begin_ns - message.sent_ns) * 1e-9;
}

void take(const Link& link, Server& server, Message& message, Outbox& out) {
  const std::vector<NodeId> servers = message.kind == Kind::view ? server.view.servers : std::vector<NodeId>{};
  const std::vector<NodeId> workers = message.kind == Kind::view ? server.view.workers : std::vector<NodeId>{};
  handle(server, message, out);
  message.payload = {};
  if (!servers.empty() || !workers.empty()) {
    forget_gone(link, servers, server.view.servers);
    forget_gone(link, workers, server.view.workers);
  }
}

void ask_all(Client& client, Outbox& out) {
  Worker& worker = client.worker;
  worker.arrived.clear();
  for (ShardId shard = 0; shard < static_cast<ShardId>(worker.shards.size()); ++shard) pull(worker, shard, out);
  client.asked = true;
}

template <typename Done>
Result<void> wait_until(Client& client, const char* what, const Done& done) {
  const std::int64_t start = comm::now_ns();
  while (!done()) {
    pump(client);
    if (done()) break;
    if (client.worker.expelled && !client.worker.leaving) {
      return infeasible(fmt::format("worker {} waits for {}, but was taken for dead", client.worker.id, what));
    }
    if (comm::now_ns() - start > in_ns(client.options.timeout_s)) {
      return infeasible(fmt::format("worker {} waited {} s for {} at clock {}", client.worker.id,
                                    client.options.timeout_s, what, client.worker.clock),
                        "a longer timeout, if the servers are only slow");
    }
    client.link.rest(client.link.state);
  }
  client.waited_s += static_cast<double>(comm::now_ns() - start) * 1e-9;
  return {};
}

}  // namespace

Client make_client(const Link& link, NodeId id, const std::vector<Shard>& shards, const ClientOptions& options) {
  Client client{.link = link, .worker = {.id = id, .shards = shards}, .options = options};
  client.feedback.resize(shards.size());
  return client;
}

void pump(Client& client) {
  Outbox out;
  Message message;
  while (client.link.receive(client.link.state, message)) {
    const std::vector<NodeId> before = message.kind == Kind::view ? client.worker.view.servers : std::vector<NodeId>{};
    handle(client.worker, message, out);
    if (message.kind == Kind::view) forget_gone(client.link, before, client.worker.view.servers);
    if (message.kind == Kind::ack && client.acked != nullptr) publish_ack(client, message.shard);
    send_all(client.link, out);
  }
  const std::int64_t now = comm::now_ns();
  if (now < client.next_tick_ns) return;
  client.next_tick_ns = now + in_ns(client.options.tick_s);
  tick(client.worker, out);
  send_all(client.link, out);
}

Result<void> join(Client& client, const std::function<Payload(ShardId)>& initial) {
  Outbox out;
  start(client.worker, out);
  send_all(client.link, out);
  client.next_tick_ns = comm::now_ns() + in_ns(client.options.tick_s);
  Result<void> let_in = wait_until(client, "being let in", [&] { return client.worker.is_member; });
  if (!let_in) return let_in;
  for (ShardId shard = 0; shard < static_cast<ShardId>(client.worker.shards.size()); ++shard) {
    set_initial(client.worker, shard, initial(shard), out);
  }
  begin(client.worker, out);
  send_all(client.link, out);
  return wait_until(client, "the servers' clocks", [&] { return is_ready(client.worker); });
}

Result<std::vector<Arrival>> pull_all(Client& client) {
  Worker& worker = client.worker;
  if (!client.asked) {
    Outbox out;
    ask_all(client, out);
    send_all(client.link, out);
  }
  client.asked = false;
  const Result<void> all = wait_until(client, "values", [&] {
    return worker.arrived.size() == worker.shards.size() || !std::isfinite(worker.norm.value);
  });
  if (!all) return tl::unexpected(all.error());
  if (!std::isfinite(worker.norm.value)) {
    return infeasible(fmt::format("the norm of the gradients of clock {} is {}", worker.norm.clock, worker.norm.value));
  }
  std::vector<Arrival> values = std::move(worker.arrived);
  worker.arrived.clear();
  std::sort(values.begin(), values.end(), [](const Arrival& a, const Arrival& b) { return a.shard < b.shard; });
  // With backup workers the others may be ahead: what this one makes of these values belongs to their clock.
  for (const Arrival& arrival : values) worker.clock = std::max(worker.clock, arrival.oldest + 1);
  return values;
}

// One loop over the parts of all shards, as a helper needs a moment for each.
void copy_values(const Client& client, const std::vector<Arrival>& values, const Place& to) {
  constexpr std::size_t kPart = std::size_t{1} << 14U;
  struct Part {
    float* to;
    std::span<const float> from;
  };
  std::vector<Part> parts;
  std::size_t numbers = 0;
  for (const Arrival& arrival : values) {
    const std::span<const float> from = floats_of(arrival.values);
    float* const place = to(arrival.shard);
    numbers += from.size();
    for (std::size_t first = 0; first < from.size(); first += kPart) {
      parts.push_back({place + first, from.subspan(first, std::min(kPart, from.size() - first))});
    }
  }
  const bool streams = numbers * sizeof(float) >= comm::kStreamedCopy;
  const auto copy = [&](std::size_t i) {
    const Part& part = parts[i];
    streams ? comm::copy_streaming(part.to, part.from.data(), part.from.size_bytes())
            : comm::copy_bytes(part.to, part.from.data(), part.from.size_bytes());
  };
  if (client.team != nullptr && numbers >= kLeastParts * kPart) return client.team->run(parts.size(), copy);
  for (std::size_t i = 0; i < parts.size(); ++i) copy(i);
}

void push_all(Client& client, const std::vector<Payload>& gradients, double rate, Then then) {
  Outbox out;
  const Compression& compression = client.options.compression;
  for (std::size_t shard = 0; shard < gradients.size(); ++shard) {
    const bool whole = compression.encoding == Encoding::f32;
    Payload payload =
        whole ? gradients[shard] : compress(compression, floats_of(gradients[shard]), client.feedback[shard]);
    push(client.worker, static_cast<ShardId>(shard), std::move(payload), {compression.encoding, rate}, out);
  }
  advance(client.worker);
  if (then == Then::pull) ask_all(client, out);
  send_all(client.link, out);
  pump(client);
  if (client.account) client.account(client);
}

Result<void> wait_for_acks(Client& client) {
  return wait_until(client, "acknowledgements", [&] { return is_acknowledged(client.worker); });
}

Result<void> barrier(Client& client) {
  Outbox out;
  enter_barrier(client.worker, out);
  send_all(client.link, out);
  return wait_until(client, "a barrier", [&] { return is_released(client.worker); });
}

Result<void> leave(Client& client) {
  Result<void> all = wait_for_acks(client);
  if (!all) return all;
  Outbox out;
  leave(client.worker, out);
  send_all(client.link, out);
  return wait_until(client, "leaving", [&] { return client.worker.expelled; });
}

void serve(const Link& link, Server& server, double tick_s, const std::function<bool(const Server&)>& stop,
           const Observer& observer) {
  Outbox out;
  std::int64_t clock = 0;  // of the last message that was observed
  start(server, out);
  send_all(link, out);
  std::int64_t next_tick = comm::now_ns() + in_ns(tick_s);
  while (!server.expelled && !stop(server)) {
    Message message;
    bool came = false;
    while (link.receive(link.state, message)) {
      came = true;
      const std::int64_t begin_ns = comm::now_ns();
      const std::optional<Glance> before = observer ? std::optional(glance(server, message, clock)) : std::nullopt;
      take(link, server, message, out);
      std::optional<Handled> seen = before ? std::optional(handled(*before, server, out)) : std::nullopt;
      send_all(link, out);
      count(server.counters, message, begin_ns);
      if (!seen) continue;
      clock = seen->clock;
      seen->begin_ns = begin_ns;
      seen->end_ns = comm::now_ns();
      observer(*seen);
    }
    if (comm::now_ns() >= next_tick) {
      tick(server, out);
      send_all(link, out);
      next_tick = comm::now_ns() + in_ns(tick_s);
    }
    if (!came) link.rest(link.state);
  }
}

}  // namespace twinpod::ps
