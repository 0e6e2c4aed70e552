// The only file that calls MPI; built as a library of its own (mpi_transport.hpp).
#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <vector>

#include "collective/names.hpp"
#include "comm/mpi_transport.hpp"

namespace twinpod::comm {
namespace {

using collective::Verb;

// A tag of MPI: one bit for collectives, 10 bits of group, 20 bits of tag.
constexpr int kTagBits = 20;
constexpr int kGroupBits = 10;
constexpr std::size_t kBlock = std::size_t{1} << 26U;

struct State {
  std::mutex mutex;
  std::vector<Message*> pending;
  MPI_Comm messages = MPI_COMM_NULL;
  MPI_Comm collectives = MPI_COMM_NULL;
};

State& state() {
  static State the_state;
  return the_state;
}

int tag_of(const Message& message) {
  const auto group = static_cast<int>(message.context & ((1U << kGroupBits) - 1));
  const int collective = (message.context & kCollectiveContext) != 0 ? 1 : 0;
  return collective << (kTagBits + kGroupBits) | group << kTagBits | message.tag;
}

// MPI counts with an int; more bytes are blocks and a rest.
struct Bytes {
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
};

Bytes bytes_type(std::size_t bytes) {
  if (bytes <= static_cast<std::size_t>(INT_MAX)) return {static_cast<int>(bytes), MPI_BYTE};
  MPI_Datatype block = MPI_DATATYPE_NULL;
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(static_cast<int>(kBlock), MPI_BYTE, &block);
  const std::size_t blocks = bytes / kBlock;
  int lengths[] = {static_cast<int>(blocks), static_cast<int>(bytes % kBlock)};
  MPI_Aint places[] = {0, static_cast<MPI_Aint>(blocks * kBlock)};
  MPI_Datatype types[] = {block, MPI_BYTE};
  MPI_Type_create_struct(2, lengths, places, types, &whole);
  MPI_Type_commit(&whole);
  MPI_Type_free(&block);
  return {1, whole};
}

void add_pending(Message& message, MPI_Request request) {
  message.native = new MPI_Request(request);
  state().pending.push_back(&message);
}

void post(void* /*state*/, Message& message) {
  const std::lock_guard lock(state().mutex);
  Bytes bytes = bytes_type(message.bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  if (message.sends) {
    MPI_Isend(message.data, bytes.count, bytes.type, message.peer, tag_of(message), state().messages, &request);
  } else {
    MPI_Irecv(message.data, bytes.count, bytes.type, message.peer, tag_of(message), state().messages, &request);
  }
  if (bytes.type != MPI_BYTE) MPI_Type_free(&bytes.type);
  add_pending(message, request);
}

bool finish(Message* message) {
  auto* const request = static_cast<MPI_Request*>(message->native);
  int done = 0;
  MPI_Status status;
  const int error = MPI_Test(request, &done, &status);
  if (error == MPI_SUCCESS && done == 0) return false;
  MPI_Count arrived = 0;
  if (error == MPI_SUCCESS) MPI_Get_elements_x(&status, MPI_BYTE, &arrived);
  // Cut off, or the others called something else: all that MPI says is that it went wrong.
  message->arrived = error == MPI_SUCCESS ? static_cast<std::size_t>(arrived) : SIZE_MAX;
  delete request;
  message->native = nullptr;
  message->done.store(true, std::memory_order_release);
  return true;
}

void progress(void* /*state*/) {
  const std::unique_lock lock(state().mutex, std::try_to_lock);
  if (lock) std::erase_if(state().pending, finish);
}

void rest(void* unused) {
  progress(unused);
  const timespec moment{0, 20'000};
  nanosleep(&moment, nullptr);
}

void take_back(void* /*state*/, Message& message) {
  const std::lock_guard lock(state().mutex);
  std::erase(state().pending, &message);  // the request is MPI's until the end of the process
}

void close(void* /*state*/) {}

// Over TCP, Open MPI asks before each part of a large message whether it may come, and the question waits behind what
// flows the other way: both ways at once reach only two thirds of a link's rate. Sent without asking, in parts of 1
// MiB, they reach all of it (docs/comm.md). Whoever has set these knows better.
void tune_tcp() {
  setenv("OMPI_MCA_btl_tcp_flags", "1", 0);  // send only
  setenv("OMPI_MCA_btl_tcp_max_send_size", "1048576", 0);
}

const char* initialize(int* rank, int* size) {
  tune_tcp();
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return "MPI_Init_thread failed";
  if (provided < MPI_THREAD_SERIALIZED) return "this MPI cannot be called by more than one thread";
  MPI_Comm_dup(MPI_COMM_WORLD, &state().messages);
  MPI_Comm_dup(MPI_COMM_WORLD, &state().collectives);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(state().messages, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(state().collectives, MPI_ERRORS_RETURN);
  int* most = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most), &known);
  if (known == 0 || *most < INT_MAX) return "its tags are too short; Open MPI's are long enough";
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  return nullptr;
}

Transport transport() { return {&state(), post, progress, rest, take_back, close}; }

void* world() { return new MPI_Comm(state().collectives); }

void* split(void* native, int color, int key) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_split(*static_cast<MPI_Comm*>(native), color < 0 ? MPI_UNDEFINED : color, key, &made);
  if (made == MPI_COMM_NULL) return nullptr;
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return new MPI_Comm(made);
}

void release(void* native) {
  auto* const communicator = static_cast<MPI_Comm*>(native);
  MPI_Comm_free(communicator);
  delete communicator;
}

MPI_Datatype type_of(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return MPI_FLOAT;
    case ElementType::f64:
      return MPI_DOUBLE;
    case ElementType::i32:
      return MPI_INT32_T;
    case ElementType::i64:
      return MPI_INT64_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::sum:
      return MPI_SUM;
    default:
      return MPI_OP_NULL;
  }
}

struct Native {
  MPI_Comm communicator = MPI_COMM_NULL;
  const void* input = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
  MPI_Op op = MPI_OP_NULL;
  bool is_root = false;
};

int start_reduction(const Native& n, const NativeCall& call, MPI_Request* request) {
  switch (static_cast<Verb>(call.verb)) {
    case Verb::reduce:
      return MPI_Ireduce(call.in_place && !n.is_root ? call.input : n.input, call.output, n.count, n.type, n.op,
                         call.root, n.communicator, request);
    case Verb::all_reduce:
      return MPI_Iallreduce(n.input, call.output, n.count, n.type, n.op, n.communicator, request);
    default:
      return MPI_Ireduce_scatter_block(call.input, call.output, n.count, n.type, n.op, n.communicator, request);
  }
}

int start_movement(const Native& n, const NativeCall& call, MPI_Request* request) {
  switch (static_cast<Verb>(call.verb)) {
    case Verb::broadcast:
      return MPI_Ibcast(call.output, n.count, n.type, call.root, n.communicator, request);
    case Verb::all_gather:
      return MPI_Iallgather(n.input, n.count, n.type, call.output, n.count, n.type, n.communicator, request);
    case Verb::gather:
      return MPI_Igather(n.is_root ? n.input : call.input, n.count, n.type, call.output, n.count, n.type, call.root,
                         n.communicator, request);
    case Verb::scatter:
      return MPI_Iscatter(call.input, n.count, n.type, call.in_place && n.is_root ? MPI_IN_PLACE : call.output, n.count,
                          n.type, call.root, n.communicator, request);
    case Verb::all_to_all:
      return MPI_Ialltoall(n.input, n.count, n.type, call.output, n.count, n.type, n.communicator, request);
    case Verb::barrier:
      return MPI_Ibarrier(n.communicator, request);
    default:
      return MPI_ERR_OTHER;
  }
}

bool start(void* native, const NativeCall& call, Message& message) {
  const auto verb = static_cast<Verb>(call.verb);
  const bool adds = verb == Verb::reduce || verb == Verb::all_reduce || verb == Verb::reduce_scatter;
  Native n{.communicator = *static_cast<MPI_Comm*>(native)};
  int rank = 0;
  MPI_Comm_rank(n.communicator, &rank);
  const std::size_t count = adds ? call.count : call.count * size_of(call.type);
  if (count > static_cast<std::size_t>(INT_MAX)) return false;
  n.count = static_cast<int>(count);
  n.is_root = rank == call.root;
  n.input = call.in_place ? MPI_IN_PLACE : call.input;
  if (adds) {
    n.type = type_of(call.type);
    n.op = op_of(call.op);
    if (n.type == MPI_DATATYPE_NULL || n.op == MPI_OP_NULL) return false;
  }
  if (verb == Verb::broadcast && n.is_root && call.input != call.output) {
    std::copy_n(static_cast<const char*>(call.input), count, static_cast<char*>(call.output));
  }
  MPI_Request request = MPI_REQUEST_NULL;
  const std::lock_guard lock(state().mutex);
  const int error = adds ? start_reduction(n, call, &request) : start_movement(n, call, &request);
  if (error != MPI_SUCCESS) return false;
  add_pending(message, request);
  return true;
}

void finalize() { MPI_Finalize(); }

constexpr MpiFunctions kFunctions = {initialize, transport, world, split, release, start, finalize};

}  // namespace
}  // namespace twinpod::comm

extern "C" const twinpod::comm::MpiFunctions* twinpod_mpi_functions() { return &twinpod::comm::kFunctions; }
