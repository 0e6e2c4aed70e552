#include "program/state.hpp"

#include <algorithm>

#include "model/activation.hpp"
#include "model/arithmetic.hpp"
#include "model/kept.hpp"
#include "model/tensors.hpp"

namespace twinpod::program {
namespace {

constexpr double kOverlaps = 0.1;           // a stack that hides more than this overlaps by design
constexpr double kHiddenHere = 0.9;         // of the trainer's buckets when it overlaps: all but the last
constexpr double kBucketParameters = 40e6;  // Megatron-LM: DistributedDataParallelConfig.bucket_size
constexpr double kBucketParametersOfRank = 1e6;

double moments(spec::Optimizer optimizer) {
  switch (optimizer) {
    case spec::Optimizer::adam:
      return 2;
    case spec::Optimizer::sgd_momentum:
      return 1;
    case spec::Optimizer::sgd:
      return 0;
    case spec::Optimizer::adafactor:
      return 0.01;  // sums of rows and columns
  }
  return 2;
}

// FP8 weights are kept for all micro-batches of a step, on devices before Blackwell with their transpose, because FP8
// products there take operands in one order only. They replace the 16-bit copy when the optimizer writes them itself.
double narrow_copies(const spec::Job& job) {
  const bool any_order = job.cluster.device.peak_flop_per_s[static_cast<std::size_t>(spec::Precision::fp4)] > 0;
  return (any_order ? 1 : 2) + (job.stack.fp8_gather ? 0 : kHalfBytes);
}

double routed_on_rank(const spec::Job& job, const model::ParameterCount& count) {
  const double etp = spec::expert_tp(job.layout);
  return count.routed_experts / (job.layout.ep * etp);
}

// Parameters of which this rank holds what is sharded from ZeRO stage `from` on.
double held(const spec::Job& job, const PieceParameters& rank, int from) {
  if (job.layout.zero < from) return rank.total();
  return rank.dense / shard_ranks(job) + rank.experts / expert_shard_ranks(job);
}

double parameter_bytes(const spec::Job& job, const ParameterBytes& bytes, const PieceParameters& rank) {
  const double shard = bytes.parameter * held(job, rank, 3);
  if (shard_ranks(job) <= 1 || !gathers_once_a_step(job)) return shard;
  return bytes.gathered * rank.total() + (bytes.parameter > bytes.gathered ? shard : 0);
}

// As the trainer lays them down.
PieceParameters flat_parameters(const spec::Job& job, const std::vector<model::Tensor>& tensors) {
  const auto shards = static_cast<std::int64_t>(shard_ranks(job));
  return {static_cast<double>(model::flat_places(tensors, job.layout.tp, shards).elements), 0};
}

double communication_bytes(const spec::Job& job, const ParameterBytes& bytes, const PieceParameters& rank) {
  const model::Shard shard = model::shard_of(job);
  const double ends = shard.tokens() * job.model.hidden * model::activation_rules(job).element_bytes;
  const double split = shard.sequence_parallel ? job.layout.tp : 1;
  double sum = 0;
  if (job.stack.executed) return job.layout.pp > 1 ? kTransferBuffers * transfer_bytes(job, shard) : 0;
  if (spec::data_parallel(job) > 1) sum += std::min(job.stack.memory.bucket_bytes, rank.total() * bytes.gradient);
  if (job.layout.pp > 1) sum += kTransferBuffers * ends / split;
  if (split > 1) sum += ends;  // the gathered input of a product
  return sum;
}

}  // namespace

ParameterBytes bytes_of_parameter(const spec::Job& job) {
  const spec::Training& training = job.training;
  const double states = moments(training.optimizer);
  if (spec::is_wide(training.precision)) return {4, 4, 4 * states, 4};
  if (training.pure_low_precision) return {kHalfBytes, kHalfBytes, kHalfBytes * states, kHalfBytes};
  ParameterBytes bytes;
  bytes.parameter = kHalfBytes;
  bytes.gradient = training.gradient_bytes > 0 ? training.gradient_bytes : job.stack.gradient_bytes;
  bytes.optimizer = 4 + 4 * states;
  bytes.gathered = spec::is_narrow(training.precision) && job.stack.fp8_gather ? 1 : job.stack.gather_bytes;
  if (job.layout.zero == 3 && job.stack.memory.fp32_parameters) {
    bytes.parameter = 4;
    bytes.optimizer = 4 * states;
  } else if (job.layout.zero < 3 && spec::is_narrow(training.precision)) {
    bytes.parameter = narrow_copies(job);
  }
  return bytes;
}

PieceParameters embedding_parameters(const spec::Job& job) {
  if (job.stack.executed) return flat_parameters(job, model::embedding_tensors(job.model));
  return {model::parameters(job.model).embedding / job.layout.tp, 0};
}

PieceParameters layer_piece_parameters(const spec::Job& job, const Layer& layer) {
  if (job.stack.executed) return flat_parameters(job, model::layer_tensors(job.model, 0));
  const model::ParameterCount count = model::parameters(job.model);
  const double tp = job.layout.tp;
  if (layer.predicts) {
    const double routed = job.model.experts.count > 0 ? count.routed_experts : 0;
    return {(count.mtp / job.model.mtp_layers - routed) / tp, routed > 0 ? routed_on_rank(job, count) : 0};
  }
  const double own = count.attention / tp + count.norms;
  if (!layer.experts) return {own + count.mlp / tp, 0};
  return {own + (count.shared_experts - count.router) / tp + count.router, routed_on_rank(job, count)};
}

PieceParameters head_parameters(const spec::Job& job, bool copies_table) {
  const model::ParameterCount count = model::parameters(job.model);
  const bool copied = job.model.tied_embeddings && copies_table;
  if (job.stack.executed)
    return flat_parameters(job, model::head_tensors(job.model, copied || !job.model.tied_embeddings));
  const double table = copied ? static_cast<double>(job.model.vocab) * job.model.hidden : count.head;
  return {table / job.layout.tp + count.final_norm, 0};
}

PieceParameters shape_parameters(const spec::Job& job, const Shape& shape, bool copies_table) {
  PieceParameters sum;
  const auto add = [&](const PieceParameters& piece) {
    sum.dense += piece.dense;
    sum.experts += piece.experts;
  };
  if (shape.embedding) add(embedding_parameters(job));
  for (const Layer& layer : shape.layers) add(layer_piece_parameters(job, layer));
  if (shape.head) add(head_parameters(job, copies_table));
  return sum;
}

double owned_parameters(const spec::Job& job, const PieceParameters& rank) { return held(job, rank, 1); }

bool updates_elsewhere(const spec::Job& job) { return job.layout.offload_optimizer || job.layout.servers > 0; }

bool sums_on_host(const spec::Job& job) {
  return job.layout.offload_optimizer && job.layout.zero >= 2 && job.layout.pp == 1;
}

std::vector<Buffer> residents(const spec::Job& job, const PieceParameters& rank) {
  const ParameterBytes bytes = bytes_of_parameter(job);
  std::vector<Buffer> list;
  const auto add = [&](BufferKind kind, double size) {
    if (size > 0) list.push_back({kind, Segment::optimizer, -1, size});
  };
  add(BufferKind::parameters, parameter_bytes(job, bytes, rank));
  // A pipeline keeps gradients whole: it would reduce them for every micro-batch.
  if (!sums_on_host(job))
    add(BufferKind::gradients, bytes.gradient * (job.layout.pp > 1 ? rank.total() : held(job, rank, 2)));
  if (!updates_elsewhere(job)) add(BufferKind::optimizer, bytes.optimizer * owned_parameters(job, rank));
  add(BufferKind::communication, communication_bytes(job, bytes, rank));
  if (job.stack.executed) {
    const auto element = static_cast<int>(activation_bytes(job));
    const bool fuses_attention = spec::fuses(job.training.recipe, spec::Fusion::attention);
    const model::Workspace space = model::workspace_of(job.model, model::shard_of(job), element, fuses_attention);
    add(BufferKind::working, static_cast<double>(space.bytes));
  }
  add(BufferKind::runtime, job.stack.memory.runtime_bytes);
  return list;
}

double bucket_bytes(const spec::Job& job) {
  if (job.stack.executed) return 0;  // each piece of the model for itself
  if (job.stack.memory.bucket_bytes > 0) return job.stack.memory.bucket_bytes;
  const double ranks = static_cast<double>(spec::data_parallel(job)) * job.layout.cp;
  return std::max(kBucketParameters, kBucketParametersOfRank * ranks) * job.stack.scatter_bytes;
}

double hidden_share(const spec::Job& job) {
  const double fitted = job.stack.physics.dp_hidden;
  if (!job.layout.overlap) return fitted;
  if (!*job.layout.overlap) return 0;
  if (fitted > kOverlaps) return fitted;
  return job.stack.executed ? kHiddenHere : spec::default_physics().dp_hidden;
}

bool overlaps_data(const spec::Job& job) {
  if (!job.stack.executed) return hidden_share(job) > kOverlaps;
  if (scatters_each_pass(job)) return true;
  // Both copies of a tied table are summed before their shards are: not before all backward passes are done.
  const bool waits = job.model.tied_embeddings && job.layout.pp > 1 && job.layout.zero > 0;
  return hidden_share(job) > kOverlaps && !waits;
}

bool scatters_each_pass(const spec::Job& job) {
  if (job.layout.pp > 1 || shard_ranks(job) <= 1) return false;
  return job.layout.zero == 3 ? !gathers_once_a_step(job) : job.layout.zero == 2 && job.stack.executed;
}

}  // namespace twinpod::program
