// The secret by which processes of one job know each other over a network: 32 random bytes, in a file that only its
// owner may read, the same on each host of the job. Never on a command line, nor in the environment: others may see
// those.
//
//     Result<JobKey> key = make_key_file("job.key");        // on the first host; the one that is there, if there is
//     one Result<JobKey> same = read_key_file("job.key", 5);    // on the others, which wait so many seconds for it
//     pair_key(*key, 3, 0);                                 // by which 3 and 0 know each other when 3 calls 0
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "core/error.hpp"
#include "ps/message.hpp"

namespace twinpod::ps {

using JobKey = std::array<std::byte, 32>;

JobKey random_key();

// Refused: links, what is no file, what others may read or write, what somebody else owns, what is no key.
Result<JobKey> read_key_file(const std::string& path, double wait_s = 0);
Result<JobKey> make_key_file(const std::string& path);

// Another one for each pair and direction, so that nobody can be taken for somebody else.
JobKey pair_key(const JobKey& key, NodeId from, NodeId to);

}  // namespace twinpod::ps
