// Who knocked at a process's port and was not let in: how many, and from where. Plain memory of a fixed size, so that
// it can lie where it outlives the process (launch.hpp).
//
//     Strangers strangers;
//     count_stranger(strangers, "10.0.0.9");
//     text_of(strangers);         // "1 connection of a stranger was turned away: 1 from 10.0.0.9"
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace twinpod::ps {

struct Caller {
  std::array<char, 48> address = {};  // ends with a 0
  std::uint64_t connections = 0;
};

struct Strangers {
  std::uint64_t connections = 0;  // did not show that they are of this job, or said nothing
  std::uint64_t messages = 0;     // of processes of this job, that were not theirs to send
  std::uint64_t impostors = 0;    // answered where a process of this job should, and could not show that they are it
  std::array<Caller, 8> callers = {};  // the first that came; of more, only the number is known
};

void count_stranger(Strangers& strangers, std::string_view address, std::uint64_t connections = 1);
void add(const Strangers& more, Strangers& all);

// A sentence or two, without the full stop; empty: nobody came.
std::string text_of(const Strangers& strangers);

}  // namespace twinpod::ps
