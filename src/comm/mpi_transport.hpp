// MPI behind the seam. All that calls MPI is in mpi_plugin.cpp, which is a library of its own that is loaded when the
// program was started by mpirun or srun: who does not use MPI need not wait for it, nor have it.
#pragma once

#include "comm/element.hpp"
#include "comm/transport.hpp"
#include "comm/wait.hpp"
#include "core/error.hpp"

namespace twinpod::comm {

struct World;

// One of MPI's own collectives. `count` as in Call.
struct NativeCall {
  int verb = 0;  // a collective::Verb
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  ElementType type = ElementType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  bool in_place = false;
};

// Tags hold group, tag and whether it is a collective: see mpi_plugin.cpp.
struct MpiFunctions {
  const char* (*initialize)(int* rank, int* size) = nullptr;  // what went wrong, or nullptr
  Transport (*transport)() = nullptr;
  void* (*world)() = nullptr;  // MPI_COMM_WORLD's twin for native collectives
  void* (*split)(void* native, int color, int key) = nullptr;
  void (*release)(void* native) = nullptr;
  // False: MPI has no such type, operation or size. Else the message is done when the collective is.
  bool (*start)(void* native, const NativeCall& call, Message& message) = nullptr;
  void (*finalize)() = nullptr;
};

// Loads the library; refuses when it was not built or MPI is not installed.
Result<const MpiFunctions*> load_mpi();

// Asks all ranks where they are, and says who is to blame.
Error mpi_failure(World& world, Waited waited);

}  // namespace twinpod::comm
