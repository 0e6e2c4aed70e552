#include "ps/launch.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>

#include "comm/shared.hpp"
#include "core/guarded.hpp"
#include "core/parallel.hpp"
#include "core/signals.hpp"
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
// have forgotten it, and servers are through with what it lent to them.
struct Grave {
  NodeId id = kNobody;
  std::uint64_t view = 0;  // the first without it
};

struct Launcher {
  const LaunchOptions& options;
  const WorkerBody& body;
  comm::Segment segment;
  Ledger& ledger;
  Diary* diary = nullptr;  // null: none is asked for
  Link link = {};
  Controller controller = {};
  std::vector<Process> processes = {};  // alive
  std::vector<Grave> graves = {};
  NodeId next_id = 1;                            // of one that comes for a dead one
  std::vector<NodeId> dead = {};                 // of this host
  std::map<NodeId, std::int64_t> heard_ns = {};  // of the launchers of other hosts
  std::set<NodeId> through = {};                 // those whose workers came to their end, or that are gone
  bool ended = false;                            // the controller said so
  int deaths = 0;
  std::optional<Error> failure = {};
};

Desk& desk_of(const comm::Segment& segment, NodeId id) { return *reinterpret_cast<Desk*>(comm::arena_of(segment, id)); }

// Launchers have the first numbers, then servers and workers in their order: numbers of a host are alike modulo hosts.
NodeId first_worker(const LaunchOptions& options) {
  const int hosts = num_hosts(options);
  return hosts + (options.servers + hosts - 1) / hosts * hosts;
}

NodeId first_replacement(const LaunchOptions& options) {
  const int hosts = num_hosts(options);
  return first_worker(options) + (options.workers + hosts - 1) / hosts * hosts + options.host;
}

int num_numbers(const LaunchOptions& options) {
  return first_replacement(options) - options.host + num_hosts(options) * options.replacements;
}

Result<Link> link_of(const LaunchOptions& options, const comm::Segment& segment, NodeId id) {
  if (options.hosts.empty()) return shared_link(segment, id, all_bytes(options.shards));
  TcpOptions tcp{.key = options.key, .bounds = bounds_of(options.shards, segment.ranks)};
  tcp.launchers = num_hosts(options);
  tcp.strangers = &desk_of(segment, id).account.strangers;
  tcp.own_thread = id != options.host;  // the launcher forks
  for (NodeId node = 0; node < segment.ranks; ++node) {
    const std::string& host = options.hosts[static_cast<std::size_t>(node) % options.hosts.size()];
    const bool is_v6 = host.find(':') != std::string::npos;  // whose colons are not the port's
    tcp.addresses.push_back(
        {node, fmt::format("tcp://{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", options.port + node)});
  }
  return tcp_link(id, tcp);
}

// Of a process that cannot go on.
[[noreturn]] void fail(Desk& desk, const Error& error) {
  const std::string text = error.message + error.hint;
  desk.bytes = std::min(text.size(), desk.text.size());
  std::memcpy(desk.text.data(), text.data(), desk.bytes);
  desk.kind = error.kind;
  desk.hint_bytes = desk.bytes == text.size() ? error.hint.size() : 0;
  desk.failed = true;
  _exit(1);
}

// This thread to its own core, and its helper, who is there to use another, to the rest.
void keep_to_cores(NodeId id, std::optional<Team>& helped) {
  cpu_set_t allowed;
  cpu_set_t own;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  int left = static_cast<int>(id) % CPU_COUNT(&allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || left-- != 0) continue;
    CPU_SET(core, &own);
    CPU_CLR(core, &others);
  }
  if (helped) {
    helped.reset();
    sched_setaffinity(0, sizeof others, &others);
    helped.emplace(1);
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

// Then, while one end is busy with large values, the other waits and has left a core free for a helper. Where processes
// share cores, it would only be in the way, and be waited for when it has lost its core within a part of the work.
bool has_cores_for_all(const LaunchOptions& options) {
  const int hosts = num_hosts(options);
  return num_hardware_threads() >= (options.servers + options.workers + hosts - 1) / hosts;
}

// Its last act is to say what it holds.
[[noreturn]] void be_server(const Launcher& launcher, NodeId id, int place) noexcept {
  kernel::flush_denormals();  // as those do who run the optimizer themselves
  Desk& desk = desk_of(launcher.segment, id);
  const Result<Link> made = link_of(launcher.options, launcher.segment, id);
  if (!made) fail(desk, made.error());
  const Link& link = *made;
  Server server{.id = id, .settings = launcher.options.settings, .shards = launcher.options.shards};
  server.memory = link.memory;
  std::optional<Team> team;
  if (has_cores_for_all(launcher.options)) server.team = &team.emplace(1);
  if (launcher.options.pins) keep_to_cores(id, team);
  const auto stop = [&](const Server& now) {
    desk.account.server = now.counters;
    if (!is_closed(launcher.ledger)) return false;
    hand_in(launcher.ledger, place, now);
    return true;
  };
  Observer observer;
  if (launcher.diary != nullptr) {
    observer = [&](Handled one) {
      one.server = place;
      write(*launcher.diary, one);
    };
  }
  serve(link, server, launcher.options.client.tick_s, stop, observer);
  if (!launcher.options.hosts.empty()) link.close(link.state);
  _exit(0);
}

[[noreturn]] void be_worker(const Launcher& launcher, NodeId id, int place) noexcept {
  std::optional<Team> team;
  if (has_cores_for_all(launcher.options)) team.emplace(1);
  if (launcher.options.pins) keep_to_cores(id, team);
  Desk& desk = desk_of(launcher.segment, id);
  const Result<Link> link = link_of(launcher.options, launcher.segment, id);
  if (!link) fail(desk, link.error());
  Client client = make_client(*link, id, launcher.options.shards, launcher.options.client);
  client.place = place;
  client.team = team ? &*team : nullptr;
  client.acked = acked_by(launcher.ledger, id);
  client.account = [&](const Client& now) { note(desk.account, now); };
  const Result<std::string> answer = guarded([&] { return launcher.body(client); });
  note(desk.account, client);
  if (!answer) fail(desk, answer.error());
  desk.bytes = std::min(answer->size(), desk.text.size());
  std::memcpy(desk.text.data(), answer->data(), desk.bytes);
  desk.finished = true;
  client.link.close(client.link.state);
  std::fflush(nullptr);
  _exit(0);
}

Result<void> start_process(Launcher& launcher, Role role, int place, NodeId id) {
  if (id >= launcher.segment.ranks) {
    return infeasible(fmt::format("{} processes died, and there are no numbers for more", launcher.deaths),
                      "more replacements");
  }
  desk_of(launcher.segment, id).account.role = role;
  desk_of(launcher.segment, id).account.place = place;
  std::fflush(nullptr);
  const pid_t pid = fork_child();
  if (pid < 0) return infeasible(fmt::format("process {}: fork failed: {}", id, std::strerror(errno)));
  if (pid == 0) role == Role::server ? be_server(launcher, id, place) : be_worker(launcher, id, place);
  launcher.processes.push_back({id, role, pid, place});
  return {};
}

// A worker that came to its end needs no replacement, and one whose body failed would fail again.
void note_end(Launcher& launcher, const Process& process) {
  Outbox out;
  if (launcher.options.host == 0) remove(launcher.controller, process.id, out);
  launcher.dead.push_back(process.id);
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
  const NodeId id = launcher.next_id;
  launcher.next_id += num_hosts(launcher.options);
  if (const Result<void> started = start_process(launcher, process.role, process.place, id); !started)
    launcher.failure = started.error();
}

bool has_ended(const Process& process, int options) {
  if (waitpid(process.pid, nullptr, options) != process.pid) return false;
  forget_child(process.pid);
  return true;
}

void look_after(Launcher& launcher) {
  const std::vector<Process> before = launcher.processes;
  for (const Process& process : before) {
    if (!has_ended(process, WNOHANG)) continue;
    std::erase_if(launcher.processes, [&](const Process& one) { return one.id == process.id; });
    note_end(launcher, process);
  }
}

void clear_graves(Launcher& launcher) {
  std::uint64_t seen = launcher.controller.view.number;
  for (const auto& [node, receipt] : launcher.controller.receipts) seen = std::min(seen, receipt);
  // What a dead server borrowed it may have been passing on, to somebody who has not forgotten it yet.
  std::vector<NodeId> forgotten = launcher.dead;
  for (const Grave& grave : launcher.graves) {
    if (grave.view > seen) std::erase(forgotten, grave.id);
  }
  std::erase_if(launcher.graves, [&](const Grave& grave) {
    const comm::Segment& segment = launcher.segment;
    if (grave.view > seen || is_read_by_others(segment, grave.id, forgotten)) return false;
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

// ---- between launchers ----

constexpr std::uint64_t kDead = 1;  // position of a message that says, in its name, that a process is

bool is_launcher(const Launcher& launcher, NodeId id) { return id < num_hosts(launcher.options); }

// All that was on a host is gone with its launcher.
void give_up_host(Launcher& launcher, NodeId host, Outbox& out) {
  launcher.through.insert(host);
  std::vector<NodeId> lost;
  for (const auto& [node, receipt] : launcher.controller.receipts) {
    if (node % num_hosts(launcher.options) == host) lost.push_back(node);
  }
  launcher.deaths += static_cast<int>(lost.size());
  for (const NodeId node : lost) {
    remove(launcher.controller, node, out);
    launcher.link.forget(launcher.link.state, node);
  }
}

void look_for_silence(Launcher& launcher, Outbox& out) {
  const double patience_s = launcher.options.client.timeout_s / 3;
  const auto patience_ns = static_cast<std::int64_t>(patience_s * 1e9);
  for (const auto& [id, last_ns] : launcher.heard_ns) {
    if (comm::now_ns() - last_ns < patience_ns || launcher.through.contains(id)) continue;
    if (launcher.options.host == 0) {
      give_up_host(launcher, id, out);
      continue;
    }
    launcher.failure =
        Error{ErrorKind::infeasible,
              fmt::format("the launcher of host 0, {}, said nothing for {:g} s", launcher.options.hosts[0], patience_s),
              "a longer --timeout, if it is only slow",
              "",
              0,
              0};
  }
}

// A sign of life; whether its workers are through; and who died, again and again, for what is sent may get lost.
void tell_launchers(const Launcher& launcher, Outbox& out) {
  const NodeId own = launcher.options.host;
  Message sign{.kind = Kind::barrier, .from = own, .to = kController, .sequence = has_workers(launcher) ? 0U : 1U};
  if (own != 0) {
    out.push_back(sign);
    for (const NodeId id : launcher.dead)
      out.push_back({.kind = Kind::leave, .from = id, .to = kController, .position = kDead});
    return;
  }
  for (NodeId host = 1; host < num_hosts(launcher.options); ++host) {
    sign.to = host;
    out.push_back(sign);
  }
}

void end_launchers(const Launcher& launcher) {
  Outbox out;
  for (NodeId host = 1; host < num_hosts(launcher.options) && launcher.options.host == 0; ++host) {
    const std::uint64_t failed = launcher.failure ? 1 : 0;
    out.push_back({.kind = Kind::leave, .from = kController, .to = host, .sequence = failed});
  }
  send_all(launcher.link, out);
}

void take_message(Launcher& launcher, const Message& message, Outbox& out) {
  if (!is_launcher(launcher, message.from)) {
    if (launcher.options.host != 0) return;
    if (message.kind != Kind::leave || message.position != kDead) return handle(launcher.controller, message, out);
    remove(launcher.controller, message.from, out);
    return launcher.link.forget(launcher.link.state, message.from);
  }
  launcher.heard_ns[message.from] = comm::now_ns();
  if (launcher.options.host == 0) {
    if (message.sequence == 1) launcher.through.insert(message.from);
  } else if (message.kind == Kind::leave) {
    launcher.ended = true;
    if (message.sequence == 0) return;
    launcher.failure = Error{ErrorKind::infeasible, "host 0 gave the job up", "what it printed says why", "", 0, 0};
  }
}

bool goes_on(const Launcher& launcher) {
  if (launcher.failure || launcher.ended) return false;
  if (launcher.options.host != 0 || has_workers(launcher)) return true;
  return static_cast<int>(launcher.through.size()) < num_hosts(launcher.options) - 1;
}

void control(Launcher& launcher, const Watch& watch) {
  std::int64_t next_tick = 0;
  Outbox out;
  while (goes_on(launcher)) {
    Message message;
    while (launcher.link.receive(launcher.link.state, message)) take_message(launcher, message, out);
    if (comm::now_ns() >= next_tick) {
      tick(launcher.controller, out);
      if (!launcher.options.hosts.empty()) tell_launchers(launcher, out);
      look_for_silence(launcher, out);
      next_tick = comm::now_ns() + static_cast<std::int64_t>(launcher.options.client.tick_s * 1e9);
    }
    send_all(launcher.link, out);
    look_after(launcher);
    if (launcher.options.hosts.empty()) clear_graves(launcher);
    if (launcher.controller.lost) launcher.failure = error_of(launcher.controller);
    if (watch) show(launcher, watch);
    launcher.link.rest(launcher.link.state);
  }
  end_launchers(launcher);
}

// Servers hand in what they hold, and go.
void close_books(Launcher& launcher) {
  constexpr std::int64_t kPatienceNs = 5'000'000'000;
  close(launcher.ledger);
  const std::int64_t end = comm::now_ns() + kPatienceNs;
  std::vector<Process> left = launcher.processes;
  while (!left.empty() && comm::now_ns() < end) {
    std::erase_if(left, [](const Process& process) { return has_ended(process, WNOHANG); });
    if (!left.empty()) usleep(500);
  }
  launcher.processes = left;
}

void end_all(Launcher& launcher) {
  for (const Process& process : launcher.processes) kill(process.pid, SIGKILL);
  for (const Process& process : launcher.processes) has_ended(process, 0);
}

// Numbers that nobody has had yet count none.
Strangers strangers_of(const Launcher& launcher) {
  Strangers all;
  for (NodeId id = 0; id < launcher.segment.ranks && !launcher.options.hosts.empty(); ++id) {
    if (id % num_hosts(launcher.options) == launcher.options.host) {
      add(desk_of(launcher.segment, id).account.strangers, all);
    }
  }
  return all;
}

// Who has another key can say nothing, and is waited for in vain.
Error with_strangers(Error error, const Strangers& strangers) {
  const std::string text = text_of(strangers);
  if (text.empty()) return error;
  if (!error.hint.empty()) error.hint += "; ";
  error.hint += text + "; is --key the same on all hosts?";
  return error;
}

LaunchReport report_of(const Launcher& launcher, const std::map<NodeId, int>& servers) {
  LaunchReport report{.deaths = launcher.deaths, .failovers = launcher.controller.failovers};
  for (NodeId id = num_hosts(launcher.options); id < std::min(launcher.next_id, launcher.segment.ranks); ++id) {
    if (id % num_hosts(launcher.options) != launcher.options.host) continue;
    const Desk& desk = desk_of(launcher.segment, id);
    if (desk.finished) report.answers[id] = std::string(desk.text.data(), desk.bytes);
    report.accounts[id] = desk.account;
  }
  for (const auto& [id, place] : servers) report.servers.push_back(id);
  report.updates = launcher.options.hosts.empty() ? balance_of(launcher.ledger, launcher.controller.view, servers)
                                                  : balance_here(launcher.ledger);
  report.strangers = strangers_of(launcher);
  if (launcher.diary == nullptr) return report;
  report.handled = entries_of(*launcher.diary);
  report.left_out = num_left_out(*launcher.diary);
  return report;
}

Result<void> check(const LaunchOptions& options) {
  const int all = num_numbers(options);
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
  const Result<comm::Segment> segment = comm::make_segment(num_numbers(options), false);
  if (!segment) return tl::unexpected(segment.error());
  const Result<std::unique_ptr<Ledger>> ledger =
      make_ledger({segment->ranks, static_cast<int>(options.shards.size()), options.servers});
  if (!ledger) {
    comm::unmap_segment(*segment);
    return tl::unexpected(ledger.error());
  }
  const Result<std::unique_ptr<Diary>> diary =
      options.diary.entries > 0 ? make_diary(options.diary) : Result<std::unique_ptr<Diary>>(nullptr);
  if (!diary) {
    comm::unmap_segment(*segment);
    return tl::unexpected(diary.error());
  }
  Launcher launcher{.options = options, .body = body, .segment = *segment, .ledger = **ledger};
  launcher.diary = diary->get();
  launcher.controller.settings = {options.copies, options.servers, options.workers};
  launcher.controller.shards = options.shards;
  const Result<Link> link = link_of(options, *segment, options.host);
  if (!link) {
    comm::unmap_segment(*segment);
    return tl::unexpected(link.error());
  }
  launcher.link = *link;
  launcher.next_id = first_replacement(options);
  const int hosts = num_hosts(options);
  Result<void> started;
  for (int i = options.host; i < options.servers && started; i += hosts)
    started = start_process(launcher, Role::server, i, hosts + i);
  for (int i = options.host; i < options.workers && started; i += hosts)
    started = start_process(launcher, Role::worker, i, first_worker(options) + i);
  if (!started) launcher.failure = started.error();
  if (started) control(launcher, watch);
  std::map<NodeId, int> servers;
  for (const Process& process : launcher.processes) {
    if (process.role == Role::server) servers[process.id] = process.place;
  }
  if (!launcher.failure) close_books(launcher);
  end_all(launcher);
  launcher.link.close(launcher.link.state);  // who was still at the port is counted
  LaunchReport report = report_of(launcher, servers);
  comm::unmap_segment(*segment);
  if (launcher.failure) return tl::unexpected(with_strangers(*launcher.failure, report.strangers));
  return report;
}

}  // namespace twinpod::ps
