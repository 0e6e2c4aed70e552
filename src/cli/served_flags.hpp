// The flags that choose a parameter server: `--servers 2 --workers 4 --mode ssp:3 ...`, for train, simulate and study.
#pragma once

#include <array>

#include "cli/args.hpp"
#include "ps/choice.hpp"

namespace twinpod::cli {

inline constexpr auto kServedFlags = std::to_array<Flag>({
    {"servers", "N", "train with a parameter server: processes that hold the parameters", ""},
    {"workers", "N", "those that compute, each on its share of the batch", ""},
    {"mode", "MODE", "sync, async or ssp:3 (a read lacks 3 clocks at most)", ""},
    {"copies", "N", "servers that hold each parameter: N - 1 may die at once", ""},
    {"backup", "N", "with sync: the last N pushes of a clock are not waited for", ""},
    {"group", "N", "ranks of a worker, which add up by all-reduce before one of them pushes", ""},
    {"local-steps", "N", "steps between two pushes (local SGD)", ""},
    {"compress", "HOW", "pushes in fp16, bf16, top-k:0.01, 1-bit or 2-bit", ""},
    {"straggler", "WHO", "slow workers: 0:2 (worker 0 twice as slow), any:3:0.1 (each, in one step of ten)", ""},
    {"pace", "TIME", "the least that a worker's step takes: it sleeps the rest, so that few cores stand for many", ""},
});

// Any of them is given.
bool wants_servers(const Arguments& arguments);

// Checked against each other: copies and servers, backup workers and modes, stragglers and workers.
Result<ps::Choice> served_choice(const Arguments& arguments);

}  // namespace twinpod::cli
