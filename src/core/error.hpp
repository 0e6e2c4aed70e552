// Errors that a user can meet, as values.
//
// A function that can be refused returns Result<T>. The Error says where (file, line, column), what was found, what was
// expected, and the nearest thing that would have worked. Only main() turns an Error into an exit status:
// input errors exit 2, jobs that cannot be done exit 1.
//
//     Result<Job> job = read_job("job.yaml", catalog);
//     if (!job) return fail(job.error());
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace twinpod {

enum class ErrorKind {
  input,       // the input is wrong: exit status 2
  infeasible,  // the input is right, but the job cannot be done: exit status 1
};

struct Error {
  ErrorKind kind = ErrorKind::input;
  std::string message;  // what was found and what was expected
  std::string hint;     // the nearest thing that would have worked; may be empty
  std::string file;     // where; empty for the command line
  int line = 0;         // 1-based; 0: not known
  int column = 0;       // 1-based; 0: not known
};

// `file:line:column: message` and, on a line of its own, the hint: as a terminal may get it, whatever is in there.
std::string to_string(const Error& error);

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> input_error(std::string message, std::string hint = "") {
  return tl::unexpected<Error>(Error{ErrorKind::input, std::move(message), std::move(hint), "", 0, 0});
}

inline tl::unexpected<Error> infeasible(std::string message, std::string hint = "") {
  return tl::unexpected<Error>(Error{ErrorKind::infeasible, std::move(message), std::move(hint), "", 0, 0});
}

}  // namespace twinpod
