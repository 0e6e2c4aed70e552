// A network in which everything goes wrong, for the parameter server's own code: messages are late, out of order, lost
// and doubled, nodes are cut off, killed, replaced, and taken for dead while they are not. All of it comes from one
// seed.
//
//     SimulatedNetwork network(draw_scenario(seed), Mutation::none);
//     const std::string problem = network.run();          // "" when all promises were kept
//
// Each push of a worker adds (1, n, n * n) to three numbers of that worker, n counting its pushes: they show any update
// that was lost or applied twice. A mutation breaks the protocol from outside, which the checks must find.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "ps/controller.hpp"
#include "ps/server.hpp"
#include "ps/worker.hpp"

namespace twinpod::ps {

enum class Mutation {
  none,
  no_dedup,        // a push that comes again is taken for a new one
  no_clock_check,  // a read does not wait for others' updates
  no_own_check,    // nor for the worker's own
  early_ack,       // acknowledged before the backup has it
  no_resend,       // what is lost is not sent again
  any_norm,        // a norm is taken for that of the clock that waits for one
  no_squares,      // of clocks that are applied nothing is told any more
};

struct Scenario {
  std::uint64_t seed = 0;
  Settings settings = {};
  int servers = 2;
  int workers = 2;
  int copies = 2;
  std::int64_t steps = 6;
  double drop = 0;
  double duplicate = 0;
  int delay = 10;
  int faults = 0;           // kills, partitions, false alarms, newcomers
  bool heartbeats = false;  // the dead are missed because they are silent; else somebody tells
};

inline Scenario draw_scenario(std::uint64_t seed) {
  Rng rng(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.settings.mode = static_cast<Mode>(rng.below(3));
  scenario.settings.optimizer = Optimizer::add;
  scenario.settings.mean = false;
  scenario.settings.staleness = static_cast<int>(rng.below(4));
  scenario.workers = 1 + static_cast<int>(rng.below(4));
  if (scenario.workers > 2 && rng.below(4) == 0) scenario.settings.backup_workers = 1;
  scenario.copies = 1 + static_cast<int>(rng.below(3));
  scenario.servers = scenario.copies + static_cast<int>(rng.below(3));
  scenario.steps = 3 + static_cast<std::int64_t>(rng.below(20));
  scenario.drop = rng.below(3) == 0 ? 0 : rng.uniform(0, 0.3);
  scenario.duplicate = rng.below(3) == 0 ? 0 : rng.uniform(0, 0.3);
  scenario.delay = 1 + static_cast<int>(rng.below(60));
  scenario.faults = static_cast<int>(rng.below(9));
  scenario.heartbeats = rng.below(3) == 0;
  // Servers wait for norms in half of the sync runs; they are never so large that totals would be scaled.
  if (scenario.settings.mode == Mode::sync && rng.below(2) == 0) scenario.settings.clip = 1e30;
  return scenario;
}

// Of a worker's three numbers in a shard.
inline std::size_t place_in(int slot) { return 3 * static_cast<std::size_t>(slot); }

class SimulatedNetwork {
 public:
  SimulatedNetwork(const Scenario& scenario, Mutation mutation);

  // Until all workers are through and nothing moves any more; the first promise that was broken.
  std::string run();

  std::uint64_t events() const { return num_events_; }
  const Controller& controller() const { return controller_; }
  int kills() const { return kills_; }

 private:
  static constexpr int kSlots = 12;  // workers that a run can have, newcomers included
  static constexpr int kTick = 80;
  static constexpr int kSilentTicks = 20;  // longer than a node is ever cut off
  static constexpr int kFaultsUntil = 2500;
  static constexpr int kGiveUpAt = 60000;

  enum class Phase { joining, asking, idle, pulling, computing, leaving };
  struct WorkerNode {
    Worker worker;
    int slot = 0;
    Phase phase = Phase::joining;
    bool alive = true;
    bool saw_end = false;                           // a pull behind its last push was answered
    std::vector<std::vector<std::int64_t>> pushes;  // of each shard: the clock of each
    std::vector<std::uint64_t> acked;               // of each shard: how many are acknowledged
  };
  struct ServerNode {
    Server server;
    bool alive = true;
  };
  enum class What { message, tick, compute, fault, notice };
  struct Event {
    std::int64_t time = 0;
    std::uint64_t order = 0;
    What what = What::tick;
    NodeId node = kNobody;
    Message message = {};
    bool operator<(const Event& other) const {  // the earliest is on top of the heap
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct Partition {
    NodeId a = kNobody;
    NodeId b = kNobody;  // kNobody: all others
    std::int64_t until = 0;
  };

  void schedule(std::int64_t delay, What what, NodeId node, Message message = {});
  void send(Outbox& out);
  bool is_cut(NodeId a, NodeId b) const;
  void add_server();
  void add_worker();
  void process(Event& event);
  void deliver(const Message& message);
  void deliver_to_server(ServerNode& node, Message message);
  void deliver_to_worker(WorkerNode& node, const Message& message);
  void tick_node(NodeId node);
  void drive(WorkerNode& node);
  void compute(WorkerNode& node);
  void make_fault();
  void kill_server(bool only_suspected);
  void kill_worker();
  void notice_later(NodeId id);
  void cut_off();
  bool may_lose(NodeId server) const;
  void remove_resent(Outbox& out, std::size_t first) const;
  const ShardState* state_at(const Server& server, ShardId shard) const;

  void fail(const std::string& problem);
  void check_reads(WorkerNode& node);
  void check_read(const WorkerNode& reader, const Arrival& arrival);
  void check_content(ShardId shard, int slot, std::span<const float> values);
  void check_ack(const WorkerNode& node, const Message& ack);
  void check_norm(std::int64_t clock, double norm);
  void check_end();
  void check_totals(ShardId shard, const ShardState& state);
  bool is_over() const;
  bool counts(const WorkerNode& node) const { return node.alive && !controller_.gone.contains(node.worker.id); }
  bool clips() const { return scenario_.settings.mode == Mode::sync && scenario_.settings.clip > 0; }
  bool keeps_prefix() const { return scenario_.settings.backup_workers == 0; }
  int bound() const { return scenario_.settings.mode == Mode::ssp ? scenario_.settings.staleness : 0; }

  Scenario scenario_;
  Mutation mutation_;
  Rng rng_;
  std::vector<Shard> shards_;
  Controller controller_;
  std::map<NodeId, ServerNode> servers_;
  std::map<NodeId, WorkerNode> workers_;
  std::vector<Event> heap_;
  std::vector<Partition> partitions_;
  std::vector<std::int64_t> promised_;    // of each shard: no push of this clock or an earlier one may come any more
  std::map<std::int64_t, double> norms_;  // of each clock, as any shard took it
  std::int64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t num_events_ = 0;
  NodeId next_id_ = 1;
  int next_slot_ = 0;
  int kills_ = 0;
  std::string problem_;
};

}  // namespace twinpod::ps
