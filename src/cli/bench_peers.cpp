#include "cli/bench_peers.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "core/nearest.hpp"
#include "core/signals.hpp"

namespace twinpod::cli {
namespace {

const std::vector<std::string> kNames = {"openmpi", "gloo", "memory"};

std::string folder_of_program() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string program(path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return program.substr(0, program.rfind('/') + 1);
}

std::string program_of(const std::string& peer) { return fmt::format("{}bench_{}_peer", folder_of_program(), peer); }

std::vector<std::string> command_of(const std::string& peer, int ranks) {
  if (peer != "openmpi") return {program_of(peer), std::to_string(ranks)};
  return {"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", std::to_string(ranks), program_of(peer)};
}

struct Process {
  pid_t pid = -1;
  std::FILE* to = nullptr;
  std::FILE* from = nullptr;

  // At the end of its input it ends by itself.
  ~Process() {
    if (to != nullptr) std::fclose(to);
    if (from != nullptr) std::fclose(from);
    if (pid <= 0) return;
    waitpid(pid, nullptr, 0);
    forget_child(pid);
  }
};

// Our ranks keep to their cores; a peer chooses its own.
void use_all_cores() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  sched_setaffinity(0, sizeof all, &all);
}

[[noreturn]] void become(const std::vector<std::string>& command, int input, int output) {
  use_all_cores();
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  for (int file = 3; file < 64; ++file) close(file);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));  // NOLINT: execvp's
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

std::shared_ptr<Process> start(const std::vector<std::string>& command) {
  auto process = std::make_shared<Process>();
  std::array<int, 2> down{};
  std::array<int, 2> up{};
  if (pipe(down.data()) != 0) return process;
  if (pipe(up.data()) != 0) return process;
  process->pid = fork_child(ChildKind::executes);
  if (process->pid == 0) become(command, down[0], up[1]);
  close(down[0]);
  close(up[1]);
  process->to = fdopen(down[1], "w");
  process->from = fdopen(up[0], "r");
  return process;
}

double ask(Process& process, const comm::Measurement& row, int iterations) {
  if (process.to == nullptr || process.from == nullptr) return -1;
  const std::string line = fmt::format("{} {} {} {} {}\n", collective::name_of(row.call.verb), row.bytes,
                                       comm::name_of(row.call.type), comm::name_of(row.call.op), iterations);
  if (std::fputs(line.c_str(), process.to) < 0 || std::fflush(process.to) != 0) return -1;
  std::array<char, 64> answer{};
  if (std::fgets(answer.data(), static_cast<int>(answer.size()), process.from) == nullptr) return -1;
  return std::strtod(answer.data(), nullptr);
}

}  // namespace

std::vector<std::string> known_peers() {
  std::vector<std::string> known;
  std::copy_if(kNames.begin(), kNames.end(), std::back_inserter(known),
               [](const std::string& name) { return access(program_of(name).c_str(), X_OK) == 0; });
  return known;
}

Result<void> check_peers(const std::vector<std::string>& names) {
  const std::vector<std::string> known = known_peers();
  for (const std::string& name : names) {
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
      const std::string nearest = nearest_name(name, kNames);
      return input_error(fmt::format("--against {}: expected openmpi, gloo or memory", name),
                         nearest.empty() ? "" : fmt::format("did you mean {}?", nearest));
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string_view packages = name == "gloo" ? "libgloo-dev" : "libopenmpi-dev openmpi-bin";
      return infeasible(fmt::format("--against {}: {} was not built", name, program_of(name)),
                        name == "memory" ? "build again" : fmt::format("apt install {} and build again", packages));
    }
  }
  return {};
}

std::vector<comm::Peer> start_peers(const std::vector<std::string>& names, int ranks) {
  std::vector<comm::Peer> peers;
  for (const std::string& name : names) {
    const std::shared_ptr<Process> process = start(command_of(name, ranks));
    ask(*process, {.call = {.verb = comm::Verb::barrier}, .algorithm = {}},
        2);  // starting must not disturb what is measured
    peers.push_back(
        {name, [process](const comm::Measurement& row, int iterations) { return ask(*process, row, iterations); }});
  }
  return peers;
}

}  // namespace twinpod::cli
