// What a rank holds for the whole step: parameters, gradients, optimizer state, fixed buffers. And how many parameters
// a piece of the model has on one rank.
//
//     const PieceParameters rank = shape_parameters(job, shape, false);
//     for (const Buffer& buffer : residents(job, rank)) ...
//
// plan/memory.hpp says the same in closed form; a test holds the two together.
#pragma once

#include <vector>

#include "program/program.hpp"
#include "program/volume.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

// Bytes of one parameter.
struct ParameterBytes {
  double parameter = 0;
  double gradient = 0;
  double optimizer = 0;
  double gathered = 0;  // when ZeRO-3 has gathered it
};
// Mixed precision keeps a 16-bit copy for the products, a gradient, and in fp32 the master copy and Adam's two moments;
// fp32 training has no second copy.
ParameterBytes bytes_of_parameter(const spec::Job& job);

inline constexpr int kTransferBuffers = 4;  // of a stage: activation and gradient, coming and going

PieceParameters embedding_parameters(const spec::Job& job);
PieceParameters layer_piece_parameters(const spec::Job& job, const Layer& layer);
// `copies_table`: the embedding it is tied to stands on another stage.
PieceParameters head_parameters(const spec::Job& job, bool copies_table);
PieceParameters shape_parameters(const spec::Job& job, const Shape& shape, bool copies_table);

// What this rank updates: all of it, or its ZeRO shard.
double owned_parameters(const spec::Job& job, const PieceParameters& rank);

// The optimizer's state is not on the device.
bool updates_elsewhere(const spec::Job& job);

// Gradients are summed on the host, so they travel after every micro-batch.
bool sums_on_host(const spec::Job& job);

std::vector<Buffer> residents(const spec::Job& job, const PieceParameters& rank);

// Gradients (as they are reduced) that make up a bucket: the stack's buffer, or Megatron's rule of 40 million
// parameters and at least one million for each rank that takes part.
double bucket_bytes(const spec::Job& job);

// Share of the gradient traffic that hides behind passes, where they are long enough: as was fitted for the stack,
// unless the layout says whether it does (`overlap`).
double hidden_share(const spec::Job& job);

// A stack that hides a noticeable share of its gradient traffic overlaps it with the passes by design; another one
// reduces when all backward passes are done.
bool overlaps_data(const spec::Job& job);

// Gradients of a piece of the model are scattered as soon as a backward pass has made them, and added up in shards.
bool scatters_each_pass(const spec::Job& job);

}  // namespace twinpod::program
