#include "ps/controller.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace twinpod::ps {
namespace {

bool has(const std::vector<NodeId>& nodes, NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

void send_view(const Controller& controller, NodeId to, const Payload& payload, Outbox& out) {
  Message message{.kind = Kind::view, .from = kController, .to = to, .view = controller.view.number};
  message.sequence = controller.released;  // who comes now starts from there
  message.payload = payload;
  out.push_back(std::move(message));
}

void send_view_to_all(const Controller& controller, Outbox& out) {
  const Payload payload = encode_view(controller.view);
  for (const auto& [node, receipt] : controller.receipts) send_view(controller, node, payload, out);
}

// Every change of who is there makes a new view.
void renew(Controller& controller, Outbox& out) {
  View& view = controller.view;
  ++view.number;
  if (view.number == 1) view.chains.resize(controller.shards.size());
  if (!controller.lost && !view.servers.empty()) {
    place(controller.shards, view.servers, controller.settings.copies, view.number, view.chains);
  }
  if (view.number == 1) {
    for (Chain& chain : view.chains) chain.front().synced = true;  // it makes the first copy
  }
  send_view_to_all(controller, out);
}

bool is_complete(const Controller& controller) {
  return static_cast<int>(controller.view.servers.size()) >= controller.settings.servers &&
         static_cast<int>(controller.view.workers.size()) >= controller.settings.workers;
}

void handle_join(Controller& controller, const Message& message, Outbox& out) {
  if (message.from <= kController) return;
  if (controller.receipts.contains(message.from)) {  // its view was lost
    if (controller.view.number > 0) send_view(controller, message.from, encode_view(controller.view), out);
    return;
  }
  controller.receipts[message.from] = 0;
  if (message.role == Role::worker) controller.barriers[message.from] = controller.released;
  std::vector<NodeId>& nodes = message.role == Role::server ? controller.view.servers : controller.view.workers;
  nodes.insert(std::upper_bound(nodes.begin(), nodes.end(), message.from), message.from);
  if (controller.view.number > 0 || is_complete(controller)) renew(controller, out);
}

void release(const Controller& controller, NodeId to, Outbox& out) {
  out.push_back({.kind = Kind::barrier, .from = kController, .to = to, .sequence = controller.released});
}

// All that are there have reached it.
void release_barriers(Controller& controller, Outbox& out) {
  if (controller.view.workers.empty()) return;
  std::uint64_t reached = ~std::uint64_t{0};
  for (const NodeId worker : controller.view.workers) {
    const auto at = controller.barriers.find(worker);
    reached = std::min(reached, at == controller.barriers.end() ? 0 : at->second);
  }
  if (reached <= controller.released) return;
  controller.released = reached;
  for (const NodeId worker : controller.view.workers) release(controller, worker, out);
}

void handle_barrier(Controller& controller, const Message& message, Outbox& out) {
  if (!has(controller.view.workers, message.from)) return;
  std::uint64_t& at = controller.barriers[message.from];
  at = std::max(at, message.sequence);
  if (at <= controller.released) return release(controller, message.from, out);
  release_barriers(controller, out);
}

bool has_spare(const Controller& controller, const Chain& chain) {
  const auto copies = static_cast<std::size_t>(std::max(1, controller.settings.copies));
  return chain.size() > std::min(copies, controller.view.servers.size()) &&
         std::all_of(chain.begin(), chain.end(), [](const Member& member) { return member.synced; });
}

bool is_settled(const Controller& controller) {
  return std::all_of(controller.view.chains.begin(), controller.view.chains.end(), [](const Chain& chain) {
    return std::all_of(chain.begin(), chain.end(), [](const Member& member) { return member.synced; });
  });
}

// A copy is whole, and with it those before it in the chain. When all are, servers that are one too many may go.
void handle_synced(Controller& controller, const Message& message, Outbox& out) {
  out.push_back({.kind = Kind::synced,
                 .from = kController,
                 .to = message.from,
                 .shard = message.shard,
                 .position = message.position});
  const int place = place_of(controller.view, message.shard, message.from);
  if (place < 0) return;
  Chain& chain = controller.view.chains[static_cast<std::size_t>(message.shard)];
  const Member& member = chain[static_cast<std::size_t>(place)];
  if (member.since != message.position || member.synced) return;
  for (int i = 0; i <= place; ++i) chain[static_cast<std::size_t>(i)].synced = true;
  const std::vector<Chain>& chains = controller.view.chains;
  const bool spare =
      std::any_of(chains.begin(), chains.end(), [&](const Chain& c) { return has_spare(controller, c); });
  if (spare && is_settled(controller)) renew(controller, out);
}

void remove_server(Controller& controller, NodeId node) {
  for (std::size_t i = 0; i < controller.view.chains.size(); ++i) {
    Chain& chain = controller.view.chains[i];
    const int place = place_of(controller.view, static_cast<ShardId>(i), node);
    if (place < 0) continue;
    if (place == 0 || place + 1 == static_cast<int>(chain.size())) ++controller.failovers;
    chain.erase(chain.begin() + place);
    const bool none_left = chain.empty() || !chain.front().synced;
    if (none_left && !controller.lost) controller.lost = static_cast<ShardId>(i);
  }
}

std::vector<NodeId> silent_nodes(Controller& controller) {
  std::vector<NodeId> silent;
  if (controller.settings.silent_ticks == 0) return silent;
  for (const auto& [node, receipt] : controller.receipts) {
    if (controller.ticks - controller.heard[node] > controller.settings.silent_ticks) silent.push_back(node);
  }
  return silent;
}

}  // namespace

void remove(Controller& controller, NodeId node, Outbox& out) {
  controller.gone.insert(node);  // also one that never came: its request may still be on its way
  if (controller.receipts.erase(node) == 0) return;
  controller.barriers.erase(node);
  const bool was_server = has(controller.view.servers, node);
  std::erase(was_server ? controller.view.servers : controller.view.workers, node);
  if (was_server) remove_server(controller, node);
  if (controller.view.number == 0) return;
  renew(controller, out);
  release_barriers(controller, out);
}

void handle(Controller& controller, const Message& message, Outbox& out) {
  controller.heard[message.from] = controller.ticks;
  if (message.kind == Kind::leave) remove(controller, message.from, out);
  // Who is out of the view and does not know it yet is told.
  const bool knows = message.kind == Kind::view_ack && message.view == controller.view.number;
  if (controller.gone.contains(message.from) && !knows) {
    return send_view(controller, message.from, encode_view(controller.view), out);
  }
  switch (message.kind) {
    case Kind::join:
      return handle_join(controller, message, out);
    case Kind::synced:
      return handle_synced(controller, message, out);
    case Kind::barrier:
      return handle_barrier(controller, message, out);
    case Kind::view_ack: {
      const auto found = controller.receipts.find(message.from);
      if (found != controller.receipts.end()) found->second = std::max(found->second, message.view);
      return;
    }
    default:
      return;
  }
}

void tick(Controller& controller, Outbox& out) {
  ++controller.ticks;
  if (controller.view.number == 0) return;
  for (const NodeId node : silent_nodes(controller)) remove(controller, node, out);
  const Payload payload = encode_view(controller.view);
  for (const auto& [node, receipt] : controller.receipts) {
    if (receipt < controller.view.number) send_view(controller, node, payload, out);
  }
}

Error error_of(const Controller& controller) {
  const Shard& shard = controller.shards[static_cast<std::size_t>(controller.lost.value_or(0))];
  return {ErrorKind::infeasible,
          fmt::format("elements {} to {} of tensor {} are lost: all servers that held them are gone", shard.first,
                      shard.first + shard.count - 1, shard.tensor),
          fmt::format("more copies than {}, or a checkpoint", controller.settings.copies),
          "",
          0,
          0};
}

}  // namespace twinpod::ps
