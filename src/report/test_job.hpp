// A small valid job for the tests of reports: a pipeline on 64 made-up devices.
#pragma once

#include "plan/range.hpp"
#include "spec/job.hpp"

namespace twinpod::report {

inline spec::Job pipeline_job() {
  spec::Job job;
  job.name = "test job";
  job.model.name = "Test model";
  job.model.layers = 24;
  job.model.hidden = 2048;
  job.model.ffn = 8192;
  job.model.vocab = 51200;
  job.model.max_sequence = 2048;
  job.model.attention = {.heads = 16, .kv_heads = 16, .head_dim = 128};
  job.cluster.name = "Test cluster";
  job.cluster.device.name = "Test device";
  job.cluster.device.family = "test";
  job.cluster.device.peak_flop_per_s = {19.5e12, 156e12, 312e12, 312e12, 0, 0};
  job.cluster.device.memory_bytes = 80e9;
  job.cluster.device.memory_bytes_per_s = 2e12;
  job.cluster.device.compute_units = 108;
  job.cluster.device.power_w = 400;
  job.cluster.devices = 64;
  job.cluster.scale_up_bytes_per_s = 300e9;
  job.cluster.scale_out_bytes_per_s = 25e9;
  job.layout.tp = 4;
  job.layout.pp = 4;
  job.layout.zero = 1;
  job.training.sequence = 2048;
  job.training.global_batch = 256;
  job.training.tokens = 100e9;
  job.stack.name = "test-stack";
  job.stack.physics = spec::default_physics();
  return job;
}

inline plan::Accuracy test_accuracy() {
  return {{.device = "test",
           .stack = "test-stack",
           .kind = "pipeline",
           .count = 20,
           .max_devices = 512,
           .p10 = 0.95,
           .p90 = 1.1}};
}

}  // namespace twinpod::report
