#include "cli/bench_machine.hpp"

#include <fmt/format.h>

#include <optional>

#include "cli/command.hpp"
#include "core/files.hpp"
#include "core/progress.hpp"
#include "core/thousands.hpp"
#include "machine/machine.hpp"
#include "report/machine_report.hpp"

namespace twinpod::cli {
namespace {

using machine::Machine;

constexpr double kDiskBytes = 256e6;
constexpr double kQuickDiskBytes = 32e6;

// Rank 0 draws, the others are silent.
Result<void> compute_with_bar(comm::Communicator& world, machine::RankRequest request, Machine& found) {
  std::optional<Progress> bar;
  if (comm::rank_of(world) == 0) {
    bar.emplace(
        fmt::format("products, {} of {}", counted(comm::size_of(world), "rank"), counted(request.threads, "thread")),
        static_cast<std::size_t>(machine::steps_of(request)));
    request.step = [&] { bar->advance(); };
  }
  return machine::measure_compute(world, request, found);
}

// What ranks that were started for it measure.
Result<void> add(Machine& all, const Result<std::string>& text) {
  if (!text) return tl::unexpected(text.error());
  Result<Machine> more = machine::from_text(*text);
  if (!more) return tl::unexpected(more.error());
  machine::append(all, std::move(*more));
  return {};
}

Result<void> add_compute(Machine& all, int ranks, int threads, bool quick) {
  const comm::Body body = [&](comm::Communicator& world) -> Result<std::string> {
    Machine found;
    found.cores = all.cores;
    found.memory_bytes = all.memory_bytes;
    found.cache_bytes = all.cache_bytes;
    if (Result<void> done = compute_with_bar(world, {.threads = threads, .quick = quick}, found); !done) {
      return tl::unexpected(done.error());
    }
    return machine::to_text(found);
  };
  return add(all, comm::run_processes(ranks, {}, body));
}

Result<void> add_links(Machine& all, int ranks, const std::string& transport, bool quick) {
  const comm::Body body = [&](comm::Communicator& world) -> Result<std::string> {
    std::optional<Progress> bar;
    if (comm::rank_of(world) == 0) bar.emplace(fmt::format("{} over {}", counted(ranks, "rank"), transport), 1);
    Machine found;
    if (Result<void> done = machine::measure_links(world, transport, quick, found); !done) {
      return tl::unexpected(done.error());
    }
    return machine::to_text(found);
  };
  return add(all, transport == "threads" ? comm::run_threads(ranks, {}, body) : comm::run_processes(ranks, {}, body));
}

// Local processes: first few ranks, then more, so that plans of fewer ranks have their numbers too.
Result<void> measure_here(Machine& all, bool quick) {
  for (int threads = 1; threads <= all.cores; threads *= 2) {
    const bool again = all.ranks == 1 && threads == all.threads;
    if (again) continue;
    if (Result<void> done = add_compute(all, 1, threads, true); !done) return done;
  }
  if (Result<void> done = add_compute(all, all.ranks, all.threads, quick); !done) return done;
  for (int ranks = 2; ranks <= all.ranks; ranks = ranks < all.ranks ? std::min(2 * ranks, all.ranks) : ranks + 1) {
    if (Result<void> done = add_links(all, ranks, "processes", quick); !done) return done;
  }
  // Last, because a process with threads must not start others.
  return all.ranks > 1 ? add_links(all, 2, "threads", true) : Result<void>{};
}

Result<std::string> finish(const Arguments& arguments, const Machine& all) {
  const spec::Cluster cluster = machine::cluster_of(all);
  const std::string file = arguments.value_or("output", "");
  if (!file.empty()) {
    if (Result<void> written = write_file(file, machine::cluster_file(all, cluster)); !written) {
      return tl::unexpected(written.error());
    }
  }
  const report::MachineView view{all, cluster, file};
  return arguments.has("json") ? report::machine_json(view) : report::machine_text(view);
}

Result<void> add_disk(const Arguments& arguments, Machine& all) {
  const double bytes = arguments.has("quick") ? kQuickDiskBytes : kDiskBytes;
  return machine::measure_disk(arguments.value_or("disk", "."), bytes, all);
}

// Every rank of MPI works, rank 0 writes.
Result<std::string> measure_hosts(const Arguments& arguments, comm::Communicator& world) {
  const bool quick = arguments.has("quick");
  Machine all = machine::topology_of_this_host();
  if (Result<void> done = machine::measure_messages(world, "mpi", quick, all); !done) {
    return tl::unexpected(done.error());
  }
  all.threads = std::max(1, all.cores * all.hosts / all.ranks);
  machine::RankRequest request{.threads = all.threads, .quick = quick};
  if (Result<void> done = compute_with_bar(world, request, all); !done) return tl::unexpected(done.error());
  if (Result<void> done = machine::measure_links(world, "mpi", quick, all); !done) return tl::unexpected(done.error());
  if (comm::rank_of(world) != 0) return std::string();
  if (Result<void> done = add_disk(arguments, all); !done) return tl::unexpected(done.error());
  return finish(arguments, all);
}

}  // namespace

Result<std::string> bench_machine(const Arguments& arguments) {
  if (comm::started_by_mpi() && !arguments.has("ranks")) {
    return comm::run_mpi({}, [&](comm::Communicator& world) { return measure_hosts(arguments, world); });
  }
  Machine all = machine::topology_of_this_host();
  const Result<int> ranks = whole_number(arguments, "ranks", 1, all.cores);
  if (!ranks) return tl::unexpected(ranks.error());
  all.ranks = *ranks;
  all.threads = std::max(1, all.cores / all.ranks);
  if (Result<void> done = add_disk(arguments, all); !done) return tl::unexpected(done.error());
  if (Result<void> done = measure_here(all, arguments.has("quick")); !done) return tl::unexpected(done.error());
  return finish(arguments, all);
}

}  // namespace twinpod::cli
