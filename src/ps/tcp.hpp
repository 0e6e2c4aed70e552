// Messages over TCP between the processes of a job, and nobody else: each listens on its own address and calls those
// that it sends to. Both ends show with the job's key who they are before anything else is read (secure.hpp). Who comes
// without it costs little and is counted (strangers.hpp): one of a few dozen places, for seconds, and no memory that
// grows.
//
// A Tcp is used by one thread; tcp_link.cpp makes a link of it.
//
//     Result<std::unique_ptr<Tcp>> tcp = open_tcp(0, options);
//     post(**tcp, std::move(message));       // goes when it can; dropped when too many wait
//     look(**tcp, 5, inbox);                 // moves what can be moved; waits 5 ms at most until there is something
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ps/link.hpp"
#include "ps/secure.hpp"

namespace twinpod::ps {

struct Incoming {
  std::unique_ptr<Secure> secure;
  std::string address;
  std::int64_t since_ns = 0;
  bool admitted = false;
  HeaderBytes header = {};
  std::size_t have = 0;  // of header and payload
  Header next = {};      // once the header is there
  std::shared_ptr<std::byte> room = {};
};

// What is the same when it is sent again.
using Likeness = std::tuple<Kind, Kind, ShardId, NodeId, std::uint64_t, std::uint64_t, std::int64_t, std::uint64_t>;

struct Outgoing {
  std::unique_ptr<Secure> secure = {};  // none: nobody is called
  bool open = false;                    // the other end has shown who it is
  bool full = false;                    // nothing can be written now
  std::int64_t next_try_ns = 0;
  std::int64_t pause_ns = 0;  // before it
  std::deque<Message> queue = {};
  std::vector<std::byte> stage = {};  // headers, and small payloads, that go together
  std::size_t staged = 0;             // of it, written
  Payload body = {};                  // goes behind the stage
  std::size_t moved = 0;              // of it
  Likeness body_is = {};
  // What is large, or asks for what is, and is not through: it is not sent again before it was sent once. Else, where
  // the network is slower than what comes again with each tick, ever more of the same would be under way.
  std::set<Likeness> under_way = {};
};

// What waits to be handled.
struct Inbox {
  std::deque<Message> messages = {};
  std::size_t bytes = 0;
  bool closed = false;  // nothing more is taken
};

struct Tcp {
  NodeId id = kNobody;
  TcpOptions options = {};
  std::map<NodeId, std::string> endpoints = {};
  int poll = -1;
  int listener = -1;
  int wakes = -1;                                          // an eventfd: a thread that waits in look() is to look again
  std::int64_t listens_again_ns = 0;                       // there were no files left; 0: it listens
  std::map<int, std::unique_ptr<Incoming>> incoming = {};  // by their sockets
  std::map<NodeId, Outgoing> outgoing = {};
  std::vector<int> unread = {};  // there is more to read, and the kernel does not know

  Tcp() = default;
  Tcp(const Tcp&) = delete;
  Tcp& operator=(const Tcp&) = delete;
  ~Tcp();
};

Result<std::unique_ptr<Tcp>> open_tcp(NodeId id, const TcpOptions& options);
void post(Tcp& tcp, Message message);
void drop(Tcp& tcp, NodeId peer);  // it is dead: what was for it is dropped, and it is not called again
void look(Tcp& tcp, int wait_ms, Inbox& inbox);
bool has_unsent(const Tcp& tcp);
void wake(const Tcp& tcp);  // from another thread

// ---- between its files

enum class Wants { to_read, to_write, both };
Result<void> start_listening(Tcp& tcp);
void take_callers(Tcp& tcp);
void look_at(Tcp& tcp, Incoming& one, Inbox& inbox);
void send_off_silent(Tcp& tcp, std::int64_t patience_ns);
void call_peers(Tcp& tcp);
void look_at(Tcp& tcp, Outgoing& one);
void watch(const Tcp& tcp, int file, Wants wants, bool is_new);
bool is_full(const Inbox& inbox);
Likeness likeness_of(const Message& message);
bool is_large(const Message& message);

// Whether what `peer` sends is its own to say.
bool may_say(NodeId peer, const Message& message, const TcpOptions& options);

}  // namespace twinpod::ps
