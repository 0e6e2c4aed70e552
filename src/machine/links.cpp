// Messages and collectives, over any transport.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "comm/measure.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"

namespace twinpod::machine {
namespace {

using comm::Communicator;
using comm::Verb;

constexpr std::array kVerbs = {Verb::send,   Verb::all_reduce, Verb::all_gather, Verb::reduce_scatter, Verb::broadcast,
                               Verb::reduce, Verb::gather,     Verb::scatter,    Verb::all_to_all};
constexpr std::array<std::size_t, 10> kSizes = {8, 64, 512, 4096, 32768, 262144, 1048576, 4194304, 16777216, 67108864};
constexpr std::array<std::size_t, 4> kQuickSizes = {8, 4096, 262144, 8388608};
constexpr std::array<std::size_t, 5> kStepSizes = {8, 4096, 65536, 524288, 4194304};

// How much of it, and how long.
struct Effort {
  std::span<const std::size_t> sizes;
  double most_s;  // for a size
  int blocks;
};
constexpr Effort kQuick = {kQuickSizes, 0.2, 8};
constexpr Effort kFull = {kSizes, 0.5, 15};
constexpr Effort kOfStep = {kStepSizes, 0.02, 4};

bool is_divided(Verb verb) {
  return verb == Verb::reduce_scatter || verb == Verb::all_gather || verb == Verb::scatter || verb == Verb::gather ||
         verb == Verb::all_to_all;
}

comm::MeasureRequest request_for(std::span<const Verb> verbs, int ranks, int peer, const Effort& effort) {
  comm::MeasureRequest request;
  request.check = false;
  request.in_place = false;
  request.warmup = 1;
  request.most_s = effort.most_s;
  request.blocks = effort.blocks;
  for (const Verb verb : verbs) {
    for (const std::size_t size : effort.sizes) {
      const std::size_t parts = is_divided(verb) ? static_cast<std::size_t>(ranks) : 1;
      comm::Call call{.verb = verb, .count = std::max<std::size_t>(1, size / sizeof(float) / parts), .peer = peer};
      request.calls.push_back(call);
    }
  }
  return request;
}

Result<void> add_times(Communicator& world, const comm::MeasureRequest& request, const LinkTime& kind,
                       Machine& machine) {
  comm::MeasureRequest one = request;
  double seconds_per_byte = 0;  // of the last size, on which all ranks agree
  Verb last = Verb::barrier;
  for (const comm::Call& call : request.calls) {
    if (call.verb != last) seconds_per_byte = 0;
    last = call.verb;
    const double bytes = static_cast<double>(call.count * sizeof(float));
    const bool too_long = call.verb != Verb::send && seconds_per_byte * bytes > request.most_s;
    if (too_long) continue;  // a slow network: the rate is known by now
    one.calls = {call};
    const Result<std::vector<comm::Measurement>> rows = comm::measure(world, one);
    if (!rows) return tl::unexpected(rows.error());
    const comm::Measurement& row = rows->front();
    LinkTime time = kind;
    time.verb = collective::name_of(row.call.verb);
    time.bytes = static_cast<double>(row.bytes);
    time.seconds = row.time_s;
    machine.links.push_back(time);
    seconds_per_byte = row.time_s / bytes;
  }
  return {};
}

// The hosts of all ranks, in their order.
constexpr std::size_t kNameBytes = 64;
Result<std::vector<std::string>> hosts_of(Communicator& world) {
  std::array<char, kNameBytes> own{};
  const std::string name = host_name();
  std::memcpy(own.data(), name.data(), std::min(name.size(), own.size() - 1));
  const auto ranks = static_cast<std::size_t>(comm::size_of(world));
  std::vector<char> all(ranks * kNameBytes);
  const Result<void> done = comm::run(world, {.verb = Verb::all_gather,
                                              .input = own.data(),
                                              .output = all.data(),
                                              .count = kNameBytes / sizeof(std::int32_t),
                                              .type = comm::ElementType::i32});
  if (!done) return tl::unexpected(done.error());
  std::vector<std::string> names;
  for (std::size_t r = 0; r < ranks; ++r) names.emplace_back(all.data() + r * kNameBytes);
  return names;
}

}  // namespace

Result<void> measure_links(Communicator& world, const std::string& transport, bool quick, Machine& machine) {
  const int ranks = comm::size_of(world);
  if (ranks < 2) return {};
  std::span<const Verb> verbs = kVerbs;
  if (transport == "threads") verbs = verbs.first(2);  // for tests: no more than a look
  if (transport == "mpi") verbs = verbs.subspan(1);    // sends are measured apart, in a host and between two
  LinkTime kind{.transport = transport, .verb = {}, .ranks = ranks};
  kind.between_hosts = machine.hosts > 1;
  return add_times(world, request_for(verbs, ranks, 1, quick ? kQuick : kFull), kind, machine);
}

Result<void> measure_step_links(Communicator& world, const std::string& transport, Machine& machine) {
  const int ranks = comm::size_of(world);
  if (ranks < 2) return {};
  constexpr std::size_t kVerbsOfStep = 4;  // the first ones
  std::span<const Verb> verbs = std::span(kVerbs).first(kVerbsOfStep);
  if (transport == "mpi") verbs = verbs.subspan(1);
  const LinkTime kind{.transport = transport, .verb = {}, .ranks = ranks, .between_hosts = machine.hosts > 1};
  return add_times(world, request_for(verbs, ranks, 1, kOfStep), kind, machine);
}

Result<void> measure_messages(Communicator& world, const std::string& transport, bool quick, Machine& machine) {
  const Result<std::vector<std::string>> names = hosts_of(world);
  if (!names) return tl::unexpected(names.error());
  machine.ranks = comm::size_of(world);
  machine.hosts = static_cast<int>(std::set<std::string>(names->begin(), names->end()).size());
  for (const bool between : {false, true}) {
    const auto found = std::find_if(names->begin() + 1, names->end(),
                                    [&](const std::string& name) { return (name != names->front()) == between; });
    if (found == names->end()) continue;
    const int peer = static_cast<int>(found - names->begin());
    const std::array send = {Verb::send};
    const LinkTime kind{.transport = transport, .verb = {}, .ranks = 2, .between_hosts = between};
    if (Result<void> done = add_times(world, request_for(send, 2, peer, quick ? kQuick : kFull), kind, machine); !done)
      return done;
  }
  return {};
}

}  // namespace twinpod::machine
