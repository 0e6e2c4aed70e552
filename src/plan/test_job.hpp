// Jobs for the tests of the closed form: a GPT of 1.3 billion parameters and a mixture of experts on 64 A100, and
// random valid ones. Nothing is read from the catalog, so that a test fails for one reason only.
#pragma once

#include <array>
#include <cstdint>

#include "core/rng.hpp"
#include "layout/check.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

inline spec::Model gpt_model() {
  spec::Model model;
  model.layers = 24;
  model.hidden = 2048;
  model.ffn = 8192;
  model.vocab = 51200;
  model.max_sequence = 2048;
  model.attention = {.heads = 16, .kv_heads = 16, .head_dim = 128};
  return model;
}

// 16 experts, two for a token, in every layer.
inline spec::Model mixture_model() {
  spec::Model model = gpt_model();
  model.gated_mlp = true;
  model.experts.count = 16;
  model.experts.per_token = 2;
  model.experts.ffn = 4096;
  return model;
}

inline spec::Cluster a100_cluster(int devices) {
  spec::Cluster cluster;
  cluster.device.family = "a100";
  cluster.device.peak_flop_per_s = {19.5e12, 156e12, 312e12, 312e12, 0, 0};
  cluster.device.memory_bytes = 80e9;
  cluster.device.memory_bytes_per_s = 2039e9;
  cluster.device.host_bytes_per_s = 31.5e9;
  cluster.device.compute_units = 108;
  cluster.devices = devices;
  cluster.scale_up_bytes_per_s = 300e9;
  cluster.scale_out_bytes_per_s = 25e9;
  return cluster;
}

inline spec::Job gpt_job(int devices = 64) {
  spec::Job job;
  job.model = gpt_model();
  job.cluster = a100_cluster(devices);
  job.training.sequence = 2048;
  job.training.global_batch = 512;
  job.stack.physics = spec::default_physics();
  return job;
}

inline spec::Job mixture_job(int devices = 64) {
  spec::Job job = gpt_job(devices);
  job.model = mixture_model();
  job.layout.etp = 1;
  return job;
}

template <typename T, std::size_t N>
T one_of(const std::array<T, N>& values, Rng& rng) {
  return values[static_cast<std::size_t>(rng.below(N))];
}

inline int power_of_two(Rng& rng, int most) {
  int size = 1;
  while (size * 2 <= most && rng.below(2) == 0) size *= 2;
  return size;
}

inline bool once_in(Rng& rng, std::uint64_t times) { return rng.below(times) == 0; }

inline void randomise_model(Rng& rng, spec::Model& model) {
  model = once_in(rng, 3) ? mixture_model() : gpt_model();
  model.layers = 16 * power_of_two(rng, 8);
  model.parallel_block = once_in(rng, 4);
  model.gated_mlp = once_in(rng, 2);
  model.tied_embeddings = once_in(rng, 3);
  model.attention.kv_heads = one_of(std::array{1, 2, 16}, rng);
  model.attention.window = once_in(rng, 4) ? 512 : 0;
  model.attention.global_every = once_in(rng, 2) ? 2 : 0;
  model.dropout = once_in(rng, 3) ? 0.1 : 0;
  if (once_in(rng, 4)) {
    model.attention.kv_rank = 512;
    model.attention.q_rank = once_in(rng, 2) ? 1536 : 0;
    model.attention.rope_head_dim = 64;
  }
  if (model.experts.count == 0) return;
  model.experts.shared = once_in(rng, 2) ? 1 : 0;
  model.experts.first_dense_layers = once_in(rng, 3) ? 1 : 0;
  model.experts.every = once_in(rng, 3) ? 2 : 1;
  model.mtp_layers = once_in(rng, 4) ? 1 : 0;
}

inline void randomise_layout(Rng& rng, spec::Layout& layout) {
  using spec::Recompute;
  using spec::Schedule;
  layout.tp = power_of_two(rng, 16);
  layout.pp = power_of_two(rng, 16);
  layout.virtual_stages = once_in(rng, 3) ? power_of_two(rng, 4) : 1;
  layout.cp = once_in(rng, 4) ? power_of_two(rng, 8) : 1;
  layout.ep = power_of_two(rng, 16);
  layout.etp = once_in(rng, 2) ? 1 : 0;
  layout.sequence_parallel = once_in(rng, 2);
  layout.zero = static_cast<int>(rng.below(4));
  layout.shard_group = once_in(rng, 6) ? power_of_two(rng, 8) : 0;
  layout.micro_batch = power_of_two(rng, 8);
  layout.recompute = one_of(std::array{Recompute::none, Recompute::selective, Recompute::full}, rng);
  layout.schedule = one_of(std::array{Schedule::one_f_one_b, Schedule::gpipe, Schedule::interleaved, Schedule::zb_1p,
                                      Schedule::zb_2p, Schedule::zb_v, Schedule::dualpipe},
                           rng);
  layout.offload_optimizer = once_in(rng, 8);
  layout.offload_activations = once_in(rng, 8);
  layout.uneven_ends = once_in(rng, 8);
  layout.async_tp = once_in(rng, 8);
}

inline void randomise_stack(Rng& rng, spec::Stack& stack) {
  for (const spec::PhysicsField& field : spec::physics_fields()) {
    stack.physics.*field.member = once_in(rng, 2) ? field.prior : rng.uniform(field.low, field.high);
  }
  stack.fused_attention = once_in(rng, 2);
  stack.launches = once_in(rng, 3) ? 0 : 20;
  stack.reshard_after_forward = once_in(rng, 2);
  stack.broadcasts_shards = once_in(rng, 4);
  stack.two_level_dispatch = once_in(rng, 2);
  stack.expert_sync = once_in(rng, 2);
}

// A job that layout::check lets through, every number of its stack anywhere within its bounds.
inline spec::Job random_job(Rng& rng) {
  spec::Job job;
  do {
    job = gpt_job(1 << rng.below(13));
    job.has_layout = true;
    randomise_model(rng, job.model);
    randomise_layout(rng, job.layout);
    if (job.model.experts.count == 0) job.layout.ep = 1;
    job.training.sequence = 1 << (9 + rng.below(8));
    job.training.global_batch = 1 << rng.below(13);
    job.training.precision =
        one_of(std::array{spec::Precision::bf16, spec::Precision::fp8, spec::Precision::fp32}, rng);
    if (once_in(rng, 3)) job.cluster.scale_up_domain = 72;
    if (once_in(rng, 3)) job.cluster.device.compute_units = 0;
  } while (!layout::check(job));
  randomise_stack(rng, job.stack);
  return job;
}

}  // namespace twinpod::plan
