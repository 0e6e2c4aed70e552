// The best layouts of a job out of all that fit.
//
//     const SearchResult found = search(space_of(job, {}, job.stack.abilities), {.keep = 10});
//     found.ranked.front().layout
//
// Every layout of the space is tried: its memory, and if it fits, its step time, both exactly as peak_memory() and
// step_time() give them; what layouts have in common is computed once. With `bounded` whole groups of layouts are
// passed over when a lower bound of their time shows that none of them can be among the best `keep`; the ranking is the
// same. All cores are used, and the result does not depend on how many there are.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plan/space.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

// What makes one layout better than another.
enum class Objective {
  time,     // shortest step, and with it the shortest run
  cost,     // fewest device-seconds for a step: what is paid for
  devices,  // fewest devices, then time
  memory,   // least memory of a device, then time
};

struct Candidate {
  spec::Layout layout;  // canonical, dp filled in
  int devices = 0;
  double step_time_s = 0;
  double memory_bytes = 0;  // of the fullest device
};

// a goes before b. Total order: equals differ in nothing, so that a ranking is the same on every machine.
bool is_better(Objective objective, const Candidate& a, const Candidate& b);
bool is_same_layout(const Candidate& a, const Candidate& b);

struct SearchOptions {
  Objective objective = Objective::time;
  std::size_t keep = 10;                          // of the ranking
  double within_step_s = 0;                       // slower steps do not count (a deadline); 0: none
  double memory_margin = 0;                       // share of the device's memory that stays free
  bool bounded = false;                           // pass over groups that cannot be among the best; not with pareto
  bool pareto = false;                            // keep what no other beats in time, devices and memory at once
  std::optional<Candidate> asked = std::nullopt;  // a layout whose rank is wanted
  int num_threads = 0;                            // 0: all
  const std::atomic<int>* stop = nullptr;         // not 0, set from outside (Ctrl-C): the best so far is returned
  std::function<void(std::size_t, std::size_t)> progress = nullptr;  // groups done, groups in all; from any thread
};

struct SearchResult {
  std::vector<Candidate> ranked;         // best first
  std::vector<Candidate> of_devices;     // best of each device count, rising
  std::vector<Candidate> pareto;         // by devices, then time
  std::uint64_t evaluated = 0;           // layouts whose memory, and if they fit, whose time was computed
  std::uint64_t feasible = 0;            // of them: fit in memory and meet the deadline
  std::uint64_t too_slow = 0;            // of them: fit, but miss the deadline
  bool passed_over_too_slow = false;     // some of groups_passed_over were so for the deadline
  std::uint64_t groups_passed_over = 0;  // bounded: groups on a number of devices, shown to hold nothing better
  std::uint64_t asked_rank = 0;          // 1: nothing is better; 0: it is not in the space, or does not fit
  double seconds = 0;
  bool stopped = false;
};

// Of these, what no other is at least as good as in all of the values and better in one. Each value is one of
// time, cost, devices, memory.
std::vector<Candidate> pareto_front(const std::vector<Candidate>& candidates, const std::vector<Objective>& values);

SearchResult search(const Space& space, const SearchOptions& options);

// No layout of a group takes less time for a step than this.
double least_step_s(const spec::Job& job, const Group& group, int devices);

}  // namespace twinpod::plan
