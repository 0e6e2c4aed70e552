// Which method for which size: a table, in the spirit of the size ranges of oneCCL. Measured with bench/comm/run.sh on
// the machine named in docs/comm.md; --algorithm overrules it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>

#include "comm/world.hpp"

namespace twinpod::comm {

std::size_t contribution_bytes(const Communicator& communicator, const Call& call) {
  const bool one_part = call.verb == Verb::all_gather || call.verb == Verb::gather;
  return one_part ? call.count * size_of(call.type) : bytes_of(communicator, call);
}

Result<void> check_choice(const Communicator& communicator, const Call& call) {
  const Method method = call.choice.method;
  const bool through_memory =
      method == Method::inlined || method == Method::staged || method == Method::mapped || method == Method::remote;
  if (through_memory && !communicator.world->local) {
    return input_error(fmt::format("{} is for ranks of one machine", name_of(method)),
                       "over MPI: native, ring, tree, ...");
  }
  const std::size_t bytes = contribution_bytes(communicator, call);
  if (method == Method::inlined && bytes > kInlineBytes) {
    return input_error(fmt::format("inlined: {} of {} bytes for each rank; at most {} can be", name_of(call.verb),
                                   bytes, kInlineBytes),
                       "staged takes any size");
  }
  return {};
}

namespace {

using collective::Algorithm;
using Verb = collective::Verb;

// Up to so many bytes of a contribution, one wait and a copy beat two waits.
struct Range {
  Verb verb = Verb::all_reduce;
  std::size_t inlined_up_to = 0;  // bytes that a rank puts in, at most kInlineBytes
};
constexpr std::array kLocal = {
    Range{Verb::all_reduce, std::size_t{4} << 10U},     Range{Verb::reduce, std::size_t{8} << 10U},
    Range{Verb::reduce_scatter, std::size_t{8} << 10U}, Range{Verb::all_gather, std::size_t{6} << 10U},
    Range{Verb::broadcast, std::size_t{16} << 10U},     Range{Verb::scatter, std::size_t{16} << 10U},
    Range{Verb::gather, std::size_t{16} << 10U},        Range{Verb::all_to_all, std::size_t{8} << 10U},
};

// Where ranks share cores, each wait is a change of who has the core: more bytes are put in for one wait less. All
// ranks must choose alike, and none knows yet where the others' buffers lie. For 32 KiB of 8 ranks on 2 cores that
// is 2.4 times as fast from ordinary memory, and 0.8 times from shared memory; of all_reduce, where each rank reads all
// that all put in, shared memory would lose more than the other gains.
std::size_t crowded_up_to(Verb verb) { return verb == Verb::all_reduce ? 0 : kInlineBytes; }

// What the kernel would copy at once, if it copied.
std::size_t piece_bytes(const Communicator& communicator, const Call& call) {
  const std::size_t bytes = call.count * size_of(call.type);
  const bool has_slices = call.verb == Verb::all_reduce || call.verb == Verb::reduce;
  return has_slices ? bytes / static_cast<std::size_t>(communicator.size()) : bytes;
}

// Up to so many bytes of a piece, copying it into a window and out of it takes less time than calling the kernel. Cores
// that are far from each other fetch from a window slowly. Where ranks share cores, much of it does not go from core to
// core, and calls of the kernel, one for each pair of ranks and for all_reduce two, are made one after the other: of 8
// ranks on 2 cores, all_reduce of 32 KiB takes 40 microseconds where the kernel's copies take 167.
std::size_t staged_up_to(Verb verb, bool crowded) {
  if (!crowded) return std::size_t{4} << 10U;
  return std::size_t{verb == Verb::all_reduce ? 64U : 16U} << 10U;
}

std::size_t inlined_up_to(Verb verb) {
  const auto found = std::find_if(kLocal.begin(), kLocal.end(), [&](const Range& range) { return range.verb == verb; });
  return found == kLocal.end() ? kInlineBytes : found->inlined_up_to;
}

bool is_half(ElementType type) { return type == ElementType::bf16 || type == ElementType::f16; }

// Over MPI, when its own collective cannot do it: MPI knows no 16-bit floats.
Algorithm message_algorithm(const Communicator& communicator, const Call& call) {
  const bool small = bytes_of(communicator, call) <= std::size_t{16} << 10U;
  switch (call.verb) {
    case Verb::all_reduce:
    case Verb::reduce_scatter:
    case Verb::all_gather:
      return small ? Algorithm::halving_doubling : Algorithm::ring;
    case Verb::all_to_all:
      return small ? Algorithm::bruck : Algorithm::direct;
    case Verb::barrier:
      return Algorithm::bruck;
    case Verb::send:
      return Algorithm::direct;
    default:
      return Algorithm::tree;
  }
}

}  // namespace

bool prefers_windows(const Communicator& communicator, const Call& call) {
  return piece_bytes(communicator, call) <= staged_up_to(call.verb, communicator.world->segment.crowded);
}

Pick pick_for(const Communicator& communicator, const Call& call, bool shared) {
  if (!communicator.world->local) {
    const bool adds = call.verb == Verb::all_reduce || call.verb == Verb::reduce || call.verb == Verb::reduce_scatter;
    const bool fits = (adds ? call.count : call.count * size_of(call.type)) <= static_cast<std::size_t>(INT_MAX);
    const bool native = fits && !(adds && is_half(call.type)) && call.verb != Verb::send;
    return {native ? Method::native : Method::scheduled, message_algorithm(communicator, call)};
  }
  if (call.verb == Verb::send) return {Method::scheduled, Algorithm::direct};
  const std::size_t bytes = contribution_bytes(communicator, call);
  if (bytes <= inlined_up_to(call.verb)) return {Method::inlined};
  if (communicator.world->segment.crowded && bytes <= crowded_up_to(call.verb)) return {Method::inlined};
  if (shared) return {Method::mapped};
  return {communicator.world->may_reach && !prefers_windows(communicator, call) ? Method::remote : Method::staged};
}

Choice choice_for(const Communicator& communicator, const Call& call, bool shared) {
  const Pick pick = pick_for(communicator, call, shared);
  return {pick.method, pick.algorithm};
}

std::string_view name_of(const Choice& choice) {
  return choice.method == Method::scheduled ? collective::name_of(choice.algorithm) : name_of(choice.method);
}

}  // namespace twinpod::comm
