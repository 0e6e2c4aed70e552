// Exceptions are not how our code fails, but the library throws when memory ends, and a number that is no number is
// noticed where it would be written, far from whoever could return an Error. Both become one here.
//
//     const Result<std::string> text = guarded([&] { return command.run(arguments); });
//
// At the edges only: the command line, a rank, a thread that has nobody above it.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace twinpod {

// An Error on its way to the next guarded().
class Refused : public std::exception {
 public:
  explicit Refused(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// REQUIRES: an exception is being handled.
Error error_of_exception();

// f(), which returns a Result; or what it threw.
template <typename F>
auto guarded(const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    return tl::unexpected(error_of_exception());
  }
}

// What reaches no guarded() ends the process with a message and exit status 1, whichever thread or child it is in.
void end_with_a_message_when_terminated();

}  // namespace twinpod
