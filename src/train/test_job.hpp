// Small jobs that tests train for real, on ranks that are threads.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "kernel/gemm.hpp"
#include "kernel/product.hpp"
#include "program/check.hpp"
#include "program/generate.hpp"
#include "spec/physics.hpp"
#include "train/rank.hpp"

namespace twinpod::train {

inline spec::Job small_job(bool llama = false) {
  spec::Job job;
  job.name = "small";
  job.model.layers = 4;
  job.model.hidden = 32;
  job.model.ffn = 64;
  job.model.vocab = 61;
  job.model.max_sequence = 16;
  job.model.attention = {.heads = 4, .kv_heads = llama ? 2 : 4, .head_dim = 8, .bias = !llama};
  job.model.mlp_bias = !llama;
  job.model.gated_mlp = llama;
  job.model.norm = llama ? spec::Norm::rms_norm : spec::Norm::layer_norm;
  job.model.norm_bias = !llama;
  job.model.positions = llama ? spec::Positions::rotary : spec::Positions::learned;
  job.model.tied_embeddings = !llama;
  job.cluster.devices = 1;
  job.cluster.device.memory_bytes = 1e9;
  job.training.sequence = 16;
  job.training.global_batch = 8;
  job.training.precision = spec::Precision::fp32;
  job.stack.physics = spec::default_physics();
  job.layout.overlap = false;
  job.stack.executed = true;
  job.stack.memory = {.logit_bytes = 4, .runtime_bytes = 0, .reserve = 0};
  return job;
}

struct TestLayout {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  bool sp = false;
  int zero = 0;
  spec::Recompute recompute = spec::Recompute::none;
  int micro_batch = 1;
  bool overlap = false;
};

inline spec::Job with_layout(spec::Job job, const TestLayout& one) {
  job.cluster.devices = one.dp * one.tp * one.pp;
  job.layout.tp = one.tp;
  job.layout.pp = one.pp;
  job.layout.sequence_parallel = one.sp;
  job.layout.zero = one.zero;
  job.layout.recompute = one.recompute;
  job.layout.micro_batch = one.micro_batch;
  job.layout.overlap = one.overlap;
  return job;
}

inline std::string text_of(const TestLayout& one) {
  return fmt::format("dp {} tp {} pp {} sp {} zero {} recompute {} micro-batch {}{}", one.dp, one.tp, one.pp, one.sp,
                     one.zero, static_cast<int>(one.recompute), one.micro_batch, one.overlap ? " overlap" : "");
}

// Tokens of a step, the same for every layout: samples of the global batch are dealt out as data/samples.hpp does.
template <typename T>
void fill_batch(Rank<T>& rank, int step) {
  const std::int64_t sequence = rank.job.training.sequence;
  const int each = rank.job.layout.micro_batch;
  std::size_t place = 0;
  for (int m = 0; m < rank.program.micro_batches; ++m) {
    for (int b = 0; b < each; ++b) {
      const int sample = (m * spec::data_parallel(rank.job) + rank.dp_rank) * each + b;
      Rng rng(static_cast<std::uint64_t>(step * 1000 + sample));
      int token = static_cast<int>(rng.next() % 61);
      for (std::int64_t s = 0; s < sequence; ++s, ++place) {
        rank.tokens[place] = token;
        token = (token * 7 + static_cast<int>(rng.next() % 3)) % 61;
        rank.labels[place] = token;
      }
    }
  }
}

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
  std::int64_t peak_bytes = 0;       // the most of any rank
  std::int64_t predicted_bytes = 0;  // likewise
  bool same_peak = true;             // on every rank, kind by kind
};

// Trains for so many steps; a failure is a failed test.
template <typename T>
Trained train_small(spec::Job job, int steps) {
  Trained trained;
  std::mutex mutex;
  job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<T>(job));
  const Result<program::Program> program = program::generate(job);
  if (!program) {
    ADD_FAILURE() << program.error().message;
    return trained;
  }
  if (const Result<void> sound = program::check(*program); !sound) ADD_FAILURE() << sound.error().message;
  const auto body = [&](comm::Communicator& world) -> Result<std::string> {
    kernel::set_threads(1);  // ranks share the cores
    Rank<T> rank(job, *program, world);
    if (Result<void> ready = set_up(rank, 7); !ready) return tl::unexpected(ready.error());
    for (int step = 0; step < steps; ++step) {
      fill_batch(rank, step);
      StepSettings settings;
      settings.adamw = {.rate = 3e-3, .decay = 0.1, .step = step + 1};
      settings.clip = 1;
      const Result<StepResult> done = run_step(rank, settings);
      if (!done) return tl::unexpected(done.error());
      if (rank.rank != 0) continue;
      trained.losses.push_back(done->loss);
      trained.norms.push_back(done->gradient_norm);
    }
    const program::MemoryOverTime memory = program::memory_of(*program, rank.kind);
    const double predicted = memory.peak_bytes;
    const std::lock_guard<std::mutex> lock(mutex);
    trained.peak_bytes = std::max(trained.peak_bytes, rank.memory.peak_bytes());
    trained.predicted_bytes = std::max(trained.predicted_bytes, static_cast<std::int64_t>(predicted));
    trained.same_peak = trained.same_peak && rank.memory.peak_bytes() == static_cast<std::int64_t>(predicted) &&
                        rank.memory.at_peak() == memory.at_peak;
    return std::string();
  };
  const Result<std::string> done = comm::run_threads(job.cluster.devices, {.timeout_s = 20}, body);
  if (!done) ADD_FAILURE() << done.error().message;
  return trained;
}

// Gives back the ways of products that were found to be fast when it goes.
struct FirstWays {
  FirstWays() { kernel::tune_gemm(false); }
  ~FirstWays() { kernel::tune_gemm(true); }
};

}  // namespace twinpod::train
