// What the parameter server promises, looked for after each event of the simulated network.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ps/test_network.hpp"

namespace twinpod::ps {
namespace {

float total_of(double n, int power) {
  return static_cast<float>(power == 0 ? n : power == 1 ? n * (n + 1) / 2 : n * (n + 1) * (2 * n + 1) / 6);
}

std::int64_t num_up_to(const std::vector<std::int64_t>& clocks, std::int64_t clock) {
  return std::count_if(clocks.begin(), clocks.end(), [&](std::int64_t c) { return c <= clock; });
}

}  // namespace

void SimulatedNetwork::fail(const std::string& problem) {
  if (problem_.empty()) problem_ = fmt::format("at {}, event {}: {}", now_, num_events_, problem);
}

void SimulatedNetwork::check_reads(WorkerNode& node) {
  std::int64_t furthest = node.worker.clock;
  for (const Arrival& arrival : node.worker.arrived) {
    check_read(node, arrival);
    furthest = std::max(furthest, arrival.oldest + 1);
  }
  node.worker.arrived.clear();
  if (!keeps_prefix()) node.worker.clock = furthest;
}

// The first n pushes and no others, each once.
void SimulatedNetwork::check_content(ShardId shard, int slot, std::span<const float> values) {
  const auto at = place_in(slot);
  for (int power = 1; power < 3; ++power) {
    if (values[at + static_cast<std::size_t>(power)] == total_of(values[at], power)) continue;
    fail(fmt::format("shard {}: the {} updates of slot {} are not its first ones, once each", shard, values[at], slot));
  }
}

void SimulatedNetwork::check_read(const WorkerNode& reader, const Arrival& arrival) {
  const std::span<const float> values = floats_of(arrival.values);
  const auto shard = static_cast<std::size_t>(arrival.shard);
  const bool bounded = scenario_.settings.mode != Mode::async && keeps_prefix();
  const std::int64_t bound_clock = arrival.clock - 1 - bound();
  for (const auto& [id, node] : workers_) {
    const auto found = static_cast<std::int64_t>(values[place_in(node.slot)]);
    const std::vector<std::int64_t>& clocks = node.pushes[shard];
    if (keeps_prefix()) check_content(arrival.shard, node.slot, values);
    const auto all = static_cast<std::int64_t>(clocks.size());
    if (found > all) fail(fmt::format("shard {}: {} updates of worker {}, which made {}", shard, found, id, all));
    if (keeps_prefix() && id == reader.worker.id && found != all) {
      fail(fmt::format("worker {} reads {} of its own {} updates of shard {}", id, found, all, shard));
    }
    if (!counts(node) || !keeps_prefix()) continue;
    const std::int64_t wanted = bounded ? std::max(bound_clock, arrival.oldest) : arrival.oldest;
    if (found < num_up_to(clocks, wanted)) {
      fail(fmt::format("worker {} reads shard {} at clock {}: {} of the {} updates of worker {} up to clock {}",
                       reader.worker.id, shard, arrival.clock, found, num_up_to(clocks, wanted), id, wanted));
    }
    if (scenario_.settings.mode == Mode::sync && found != num_up_to(clocks, arrival.clock - 1)) {
      fail(fmt::format("worker {} reads shard {} at clock {}: {} updates of worker {}, not those of all clocks before",
                       reader.worker.id, shard, arrival.clock, found, id));
    }
  }
  if (bounded) promised_[shard] = std::max(promised_[shard], bound_clock);
}

// Every copy that the controller counts on has what was acknowledged.
void SimulatedNetwork::check_ack(const WorkerNode& node, const Message& ack) {
  for (const Member& member : controller_.view.chains[static_cast<std::size_t>(ack.shard)]) {
    const ServerNode& holder = servers_.at(member.server);
    const auto replica = holder.server.replicas.find(ack.shard);
    if (!member.synced || !holder.alive || replica == holder.server.replicas.end()) continue;
    if (replica->second.since != member.since || !replica->second.has_state) continue;
    const Progress* const progress = progress_of(replica->second.state, node.worker.id);
    if (progress != nullptr && progress->sequence < ack.sequence) {
      fail(fmt::format("push {} of worker {} on shard {} is acknowledged, but server {} does not have it", ack.sequence,
                       node.worker.id, ack.shard, member.server));
    }
  }
}

// Shards are scaled by the same norm.
void SimulatedNetwork::check_norm(std::int64_t clock, double norm) {
  const auto [found, is_new] = norms_.try_emplace(clock, norm);
  if (!is_new && found->second != norm) {
    fail(fmt::format("a shard took {} for the norm of clock {}, another one {}", norm, clock, found->second));
  }
}

void SimulatedNetwork::check_totals(ShardId shard, const ShardState& state) {
  std::uint64_t applied = 0;
  for (const auto& [id, node] : workers_) {
    const auto found = static_cast<std::uint64_t>((*state.values)[place_in(node.slot)]);
    applied += found;
    const std::uint64_t made = node.pushes[static_cast<std::size_t>(shard)].size();
    const std::uint64_t acked = node.acked[static_cast<std::size_t>(shard)];
    if (keeps_prefix()) {
      check_content(shard, node.slot, *state.values);
      if (found < acked && num_waiting(state) == 0) {
        fail(fmt::format("shard {}: {} of {} acknowledged updates of worker {}", shard, found, acked, id));
      }
    }
    if (found > made) fail(fmt::format("shard {}: {} updates of worker {}, which made {}", shard, found, id, made));
    if (keeps_prefix() && counts(node) && found != made) fail(fmt::format("shard {}: lost updates of {}", shard, id));
  }
  if (applied != state.applied) {
    fail(fmt::format("shard {}: {} updates in the values, {} counted", shard, applied, state.applied));
  }
}

void SimulatedNetwork::check_end() {
  for (ShardId shard = 0; shard < static_cast<ShardId>(shards_.size()); ++shard) {
    const Chain& chain = controller_.view.chains[static_cast<std::size_t>(shard)];
    const std::size_t wanted = std::min(static_cast<std::size_t>(scenario_.copies), controller_.view.servers.size());
    if (chain.size() != wanted) fail(fmt::format("shard {}: {} copies, not {}", shard, chain.size(), wanted));
    Payload first;
    for (const Member& member : chain) {
      const auto replica = servers_.at(member.server).server.replicas.find(shard);
      if (replica == servers_.at(member.server).server.replicas.end() || !replica->second.has_state) {
        fail(fmt::format("shard {}: server {} has no copy", shard, member.server));
        return;
      }
      if (!replica->second.unacked.empty()) fail(fmt::format("shard {}: entries are not acknowledged", shard));
      const Payload state = encode_state(replica->second.state);
      if (first.bytes.empty()) first = state;
      if (!std::equal(state.bytes.begin(), state.bytes.end(), first.bytes.begin(), first.bytes.end())) {
        fail(fmt::format("shard {}: the copies of servers {} and {} differ", shard, chain[0].server, member.server));
      }
      check_totals(shard, replica->second.state);
    }
  }
}

}  // namespace twinpod::ps
