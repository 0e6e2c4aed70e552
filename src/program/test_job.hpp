// Small jobs for the tests of this folder: a GPT and a mixture of experts on made-up devices.
#pragma once

#include "spec/job.hpp"

namespace twinpod::program {

inline spec::Job gpt_job(int devices, int tp = 1, int pp = 1) {
  spec::Job job;
  job.name = "test";
  job.model.layers = 16;
  job.model.hidden = 1024;
  job.model.ffn = 4096;
  job.model.vocab = 32000;
  job.model.max_sequence = 1024;
  job.model.attention = {.heads = 16, .kv_heads = 16, .head_dim = 64};
  job.cluster.device.peak_flop_per_s = {19.5e12, 156e12, 312e12, 312e12, 0, 0};
  job.cluster.device.memory_bytes = 80e9;
  job.cluster.device.memory_bytes_per_s = 2e12;
  job.cluster.device.host_bytes_per_s = 30e9;
  job.cluster.devices = devices;
  job.layout.tp = tp;
  job.layout.pp = pp;
  job.training.sequence = 1024;
  job.training.global_batch = 8.0 * spec::data_parallel(job);
  job.stack.physics = spec::default_physics();
  return job;
}

inline spec::Job mixture_job(int devices, int ep) {
  spec::Job job = gpt_job(devices);
  job.model.gated_mlp = true;
  job.model.experts.count = 16;
  job.model.experts.per_token = 2;
  job.model.experts.ffn = 2048;
  job.layout.ep = ep;
  job.layout.etp = 1;
  return job;
}

}  // namespace twinpod::program
