// A TCP connection between two processes of a job, encrypted and checked by TLS 1.3 with a key that only these two can
// make (job_key.hpp): no certificates, and nobody else gets further than his first message. Keys of each connection are
// new, so what was recorded is good for nothing, also for whoever gets the job's key later.
//
// Sockets are non-blocking; each call moves what it can.
//
//     Secure caller(file, {.own = 3, .peer = 0, .key = key});       // 3 calls 0
//     Secure answerer(file, {.own = 0, .nodes = 8, .key = key});    // whoever calls: answerer.peer() when it is open
//     while (answerer.shake() == Step::again) ...                   // poll for what is wanted
//     std::size_t moved = 0;
//     answerer.read(room, moved);
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ps/job_key.hpp"

struct ssl_st;

namespace twinpod::ps {

enum class Step {
  done,
  again,    // later, when there is something to read
  full,     // later, when there is room to write
  ended,    // the other end is gone
  refused,  // it is not of this job
};

struct SecureOptions {
  NodeId own = kNobody;
  NodeId peer = kNobody;  // that is called; kNobody: we are called
  NodeId nodes = 0;       // who may call: those below
  JobKey key = {};        // the job's
};

class Secure {
 public:
  // Takes the socket over.
  Secure(int file, const SecureOptions& options);
  ~Secure();
  Secure(const Secure&) = delete;
  Secure& operator=(const Secure&) = delete;

  Step shake();
  Step read(std::span<std::byte> into, std::size_t& moved);
  Step write(std::span<const std::byte> from, std::size_t& moved);

  int file() const { return file_; }
  // Who calls says who it is first. It is true once shake() is done.
  NodeId peer() const { return options_.peer; }
  const SecureOptions& options() const { return options_; }
  void name_peer(NodeId peer) { options_.peer = peer; }
  std::string& identity() { return identity_; }

 private:
  Step step_of(int result);

  int file_;
  SecureOptions options_;
  std::string identity_;
  std::size_t written_ = 0;  // since its key was renewed
  struct Free {
    void operator()(ssl_st* one) const;
  };
  std::unique_ptr<ssl_st, Free> tls_;
};

}  // namespace twinpod::ps
