#include "ps/launch.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "comm/shared.hpp"
#include "kernel/processor.hpp"

namespace twinpod::ps {
namespace {

// At the beginning of each process's arena.
struct Desk {
  Account account;
  bool finished = false;  // a worker: its answer is here, or
  bool failed = false;    // its error is
  ErrorKind kind = ErrorKind::infeasible;
  std::uint64_t bytes = 0;       // of the text: an answer, or an error and, behind it,
  std::uint64_t hint_bytes = 0;  // its hint
  std::array<char, 1 << 16> text;
};

static_assert(sizeof(Desk) <= kDeskBytes);

// The memory of a dead process is given back when nobody can be reading it any more: all have a view without it, and
// have forgotten it.
struct Grave {
  NodeId id = kNobody;
  std::uint64_t view = 0;  // the first without it
};

struct Launcher {
  const LaunchOptions& options;
  const WorkerBody& body;
  comm::Segment segment;
  Ledger& ledger;
  Link link = {};
  Controller controller = {};
  std::vector<Process> processes = {};  // alive
  std::vector<Grave> graves = {};
  NodeId next_id = 1;
  int deaths = 0;
  std::optional<Error> failure = {};
};

Desk& desk_of(const comm::Segment& segment, NodeId id) { return *reinterpret_cast<Desk*>(comm::arena_of(segment, id)); }

void keep_to_core(NodeId id) {
  cpu_set_t allowed;
  cpu_set_t own;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int left = static_cast<int>(id) % CPU_COUNT(&allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && left-- == 0) CPU_SET(core, &own);
  }
  sched_setaffinity(0, sizeof own, &own);
}

void note(Account& account, const Client& client) {
  account.pushed_bytes = client.worker.counters.pushed_bytes;
  account.pulled_bytes = client.worker.counters.pulled_bytes;
  account.waited_s = client.waited_s;
  const std::vector<std::uint64_t>& staleness = client.worker.counters.staleness;
  account.staleness_max = std::max<std::int64_t>(0, static_cast<std::int64_t>(staleness.size()) - 1);
  account.staleness = {};
  for (std::size_t i = 0; i < staleness.size(); ++i) {
    account.staleness[std::min(i, account.staleness.size() - 1)] += staleness[i];
  }
}

// Its last act is to say what it holds.
[[noreturn]] void be_server(const Launcher& launcher, NodeId id, int place) {
  kernel::flush_denormals();  // as those do who run the optimizer themselves
  const Link link = shared_link(launcher.segment, id);
  Server server{.id = id, .settings = launcher.options.settings, .shards = launcher.options.shards};
  server.memory = link.memory;
  Desk& desk = desk_of(launcher.segment, id);
  serve(link, server, launcher.options.client.tick_s, [&](const Server& now) {
    desk.account.server = now.counters;
    if (!is_closed(launcher.ledger)) return false;
    hand_in(launcher.ledger, place, now);
    return true;
  });
  _exit(0);
}

[[noreturn]] void be_worker(const Launcher& launcher, NodeId id, int place) {
  Client client = make_client(shared_link(launcher.segment, id), id, launcher.options.shards, launcher.options.client);
  client.place = place;
  client.acked = acked_by(launcher.ledger, id);
  Desk& desk = desk_of(launcher.segment, id);
  client.account = [&](const Client& now) { note(desk.account, now); };
  const Result<std::string> answer = launcher.body(client);
  const std::string text = answer ? *answer : answer.error().message + answer.error().hint;
  desk.bytes = std::min(text.size(), desk.text.size());
  std::memcpy(desk.text.data(), text.data(), desk.bytes);
  if (!answer) {
    desk.kind = answer.error().kind;
    desk.hint_bytes = desk.bytes == text.size() ? answer.error().hint.size() : 0;
  }
  note(desk.account, client);
  (answer ? desk.finished : desk.failed) = true;
  client.link.close(client.link.state);
  std::fflush(nullptr);
  _exit(answer ? 0 : 1);
}

Result<void> start_process(Launcher& launcher, Role role, int place) {
  const NodeId id = launcher.next_id;
  if (id >= launcher.segment.ranks) {
    return infeasible(fmt::format("{} processes died, and there are no numbers for more", launcher.deaths),
                      "more replacements");
  }
  ++launcher.next_id;
  desk_of(launcher.segment, id).account.role = role;
  desk_of(launcher.segment, id).account.place = place;
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return infeasible(fmt::format("process {}: fork failed: {}", id, std::strerror(errno)));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it died before we could ask to be told
    if (launcher.options.pins) keep_to_core(id);
    role == Role::server ? be_server(launcher, id, place) : be_worker(launcher, id, place);
  }
  launcher.processes.push_back({id, role, pid, place});
  return {};
}

// A worker that came to its end needs no replacement, and one whose body failed would fail again.
void note_end(Launcher& launcher, const Process& process) {
  Outbox out;
  remove(launcher.controller, process.id, out);
  launcher.link.forget(launcher.link.state, process.id);
  send_all(launcher.link, out);
  launcher.graves.push_back({process.id, launcher.controller.view.number});
  const Desk& desk = desk_of(launcher.segment, process.id);
  if (desk.finished) return;
  if (desk.failed) {
    const std::string text(desk.text.data(), desk.bytes);
    const std::size_t message = desk.bytes - desk.hint_bytes;
    launcher.failure = Error{desk.kind, text.substr(0, message), text.substr(message), "", 0, 0};
    return;
  }
  ++launcher.deaths;
  if (const Result<void> started = start_process(launcher, process.role, process.place); !started)
    launcher.failure = started.error();
}

void look_after(Launcher& launcher) {
  const std::vector<Process> before = launcher.processes;
  for (const Process& process : before) {
    if (waitpid(process.pid, nullptr, WNOHANG) != process.pid) continue;
    std::erase_if(launcher.processes, [&](const Process& one) { return one.id == process.id; });
    note_end(launcher, process);
  }
}

void clear_graves(Launcher& launcher) {
  std::uint64_t seen = launcher.controller.view.number;
  for (const auto& [node, receipt] : launcher.controller.receipts) seen = std::min(seen, receipt);
  std::erase_if(launcher.graves, [&](const Grave& grave) {
    if (grave.view > seen) return false;
    const comm::Segment& segment = launcher.segment;
    madvise(comm::arena_of(segment, grave.id) + kDeskBytes, segment.arena_bytes - kDeskBytes, MADV_REMOVE);
    return true;
  });
}

bool has_workers(const Launcher& launcher) {
  return std::any_of(launcher.processes.begin(), launcher.processes.end(),
                     [](const Process& process) { return process.role == Role::worker; });
}

bool has(const std::vector<NodeId>& nodes, NodeId id) {
  return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
}

bool is_ready(const View& view, const Process& process) {
  if (process.role == Role::worker) return has(view.workers, process.id);
  const auto waits = [&](const Chain& chain) {
    return std::any_of(chain.begin(), chain.end(),
                       [&](const Member& member) { return member.server == process.id && !member.synced; });
  };
  return has(view.servers, process.id) && std::none_of(view.chains.begin(), view.chains.end(), waits);
}

void show(Launcher& launcher, const Watch& watch) {
  for (Process& process : launcher.processes) process.ready = is_ready(launcher.controller.view, process);
  watch(launcher.processes);
}

void control(Launcher& launcher, const Watch& watch) {
  std::int64_t next_tick = 0;
  Outbox out;
  while (has_workers(launcher) && !launcher.failure) {
    Message message;
    while (launcher.link.receive(launcher.link.state, message)) handle(launcher.controller, message, out);
    if (comm::now_ns() >= next_tick) {
      tick(launcher.controller, out);
      next_tick = comm::now_ns() + static_cast<std::int64_t>(launcher.options.client.tick_s * 1e9);
    }
    send_all(launcher.link, out);
    look_after(launcher);
    clear_graves(launcher);
    if (launcher.controller.lost) launcher.failure = error_of(launcher.controller);
    if (watch) show(launcher, watch);
    launcher.link.rest(launcher.link.state);
  }
}

// Servers hand in what they hold, and go.
void close_books(Launcher& launcher) {
  constexpr std::int64_t kPatienceNs = 5'000'000'000;
  close(launcher.ledger);
  const std::int64_t end = comm::now_ns() + kPatienceNs;
  std::vector<Process> left = launcher.processes;
  while (!left.empty() && comm::now_ns() < end) {
    std::erase_if(left, [](const Process& process) { return waitpid(process.pid, nullptr, WNOHANG) == process.pid; });
    if (!left.empty()) usleep(500);
  }
  launcher.processes = left;
}

void end_all(Launcher& launcher) {
  for (const Process& process : launcher.processes) kill(process.pid, SIGKILL);
  for (const Process& process : launcher.processes) waitpid(process.pid, nullptr, 0);
}

LaunchReport report_of(const Launcher& launcher, const std::map<NodeId, int>& servers) {
  LaunchReport report{.deaths = launcher.deaths, .failovers = launcher.controller.failovers};
  for (NodeId id = 1; id < launcher.next_id; ++id) {
    const Desk& desk = desk_of(launcher.segment, id);
    if (desk.finished) report.answers[id] = std::string(desk.text.data(), desk.bytes);
    report.accounts[id] = desk.account;
  }
  for (const auto& [id, place] : servers) report.servers.push_back(id);
  report.updates = balance_of(launcher.ledger, launcher.controller.view, servers);
  return report;
}

Result<void> check(const LaunchOptions& options) {
  const int all = 1 + options.servers + options.workers + options.replacements;
  if (options.servers < 1 || options.workers < 1 || options.copies < 1) {
    return input_error(
        fmt::format("{} servers, {} workers and {} copies", options.servers, options.workers, options.copies),
        "at least one of each");
  }
  if (options.copies > options.servers) {
    return input_error(fmt::format("{} copies on {} servers", options.copies, options.servers),
                       fmt::format("{} copies", options.servers));
  }
  if (all > comm::kMaxLocalRanks) {
    return input_error(fmt::format("{} processes, replacements included", all),
                       fmt::format("{} at most", comm::kMaxLocalRanks));
  }
  return {};
}

}  // namespace

Result<LaunchReport> launch(const LaunchOptions& options, const WorkerBody& body, const Watch& watch) {
  if (const Result<void> right = check(options); !right) return tl::unexpected(right.error());
  const Result<comm::Segment> segment =
      comm::make_segment(1 + options.servers + options.workers + options.replacements, false);
  if (!segment) return tl::unexpected(segment.error());
  const Result<std::unique_ptr<Ledger>> ledger =
      make_ledger({segment->ranks, static_cast<int>(options.shards.size()), options.servers});
  if (!ledger) {
    comm::unmap_segment(*segment);
    return tl::unexpected(ledger.error());
  }
  Launcher launcher{.options = options, .body = body, .segment = *segment, .ledger = **ledger};
  launcher.controller.settings = {options.copies, options.servers, options.workers};
  launcher.controller.shards = options.shards;
  launcher.link = shared_link(*segment, kController);
  Result<void> started;
  for (int i = 0; i < options.servers && started; ++i) started = start_process(launcher, Role::server, i);
  for (int i = 0; i < options.workers && started; ++i) started = start_process(launcher, Role::worker, i);
  if (!started) launcher.failure = started.error();
  if (started) control(launcher, watch);
  std::map<NodeId, int> servers;
  for (const Process& process : launcher.processes) {
    if (process.role == Role::server) servers[process.id] = process.place;
  }
  if (!launcher.failure) close_books(launcher);
  end_all(launcher);
  LaunchReport report = report_of(launcher, servers);
  launcher.link.close(launcher.link.state);
  comm::unmap_segment(*segment);
  if (launcher.failure) return tl::unexpected(*launcher.failure);
  return report;
}

}  // namespace twinpod::ps
