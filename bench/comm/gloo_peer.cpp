// gloo's collectives, timed on request for `twinpod bench comm --against gloo`: see cli/bench_peers.hpp.
// gloo_peer N starts N processes that meet through a folder and talk over TCP, the only transport that Debian's has.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Context = std::shared_ptr<gloo::Context>;

constexpr std::size_t kLarge = std::size_t{16} << 20U;  // bytes that take so long that two calls before are enough

struct Order {
  std::string verb, type, op;
  std::size_t bytes = 0;
  int iterations = 0;
};

struct Buffers {
  std::vector<float> input, output;
};

void all_reduce(const Context& context, float* in, float* out, std::size_t count,
                gloo::AllreduceOptions::Algorithm how) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(how);
  options.setInput(in, count);
  options.setOutput(out, count);
  options.setReduceFunction([](void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); });
  gloo::allreduce(options);
}

void send(const Context& context, Buffers& buffers, std::size_t count, int turn) {
  const int rank = context->rank;
  if (rank > 1) return;
  static std::unique_ptr<gloo::transport::UnboundBuffer> in, out;
  if (!in) {
    in = context->createUnboundBuffer(buffers.input.data(), buffers.input.size() * sizeof(float));
    out = context->createUnboundBuffer(buffers.output.data(), buffers.output.size() * sizeof(float));
  }
  const std::size_t bytes = count * sizeof(float);
  if (rank == turn % 2) {
    in->send(1 - rank, 7, 0, bytes);
    in->waitSend();
  } else {
    out->recv(1 - rank, 7, 0, bytes);
    out->waitRecv();
  }
}

// False: gloo has no such thing.
bool call(const Context& context, const Order& order, Buffers& buffers, int turn) {
  if (order.type != "f32" || order.op != "sum") return false;
  const std::size_t count = order.bytes / sizeof(float);
  const std::size_t part = count / static_cast<std::size_t>(context->size);
  float* const in = buffers.input.data();
  float* const out = buffers.output.data();
  if (order.verb == "all_reduce") {
    // Its two algorithms; the better one for the size.
    const bool small = order.bytes <= 65536;
    all_reduce(context, in, out, count,
               small ? gloo::AllreduceOptions::Algorithm::BCUBE : gloo::AllreduceOptions::Algorithm::RING);
  } else if (order.verb == "broadcast") {
    gloo::BroadcastOptions options(context);
    options.setOutput(out, count);
    options.setRoot(0);
    if (context->rank == 0) options.setInput(in, count);
    gloo::broadcast(options);
  } else if (order.verb == "all_gather") {
    gloo::AllgatherOptions options(context);
    options.setInput(in, part);
    options.setOutput(out, part * static_cast<std::size_t>(context->size));
    gloo::allgather(options);
  } else if (order.verb == "reduce") {
    gloo::ReduceOptions options(context);
    options.setInput(in, count);
    options.setOutput(out, count);
    options.setRoot(0);
    options.setReduceFunction(
        [](void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); });
    gloo::reduce(options);
  } else if (order.verb == "all_to_all") {
    gloo::AlltoallOptions options(context);
    options.setInput(in, part * static_cast<std::size_t>(context->size));
    options.setOutput(out, part * static_cast<std::size_t>(context->size));
    gloo::alltoall(options);
  } else if (order.verb == "barrier") {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  } else if (order.verb == "send") {
    send(context, buffers, count, turn);
  } else {
    return false;
  }
  return true;
}

double seconds(const Context& context, const Order& order) {
  static Buffers buffers;
  constexpr std::size_t kElements = std::size_t{1} << 26U;
  if (order.bytes > kElements * sizeof(float)) return -1;
  if (buffers.input.empty()) {
    buffers.input.assign(kElements, 0);
    buffers.output.assign(kElements, 0);
  }
  const auto warm = std::chrono::steady_clock::now();
  const int warmups = order.bytes < kLarge ? 4 : 2;
  for (int i = 0; i < warmups; ++i) {
    if (!call(context, order, buffers, i)) return -1;
  }
  // No longer than about 3 ms, however slow it is; rank 0 decides.
  const std::chrono::duration<double> warmed = std::chrono::steady_clock::now() - warm;
  int iterations = std::clamp(static_cast<int>(0.003 / warmed.count() * warmups), 1, (order.iterations + 1) / 2) * 2;
  gloo::BroadcastOptions agree(context);
  agree.setOutput(&iterations, 1);
  agree.setRoot(0);
  gloo::broadcast(agree);
  gloo::BarrierOptions together(context);
  gloo::barrier(together);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) call(context, order, buffers, i);
  const std::chrono::duration<double> own = std::chrono::steady_clock::now() - start;
  return own.count() / iterations;
}

[[noreturn]] void be_rank(int rank, int ranks, const std::string& folder, int from, int to) {
  {
    gloo::transport::tcp::attr attributes("127.0.0.1");
    const auto device = gloo::transport::tcp::CreateDevice(attributes);
    const auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    gloo::rendezvous::FileStore store(folder);
    context->connectFullMesh(store, const_cast<std::shared_ptr<gloo::transport::Device>&>(device));
    std::FILE* const orders = fdopen(from, "r");
    char line[256];
    while (std::fgets(line, sizeof line, orders) != nullptr) {
      Order order;
      std::istringstream(line) >> order.verb >> order.bytes >> order.type >> order.op >> order.iterations;
      double result = -1;
      try {
        result = seconds(context, order);
      } catch (const std::exception& problem) {
        std::fprintf(stderr, "gloo: %s\n", problem.what());
      }
      if (write(to, &result, sizeof result) != sizeof result) break;
    }
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  char folder[] = "/tmp/gloo_peer.XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  std::vector<int> down, up;
  for (int rank = 0; rank < ranks; ++rank) {
    int orders[2], results[2];
    if (pipe(orders) != 0 || pipe(results) != 0) return 1;
    if (fork() == 0) {
      for (const int file : down) close(file);
      close(orders[1]);
      be_rank(rank, ranks, folder, orders[0], results[1]);
    }
    close(orders[0]);
    close(results[1]);
    down.push_back(orders[1]);
    up.push_back(results[0]);
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    line += "\n";
    for (const int file : down) {
      if (write(file, line.data(), line.size()) < 0) return 1;
    }
    double slowest = 0;
    for (const int file : up) {
      double one = -1;
      if (read(file, &one, sizeof one) != sizeof one) one = -1;
      slowest = one < 0 || slowest < 0 ? -1 : std::max(slowest, one);
    }
    std::printf("%.9g\n", slowest);
    std::fflush(stdout);
  }
  for (const int file : down) close(file);
  while (wait(nullptr) > 0) {
  }
  std::filesystem::remove_all(folder);
  return 0;
}
