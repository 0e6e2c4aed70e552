// Runs over MPI: loading the library, the run itself, and what happens when it fails.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <deque>

#include "comm/mpi_transport.hpp"
#include "comm/world.hpp"
#include "core/files.hpp"

namespace twinpod::comm {
namespace {

constexpr const char* kLibrary = "libtwinpod_mpi.so";
constexpr std::int64_t kAnswerNs = 700'000'000;
constexpr int kToldOperations = 8;
constexpr std::uint64_t kFailureContext = kMaxGroups - 1;  // a group that is never made

// Beside the program.
std::string library_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string program(path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return program.substr(0, program.rfind('/') + 1) + kLibrary;
}

// What a rank tells the others when something is wrong.
struct Status {
  std::uint64_t num_operations = 0;
  int num_told = 0;
  std::array<Operation, kToldOperations> operations;
};

Status status_of(const RankState& state) {
  Status status{.num_operations = state.num_operations, .operations = {}};
  status.num_told = static_cast<int>(std::min<std::uint64_t>(status.num_operations, kToldOperations));
  for (int i = 0; i < status.num_told; ++i) {
    const std::uint64_t number = status.num_operations - static_cast<std::uint64_t>(status.num_told - i);
    status.operations[static_cast<std::size_t>(i)] =
        in_nanoseconds(state, state.operations[number % kRecordedOperations]);
  }
  return status;
}

RankRecord record_of(int rank, const Status& status) {
  RankRecord record{.rank = rank, .error = {}, .operations = {}, .num_operations = status.num_operations};
  const int told = std::clamp(status.num_told, 0, kToldOperations);
  record.operations.assign(status.operations.begin(), status.operations.begin() + told);
  return record;
}

void exchange(World& world, const Status& own, std::vector<Status>& others, std::deque<Message>& messages) {
  for (int rank = 0; rank < world.size; ++rank) {
    if (rank == world.rank) continue;
    for (const bool sends : {true, false}) {
      Message& message = messages.emplace_back();
      message.sends = sends;
      message.peer = rank;
      message.context = kFailureContext;
      message.data = sends ? const_cast<Status*>(&own) : &others[static_cast<std::size_t>(rank)];  // NOLINT: only read
      message.bytes = sizeof(Status);
      world.transport.post(world.transport.state, message);
    }
  }
  const std::int64_t start = now_ns();
  const auto is_done = [](const Message& message) { return message.done.load(); };
  while (now_ns() - start < kAnswerNs && !std::all_of(messages.begin(), messages.end(), is_done)) {
    world.transport.rest(world.transport.state);
  }
}

}  // namespace

Result<const MpiFunctions*> load_mpi() {
  const std::string path = library_path();
  // MPI's own plugins look for its symbols among the global ones.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return infeasible(fmt::format("MPI is not there: {}", dlerror()),
                      "install libopenmpi-dev and build again; `--ranks N` needs no MPI");
  }
  const auto functions = reinterpret_cast<const MpiFunctions* (*)()>(dlsym(library, "twinpod_mpi_functions"));
  if (functions == nullptr) return infeasible(fmt::format("{} is not ours: {}", path, dlerror()));
  return functions();
}

Error mpi_failure(World& world, Waited /*waited*/) {
  const Status own = status_of(*world.state);
  std::vector<Status> others(static_cast<std::size_t>(world.size));
  // Messages that never get done are left to MPI, so they must outlive this.
  auto* const messages = new std::deque<Message>;
  exchange(world, own, others, *messages);
  Recording recording{.timeout_s = world.options.timeout_s, .now_ns = now_ns(), .ranks = {}, .groups = {{}}};
  for (int rank = 0; rank < world.size; ++rank) recording.groups[0].members.push_back(rank);
  recording.ranks.push_back(record_of(world.rank, own));
  for (const Message& message : *messages) {
    if (message.sends || !message.done) continue;
    recording.ranks.push_back(record_of(message.peer, others[static_cast<std::size_t>(message.peer)]));
  }
  recording = merged({recording});
  std::string message = diagnose(recording).message;
  if (!world.options.recording_path.empty()) {
    const std::string path = fmt::format("{}.{}", world.options.recording_path, world.rank);
    if (write_file(path, recording_json(recording))) message += fmt::format(" (recorded in {})", path);
  }
  return infeasible(message, "`twinpod doctor FILE...` explains recordings").value();
}

bool started_by_mpi() {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

Result<std::string> run_mpi(const Options& options, const Body& body) {
  const Result<const MpiFunctions*> functions = load_mpi();
  if (!functions) return tl::unexpected(functions.error());
  World world;
  if (const char* const problem = (*functions)->initialize(&world.rank, &world.size)) {
    return infeasible(fmt::format("MPI does not start: {}", problem));
  }
  const auto state = std::make_unique<RankState>();
  world.options = options;
  world.mpi = *functions;
  world.transport = (*functions)->transport();
  world.patience = patience_of(world.size > sysconf(_SC_NPROCESSORS_ONLN), options.timeout_s, &world.never_aborts);
  world.state = state.get();
  start_clock(*world.state);
  plan_fault(world);
  Result<std::string> answer;
  {
    Communicator communicator = whole_world(world);
    answer = body(communicator);
  }
  // After a failure MPI would wait for ranks that never come; ending without it makes mpirun end all of them.
  if (answer) (*functions)->finalize();
  if (answer && world.rank != 0) answer->clear();
  return answer;
}

}  // namespace twinpod::comm
