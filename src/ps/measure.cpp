#include "ps/measure.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "comm/communicator.hpp"
#include "comm/wait.hpp"
#include "ps/launch.hpp"

namespace twinpod::ps {
namespace {

constexpr double kNever = 1e9;

double now_s() { return static_cast<double>(comm::now_ns()) * 1e-9; }

LaunchOptions options_of(std::int64_t count, std::int64_t shards, Optimizer optimizer, int tcp_port) {
  LaunchOptions options{.pins = tcp_port == 0};  // messages over TCP are moved by threads beside
  if (tcp_port != 0) {
    options.hosts = {"127.0.0.1"};
    options.port = tcp_port;
    options.key = random_key();
  }
  options.settings = {.mode = Mode::async, .optimizer = optimizer};
  options.settings.sgd.rate = options.settings.adamw.rate = 1e-3;
  options.shards = shards_of({.counts = {count}, .most = (count + shards - 1) / shards});
  return options;
}

std::vector<Payload> gradients_of(const Client& client) {
  std::vector<Payload> gradients;
  for (const Shard& shard : client.worker.shards) {
    const auto count = static_cast<std::size_t>(shard.count);
    gradients.push_back(payload_of(std::make_shared<const Values>(count, 1e-3F, client.link.memory)));
  }
  return gradients;
}

Result<void> join_with_zeros(Client& client) {
  return join(client, [&](ShardId shard) {
    const Shard& one = client.worker.shards[static_cast<std::size_t>(shard)];
    return payload_of(std::vector<float>(static_cast<std::size_t>(one.count)));
  });
}

// `body` is what a worker does between joining and leaving; its answer is a number.
template <typename Body>
Result<double> answer_of(const LaunchOptions& options, const Body& body) {
  const Result<LaunchReport> report = launch(options, [&](Client& client) -> Result<std::string> {
    if (Result<void> joined = join_with_zeros(client); !joined) return tl::unexpected(joined.error());
    const Result<double> answer = body(client);
    if (!answer) return tl::unexpected(answer.error());
    if (Result<void> left = leave(client); !left) return tl::unexpected(left.error());
    return fmt::format("{}", *answer);
  });
  if (!report) return tl::unexpected(report.error());
  return std::strtod(report->answers.begin()->second.c_str(), nullptr);
}

// Where a worker's own values lie in training: in huge pages, where the system has them.
std::unique_ptr<float, decltype(&std::free)> own_values(std::int64_t bytes) {
  constexpr std::size_t kHuge = std::size_t{1} << 21U;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kHuge - 1) / kHuge * kHuge;
  void* const memory = std::aligned_alloc(kHuge, size);
  if (memory != nullptr) {
    madvise(memory, size, MADV_HUGEPAGE);
    std::memset(memory, 0, size);
  }
  return {static_cast<float*>(memory), &std::free};
}

// Seconds of the best push and pull of everything, until values are there, or copied to memory of the worker's own.
Result<double> push_and_pull(Client& client, bool copies, int tries) {
  const std::vector<Payload> gradients = gradients_of(client);
  const auto own = own_values(all_bytes(client.worker.shards));
  if (!own) return infeasible("no memory for values");
  const Place place = [&](ShardId shard) {
    return own.get() + client.worker.shards[static_cast<std::size_t>(shard)].first;
  };
  double best = kNever;
  for (int i = 0; i < tries; ++i) {
    const double start = now_s();
    push_all(client, gradients, 0, Then::pull);
    const Result<std::vector<Arrival>> values = pull_all(client);
    if (!values) return tl::unexpected(values.error());
    if (copies) copy_values(client, *values, place);
    best = std::min(best, now_s() - start);
  }
  return best;
}

// Seconds of the best there and back, of buffers that are registered or not.
Result<std::string> there_and_back(comm::Communicator& world, std::size_t bytes, bool registered, int tries) {
  std::vector<std::byte> own(registered ? 0 : 2 * bytes, std::byte{1});
  void* buffers[2] = {own.data(), own.data() + own.size() / 2};
  for (void*& buffer : buffers) {
    if (!registered) continue;
    const Result<void*> room = comm::allocate(world, bytes);
    if (!room) return tl::unexpected(room.error());
    buffer = *room;
  }
  const int rank = comm::rank_of(world);
  double best = kNever;
  for (int i = 0; i < tries; ++i) {
    const double start = now_s();
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == rank) {
        if (const auto sent = comm::send(world, buffers[0], bytes, 1 - rank); !sent)
          return tl::unexpected(sent.error());
      } else if (const auto got = comm::receive(world, buffers[1], bytes, 1 - rank); !got) {
        return tl::unexpected(got.error());
      }
    }
    best = std::min(best, now_s() - start);
  }
  return fmt::format("{}", best);
}

Result<double> messages(const ExchangeRequest& request, bool registered) {
  const Result<std::string> answer = comm::run_processes(2, {}, [&](comm::Communicator& world) {
    return there_and_back(world, static_cast<std::size_t>(request.bytes), registered, request.tries);
  });
  if (!answer) return tl::unexpected(answer.error());
  return std::strtod(answer->c_str(), nullptr);
}

// Updates a second of the best of several bursts.
Result<double> bursts(Client& client, int tries) {
  constexpr int kClocks = 200;  // of a burst
  const std::vector<Payload> gradients = gradients_of(client);
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    const double start = now_s();
    for (int clock = 0; clock < kClocks; ++clock) push_all(client, gradients, 0);
    if (Result<void> all = wait_for_acks(client); !all) return tl::unexpected(all.error());
    best = std::max(best, static_cast<double>(gradients.size()) * kClocks / (now_s() - start));
  }
  return best;
}

}  // namespace

Result<Exchange> measure_exchange(const ExchangeRequest& request) {
  const LaunchOptions options = options_of(request.bytes / static_cast<std::int64_t>(sizeof(float)), request.shards,
                                           request.optimizer, request.tcp_port);
  Exchange best{2 * static_cast<double>(all_bytes(options.shards)), kNever, kNever, kNever, kNever};
  for (int round = 0; round < request.rounds; ++round) {
    for (const bool copies : {false, true}) {
      const Result<double> exchange =
          answer_of(options, [&](Client& client) { return push_and_pull(client, copies, request.tries); });
      if (!exchange) return tl::unexpected(exchange.error());
      double& place = copies ? best.copied_s : best.exchange_s;
      place = std::min(place, *exchange);
    }
    for (const bool registered : {true, false}) {
      const Result<double> seconds = messages(request, registered);
      if (!seconds) return tl::unexpected(seconds.error());
      double& place = registered ? best.registered_s : best.ordinary_s;
      place = std::min(place, *seconds);
    }
  }
  return best;
}

Result<double> measure_updates(std::int64_t shards, int tries, int tcp_port) {
  constexpr std::int64_t kNumbers = 8;
  return answer_of(options_of(kNumbers * shards, shards, Optimizer::add, tcp_port),
                   [&](Client& client) { return bursts(client, tries); });
}

}  // namespace twinpod::ps
