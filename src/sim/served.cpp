#include "sim/served.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "ps/compress.hpp"
#include "ps/controller.hpp"
#include "ps/server.hpp"
#include "ps/worker.hpp"
#include "sim/served_network.hpp"

namespace twinpod::sim {
namespace {

using ps::Kind;
using ps::Message;
using ps::NodeId;
using ps::Role;
using ps::ShardId;

constexpr double kMostMessages = 2e8;

enum class Phase { joining, asking, pulling, computing, closing, ending, gone };

struct Node {
  NodeId id = ps::kNobody;
  Role role = Role::server;
  int place = 0;
  bool alive = true;
  double free_s = 0;  // it is busy until then
  double busy_s = 0;
  double queued_s = 0;  // that messages waited for it
  std::uint64_t handled = 0;
  ps::Server server = {};
  ps::Worker worker = {};
  Phase phase = Phase::joining;
  double step_begin_s = 0;
  double waited_s = 0;   // in this step
  bool through = false;  // there is no step left for it
};

enum class What : std::uint8_t {
  send,      // a message leaves its sender
  port,      // an interface may be through with a message
  arrive,    // a message is there
  take,      // a worker has copied it
  computed,  // a worker has done its passes
  kill,
  notice,
  restart,
  tick,
};

struct Event {
  double time_s = 0;
  std::uint64_t order = 0;  // those of one moment: in the order in which they were made
  What what = What::tick;
  NodeId node = ps::kNobody;
  std::uint32_t slot = 0;  // of its message; of the port
  bool operator>(const Event& other) const {
    return time_s != other.time_s ? time_s > other.time_s : order > other.order;
  }
};

// Messages from one process to another, which stay in order.
struct Lane {
  std::uint64_t sent = 0;
  std::uint64_t arrived = 0;
  std::vector<std::uint32_t> large = {};              // that pass through ports, the first just now
  std::map<std::uint64_t, std::uint32_t> early = {};  // those before which others are still to come
};

// Messages under way, in places that are used again.
struct Flights {
  struct Flight {
    Message message = {};
    Lane* lane = nullptr;
    std::uint64_t number = 0;  // on its lane
    int ports = 0;             // that it is not through yet
  };
  std::vector<Flight> all = {};
  std::vector<std::uint32_t> free = {};

  std::uint32_t add(Message message) {
    if (free.empty()) {
      all.push_back({std::move(message)});
      return static_cast<std::uint32_t>(all.size() - 1);
    }
    const std::uint32_t slot = free.back();
    free.pop_back();
    all[slot] = {std::move(message)};
    return slot;
  }
  Message take(std::uint32_t slot) {
    free.push_back(slot);
    return std::move(all[slot].message);
  }
};

class Simulation {
 public:
  explicit Simulation(const ServedInput& input)
      : input_(input), counts_(served_shards(input.job, input.choice.servers)) {
    for (const std::int64_t count : counts_) {
      const auto elements = static_cast<std::size_t>(count);
      const bool whole = input.choice.compression.encoding == ps::Encoding::f32;
      push_bytes_.push_back(whole ? static_cast<double>(count) * input.job.push_bytes
                                  : static_cast<double>(ps::compressed_bytes(input.choice.compression, elements)));
    }
    make_shards();
    const auto hosts_for = [](int processes, int each) { return (processes - 1) / std::max(1, each) + 1; };
    const int hosts = std::max(hosts_for(input.choice.servers, input.cluster.servers_per_host),
                               hosts_for(input.choice.workers, input.cluster.workers_per_host));
    ports_.assign(2 * static_cast<std::size_t>(hosts), Port{input.cluster.host_bytes_per_s});
    ports_.resize(ports_.size() + 2 * static_cast<std::size_t>(input.choice.workers),
                  Port{input.cluster.worker_bytes_per_s});
    first_worker_port_ = 2 * static_cast<std::size_t>(hosts);
    controller_.settings = {input.choice.copies, input.choice.servers, input.choice.workers};
    controller_.shards = shards_;
  }

  Result<ServedRun> run();

 private:
  double now() const { return now_s_; }
  std::int64_t clocks() const {
    return (input_.job.steps + input_.choice.local_steps - 1) / std::max(1, input_.choice.local_steps);
  }
  bool clips() const { return input_.job.clips && input_.choice.settings.mode == ps::Mode::sync; }
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id) - 1]; }
  std::size_t host_of(NodeId id) const {
    if (id == ps::kController) return 0;
    const Node& one = nodes_[static_cast<std::size_t>(id) - 1];
    const ServedCluster& cluster = input_.cluster;
    const int each = one.role == Role::server ? cluster.servers_per_host : cluster.workers_per_host;
    return static_cast<std::size_t>(one.place / std::max(1, each));
  }

  void make_shards();
  double bytes_of(const Message& message) const;
  void schedule(double at_s, What what, NodeId node, std::uint32_t slot = 0);
  void send_all(ps::Outbox& out, double at_s);
  void add_node(Role role, int place);
  void process(const Event& event);
  void on_send(std::uint32_t slot);
  void on_port(std::uint32_t port);
  void start_passing(std::uint32_t slot);
  void wake(std::uint32_t port);
  std::vector<std::uint32_t> ports_of(const Message& message) const;
  void on_arrive(std::uint32_t slot);
  void deliver(std::uint32_t slot);
  void serve(Node& server, const Message& message);
  void give(Node& worker, const Message& message);
  void drive(Node& one);
  void begin_step(Node& one);
  void pull_all(Node& one);
  void compute(Node& one);
  void on_computed(Node& one);
  void start_clock();
  void kill(const Kill& kill);
  void tick_all();
  double tick_s() const;
  Lane& lane_of(const Message& message) {
    const auto from = static_cast<std::uint64_t>(message.from);
    return lanes_[from << 32U | static_cast<std::uint64_t>(message.to)];
  }
  ServedRun result();

  const ServedInput& input_;
  std::vector<std::int64_t> counts_;  // real elements of each shard
  std::vector<double> push_bytes_ = {};
  std::vector<ps::Shard> shards_ = {};  // with the few elements that they have here
  std::vector<ps::Payload> ones_ = {};  // of each shard
  std::vector<Port> ports_ = {};        // of the hosts, out and in, then of the workers
  std::size_t first_worker_port_ = 0;
  ps::Controller controller_ = {};
  std::deque<Node> nodes_ = {};  // number n at place n - 1
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_ = {};
  Flights flights_ = {};
  std::unordered_map<std::uint64_t, Lane> lanes_ = {};
  ps::ServedReport report_ = {};
  double now_s_ = 0;
  double pushed_bytes_ = 0;
  double pulled_bytes_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t num_acknowledged_ = 0;  // pushes
  std::int64_t num_begun_ = 0;          // steps of all workers
  int num_ready_ = 0;
  int num_through_ = 0;
  bool started_ = false;
};

// One element stands for as many as make the largest shard 64.
void Simulation::make_shards() {
  const std::int64_t largest = *std::max_element(counts_.begin(), counts_.end());
  const std::int64_t unit = (largest + 63) / 64;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const std::int64_t few = (counts_[i] + unit - 1) / unit;
    shards_.push_back({.tensor = static_cast<int>(i), .count = few});
    ones_.push_back(ps::payload_of(std::vector<float>(static_cast<std::size_t>(few), 1.0F)));
  }
}

// What the message would take on the wire.
double Simulation::bytes_of(const Message& message) const {
  const auto shard = static_cast<std::size_t>(message.shard);
  const double header = ps::kHeaderBytes;
  const Kind content = message.kind == Kind::forward ? message.entry : message.kind;
  if (message.payload.bytes.empty()) return header;
  if (content == Kind::push) return header + push_bytes_[shard];
  if (content == Kind::values) return header + static_cast<double>(counts_[shard]) * input_.job.pull_bytes;
  if (content == Kind::initial) return header + static_cast<double>(counts_[shard]) * 4;
  if (content == Kind::state) return header + static_cast<double>(counts_[shard]) * input_.job.state_bytes;
  return header + static_cast<double>(message.payload.bytes.size());
}

void Simulation::schedule(double at_s, What what, NodeId node, std::uint32_t slot) {
  events_.push({started_ ? at_s : 0, ++order_, what, node, slot});
}

void Simulation::send_all(ps::Outbox& out, double at_s) {
  ps::order_by_priority(out);
  for (Message& message : out) {
    const NodeId from = message.from;
    const std::uint32_t slot = flights_.add(std::move(message));
    if (started_ && at_s > now()) {
      schedule(at_s, What::send, from, slot);
    } else {
      on_send(slot);
    }
  }
  out.clear();
}

void Simulation::add_node(Role role, int place) {
  Node& one = nodes_.emplace_back();
  one.id = static_cast<NodeId>(nodes_.size());
  one.role = role;
  one.place = place;
  ps::Outbox out;
  if (role == Role::server) {
    one.server.id = one.id;
    one.server.settings = input_.choice.settings;
    one.server.settings.optimizer = ps::Optimizer::add;  // values count their updates; bytes_of knows the real state
    one.server.settings.mean = false;
    if (clips()) one.server.settings.clip = std::numeric_limits<double>::max();  // the norm is made, and cuts nothing
    one.server.shards = shards_;
    ps::start(one.server, out);
  } else {
    one.worker.id = one.id;
    one.worker.shards = shards_;
    ps::start(one.worker, out);
  }
  send_all(out, now());
}

void Simulation::on_send(std::uint32_t slot) {
  const Message& message = flights_.all[slot].message;
  if (message.from != ps::kController && !node(message.from).alive) {
    flights_.take(slot);
    return;
  }
  Lane& lane = lane_of(message);
  flights_.all[slot].lane = &lane;
  flights_.all[slot].number = ++lane.sent;
  const std::size_t from = host_of(message.from);
  const double bytes = bytes_of(message);
  if (!started_ || from == host_of(message.to)) return schedule(now(), What::arrive, message.to, slot);
  if (bytes <= kSmallBytes || message.from == ps::kController) {
    return schedule(now() + input_.cluster.latency_s, What::arrive, message.to, slot);
  }
  lane.large.push_back(slot);
  if (lane.large.size() == 1) start_passing(slot);
}

std::vector<std::uint32_t> Simulation::ports_of(const Message& message) const {
  std::vector<std::uint32_t> ports;
  for (const NodeId id : {message.from, message.to}) {
    const std::size_t in = id == message.to ? 1 : 0;
    ports.push_back(static_cast<std::uint32_t>(2 * host_of(id) + in));
    const Node& one = nodes_[static_cast<std::size_t>(id) - 1];
    if (one.role == Role::server) continue;
    ports.push_back(static_cast<std::uint32_t>(first_worker_port_ + 2 * static_cast<std::size_t>(one.place) + in));
  }
  return ports;
}

void Simulation::start_passing(std::uint32_t slot) {
  const std::vector<std::uint32_t> ports = ports_of(flights_.all[slot].message);
  const double bytes = bytes_of(flights_.all[slot].message);
  flights_.all[slot].ports = static_cast<int>(ports.size());
  for (const std::uint32_t port : ports) {
    join(ports_[port], now(), bytes, slot);
    wake(port);
  }
}

// Others that come make it later than that; then it is looked at again.
void Simulation::wake(std::uint32_t port) {
  Port& one = ports_[port];
  if (one.messages.empty()) return;
  const double next = next_s(one);
  if (next >= one.woken_s) return;
  one.woken_s = next;
  schedule(next, What::port, ps::kController, port);
}

void Simulation::on_port(std::uint32_t port) {
  if (now() < ports_[port].woken_s) return;  // it was to be looked at earlier, and has been
  ports_[port].woken_s = std::numeric_limits<double>::infinity();
  for (const std::uint32_t slot : leave(ports_[port], now())) {
    if (--flights_.all[slot].ports > 0) continue;
    schedule(now() + input_.cluster.latency_s, What::arrive, flights_.all[slot].message.to, slot);
    Lane& lane = *flights_.all[slot].lane;
    lane.large.erase(lane.large.begin());
    if (!lane.large.empty()) start_passing(lane.large.front());
  }
  wake(port);
}

void Simulation::on_arrive(std::uint32_t slot) {
  Lane& lane = *flights_.all[slot].lane;
  if (flights_.all[slot].number != lane.arrived + 1) {
    lane.early.emplace(flights_.all[slot].number, slot);
    return;
  }
  ++lane.arrived;
  deliver(slot);
  while (!lane.early.empty() && lane.early.begin()->first == lane.arrived + 1) {
    const std::uint32_t next = lane.early.begin()->second;
    lane.early.erase(lane.early.begin());
    ++lane.arrived;
    deliver(next);
  }
}

void Simulation::deliver(std::uint32_t slot) {
  const Message& peek = flights_.all[slot].message;
  ps::Outbox out;
  if (peek.to == ps::kController) {
    ps::handle(controller_, flights_.take(slot), out);
    return send_all(out, now());
  }
  Node& to = node(peek.to);
  if (!to.alive) {
    flights_.take(slot);
    return;
  }
  if (to.role == Role::server) return serve(to, flights_.take(slot));
  const double bytes = bytes_of(peek);
  if (!started_ || bytes <= kSmallBytes || host_of(peek.from) != host_of(peek.to)) return give(to, flights_.take(slot));
  to.free_s = std::max(to.free_s, now()) + bytes / input_.cluster.local_bytes_per_s;
  schedule(to.free_s, What::take, to.id, slot);
}

// Bytes of memory that a server's sums, norms and updates have moved, of one shard or of all.
double memory_bytes(const ps::Server& server, ShardId shard, const ServedJob& job,
                    const std::vector<std::int64_t>& counts) {
  const auto of = [&](ShardId id, const ps::ShardState& state) {
    const std::uint64_t added = state.applied + (state.pending ? state.pending->pushes : 0);
    const std::int64_t squared = server.settings.clip > 0 ? state.version + (state.pending ? 1 : 0) : 0;
    return static_cast<double>(counts[static_cast<std::size_t>(id)]) *
           (static_cast<double>(added) * job.add_bytes + static_cast<double>(squared) * job.squares_bytes +
            static_cast<double>(state.steps) * job.update_bytes);
  };
  if (shard >= 0) {
    const auto found = server.replicas.find(shard);
    return found == server.replicas.end() ? 0 : of(shard, found->second.state);
  }
  double bytes = 0;
  for (const auto& [id, replica] : server.replicas) bytes += of(id, replica.state);
  return bytes;
}

// Messages are handled in the order in which they come, so it is the same to handle one now and to let its answers go
// when it would have been its turn.
void Simulation::serve(Node& one, const Message& message) {
  const ShardId shard = message.kind == Kind::view ? -1 : message.shard;
  const bool is_state = message.kind == Kind::state;  // brings updates that others made
  const double before = is_state ? 0 : memory_bytes(one.server, shard, input_.job, counts_);
  ps::Outbox out;
  ps::handle(one.server, message, out);
  const double after = is_state ? 0 : memory_bytes(one.server, shard, input_.job, counts_);
  const bool is_local = message.from != ps::kController && host_of(message.from) == host_of(one.id);
  double seconds = input_.cluster.message_s + std::max(0.0, after - before) / input_.cluster.memory_bytes_per_s;
  if (is_local) seconds += bytes_of(message) / input_.cluster.local_bytes_per_s;
  const double begin = std::max(now(), one.free_s);
  if (started_) {
    one.queued_s += begin - now();
    one.free_s = begin + seconds;
    one.busy_s += seconds;
    ++one.handled;
  }
  send_all(out, one.free_s);
}

std::uint64_t unacknowledged_pushes(const ps::Worker& worker, ShardId shard) {
  if (shard < 0 || static_cast<std::size_t>(shard) >= worker.lines.size()) return 0;
  const std::deque<Message>& unacked = worker.lines[static_cast<std::size_t>(shard)].unacked;
  return static_cast<std::uint64_t>(
      std::count_if(unacked.begin(), unacked.end(), [](const Message& m) { return m.kind == Kind::push; }));
}

void Simulation::give(Node& one, const Message& message) {
  const bool is_ack = message.kind == Kind::ack;
  const std::uint64_t unacked = is_ack ? unacknowledged_pushes(one.worker, message.shard) : 0;
  const std::uint64_t pulled = one.worker.counters.pulled_bytes;
  ps::Outbox out;
  ps::handle(one.worker, message, out);
  if (is_ack) num_acknowledged_ += unacked - unacknowledged_pushes(one.worker, message.shard);
  if (one.worker.counters.pulled_bytes > pulled) pulled_bytes_ += bytes_of(message) - ps::kHeaderBytes;
  send_all(out, now());
  drive(one);
}

// A worker does what it can do next.
void Simulation::drive(Node& one) {
  ps::Worker& worker = one.worker;
  ps::Outbox out;
  if (one.phase == Phase::joining && worker.is_member) {
    for (ShardId shard = 0; one.place == 0 && shard < static_cast<ShardId>(shards_.size()); ++shard) {
      const auto few = static_cast<std::size_t>(shards_[static_cast<std::size_t>(shard)].count);
      ps::set_initial(worker, shard, ps::payload_of(std::vector<float>(few)), out);
    }
    ps::begin(worker, out);
    one.phase = Phase::asking;
    send_all(out, now());
  }
  if (one.phase == Phase::asking && ps::is_ready(worker)) {
    if (started_) return begin_step(one);
    one.phase = Phase::ending;  // until all are ready
    if (++num_ready_ == input_.choice.workers) start_clock();
    return;
  }
  const bool has_all = worker.arrived.size() == worker.shards.size();
  if (one.phase == Phase::pulling && has_all) return compute(one);
  if (one.phase == Phase::closing && has_all) one.phase = Phase::ending;
  if (one.phase == Phase::ending && one.through && ps::is_acknowledged(worker)) {
    ps::leave(worker, out);
    one.phase = Phase::gone;
    ++num_through_;
    send_all(out, now());
  }
}

void Simulation::start_clock() {
  started_ = true;
  for (Node& one : nodes_) {
    if (one.role == Role::worker) begin_step(one);
  }
  for (std::size_t i = 0; i < input_.faults.kills.size(); ++i) {
    schedule(input_.faults.kills[i].at_s, What::kill, ps::kController, static_cast<std::uint32_t>(i));
  }
  // With one copy and nobody killed nothing gets lost. Members of a chain drop what comes from one that has another
  // view.
  if (!input_.faults.kills.empty() || input_.choice.copies > 1) schedule(tick_s(), What::tick, ps::kController);
}

void Simulation::begin_step(Node& one) {
  // As in train: where nobody waits for anybody, who is free takes the next part.
  const bool shares = input_.choice.settings.mode == ps::Mode::async;
  one.through = shares ? num_begun_ >= clocks() * input_.choice.workers : one.worker.clock >= clocks();
  if (one.through) {
    // Who leaves without the last values leaves a clock without its norm.
    one.phase = clips() ? Phase::closing : Phase::ending;
    return clips() ? pull_all(one) : drive(one);
  }
  ++num_begun_;
  one.phase = Phase::pulling;
  one.step_begin_s = now();
  pull_all(one);
}

void Simulation::pull_all(Node& one) {
  one.worker.arrived.clear();
  ps::Outbox out;
  for (ShardId shard = 0; shard < static_cast<ShardId>(shards_.size()); ++shard) ps::pull(one.worker, shard, out);
  send_all(out, now());
}

void Simulation::compute(Node& one) {
  ps::Worker& worker = one.worker;
  for (const ps::Arrival& arrival : worker.arrived) worker.clock = std::max(worker.clock, arrival.oldest + 1);
  worker.arrived.clear();
  one.phase = Phase::computing;
  one.waited_s = now() - one.step_begin_s;
  double seconds = 0;
  for (std::int64_t i = 0; i < input_.choice.local_steps; ++i) {
    const std::int64_t step = worker.clock * input_.choice.local_steps + i;
    seconds += input_.job.step_s * ps::slowdown(input_.choice.straggler, one.place, step);
  }
  schedule(now() + seconds, What::computed, one.id);
}

void Simulation::on_computed(Node& one) {
  ps::Worker& worker = one.worker;
  const std::int64_t clock = worker.clock;
  ps::Outbox out;
  for (ShardId shard = 0; shard < static_cast<ShardId>(shards_.size()); ++shard) {
    ps::push(worker, shard, ones_[static_cast<std::size_t>(shard)], {}, out);
    pushed_bytes_ += push_bytes_[static_cast<std::size_t>(shard)];
  }
  ps::advance(worker);
  send_all(out, now());
  report_.steps.push_back({.worker = one.place,
                           .clock = clock,
                           .begin_s = one.step_begin_s,
                           .end_s = now(),
                           .waited_s = one.waited_s,
                           .loss = std::numeric_limits<double>::quiet_NaN(),
                           .computed_s = now() - one.step_begin_s - one.waited_s});
  begin_step(one);
}

// Whoever has the place now; nobody, if it is through.
void Simulation::kill(const Kill& what) {
  for (Node& one : nodes_) {
    if (one.role != what.role || one.place != what.place || !one.alive || one.phase == Phase::gone) continue;
    one.alive = false;
    ++report_.deaths;
    schedule(now() + input_.faults.notice_s, What::notice, one.id);
    schedule(now() + input_.faults.restart_s, What::restart, one.id);
    return;
  }
}

void Simulation::tick_all() {
  ps::Outbox out;
  ps::tick(controller_, out);
  for (Node& one : nodes_) {
    if (!one.alive) continue;
    if (one.role == Role::server && !one.server.expelled) ps::tick(one.server, out);
    if (one.role == Role::worker && one.phase != Phase::gone) ps::tick(one.worker, out);
  }
  send_all(out, now());
  if (started_) schedule(now() + tick_s(), What::tick, ps::kController);
}

// Ten times what it takes at least to compute, push and pull once: only what is lost is sent again.
double Simulation::tick_s() const {
  if (input_.faults.tick_s > 0) return input_.faults.tick_s;
  const double elements = static_cast<double>(std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}));
  const double bytes = elements * (input_.job.push_bytes + input_.job.pull_bytes) * input_.choice.workers;
  const double move = bytes / input_.cluster.host_bytes_per_s / input_.choice.servers;
  return 10 * (input_.job.step_s * input_.choice.local_steps + move + input_.cluster.latency_s);
}

void Simulation::process(const Event& event) {
  ps::Outbox out;
  switch (event.what) {
    case What::send:
      return on_send(event.slot);
    case What::port:
      return on_port(event.slot);
    case What::arrive:
      return on_arrive(event.slot);
    case What::take: {
      const Message message = flights_.take(event.slot);
      if (node(event.node).alive) give(node(event.node), message);
      return;
    }
    case What::computed:
      if (node(event.node).alive) on_computed(node(event.node));
      return;
    case What::kill:
      return kill(input_.faults.kills[event.slot]);
    case What::notice:
      ps::remove(controller_, event.node, out);
      return send_all(out, now());
    case What::restart:
      return add_node(node(event.node).role, node(event.node).place);
    case What::tick:
      return tick_all();
  }
}

Result<ServedRun> Simulation::run() {
  const double each = clips() ? 6 : 4;  // push, ack, pull, values; squares, norm
  const double messages = each * input_.choice.workers * static_cast<double>(shards_.size()) *
                          static_cast<double>(clocks()) * input_.choice.copies;
  if (messages > kMostMessages) {
    return infeasible(
        fmt::format("simulate: {} workers, {} shards and {} steps are {:.3g} messages", input_.choice.workers,
                    shards_.size(), input_.job.steps, messages),
        fmt::format("--steps {}", static_cast<std::int64_t>(std::max(
                                      1.0, static_cast<double>(input_.job.steps) * kMostMessages / messages))));
  }
  for (int i = 0; i < input_.choice.servers; ++i) add_node(Role::server, i);
  for (int i = 0; i < input_.choice.workers; ++i) add_node(Role::worker, i);
  int idle = 0;
  while (num_through_ < input_.choice.workers && !controller_.lost && idle < 8) {
    if (events_.empty()) {  // while they join: some were there before the others
      tick_all();
      ++idle;
      continue;
    }
    const Event event = events_.top();
    events_.pop();
    now_s_ = event.time_s;
    process(event);
  }
  if (controller_.lost) return tl::unexpected(ps::error_of(controller_));
  if (num_through_ < input_.choice.workers) {
    return infeasible(fmt::format("simulate: {} of {} workers came to their end, and nothing moves any more",
                                  num_through_, input_.choice.workers));
  }
  return result();
}

ServedRun Simulation::result() {
  ServedRun run;
  run.events = order_;
  run.shards = shards_.size();
  std::uint64_t in_values = 0;
  report_.worker_waited_s.assign(static_cast<std::size_t>(input_.choice.workers), 0);
  for (const ps::WorkerStep& step : report_.steps) {
    report_.seconds = std::max(report_.seconds, step.end_s);
    report_.worker_waited_s[static_cast<std::size_t>(step.worker)] += step.waited_s;
  }
  report_.tokens = static_cast<double>(report_.steps.size()) * input_.job.step_tokens * input_.choice.local_steps;
  for (ShardId shard = 0; shard < static_cast<ShardId>(shards_.size()); ++shard) {
    const auto& replicas = node(ps::head_of(controller_.view, shard)).server.replicas;
    const ps::ShardState& state = replicas.at(shard).state;
    report_.updates_applied += state.applied;
    report_.updates_dropped += state.dropped;
    in_values += static_cast<std::uint64_t>(ps::values_of(state).front()) + state.dropped;
  }
  report_.updates_lost = num_acknowledged_ > in_values ? num_acknowledged_ - in_values : 0;
  report_.failovers = controller_.failovers;
  report_.pushed_bytes = static_cast<std::uint64_t>(pushed_bytes_);
  report_.pulled_bytes = static_cast<std::uint64_t>(pulled_bytes_);
  std::vector<std::uint64_t>& histogram = report_.staleness_histogram;
  for (const Node& one : nodes_) {
    const std::vector<std::uint64_t>& own = one.worker.counters.staleness;
    if (histogram.size() < own.size()) histogram.resize(own.size());
    for (std::size_t k = 0; k < own.size(); ++k) histogram[k] += own[k];
    if (one.role != Role::server || !one.alive) continue;
    report_.server_busy_s.push_back(std::min(one.busy_s, report_.seconds));  // it may have work left at the end
    report_.server_queue_s.push_back(one.handled > 0 ? one.queued_s / static_cast<double>(one.handled) : 0);
    run.server_out_s.push_back(ports_[2 * host_of(one.id)].busy_s);
    run.server_in_s.push_back(ports_[2 * host_of(one.id) + 1].busy_s);
  }
  report_.staleness_max = histogram.empty() ? 0 : static_cast<std::int64_t>(histogram.size()) - 1;
  run.report = std::move(report_);
  return run;
}

}  // namespace

std::vector<std::int64_t> served_shards(const ServedJob& job, int servers) {
  const std::int64_t most = job.shard_elements > 0 ? job.shard_elements : ps::even_size(job.counts, servers);
  const std::vector<ps::Shard> shards = ps::shards_of({.counts = job.counts, .most = most});
  const std::size_t many = std::max<std::size_t>(64, 4 * static_cast<std::size_t>(servers));
  std::vector<std::int64_t> sizes;
  for (const ps::Shard& shard : shards) {
    const bool joins = shards.size() > many && !sizes.empty() && sizes.back() + shard.count <= most;
    if (joins) {
      sizes.back() += shard.count;
    } else {
      sizes.push_back(shard.count);
    }
  }
  return sizes;
}

Result<ServedRun> run_served(const ServedInput& input) {
  const std::int64_t elements = std::accumulate(input.job.counts.begin(), input.job.counts.end(), std::int64_t{0});
  if (elements < 1) return input_error("simulate: a model without parameters needs no servers");
  Simulation simulation(input);
  return simulation.run();
}

ps::ServedReport run_all_reduced(const ServedInput& input, double reduce_s) {
  ps::ServedReport report;
  double begin = 0;
  report.worker_waited_s.assign(static_cast<std::size_t>(input.choice.workers), 0);
  for (std::int64_t step = 0; step < input.job.steps; ++step) {
    double slowest = 1;
    for (int worker = 0; worker < input.choice.workers; ++worker) {
      slowest = std::max(slowest, ps::slowdown(input.choice.straggler, worker, step));
    }
    const double end = begin + slowest * input.job.step_s + reduce_s;
    for (int worker = 0; worker < input.choice.workers; ++worker) {
      const double own = input.job.step_s * ps::slowdown(input.choice.straggler, worker, step);
      report.steps.push_back({.worker = worker,
                              .clock = step,
                              .begin_s = begin,
                              .end_s = end,
                              .waited_s = end - begin - own,
                              .loss = std::numeric_limits<double>::quiet_NaN(),
                              .computed_s = own});
      report.worker_waited_s[static_cast<std::size_t>(worker)] += end - begin - own;
    }
    begin = end;
  }
  report.seconds = begin;
  report.tokens = static_cast<double>(report.steps.size()) * input.job.step_tokens;
  return report;
}

}  // namespace twinpod::sim
