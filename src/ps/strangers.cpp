#include "ps/strangers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace twinpod::ps {
namespace {

bool is_at(const Caller& caller, std::string_view address) { return address == caller.address.data(); }

std::string count_text(std::uint64_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace

void count_stranger(Strangers& strangers, std::string_view address, std::uint64_t connections) {
  strangers.connections += connections;
  address = address.substr(0, strangers.callers[0].address.size() - 1);
  const auto caller = std::find_if(strangers.callers.begin(), strangers.callers.end(),
                                   [&](const Caller& one) { return one.connections == 0 || is_at(one, address); });
  if (caller == strangers.callers.end()) return;
  if (caller->connections == 0) std::memcpy(caller->address.data(), address.data(), address.size());
  caller->connections += connections;
}

void add(const Strangers& more, Strangers& all) {
  std::uint64_t named = 0;
  for (const Caller& caller : more.callers) {
    if (caller.connections > 0) count_stranger(all, caller.address.data(), caller.connections);
    named += caller.connections;
  }
  all.connections += more.connections - std::min(named, more.connections);
  all.messages += more.messages;
  all.impostors += more.impostors;
}

std::string text_of(const Strangers& strangers) {
  std::string text;
  const auto begin = [&text](const std::string& next) { text += text.empty() ? next : "; " + next; };
  if (strangers.connections > 0) {
    begin(count_text(strangers.connections,
                     "connection of a stranger was turned away:", "connections of strangers were turned away:"));
    std::uint64_t named = 0;
    for (const Caller& caller : strangers.callers) {
      if (caller.connections == 0) break;
      text += fmt::format("{} {} from {}", named == 0 ? "" : ",", caller.connections, caller.address.data());
      named += caller.connections;
    }
    if (named < strangers.connections) text += fmt::format(", {} from elsewhere", strangers.connections - named);
  }
  if (strangers.messages > 0) {
    begin(count_text(strangers.messages, "message was", "messages were") + " not the sender's to send, and not heard");
  }
  if (strangers.impostors > 0) {
    begin(count_text(strangers.impostors, "answer was", "answers were") +
          " not of this job, where one of its processes should be");
  }
  return text;
}

}  // namespace twinpod::ps
