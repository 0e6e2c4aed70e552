// The network of test_network.hpp, and runs of it. A bounded number of seeds by default;
// TWINPOD_PS_SEEDS=100000 runs that many, TWINPOD_PS_FIRST=n starts at n.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ps/test_network.hpp"

namespace twinpod::ps {
SimulatedNetwork::SimulatedNetwork(const Scenario& scenario, Mutation mutation)
    : scenario_(scenario), mutation_(mutation), rng_(scenario.seed ^ 0x5eedU) {
  shards_ = shards_of({.counts = {3 * kSlots, 6 * kSlots}, .most = 3 * kSlots});
  shards_[0].parts = {{.first = 0, .count = kSlots, .rank = 0}, {.first = kSlots, .count = 2 * kSlots, .rank = 1}};
  promised_.assign(shards_.size(), -1);
  controller_.settings = {.copies = scenario.copies, .servers = scenario.servers, .workers = scenario.workers};
  if (scenario.heartbeats) controller_.settings.silent_ticks = kSilentTicks;
  controller_.shards = shards_;
  for (int i = 0; i < scenario.servers; ++i) add_server();
  for (int i = 0; i < scenario.workers; ++i) add_worker();
  schedule(kTick, What::tick, kController);
  for (int i = 0; i < scenario.faults; ++i)
    schedule(static_cast<std::int64_t>(rng_.below(kFaultsUntil)), What::fault, 0);
}

void SimulatedNetwork::schedule(std::int64_t delay, What what, NodeId node, Message message) {
  heap_.push_back({now_ + delay, ++order_, what, node, std::move(message)});
  std::push_heap(heap_.begin(), heap_.end());
}

bool SimulatedNetwork::is_cut(NodeId a, NodeId b) const {
  return std::any_of(partitions_.begin(), partitions_.end(), [&](const Partition& p) {
    const bool hit = (p.a == a && (p.b == b || p.b == kNobody)) || (p.a == b && (p.b == a || p.b == kNobody));
    return hit && now_ < p.until;
  });
}

// Each message goes through its bytes, as it would between hosts.
void SimulatedNetwork::send(Outbox& out) {
  const bool calm = now_ >= kFaultsUntil;
  for (Message& message : out) {
    const bool twice = !calm && rng_.uniform() < scenario_.duplicate;
    for (int copy = 0; copy < (twice ? 2 : 1); ++copy) {
      if (!calm && (rng_.uniform() < scenario_.drop || is_cut(message.from, message.to))) continue;
      const auto delay = 1 + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(scenario_.delay)));
      schedule(delay, What::message, message.to, message);
    }
  }
  out.clear();
}

void SimulatedNetwork::add_server() {
  const NodeId id = next_id_++;
  ServerNode& node = servers_[id];
  node.server = {.id = id, .settings = scenario_.settings, .shards = shards_};
  Outbox out;
  start(node.server, out);
  send(out);
  schedule(1 + static_cast<std::int64_t>(rng_.below(kTick)), What::tick, id);
}

void SimulatedNetwork::add_worker() {
  if (next_slot_ == kSlots) return;
  const NodeId id = next_id_++;
  WorkerNode& node = workers_[id];
  node.worker = {.id = id, .shards = shards_};
  node.slot = next_slot_++;
  node.pushes.resize(shards_.size());
  node.acked.resize(shards_.size());
  Outbox out;
  start(node.worker, out);
  send(out);
  schedule(1 + static_cast<std::int64_t>(rng_.below(kTick)), What::tick, id);
}

std::string SimulatedNetwork::run() {
  while (problem_.empty() && !is_over()) {
    std::pop_heap(heap_.begin(), heap_.end());
    Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.time;
    ++num_events_;
    process(event);
    if (controller_.lost) fail("a shard is lost though a copy of it was alive");
    if (now_ > kGiveUpAt) fail("no end in sight long after the last fault");
  }
  // What is still on its way, and what it leads to.
  const std::int64_t quiet_from = now_;
  while (problem_.empty() && now_ < quiet_from + 60L * kTick) {
    std::pop_heap(heap_.begin(), heap_.end());
    Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.time;
    process(event);
  }
  if (problem_.empty()) check_end();
  return problem_;
}

bool SimulatedNetwork::is_over() const {
  if (now_ < kFaultsUntil && scenario_.faults > 0) return false;
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const auto& one) { return !counts(one.second) || one.second.worker.expelled; });
}

void SimulatedNetwork::process(Event& event) {
  switch (event.what) {
    case What::message:
      return deliver(event.message);
    case What::tick:
      return tick_node(event.node);
    case What::fault:
      return make_fault();
    case What::compute:
      return compute(workers_.at(event.node));
    case What::notice: {
      Outbox out;
      remove(controller_, event.node, out);
      return send(out);
    }
  }
}

void SimulatedNetwork::deliver(const Message& sent) {
  const std::vector<std::byte> bytes = encode(sent);
  auto kept = std::make_shared<const std::vector<std::byte>>(bytes);
  const Result<Message> message = decode(*kept, kept);
  if (!message) return fail("a message could not be read: " + to_string(message.error()));
  if (sent.to == kController) {
    Outbox out;
    handle(controller_, *message, out);
    return send(out);
  }
  const auto server = servers_.find(sent.to);
  if (server != servers_.end() && server->second.alive) return deliver_to_server(server->second, *message);
  const auto worker = workers_.find(sent.to);
  if (worker != workers_.end() && worker->second.alive) return deliver_to_worker(worker->second, *message);
}

void SimulatedNetwork::deliver_to_server(ServerNode& node, Message message) {
  Server& server = node.server;
  const auto replica = server.replicas.find(message.shard);
  if (mutation_ == Mutation::no_dedup && message.kind == Kind::push && replica != server.replicas.end()) {
    for (Progress& progress : replica->second.state.workers) {
      if (progress.worker == message.worker && progress.sequence >= message.sequence) {
        progress.sequence = message.sequence - 1;
      }
    }
  }
  if (mutation_ == Mutation::no_clock_check && message.kind == Kind::pull) message.clock = -1;
  if (mutation_ == Mutation::no_own_check && message.kind == Kind::pull) message.sequence = 0;
  if (mutation_ == Mutation::no_squares && message.kind == Kind::squares) return;
  const ShardState* const before = state_at(server, message.shard);
  const std::int64_t version = before == nullptr ? 0 : before->version;
  if (mutation_ == Mutation::any_norm && message.kind == Kind::norm) message.clock = version;
  const bool was_pending = before != nullptr && before->pending;
  Outbox out;
  handle(server, message, out);
  const ShardState* const after = state_at(server, message.shard);
  if (message.kind == Kind::norm && was_pending && after != nullptr && after->version > version)
    check_norm(version, message.rate);
  if (message.kind == Kind::view) remove_resent(out, 0);
  if (mutation_ == Mutation::early_ack && (message.kind == Kind::push || message.kind == Kind::clock)) {
    const Outbox forwards = out;
    for (const Message& forward : forwards) {
      if (forward.kind != Kind::forward) continue;
      Message ack = forward;
      ack.kind = Kind::ack;
      ack.to = forward.worker;
      ack.payload = {};
      out.push_back(ack);
    }
  }
  for (Message& answer : out) {
    const auto worker = answer.kind == Kind::values ? workers_.find(answer.to) : workers_.end();
    if (worker == workers_.end() || !worker->second.worker.lines[static_cast<std::size_t>(answer.shard)].pull) continue;
    const Message& pull = *worker->second.worker.lines[static_cast<std::size_t>(answer.shard)].pull;
    if (mutation_ == Mutation::no_clock_check) answer.clock = pull.clock;
    if (mutation_ == Mutation::no_own_check) answer.sequence = pull.sequence;
  }
  send(out);
}

const ShardState* SimulatedNetwork::state_at(const Server& server, ShardId shard) const {
  const auto replica = server.replicas.find(shard);
  return replica == server.replicas.end() ? nullptr : &replica->second.state;
}

void SimulatedNetwork::deliver_to_worker(WorkerNode& node, const Message& message) {
  Outbox out;
  if (message.kind == Kind::ack && message.entry != Kind::initial) check_ack(node, message);
  handle(node.worker, message, out);
  if (message.kind == Kind::ack && message.entry != Kind::initial) {
    const auto shard = static_cast<std::size_t>(message.shard);
    const Line& line = node.worker.lines[shard];
    std::uint64_t pushes = node.pushes[shard].size();
    for (const Message& waiting : line.unacked) pushes -= waiting.kind == Kind::push ? 1 : 0;
    node.acked[shard] = pushes;
  }
  if (message.kind == Kind::view) remove_resent(out, 0);
  send(out);
  drive(node);
}

// Kinds that only a resend can bring out of a tick or a new view.
void SimulatedNetwork::remove_resent(Outbox& out, std::size_t first) const {
  if (mutation_ != Mutation::no_resend) return;
  const auto resent = [](const Message& m) {
    return m.kind == Kind::push || m.kind == Kind::clock || (m.kind == Kind::forward && m.entry != Kind::view);
  };
  out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), resent), out.end());
}

void SimulatedNetwork::tick_node(NodeId id) {
  Outbox out;
  bool alive = true;
  const auto server = servers_.find(id);
  const auto worker = workers_.find(id);
  if (id == kController) {
    tick(controller_, out);
  } else if (server != servers_.end()) {
    alive = server->second.alive;
    if (alive) tick(server->second.server, out);
  } else if (worker != workers_.end()) {
    alive = worker->second.alive;
    if (alive) tick(worker->second.worker, out);
  }
  if (!alive) return;
  remove_resent(out, 0);
  send(out);
  schedule(kTick, What::tick, id);
}

// The training loop of a worker.
void SimulatedNetwork::drive(WorkerNode& node) {
  Worker& worker = node.worker;
  Outbox out;
  if (node.phase == Phase::joining && worker.is_member) {
    for (ShardId shard = 0; shard < static_cast<ShardId>(shards_.size()); ++shard) {
      set_initial(worker, shard, payload_of(std::vector<float>(3 * kSlots)), out);
    }
    begin(worker, out);
    node.phase = Phase::asking;
  }
  if (node.phase == Phase::asking && is_ready(worker)) node.phase = Phase::idle;
  const bool through = worker.clock >= scenario_.steps && (!clips() || node.saw_end);
  if (node.phase == Phase::idle && !through) {
    for (ShardId shard = 0; shard < static_cast<ShardId>(shards_.size()); ++shard) pull(worker, shard, out);
    node.phase = Phase::pulling;
  }
  if (node.phase == Phase::pulling && worker.arrived.size() == shards_.size()) {
    check_reads(node);
    node.saw_end = worker.clock >= scenario_.steps;
    node.phase = node.saw_end ? Phase::idle : Phase::computing;
    if (node.saw_end) return drive(node);
    schedule(1 + static_cast<std::int64_t>(rng_.below(100)), What::compute, worker.id);
  }
  if (node.phase == Phase::idle && through && is_acknowledged(worker)) {
    leave(worker, out);
    node.phase = Phase::leaving;
  }
  send(out);
}

void SimulatedNetwork::compute(WorkerNode& node) {
  if (!node.alive) return;
  Outbox out;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    if (counts(node) && node.worker.clock <= promised_[shard]) {
      fail(fmt::format("worker {} pushes clock {} to shard {}, of which reads were told they had all", node.worker.id,
                       node.worker.clock, shard));
    }
    node.pushes[shard].push_back(node.worker.clock);
    const auto n = static_cast<float>(node.pushes[shard].size());
    std::vector<float> gradient(3 * kSlots);
    const auto at = place_in(node.slot);
    gradient[at] = 1;
    gradient[at + 1] = n;
    gradient[at + 2] = n * n;
    push(node.worker, static_cast<ShardId>(shard), payload_of(std::move(gradient)), {}, out);
  }
  advance(node.worker);
  node.phase = Phase::idle;
  send(out);
  drive(node);
}

// Whether each shard has another copy that is alive and whole. More than copies - 1 deaths that nobody has noticed are
// more than is promised: the controller might count on one of the dead.
bool SimulatedNetwork::may_lose(NodeId server) const {
  const auto unnoticed = std::count_if(controller_.view.servers.begin(), controller_.view.servers.end(),
                                       [&](NodeId id) { return !servers_.at(id).alive; });
  if (unnoticed + 1 > scenario_.copies - 1) return false;
  return std::all_of(controller_.view.chains.begin(), controller_.view.chains.end(), [&](const Chain& chain) {
    return std::any_of(chain.begin(), chain.end(),
                       [&](const Member& m) { return m.server != server && m.synced && servers_.at(m.server).alive; });
  });
}

void SimulatedNetwork::notice_later(NodeId id) {
  if (!scenario_.heartbeats) schedule(static_cast<std::int64_t>(rng_.below(300)), What::notice, id);
}

void SimulatedNetwork::kill_server(bool only_suspected) {
  std::vector<NodeId> alive;
  for (const NodeId id : controller_.view.servers) {
    if (servers_.at(id).alive) alive.push_back(id);
  }
  if (controller_.view.number == 0 || alive.size() < 2) return;
  const NodeId id = alive[rng_.below(alive.size())];
  if (!may_lose(id)) return;
  ++kills_;
  if (only_suspected) {
    Event notice{.what = What::notice, .node = id};
    process(notice);
  } else {
    servers_.at(id).alive = false;
    notice_later(id);
  }
  if (rng_.below(4) != 0) add_server();
}

void SimulatedNetwork::kill_worker() {
  std::vector<NodeId> alive;
  for (const auto& [id, node] : workers_) {
    if (counts(node) && !node.worker.expelled) alive.push_back(id);
  }
  if (alive.empty() || controller_.view.number == 0 || (alive.size() == 1 && next_slot_ == kSlots)) return;
  const NodeId id = alive[rng_.below(alive.size())];
  ++kills_;
  workers_.at(id).alive = false;
  notice_later(id);
  if (alive.size() == 1 || rng_.below(3) != 0) add_worker();
}

void SimulatedNetwork::cut_off() {
  const auto any = [&] { return static_cast<NodeId>(rng_.below(static_cast<std::uint64_t>(next_id_))); };
  const std::int64_t until = now_ + 20 + static_cast<std::int64_t>(rng_.below(600));
  const bool from_all = rng_.below(2) == 0;
  partitions_.push_back({any(), from_all ? kNobody : any(), until});
}

void SimulatedNetwork::make_fault() {
  switch (rng_.below(6)) {
    case 0:
      return kill_server(false);
    case 1:
      return kill_server(true);
    case 2:
      return kill_worker();
    case 3:
      return cut_off();
    case 4:
      return add_server();
    default:
      return add_worker();
  }
}

namespace {

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* const wish = std::getenv(name);
  return wish == nullptr ? otherwise : std::strtoull(wish, nullptr, 10);
}

struct Tally {
  int violations = 0;
  std::uint64_t events = 0;
  int kills = 0;
  std::string first;
};

Tally sweep(std::uint64_t first, std::uint64_t seeds, Mutation mutation) {
  Tally tally;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    SimulatedNetwork network(draw_scenario(seed), mutation);
    const std::string problem = network.run();
    tally.events += network.events();
    tally.kills += network.kills();
    if (problem.empty()) continue;
    if (tally.violations++ == 0) tally.first = fmt::format("seed {}: {}", seed, problem);
    if (std::getenv("TWINPOD_PS_TELL") != nullptr) fmt::print("seed {}: {}\n", seed, problem);
    if (mutation != Mutation::none) break;
  }
  return tally;
}

TEST(PsNetwork, KeepsAllPromisesWhateverTheNetworkDoes) {
  const Tally tally = sweep(number_from("TWINPOD_PS_FIRST", 1), number_from("TWINPOD_PS_SEEDS", 600), Mutation::none);
  EXPECT_EQ(tally.violations, 0) << tally.first;
  EXPECT_GT(tally.kills, 0);
  if (std::getenv("TWINPOD_PS_SEEDS") != nullptr) fmt::print("{} events, {} kills\n", tally.events, tally.kills);
}

TEST(PsNetwork, TheSameSeedIsTheSameRun) {
  SimulatedNetwork once(draw_scenario(7), Mutation::none);
  SimulatedNetwork again(draw_scenario(7), Mutation::none);
  EXPECT_EQ(once.run(), again.run());
  EXPECT_EQ(once.events(), again.events());
}

TEST(PsNetwork, WouldFindAPushThatIsTakenTwice) { EXPECT_GT(sweep(1, 200, Mutation::no_dedup).violations, 0); }

TEST(PsNetwork, WouldFindAReadThatDoesNotWaitForOthers) {
  EXPECT_GT(sweep(1, 200, Mutation::no_clock_check).violations, 0);
}

TEST(PsNetwork, WouldFindAReadWithoutTheWorkersOwnUpdates) {
  EXPECT_GT(sweep(1, 200, Mutation::no_own_check).violations, 0);
}

TEST(PsNetwork, WouldFindAnAcknowledgementBeforeTheBackupHasIt) {
  EXPECT_GT(sweep(1, 200, Mutation::early_ack).violations, 0);
}

TEST(PsNetwork, WouldFindThatNothingIsSentAgain) { EXPECT_GT(sweep(1, 200, Mutation::no_resend).violations, 0); }

TEST(PsNetwork, WouldFindANormOfAnotherClock) { EXPECT_GT(sweep(1, 200, Mutation::any_norm).violations, 0); }

TEST(PsNetwork, WouldFindThatWhoMadeTheNormMustLive) { EXPECT_GT(sweep(380, 120, Mutation::no_squares).violations, 0); }

}  // namespace
}  // namespace twinpod::ps
