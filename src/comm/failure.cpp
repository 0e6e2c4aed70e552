// How an operation that cannot end is ended: who notices first finds out why and tells the others through the header.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "comm/awake.hpp"
#include "comm/mpi_transport.hpp"
#include "comm/world.hpp"
#include "core/files.hpp"

namespace twinpod::comm {
namespace {

constexpr std::int64_t kGraceNs =
    300'000'000;  // for the others to come, so that the many and the few can be told apart
constexpr useconds_t kPauseUs = 2000;

void write_text(char* to, std::size_t room, const std::string& text) {
  const std::size_t bytes = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

std::string with_recording(const std::string& message, const Recording& recording, const std::string& path) {
  if (path.empty()) return message;
  const Result<void> written = write_file(path, recording_json(recording));
  return message + (written ? fmt::format(" (recorded in {})", path)
                            : fmt::format(" (not recorded: {})", written.error().message));
}

// A mismatch is seen before all have come; who is in the minority shows only then.
void give_grace(const World& world) {
  const std::int64_t start = now_ns();
  while (now_ns() - start < std::min(kGraceNs, world.patience.timeout_ns) && header_of(world.segment).abort == 0) {
    const Recording recording = recording_of(world.segment, 0);
    const std::vector<Operation>& own = recording.ranks[static_cast<std::size_t>(world.rank)].operations;
    const bool all_came = own.empty() || all_came_to(recording, own.back());
    if (all_came) return;
    usleep(kPauseUs);
  }
}

}  // namespace

std::string settle_failure(const Segment& segment, const Options& options) {
  Header& header = header_of(segment);
  std::uint32_t expected = 0;
  if (header.abort.compare_exchange_strong(expected, 1)) {
    const Recording recording = recording_of(segment, options.timeout_s);
    const Diagnosis diagnosis = diagnose(recording);
    header.culprit = diagnosis.culprit;
    write_text(header.failure.data(), header.failure.size(),
               with_recording(diagnosis.message, recording, options.recording_path));
    header.abort.store(2);
  }
  // Whoever is first may die in the middle of it.
  const std::int64_t start = now_ns();
  while (header.abort != 2 && now_ns() - start < 2 * kGraceNs) usleep(kPauseUs);
  return header.abort == 2 ? header.failure.data() : "the run failed, and the rank that noticed died";
}

Error failure_of(World& world, Waited waited) {
  if (!world.local) return mpi_failure(world, waited);
  if (waited == Waited::mismatched) give_grace(world);
  // A rank that could not be reached is gone; the launcher knows how.
  const std::int64_t start = now_ns();
  while (waited == Waited::aborted && header_of(world.segment).abort == 0 && now_ns() - start < kGraceNs)
    usleep(kPauseUs);
  return infeasible(settle_failure(world.segment, world.options), "`twinpod doctor FILE` explains a recording").value();
}

bool has_mismatch(const Communicator& communicator) {
  if (!communicator.world->local) return false;
  const std::uint64_t own = entry_of(communicator, communicator.rank).signature;
  for (int m = 0; m < communicator.size(); ++m) {
    const Entry& entry = entry_of(communicator, m);
    if (entry.word.value.load(std::memory_order_acquire) == communicator.sequence && entry.signature != own)
      return true;
  }
  return false;
}

Waited wait_for_message(World& world, Message& message, const Communicator* communicator) {
  const Transport& transport = world.transport;
  for (int i = 0; i < world.patience.looks; ++i) {
    if (message.done.load(std::memory_order_acquire)) return Waited::reached;
    transport.progress(transport.state);
    if (i >= kQuickLooks) pause_briefly();
  }
  AwakeTime time;
  for (int i = 0; i < world.patience.yields; ++i) {
    if (message.done.load(std::memory_order_acquire)) return Waited::reached;
    transport.progress(transport.state);
    sched_yield();
  }
  std::size_t moved = message.moved;
  while (!message.done.load(std::memory_order_acquire)) {
    if (world.patience.abort->load(std::memory_order_acquire) != 0) return Waited::aborted;
    if (message.moved != moved) time.begin_anew();  // slow is not dead
    moved = message.moved;
    if (time.passed_ns() > world.patience.timeout_ns) return Waited::timed_out;
    if (communicator != nullptr && has_mismatch(*communicator)) return Waited::mismatched;
    transport.rest(transport.state);
  }
  return Waited::reached;
}

}  // namespace twinpod::comm
