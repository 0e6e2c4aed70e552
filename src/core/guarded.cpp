#include "core/guarded.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace twinpod {
namespace {

constexpr const char* kOutOfMemory = "there is no more memory";

void say(const char* text) { static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text))); }

// Needs no memory: there may be none.
[[noreturn]] void last_words() {
  if (std::current_exception() == nullptr)
    std::abort();  // a fault of ours, not of the machine: a core dump shows where
  say("twinpod: ");
  try {
    throw;
  } catch (const std::bad_alloc&) {
    say(kOutOfMemory);
  } catch (const std::exception& exception) {
    say(exception.what());
  } catch (...) {
    say("something unknown went wrong");
  }
  say("\n");
  _exit(1);
}

}  // namespace

Error error_of_exception() {
  try {
    throw;
  } catch (const Refused& refused) {
    return refused.error();
  } catch (const std::bad_alloc&) {
    return {ErrorKind::infeasible,
            kOutOfMemory,
            "a smaller job may fit; `ulimit -a` shows what the shell allows",
            "",
            0,
            0};
  } catch (const std::length_error&) {
    return {ErrorKind::infeasible, "something would be larger than any memory", "a smaller job may fit", "", 0, 0};
  } catch (const std::exception& exception) {
    return {ErrorKind::infeasible, exception.what(), "", "", 0, 0};
  }
}

void end_with_a_message_when_terminated() { std::set_terminate(last_words); }

}  // namespace twinpod
