// Pieces of bash that the scripts share.
#pragma once

#include <string>
#include <vector>

#include "spec/job.hpp"

namespace twinpod::emit {

// `NAME value`; the value is text for the shell as it stands: quoted, or "${A_VARIABLE}".
struct Flag {
  std::string name;
  std::string value;  // empty: a switch
};

// A bash array: MODEL_ARGS=( ... ).
struct FlagGroup {
  std::string name;
  std::vector<Flag> flags;
};

std::string array_text(const FlagGroup& group);

// A variable that the user must set, and what to set it to.
struct Need {
  std::string variable;
  std::string what;
  std::string condition;  // a test of bash under which it is needed; empty: always
};

// Prints what is missing and ends with status 2.
std::string needs_text(const std::vector<Need>& needs);

// Where the first node is, and which one this is; inside a Slurm job Slurm says so.
std::string nodes_text(const spec::Job& job);

// torchrun with a backslash at the end of each line; the program and its arguments follow.
std::string torchrun_text(const spec::Job& job);

}  // namespace twinpod::emit
