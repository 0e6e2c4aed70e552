// Messages over ZeroMQ: each process listens with one socket and has one to each peer that it talks to. A message is
// its header and, if it has one, its payload, which ZeroMQ sends from where it lies. What does not fit into the queue
// to a peer is dropped, and comes again when the protocol finds it missing; so a peer that is gone holds nobody up.
#include <fmt/format.h>
#include <zmq.h>

#include <cstring>
#include <map>
#include <memory>

#include "ps/link.hpp"

namespace twinpod::ps {
namespace {

constexpr int kRestMs = 5;
constexpr int kLingerMs = 200;
constexpr int kQueue = 10000;  // messages to one peer

struct ZmqLink {
  NodeId id = kNobody;
  void* context = nullptr;
  void* inbox = nullptr;
  std::map<NodeId, std::string> endpoints;
  std::map<NodeId, void*> sockets;
};

void set(void* socket, int option, int value) { zmq_setsockopt(socket, option, &value, sizeof value); }

// nullptr: no such peer, or it is gone.
void* socket_to(ZmqLink& link, NodeId peer) {
  const auto known = link.sockets.find(peer);
  if (known != link.sockets.end()) return known->second;
  const auto endpoint = link.endpoints.find(peer);
  if (endpoint == link.endpoints.end()) return nullptr;
  void* const socket = zmq_socket(link.context, ZMQ_PUSH);
  set(socket, ZMQ_SNDHWM, kQueue);
  set(socket, ZMQ_LINGER, kLingerMs);
  if (zmq_connect(socket, endpoint->second.c_str()) != 0) {
    zmq_close(socket);
    return nullptr;
  }
  return link.sockets[peer] = socket;
}

// Called by a thread of ZeroMQ when it is through with the payload.
void let_go(void* /*data*/, void* hint) { delete static_cast<Payload*>(hint); }

void send(void* state, Message message) {
  auto& link = *static_cast<ZmqLink*>(state);
  void* const socket = socket_to(link, message.to);
  if (socket == nullptr) return;
  const HeaderBytes header = encode_header(message);
  const bool has_payload = !message.payload.bytes.empty();
  const int more = has_payload ? ZMQ_SNDMORE : 0;
  if (zmq_send(socket, header.data(), header.size(), ZMQ_DONTWAIT | more) < 0 || !has_payload) return;
  auto kept = std::make_unique<Payload>(std::move(message.payload));
  auto* const data = const_cast<std::byte*>(kept->bytes.data());  // NOLINT: only read
  const std::size_t bytes = kept->bytes.size();
  zmq_msg_t part;
  zmq_msg_init_data(&part, data, bytes, let_go, kept.release());
  if (zmq_msg_send(&part, socket, 0) < 0) zmq_msg_close(&part);
}

// Numbers have to be aligned; what ZeroMQ cut out of a larger piece may not be.
Payload payload_in(zmq_msg_t* part) {
  auto* const data = static_cast<std::byte*>(zmq_msg_data(part));
  const std::size_t bytes = zmq_msg_size(part);
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(float) != 0) {
    std::vector<std::byte> copy(data, data + bytes);
    zmq_msg_close(part);
    delete part;
    return payload_of(std::move(copy));
  }
  std::shared_ptr<zmq_msg_t> owner(part, [](zmq_msg_t* one) {
    zmq_msg_close(one);
    delete one;
  });
  return {std::move(owner), {data, bytes}};
}

bool has_more(void* socket) {
  int more = 0;
  std::size_t size = sizeof more;
  zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
  return more != 0;
}

bool receive(void* state, Message& message) {
  const auto& link = *static_cast<ZmqLink*>(state);
  while (true) {
    HeaderBytes bytes{};
    const int got = zmq_recv(link.inbox, bytes.data(), bytes.size(), ZMQ_DONTWAIT);
    if (got < 0) return false;
    Payload payload;
    for (int parts = 1; has_more(link.inbox); ++parts) {
      auto part = std::make_unique<zmq_msg_t>();
      zmq_msg_init(part.get());
      if (zmq_msg_recv(part.get(), link.inbox, 0) < 0) return false;
      Payload one = payload_in(part.release());
      if (parts == 1) payload = std::move(one);
    }
    Result<Header> header =
        decode_header(std::span(bytes).first(std::min(bytes.size(), static_cast<std::size_t>(got))));
    if (!header || header->payload_bytes != payload.bytes.size()) continue;  // not ours
    message = std::move(header->message);
    message.payload = std::move(payload);
    return true;
  }
}

void rest(void* state) {
  const auto& link = *static_cast<ZmqLink*>(state);
  zmq_pollitem_t item{link.inbox, 0, ZMQ_POLLIN, 0};
  zmq_poll(&item, 1, kRestMs);
}

void forget(void* state, NodeId peer) {
  auto& link = *static_cast<ZmqLink*>(state);
  link.endpoints.erase(peer);
  const auto found = link.sockets.find(peer);
  if (found == link.sockets.end()) return;
  set(found->second, ZMQ_LINGER, 0);
  zmq_close(found->second);
  link.sockets.erase(found);
}

void close_link(void* state) {
  auto* const link = static_cast<ZmqLink*>(state);
  for (const auto& [peer, socket] : link->sockets) zmq_close(socket);
  zmq_close(link->inbox);
  zmq_ctx_term(link->context);
  delete link;
}

}  // namespace

Result<Link> zeromq_link(NodeId id, const std::vector<Address>& addresses) {
  auto link = std::make_unique<ZmqLink>();
  link->id = id;
  for (const Address& address : addresses) link->endpoints[address.id] = address.endpoint;
  const auto own = link->endpoints.find(id);
  if (own == link->endpoints.end()) {
    return input_error(fmt::format("node {}: no address to listen on among {} addresses", id, addresses.size()));
  }
  link->context = zmq_ctx_new();
  link->inbox = zmq_socket(link->context, ZMQ_PULL);
  set(link->inbox, ZMQ_RCVHWM, kQueue);
  if (zmq_bind(link->inbox, own->second.c_str()) != 0) {
    const std::string reason = zmq_strerror(zmq_errno());
    const std::string endpoint = own->second;
    close_link(link.release());
    return infeasible(fmt::format("node {}: cannot listen on {}: {}", id, endpoint, reason), "another port");
  }
  // Payloads are let go by another thread, so they lie on the heap, which is safe for that.
  return Link{link.release(), std::pmr::new_delete_resource(), send, receive, rest, forget, close_link};
}

}  // namespace twinpod::ps
