// The layouts that a search looks at: for each axis the values that it may take.
//
//     Wishes wishes;
//     wishes.tp = {4, 8};                                               // everything else stays open
//     const Space space = space_of(job, wishes, job.stack.abilities);
//
// What a wish leaves open is every value that divides the devices, the model and the batch and that the abilities
// allow; of context ranks those that leave each 512 tokens, of tensor ranks inside an expert all or one, of servers
// none or one on every node. A wish goes beyond the abilities: who asks for a schedule by name gets it. The layout that
// the job itself has is a point of the space as far as the wishes allow. Two layouts that are the same under other
// names (sequence parallelism on one tensor rank, ZeRO on one data rank, a schedule on one stage) are one point:
// canonical() says which.
//
// A space is a list of groups; the layouts of a group split the work of a layer in the same way, so that they share
// what is dear to compute.
#pragma once

#include <vector>

#include "spec/job.hpp"

namespace twinpod::plan {

// Values that the user allows; an empty list: all.
struct Wishes {
  std::vector<int> devices;  // empty: as many as the job has
  std::vector<int> tp;
  std::vector<int> pp;
  std::vector<int> virtual_stages;
  std::vector<int> cp;
  std::vector<int> ep;
  std::vector<int> etp;
  std::vector<int> dp;
  std::vector<int> micro_batch;
  std::vector<int> zero;
  std::vector<int> servers;              // 0: all-reduce
  std::vector<int> sequence_parallel;    // 0, 1
  std::vector<int> offload_optimizer;    // 0, 1
  std::vector<int> offload_activations;  // 0, 1
  std::vector<spec::Recompute> recompute;
  std::vector<spec::Schedule> schedule;
  // For a launch: what was wished is in the layout itself. Else it is enough when nothing is against it: one stage with
  // any schedule, ZeRO 3 where a parameter has one copy.
  bool literal = false;
};

// Everything that the closed form knows, whether or not a software has it.
spec::Abilities all_abilities();

struct Group {
  int tp = 1;
  int cp = 1;
  int ep = 1;
  int etp = 0;
  int micro_batch = 1;
  bool sequence_parallel = false;
};

struct Space {
  const spec::Job* job = nullptr;
  Wishes wishes;
  spec::Abilities abilities;
  std::vector<int> devices;  // rising
  std::vector<Group> groups;
};

// REQUIRES: the job outlives the space.
Space space_of(const spec::Job& job, const Wishes& wishes, const spec::Abilities& abilities);

// Below a group: a number of devices, stages, then how they are run, then what is kept where.
std::vector<int> stage_counts(const Space& space, const Group& group, int devices);

struct Pipelining {
  spec::Schedule schedule = spec::Schedule::one_f_one_b;
  int virtual_stages = 1;
  bool uneven_ends = false;
};
std::vector<Pipelining> pipelinings(const Space& space, const Group& group, int devices, int pp);

struct Keeping {
  int zero = 0;
  int servers = 0;
  bool offload_optimizer = false;
  bool offload_activations = false;
  spec::Recompute recompute = spec::Recompute::none;
};
std::vector<Keeping> keepings(const Space& space, const Group& group, int devices, int pp);

// The job's layout with one name for what is the same, dp filled in.
spec::Layout canonical(const spec::Job& job);

// Of a job whose batch nobody chose: near to `tokens` a step, and divisible by as many numbers of data-parallel ranks
// as can be, for all these device counts.
double planned_batch(double tokens, int sequence, const std::vector<int>& devices);

}  // namespace twinpod::plan
