// Messages over TCP as a link. A thread moves them while nobody looks: servers and workers compute for long, and their
// peers are to get in meanwhile. The launcher, which forks, has none: it looks all the time, and a fork beside a thread
// that holds some lock would have that lock in the child for ever.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "comm/wait.hpp"
#include "ps/tcp.hpp"

namespace twinpod::ps {
namespace {

constexpr int kRestMs = 5;
constexpr std::int64_t kLingerNs = 200'000'000;

// What the link's user wants of the thread, in this order.
struct Order {
  Message message = {};
  NodeId forgotten = kNobody;  // instead of a message
};

struct TcpLink {
  std::unique_ptr<Tcp> tcp;
  Inbox inbox;  // with a thread: under the mutex
  std::thread thread;
  std::mutex mutex;
  std::condition_variable came;
  std::vector<Order> orders;
  bool ends = false;
};

void follow(Tcp& tcp, Order order) {
  order.forgotten == kNobody ? post(tcp, std::move(order.message)) : drop(tcp, order.forgotten);
}

void give(TcpLink& link, Order order) {
  if (!link.thread.joinable()) return follow(*link.tcp, std::move(order));
  bool first = false;
  {
    const std::lock_guard lock(link.mutex);
    first = link.orders.empty();
    link.orders.push_back(std::move(order));
  }
  if (first) wake(*link.tcp);
}

// To the other thread, which takes all at once.
void hand_over(TcpLink& link, Inbox& fresh) {
  const std::lock_guard lock(link.mutex);
  if (fresh.messages.empty()) return;
  const bool was_empty = link.inbox.messages.empty();
  for (Message& message : fresh.messages) link.inbox.messages.push_back(std::move(message));
  link.inbox.bytes += fresh.bytes;
  fresh.messages.clear();
  fresh.bytes = 0;
  if (was_empty) link.came.notify_one();
}

void flush(Tcp& tcp, Inbox& inbox) {
  const std::int64_t end = comm::now_ns() + kLingerNs;
  while (has_unsent(tcp) && comm::now_ns() < end) look(tcp, 1, inbox);
}

// What is not taken away is not read on: then senders wait, not memory.
void run(TcpLink& link) {
  Inbox fresh;
  std::vector<Order> orders;
  while (true) {
    bool ends = false;
    {
      std::unique_lock lock(link.mutex);
      fresh.closed = is_full(link.inbox);
      if (fresh.closed && !link.ends) link.came.wait_for(lock, std::chrono::milliseconds(1));
      orders.swap(link.orders);
      ends = link.ends;
    }
    for (Order& order : orders) follow(*link.tcp, std::move(order));
    orders.clear();
    if (ends) break;
    look(*link.tcp, kRestMs, fresh);
    hand_over(link, fresh);
  }
  flush(*link.tcp, fresh);
}

void send(void* state, Message message) { give(*static_cast<TcpLink*>(state), {.message = std::move(message)}); }

void forget(void* state, NodeId peer) { give(*static_cast<TcpLink*>(state), {.forgotten = peer}); }

bool receive(void* state, Message& message) {
  auto& link = *static_cast<TcpLink*>(state);
  if (!link.thread.joinable() && link.inbox.messages.empty()) look(*link.tcp, 0, link.inbox);
  const std::lock_guard lock(link.mutex);
  Inbox& inbox = link.inbox;
  if (inbox.messages.empty()) return false;
  message = std::move(inbox.messages.front());
  inbox.messages.pop_front();
  inbox.bytes -= kHeaderBytes + message.payload.bytes.size();
  return true;
}

void rest(void* state) {
  auto& link = *static_cast<TcpLink*>(state);
  if (!link.thread.joinable()) return look(*link.tcp, kRestMs, link.inbox);
  std::unique_lock lock(link.mutex);
  link.came.wait_for(lock, std::chrono::milliseconds(kRestMs), [&] { return !link.inbox.messages.empty(); });
}

void close_link(void* state) {
  auto* const link = static_cast<TcpLink*>(state);
  if (link->thread.joinable()) {
    {
      const std::lock_guard lock(link->mutex);
      link->ends = true;
    }
    wake(*link->tcp);
    link->thread.join();
  } else {
    flush(*link->tcp, link->inbox);
  }
  delete link;
}

}  // namespace

Result<Link> tcp_link(NodeId id, const TcpOptions& options) {
  Result<std::unique_ptr<Tcp>> tcp = open_tcp(id, options);
  if (!tcp) return tl::unexpected(tcp.error());
  auto link = std::make_unique<TcpLink>();
  link->tcp = std::move(*tcp);
  if (options.own_thread) link->thread = std::thread([one = link.get()] { run(*one); });
  // Payloads are let go by another thread, so they lie on the heap, which is safe for that.
  return Link{link.release(), std::pmr::new_delete_resource(), send, receive, rest, forget, close_link};
}

}  // namespace twinpod::ps
