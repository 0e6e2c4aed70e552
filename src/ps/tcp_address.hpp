// Where a process listens: `tcp://10.0.0.7:7700`, `tcp://[fd00::7]:7700`, `tcp://node7:7700`.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "core/error.hpp"

namespace twinpod::ps {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;
  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// A name is looked up each time: it may come to mean another machine.
inline Result<SocketAddress> resolve(std::string endpoint) {
  constexpr std::size_t kScheme = 6;
  if (endpoint.starts_with("tcp://")) endpoint.erase(0, kScheme);
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos) return input_error("no port in " + endpoint, "tcp://10.0.0.7:7700");
  const std::string port = endpoint.substr(colon + 1);
  std::string host = endpoint.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) return input_error(host + ": " + gai_strerror(code), "an address, or a name that this host knows");
  SocketAddress address;
  address.bytes = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

}  // namespace twinpod::ps
