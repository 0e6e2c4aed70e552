// Communicate for real: ranks that are threads, local processes or MPI processes, and collectives between them.
//
//     Result<std::string> answer = run_processes(4, {.timeout_s = 10}, [](Communicator& world) -> Result<std::string> {
//       std::vector<float> gradients(1000, 1.0F);
//       const Result<void> done = run(world, {.verb = Verb::all_reduce, .input = gradients.data(),
//                                             .output = gradients.data(), .count = 1000});
//       if (!done) return tl::unexpected(done.error());
//       return fmt::format("sum {}", gradients[0]);                                  // sum 4
//     });
//
// A call that cannot end, because a rank died, stopped, left or called something else, is refused on every rank after
// at most the timeout; the error names the rank, the operation and its number, and a recording is written
// (recording.hpp). After that the communicator is of no more use.
//
// One thread at a time may call into a communicator. Collectives on one communicator run in the order of the calls,
// also the non-blocking ones.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "collective/schedule.hpp"
#include "comm/element.hpp"
#include "core/error.hpp"

namespace twinpod::comm {

using collective::Verb;

// A failure on purpose (fault.hpp): what a rank does at an operation of the world.
enum class FaultKind { none, kill, stop, exit, skip, verb, size };
inline constexpr spec::NameTable<FaultKind, 6> kFaultNames{{{"kill", FaultKind::kill},
                                                            {"stop", FaultKind::stop},
                                                            {"exit", FaultKind::exit},
                                                            {"skip", FaultKind::skip},
                                                            {"verb", FaultKind::verb},
                                                            {"size", FaultKind::size}}};
struct Fault {
  FaultKind kind = FaultKind::none;
  int rank = 0;
  int operation = 0;
};

struct Options {
  double timeout_s = 30;            // how long to wait for another rank
  std::string recording_path = {};  // written on failure; empty: nowhere
  bool kernel_copies = true;        // between processes (process_vm_readv), where the kernel allows it
  Fault fault = {};
};

// How a collective is carried out.
enum class Method {
  automatic,  // by size, from the table in choice.cpp
  inlined,    // each rank puts its contribution where all can read it; for small sizes
  staged,     // the same in windows, for any size
  mapped,     // ranks read and write each other's buffers; they must be shared (allocate)
  remote,     // the same on buffers that are not shared: the kernel copies between the processes
  scheduled,  // a schedule of `collective`, sent as messages
  native,     // MPI's own
};

inline constexpr spec::NameTable<Method, 7> kMethodNames{{{"automatic", Method::automatic},
                                                          {"inlined", Method::inlined},
                                                          {"staged", Method::staged},
                                                          {"mapped", Method::mapped},
                                                          {"remote", Method::remote},
                                                          {"scheduled", Method::scheduled},
                                                          {"native", Method::native}}};
constexpr std::string_view name_of(Method value) { return spec::name_in(kMethodNames, value); }

struct Choice {
  Method method = Method::automatic;
  collective::Algorithm algorithm = collective::Algorithm::ring;  // of a schedule
  collective::Shape shape = {};                                   // of a schedule; its root and peer are the call's
};

// A collective. All ranks of the communicator make the same call, with their own buffers.
//
// In place is: output == input for broadcast, reduce, all_reduce and all_to_all; input == the rank's part of the output
// for all_gather and gather; output == the rank's part of the input for reduce_scatter and scatter. Other overlaps are
// not allowed. Input is never changed unless in place. Ranks that neither read nor write a buffer may leave it out.
struct Call {
  Verb verb = Verb::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;  // elements: of the buffer; of one rank's part if one buffer is divided between the ranks
  ElementType type = ElementType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // sender of a send
  int peer = 1;  // receiver of a send
  Choice choice = {};
};

struct Communicator;

int rank_of(const Communicator& communicator);
int size_of(const Communicator& communicator);

// Returns when this rank's part is done: its output is there and its input may be changed.
Result<void> run(Communicator& communicator, const Call& call);

// What run() would do with Method::automatic, for buffers that are all shared or all not.
Choice choice_for(const Communicator& communicator, const Call& call, bool shared);
// `mapped`, `ring`, ...
std::string_view name_of(const Choice& choice);

// Non-blocking. The buffers must stay until the handle was waited for; a handle that goes away waits.
class Handle {
 public:
  struct State;
  Handle() = default;
  explicit Handle(std::shared_ptr<State> state);
  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&& other) noexcept;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  bool done();          // makes progress, does not wait
  Result<void> wait();  // a second time: the same answer

 private:
  std::shared_ptr<State> state_;
};

Result<Handle> start(Communicator& communicator, const Call& call);

// Point-to-point, bytes of any number. Tags are from 0 on. A receive of fewer bytes than were sent is refused; the size
// of a shorter message is returned.
inline constexpr int kMaxTag = (1 << 20) - 1;
Result<void> send(Communicator& communicator, const void* data, std::size_t bytes, int to, int tag = 0);
Result<std::size_t> receive(Communicator& communicator, void* data, std::size_t bytes, int from, int tag = 0);
Result<Handle> start_send(Communicator& communicator, const void* data, std::size_t bytes, int to, int tag = 0);
Result<Handle> start_receive(Communicator& communicator, void* data, std::size_t bytes, int from, int tag = 0);

// Ranks with the same color form a group, in the order of key and then rank. Everybody must call; a negative color
// gives no group.
Result<std::unique_ptr<Communicator, void (*)(Communicator*)>> split(Communicator& communicator, int color, int key);
using Group = std::unique_ptr<Communicator, void (*)(Communicator*)>;

// Memory that all local ranks can reach, 64-byte aligned, zero at first. Collectives on it need no copies in between.
// From 4 MiB on it is in huge pages if the kernel has them for shared memory (Linux 6.1 and later, as a rule).
Result<void*> allocate(Communicator& communicator, std::size_t bytes);
void* allocate_huge(Communicator& communicator, std::size_t bytes);  // nullptr where that cannot be had
void release(Communicator& communicator, void* memory);

// Runs the body once for each rank. Returns rank 0's answer, or the first failure.
using Body = std::function<Result<std::string>(Communicator&)>;
Result<std::string> run_threads(int ranks, const Options& options, const Body& body);
Result<std::string> run_processes(int ranks, const Options& options, const Body& body);

// The ranks that mpirun or srun started, of which this process is one. Ranks other than 0 return an empty text.
bool started_by_mpi();
Result<std::string> run_mpi(const Options& options, const Body& body);

}  // namespace twinpod::comm
