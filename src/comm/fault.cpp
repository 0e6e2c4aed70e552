#include "comm/fault.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>

#include "core/nearest.hpp"

namespace twinpod::comm {
namespace {

bool read_number(std::string_view text, int low, int& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && value >= low;
}

}  // namespace

Result<Fault> parse_fault(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::size_t at = text.find('@');
  Fault fault;
  const std::string kind = text.substr(0, colon);
  std::vector<std::string> known;
  for (const auto& [name, value] : kFaultNames) {
    known.emplace_back(name);
    if (name == kind) fault.kind = value;
  }
  if (fault.kind == FaultKind::none) {
    return input_error(fmt::format("fault {}: expected kill, stop, exit, skip, verb or size", text),
                       nearest_name(kind, known));
  }
  const bool whole = colon != std::string::npos && at != std::string::npos && at > colon;
  if (!whole || !read_number(std::string_view(text).substr(colon + 1, at - colon - 1), 0, fault.rank) ||
      !read_number(std::string_view(text).substr(at + 1), 1, fault.operation)) {
    return input_error(fmt::format("fault {}: expected KIND:RANK@OPERATION", text), "kill:2@17");
  }
  return fault;
}

bool commit_fault(FaultKind kind, Call& call) {
  switch (kind) {
    case FaultKind::kill:
      raise(SIGKILL);
      return true;
    case FaultKind::stop:
      raise(SIGSTOP);
      return true;
    case FaultKind::exit:
      _exit(0);
    case FaultKind::skip:
      return false;
    case FaultKind::verb:
      if (call.verb == Verb::barrier) {
        call.verb = Verb::all_reduce;
        call.count = 0;
      } else {
        call.verb = Verb::barrier;
      }
      call.choice = {};
      return true;
    case FaultKind::size:
      call.count /= 2;
      return true;
    default:
      return true;
  }
}

}  // namespace twinpod::comm
