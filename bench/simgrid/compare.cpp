// The same random programs of flows on the same links in twinpod and in SimGrid (S4U): when does each program end?
//
// SimGrid's network model CM02 shares links max-min fairly, with each flow weighted by one over its latency. Two ways
// make all weights equal, and the cases take turns: links without latency; or latencies on all links and, at the end of
// each path, a link of the flow's own that brings all paths to the same sum.
//
//     bench/simgrid/run.sh           200 cases
//     bench/simgrid/run.sh 1000 7    1,000 cases, seeds from 7 on
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "sim/flow.hpp"
#include "sim/flow_test_cases.hpp"

namespace {

using namespace twinpod;
namespace sg4 = simgrid::s4u;
using sim::test::Case;

constexpr double kPathLatency = 0.05;  // of every path in the cases with latency

// Paths of a tree, a torus or a heap of links, with sizes and capacities of its own for each flow and link: ends at
// many different times. What SimGrid has no word for (bundles, maxima, delays, a link crossed twice) is taken out.
Case comparable_case(std::uint64_t seed) {
  Case made = sim::test::random_case(seed);
  Rng rng(seed + 1'000'000'007);
  const bool latency = seed % 2 == 1;
  for (sim::FlowLink& link : made.links) {
    link.bytes_per_s = std::round(rng.uniform(1e8, 1e9));
    link.latency_s = latency ? rng.uniform(0, 1e-3) : 0;
  }
  for (sim::Program& program : made.programs) {
    program.start_s = rng.below(3) == 0 ? rng.uniform(0, 5) : 0;
    for (sim::PhaseFlows& phase : program.phases) {
      phase.repeats = std::min(phase.repeats, 4.0);
      for (sim::Flow& flow : phase.flows) {
        std::sort(flow.path.begin(), flow.path.end());
        flow.path.erase(std::unique(flow.path.begin(), flow.path.end()), flow.path.end());
        if (flow.path.empty()) flow.path.push_back(0);
        flow = {flow.path, std::round(rng.uniform(1e8, 1e9))};
        double sum_s = 0;
        for (const int link : flow.path) sum_s += made.links[static_cast<std::size_t>(link)].latency_s;
        if (!latency) continue;
        flow.path.push_back(static_cast<int>(made.links.size()));
        made.links.push_back({1e15, kPathLatency - sum_s});
      }
    }
  }
  return made;
}

std::string host_name(const char* side, std::size_t program, std::size_t phase, std::size_t flow) {
  return fmt::format("{}-{}-{}-{}", side, program, phase, flow);
}

// Each flow has a sender and a receiver of its own, with the flow's path as the route between them.
void build_platform(const Case& made) {
  auto* zone = sg4::create_full_zone("flows");
  std::vector<sg4::Link*> links;
  for (std::size_t l = 0; l < made.links.size(); ++l) {
    links.push_back(zone->create_link(fmt::format("link-{}", l), made.links[l].bytes_per_s)
                        ->set_latency(made.links[l].latency_s)
                        ->seal());
  }
  for (std::size_t p = 0; p < made.programs.size(); ++p) {
    for (std::size_t k = 0; k < made.programs[p].phases.size(); ++k) {
      const std::vector<sim::Flow>& flows = made.programs[p].phases[k].flows;
      for (std::size_t f = 0; f < flows.size(); ++f) {
        auto* from = zone->create_host(host_name("from", p, k, f), 1e9)->seal();
        auto* to = zone->create_host(host_name("to", p, k, f), 1e9)->seal();
        std::vector<sg4::LinkInRoute> route;
        for (const int link : flows[f].path) route.emplace_back(links[static_cast<std::size_t>(link)]);
        zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
      }
    }
  }
  zone->create_host("idle", 1e9)->seal();
  zone->seal();
}

void act(const sim::Program& program, std::size_t number, const std::vector<sg4::ActorPtr>& actors, double& end_s) {
  for (const int other : program.after) actors[static_cast<std::size_t>(other)]->join();
  sg4::this_actor::sleep_until(program.start_s);
  for (std::size_t k = 0; k < program.phases.size(); ++k) {
    for (double repeat = 0; repeat < program.phases[k].repeats; ++repeat) {
      std::vector<sg4::CommPtr> comms;
      for (std::size_t f = 0; f < program.phases[k].flows.size(); ++f) {
        comms.push_back(sg4::Comm::sendto_async(sg4::Host::by_name(host_name("from", number, k, f)),
                                                sg4::Host::by_name(host_name("to", number, k, f)),
                                                static_cast<std::uint64_t>(program.phases[k].flows[f].bytes)));
      }
      for (const sg4::CommPtr& comm : comms) comm->wait();
    }
  }
  end_s = sg4::Engine::get_clock();
}

std::vector<double> ends_in_simgrid(const Case& made) {
  std::vector<std::string> words = {"compare",
                                    "--cfg=network/model:CM02",
                                    "--cfg=network/optim:Full",
                                    "--cfg=network/bandwidth-factor:1",
                                    "--cfg=network/latency-factor:1",
                                    "--cfg=network/weight-S:0",
                                    "--cfg=network/crosstraffic:0",
                                    "--cfg=network/TCP-gamma:1e30",
                                    "--cfg=surf/precision:1e-9",
                                    "--cfg=maxmin/precision:1e-9",
                                    "--log=root.thresh:error"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  sg4::Engine engine(&argc, argv.data());
  build_platform(made);
  std::vector<double> ends(made.programs.size());
  std::vector<sg4::ActorPtr> actors(made.programs.size());
  for (std::size_t p = 0; p < made.programs.size(); ++p) {
    actors[p] = sg4::Actor::create(fmt::format("program-{}", p), sg4::Host::by_name("idle"),
                                   [&, p] { act(made.programs[p], p, actors, ends[p]); });
  }
  engine.run();
  return ends;
}

// SimGrid has one engine in a process, so each case gets a process of its own.
std::vector<double> ends_in_another_process(const Case& made) {
  int ends_of_pipe[2];
  if (pipe(ends_of_pipe) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<double> ends = ends_in_simgrid(made);
    const std::size_t size = ends.size() * sizeof(double);
    _exit(write(ends_of_pipe[1], ends.data(), size) == static_cast<ssize_t>(size) ? 0 : 1);
  }
  close(ends_of_pipe[1]);
  std::vector<double> ends(made.programs.size());
  const ssize_t got = read(ends_of_pipe[0], ends.data(), ends.size() * sizeof(double));
  close(ends_of_pipe[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0 || got != static_cast<ssize_t>(ends.size() * sizeof(double))) {
    fmt::print(stderr, "SimGrid ended with status {}\n", status);
    std::exit(1);
  }
  return ends;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t cases = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  double largest = 0;
  std::uint64_t largest_case = 0;
  std::size_t programs = 0;
  std::size_t flows = 0;
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    const Case made = comparable_case(seed);
    const Result<sim::RunResult> ours = sim::run(made.links, made.programs);
    if (!ours) {
      fmt::print(stderr, "{}\n", to_string(ours.error()));
      return 1;
    }
    const std::vector<double> theirs = ends_in_another_process(made);
    flows += ours->flows;
    for (std::size_t p = 0; p < theirs.size(); ++p) {
      ++programs;
      const double difference = std::abs(ours->programs[p].end_s - theirs[p]) / std::max(theirs[p], 1e-9);
      if (difference > largest) {
        largest = difference;
        largest_case = seed;
      }
    }
  }
  fmt::print("{} cases, {} programs, {} flows: largest difference {:.3g} % (case {})\n", cases, programs, flows,
             100 * largest, largest_case);
  return largest <= 0.01 ? 0 : 1;
}
