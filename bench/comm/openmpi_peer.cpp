// Open MPI's collectives, timed on request for `twinpod bench comm --against openmpi`: see cli/bench_peers.hpp.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace {

constexpr unsigned long long kLarge = 16ULL << 20U;  // bytes that take so long that two calls before are enough

struct Order {
  char verb[32];
  char type[8];
  char op[16];
  unsigned long long bytes;
  int iterations;
  int ends;
};

MPI_Datatype type_of(const std::string& name) {
  if (name == "f64") return MPI_DOUBLE;
  if (name == "i32") return MPI_INT32_T;
  if (name == "i64") return MPI_INT64_T;
  return name == "f32" ? MPI_FLOAT : MPI_DATATYPE_NULL;
}

MPI_Op op_of(const std::string& name) {
  if (name == "product") return MPI_PROD;
  if (name == "min") return MPI_MIN;
  if (name == "max") return MPI_MAX;
  return MPI_SUM;
}

// False: MPI has no such thing.
bool call(const Order& order, int rank, int ranks, int turn, std::vector<char>& input, std::vector<char>& output) {
  const std::string verb = order.verb;
  const MPI_Datatype type = type_of(order.type);
  if (type == MPI_DATATYPE_NULL) return false;
  int size = 0;
  MPI_Type_size(type, &size);
  const int count = static_cast<int>(order.bytes / static_cast<unsigned>(size));
  const int part = count / ranks;
  const MPI_Op op = op_of(order.op);
  if (verb == "all_reduce") return MPI_Allreduce(input.data(), output.data(), count, type, op, MPI_COMM_WORLD) == 0;
  if (verb == "reduce") return MPI_Reduce(input.data(), output.data(), count, type, op, 0, MPI_COMM_WORLD) == 0;
  if (verb == "broadcast") {
    // It knows only in place; to do the same as ours out of place, its root has to copy.
    if (rank == 0) std::memcpy(output.data(), input.data(), order.bytes);
    return MPI_Bcast(output.data(), count, type, 0, MPI_COMM_WORLD) == 0;
  }
  if (verb == "reduce_scatter") {
    return MPI_Reduce_scatter_block(input.data(), output.data(), part, type, op, MPI_COMM_WORLD) == 0;
  }
  if (verb == "all_gather")
    return MPI_Allgather(input.data(), part, type, output.data(), part, type, MPI_COMM_WORLD) == 0;
  if (verb == "gather") return MPI_Gather(input.data(), part, type, output.data(), part, type, 0, MPI_COMM_WORLD) == 0;
  if (verb == "scatter")
    return MPI_Scatter(input.data(), part, type, output.data(), part, type, 0, MPI_COMM_WORLD) == 0;
  if (verb == "all_to_all")
    return MPI_Alltoall(input.data(), part, type, output.data(), part, type, MPI_COMM_WORLD) == 0;
  if (verb == "barrier") return MPI_Barrier(MPI_COMM_WORLD) == 0;
  if (verb != "send") return false;
  if (rank > 1) return true;
  if (rank == turn % 2) return MPI_Send(input.data(), count, type, 1 - rank, 0, MPI_COMM_WORLD) == 0;
  return MPI_Recv(output.data(), count, type, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == 0;
}

// Rank 0 sleeps on its input; the others must not poll meanwhile, or they would take a core from what is measured.
void share(Order& order) {
  MPI_Request request;
  MPI_Ibcast(&order, sizeof order, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == 0 && done == 0) {
    const timespec moment{0, 1'000'000};
    nanosleep(&moment, nullptr);
  }
}

double seconds(const Order& order, int rank, int ranks) {
  static std::vector<char> input;
  static std::vector<char> output;
  if (input.size() < order.bytes + 64) {
    input.assign(order.bytes + 64, 0);
    output.assign(order.bytes + 64, 0);
  }
  const double warm = MPI_Wtime();
  const int warmups = order.bytes < kLarge ? 4 : 2;
  for (int i = 0; i < warmups; ++i) {
    if (!call(order, rank, ranks, i, input, output)) return -1;
  }
  // No longer than about 3 ms, however slow it is.
  const double once = (MPI_Wtime() - warm) / warmups;
  int iterations = std::clamp(static_cast<int>(0.003 / once), 1, (order.iterations + 1) / 2) * 2;
  MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) call(order, rank, ranks, i, input, output);
  double own = (MPI_Wtime() - start) / iterations;
  double slowest = 0;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  while (true) {
    Order order{};
    if (rank == 0) {
      order.ends =
          std::scanf("%31s %llu %7s %15s %d", order.verb, &order.bytes, order.type, order.op, &order.iterations) != 5;
    }
    share(order);
    if (order.ends != 0) break;
    const double result = seconds(order, rank, ranks);
    if (rank != 0) continue;
    std::printf("%.9g\n", result);
    std::fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
