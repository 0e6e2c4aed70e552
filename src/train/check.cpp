#include "train/check.hpp"

#include <fmt/format.h>

#include "layout/check.hpp"

namespace twinpod::train {
namespace {

struct Refusal {
  bool holds = false;
  std::string what;
  std::string hint;
};

Result<void> first_of(std::initializer_list<Refusal> list) {
  for (const Refusal& one : list) {
    if (one.holds) return infeasible(fmt::format("train: {}", one.what), one.hint);
  }
  return {};
}

Result<void> check_model(const spec::Model& m) {
  const spec::Attention& a = m.attention;
  return first_of({
      {m.experts.count > 0, "mixtures of experts can be planned and simulated, but not trained here", "a dense model"},
      {a.kv_rank > 0, "latent attention can be planned and simulated, but not trained here", "grouped-query attention"},
      {a.window > 0, "sliding windows are not trained here", "attention over the whole sequence"},
      {a.sinks, "attention sinks are not trained here", "attention.sinks false"},
      {a.qk_norm, "norms of queries and keys are not trained here", "attention.qk_norm false"},
      {m.positions == spec::Positions::alibi || m.positions == spec::Positions::none,
       "positions must be rotary or learned", "positions rotary"},
      {m.parallel_block, "parallel blocks are not trained here", "parallel_block false"},
      {m.post_norms > 0 || m.embedding_norm, "further norms are not trained here", "post_norms 0"},
      {m.mtp_layers > 0, "multi-token prediction is not trained here", "mtp_layers 0"},
      {m.head_bias, "a bias on the logits is not trained here", "head_bias false"},
      {!m.norm_weight, "norms without weights are not trained here", "norm_weight true"},
      {m.positions == spec::Positions::rotary && a.head_dim % 2 != 0, "rotary positions need an even head_dim", ""},
      {a.kv_heads < 1 || a.heads % a.kv_heads != 0, "heads must be a multiple of kv_heads", ""},
  });
}

// A rank has whole heads, whole key and value heads, and as many columns of the MLP as the others.
Result<void> check_tensor_parallel(const spec::Job& job) {
  const spec::Model& m = job.model;
  const int tp = job.layout.tp;
  int works = tp;
  while (m.attention.heads % works != 0 || m.attention.kv_heads % works != 0 || m.ffn % works != 0) --works;
  if (works == tp) return {};
  return infeasible(fmt::format("train: tp {} does not divide heads {}, kv_heads {} and ffn {}", tp, m.attention.heads,
                                m.attention.kv_heads, m.ffn),
                    fmt::format("try tp {}", works));
}

Result<void> check_layout(const spec::Job& job) {
  const spec::Layout& l = job.layout;
  const bool runs = l.schedule == spec::Schedule::gpipe || l.schedule == spec::Schedule::one_f_one_b ||
                    l.schedule == spec::Schedule::interleaved;
  const spec::Precision p = job.training.precision;
  return first_of({
      {l.cp > 1, "context parallelism can be planned and simulated, but not trained here", "cp 1"},
      {l.ep > 1, "expert parallelism can be planned and simulated, but not trained here", "ep 1"},
      {l.servers > 0, "a parameter server is not a part of the layout here",
       "servers 0, and train --servers 2 --workers 4"},
      {l.offload_optimizer || l.offload_activations, "nothing can be offloaded from a host's memory", ""},
      {l.async_tp, "async_tp is not trained here", "async_tp false"},
      {l.shard_group > 0, "ZeRO shards over all data-parallel ranks here", "without shard_group"},
      {l.pp > 1 && !runs, "this schedule can be simulated, but not trained here", "gpipe, 1f1b or interleaved"},
      {p != spec::Precision::fp32 && p != spec::Precision::bf16, "precisions are fp32 and bf16 here", "fp32"},
      {job.training.optimizer == spec::Optimizer::adafactor, "optimizers are adam, sgd_momentum and sgd here", "adam"},
      {job.training.pure_low_precision, "master copies are fp32 here", "without pure_low_precision"},
      {l.sequence_parallel && (static_cast<long>(l.micro_batch) * job.training.sequence) % l.tp != 0,
       fmt::format("sequence parallelism: tp {} does not divide the {} tokens of a micro-batch", l.tp,
                   static_cast<long>(l.micro_batch) * job.training.sequence),
       "sequence_parallel false"},
  });
}

}  // namespace

Result<void> check(const spec::Job& job) {
  if (!job.stack.executed) {
    return infeasible(fmt::format("train: stack {} is not what runs here", job.stack.name), "stack twinpod");
  }
  if (Result<void> fits = check_model(job.model); !fits) return fits;
  if (Result<void> fits = check_layout(job); !fits) return fits;
  if (Result<void> fits = check_tensor_parallel(job); !fits) return fits;
  return layout::check(job);
}

spec::Job as_executed(spec::Job job) {
  job.model.dropout = 0;
  if (job.layout.pp > 1 && job.layout.zero > 1) job.layout.zero = 1;
  if (job.layout.tp == 1) job.layout.sequence_parallel = false;
  return job;
}

}  // namespace twinpod::train
