// A machine that knows its own speed: what `twinpod bench machine` measures, fits and writes down.
//
//     Machine machine = topology_of_this_host();
//     measure_disk("/tmp", 256e6, machine);
//     measure_compute(world, {.threads = 1}, machine);                    // on every rank
//     measure_links(world, "processes", false, machine);
//     const spec::Cluster cluster = cluster_of(machine);                  // with the error of each fit
//     write_file("here.yaml", cluster_file(machine, cluster));            // for --on here.yaml
//
// A rank is a device: with one rank for each core, a device is a core. Ranks are measured while all of them work,
// because that is how they are used.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "spec/cluster.hpp"
#include "spec/job.hpp"

namespace twinpod::machine {

struct ProductTime {
  spec::Precision precision = spec::Precision::fp32;
  int m = 0, n = 0, k = 0;
  int ranks = 1;
  int threads = 1;  // of each rank
  double seconds = 0;
  double flop_per_s() const { return 2.0 * m * n * k / seconds; }
};

// Bytes read and written by one rank.
struct MemoryRate {
  std::string kernel;  // copy, triad
  int ranks = 1;
  int threads = 1;
  double bytes_per_s = 0;
};

// A kernel of the trainer, in fp32 unless it is for one job. `work` is what the closed form counts for it:
// floating-point operations of causal attention, bytes of a layer's kernels in 16 bits (model/segment.hpp), logits,
// parameters.
struct KernelTime {
  std::string kernel;  // attention, attention_backward, elements, logits, optimizer
  int ranks = 1;
  int threads = 1;
  double work = 0;
  double seconds = 0;
};

struct LinkTime {
  std::string transport;  // threads, processes, mpi
  std::string verb;
  int ranks = 2;
  bool between_hosts = false;
  double bytes = 0;  // as nccl-tests count them
  double seconds = 0;
};

struct Disk {
  std::string folder;
  double write_bytes_per_s = 0;  // to the medium: with the last fsync
  double read_bytes_per_s = 0;   // from the medium: the cache is dropped before
  double fsync_s = 0;            // of a write of 4 KiB
};

struct Machine {
  std::string host;
  std::string processor;
  std::string vendor;
  int cores = 1;
  int sockets = 1;
  int numa_nodes = 1;
  double load = 0;  // average of the last minute, before: what others run
  double memory_bytes = 0;
  double cache_bytes = 0;  // the last level, of one socket
  int ranks = 1;
  int hosts = 1;
  int threads = 1;  // of each rank
  double kernel_overhead_s = 0;
  double product_overhead_s = 0;
  std::vector<ProductTime> products;
  std::vector<MemoryRate> memory;
  std::vector<KernelTime> kernels;
  std::vector<LinkTime> links;
  Disk disk;
};

// From hwloc, for the cores that this process may use.
Machine topology_of_this_host();

// Other work on this many cores makes figures too low.
bool is_busy(const Machine& machine);

// REQUIRES: the folder can be written to. Leaves nothing behind.
Result<void> measure_disk(const std::string& folder, double bytes, Machine& machine);

struct RankRequest {
  int threads = 1;
  bool quick = false;    // fewer shapes and sizes
  int blocks = 15;       // for one figure, the best of them: many, because some are undisturbed
  double most_s = 0.4;   // for one figure, if that is fewer
  bool typical = false;  // not the best but the middle one: the machine as it is now, with what else it does
  std::function<void()> step = [] {};  // progress
};
int steps_of(const RankRequest& request);  // how often `step` is called

// On all ranks; what rank 0 gets is complete.
Result<void> measure_compute(comm::Communicator& world, const RankRequest& request, Machine& machine);
Result<void> measure_links(comm::Communicator& world, const std::string& transport, bool quick, Machine& machine);
// Messages between two ranks; over MPI in one host and between two, and how many hosts there are.
Result<void> measure_messages(comm::Communicator& world, const std::string& transport, bool quick, Machine& machine);

// What a step of one job does and nothing else, in its own shapes and precision: a second or two. The job is one for
// the ranks that are there.
Result<void> measure_job(comm::Communicator& world, const spec::Job& job, const std::string& transport,
                         Machine& machine);

// What is around the ops of a job that are known already (train/rehearse.hpp): messages, memory, and as the peak the
// given rate of products.
Result<void> measure_surroundings(comm::Communicator& world, const spec::Job& job, double flop_per_s,
                                  const std::string& transport, Machine& machine);

// For the way between processes.
std::string to_text(const Machine& machine);
Result<Machine> from_text(const std::string& text);
void append(Machine& machine, Machine&& more);  // all lists

// The cluster that the measurements describe.
spec::Cluster cluster_of(const Machine& machine);
std::string cluster_file(const Machine& machine, const spec::Cluster& cluster);

}  // namespace twinpod::machine
