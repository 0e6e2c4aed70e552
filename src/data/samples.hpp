// Samples of a stream of tokens: which one each rank trains on in each step, and its tokens.
//
//     Result<TokenData> data = open_tokens("tokens");
//     Result<Samples> samples = make_samples(*data, {.sequence = 256, .global_batch = 16, .vocabulary = 257});
//     const std::int64_t number = sample_number(*samples, step, {.data_parallel_rank = 1, .micro_batch = 0, .index =
//     3}); Result<void> read = read_sample(*samples, number, tokens, labels);
//
// Sample n has the tokens n · sequence ... (n + 1) · sequence - 1 of the stream, and as labels those one further:
// documents follow each other in it, each with its end. A step takes the next global_batch samples of the epoch's
// shuffled order; the next epoch, shuffled anew, goes on in the same step. So each sample comes exactly once in an
// epoch, a step's samples are the same for every layout, and the number of the step is all that a resumed run needs.
//
// The last part of the stream can be held out for evaluation. None of its tokens is trained on, not even as a label.
#pragma once

#include <cstdint>
#include <span>

#include "core/error.hpp"
#include "data/tokens.hpp"

namespace twinpod::data {

struct SampleSettings {
  std::int64_t sequence = 0;      // tokens of a sample
  std::int64_t global_batch = 1;  // samples of a step
  std::int64_t micro_batch = 1;   // samples that a rank works on at a time
  std::int64_t data_parallel = 1;
  std::int64_t vocabulary = 0;  // of the model: tokens are below it
  std::uint64_t seed = 0;
  double evaluation_share = 0;  // of the samples, from the end of the stream; at least one when it is not 0
};

// Several threads may read from it. The data must outlive it.
struct Samples {
  const TokenData* data = nullptr;
  SampleSettings settings;
  std::int64_t num_training = 0;    // samples 0 .. num_training-1
  std::int64_t num_evaluation = 0;  // samples num_training .. num_training+num_evaluation-1, in this order
};

// Refuses data that is too short for one batch, and batches that the ranks cannot share.
Result<Samples> make_samples(const TokenData& data, const SampleSettings& settings);

// Micro-batches that each data-parallel rank works on in a step.
std::int64_t num_micro_batches(const Samples& samples);

struct SamplePlace {
  std::int64_t data_parallel_rank = 0;
  std::int64_t micro_batch = 0;
  std::int64_t index = 0;  // in the micro-batch
};

// Micro-batch m of rank d holds the samples (m · data_parallel + d) · micro_batch ... of the global batch, as in
// Megatron-LM.
std::int64_t sample_number(const Samples& samples, std::int64_t step, const SamplePlace& place);

// Sample i of the step's global batch, 0 <= i < global_batch.
std::int64_t global_sample_number(const Samples& samples, std::int64_t step, std::int64_t i);

// How many epochs are behind when a step starts; the fraction tells how far this one is.
double epochs_before(const Samples& samples, std::int64_t step);

// Position in the stream of a sample's first token.
std::int64_t first_token(const Samples& samples, std::int64_t number);

// REQUIRES: 0 <= number < num_training + num_evaluation; both outputs have settings.sequence elements.
Result<void> read_sample(const Samples& samples, std::int64_t number, std::span<std::int32_t> tokens,
                         std::span<std::int32_t> labels);

}  // namespace twinpod::data
