// The job file that is emitted gives the same job when it is read.
#include <gtest/gtest.h>

#include "emit/test_jobs.hpp"
#include "model/arithmetic.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::emit {
namespace {

std::string file_of(const spec::Job& job, const spec::Catalog* all) {
  return *emit(job, *launch_named("twinpod"), all);
}

void expect_same_layout(const spec::Layout& a, const spec::Layout& b) {
  EXPECT_EQ(a.tp, b.tp);
  EXPECT_EQ(a.pp, b.pp);
  EXPECT_EQ(a.virtual_stages, b.virtual_stages);
  EXPECT_EQ(a.cp, b.cp);
  EXPECT_EQ(a.context_exchange, b.context_exchange);
  EXPECT_EQ(a.ep, b.ep);
  EXPECT_EQ(a.etp, b.etp);
  EXPECT_EQ(a.sequence_parallel, b.sequence_parallel);
  EXPECT_EQ(a.zero, b.zero);
  EXPECT_EQ(a.shard_group, b.shard_group);
  EXPECT_EQ(a.micro_batch, b.micro_batch);
  EXPECT_EQ(a.recompute, b.recompute);
  EXPECT_EQ(a.recompute_layers, b.recompute_layers);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.servers, b.servers);
  EXPECT_EQ(a.offload_optimizer, b.offload_optimizer);
  EXPECT_EQ(a.offload_activations, b.offload_activations);
  EXPECT_EQ(a.remainder_last, b.remainder_last);
  EXPECT_EQ(a.uneven_ends, b.uneven_ends);
  EXPECT_EQ(a.async_tp, b.async_tp);
  EXPECT_EQ(a.overlap, b.overlap);
  EXPECT_EQ(a.dp, b.dp);
}

void expect_same_training(const spec::Training& a, const spec::Training& b) {
  EXPECT_EQ(a.global_batch, b.global_batch);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.precision, b.precision);
  EXPECT_EQ(a.rowwise_scaling, b.rowwise_scaling);
  EXPECT_EQ(a.pure_low_precision, b.pure_low_precision);
  EXPECT_EQ(a.optimizer, b.optimizer);
  EXPECT_EQ(a.gradient_bytes, b.gradient_bytes);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.target_loss, b.target_loss);
  EXPECT_EQ(a.bytes_per_token, b.bytes_per_token);
}

void expect_same_cluster(const spec::Cluster& a, const spec::Cluster& b) {
  EXPECT_EQ(a.entry, b.entry);
  EXPECT_EQ(a.devices, b.devices);
  EXPECT_EQ(a.devices_per_node, b.devices_per_node);
  EXPECT_EQ(a.scale_up_domain, b.scale_up_domain);
  EXPECT_EQ(a.scale_up_bytes_per_s, b.scale_up_bytes_per_s);
  EXPECT_EQ(a.scale_out_bytes_per_s, b.scale_out_bytes_per_s);
  EXPECT_EQ(a.scale_out_latency_s, b.scale_out_latency_s);
  EXPECT_EQ(a.oversubscription, b.oversubscription);
  EXPECT_EQ(a.non_blocking_devices, b.non_blocking_devices);
  EXPECT_EQ(a.node_power_w, b.node_power_w);
  EXPECT_EQ(a.host_memory_bytes, b.host_memory_bytes);
  EXPECT_EQ(a.usd_per_device_hour, b.usd_per_device_hour);
  EXPECT_EQ(a.storage_read_bytes_per_s, b.storage_read_bytes_per_s);
  EXPECT_EQ(a.storage_write_bytes_per_s, b.storage_write_bytes_per_s);
  EXPECT_EQ(a.device.entry, b.device.entry);
  EXPECT_EQ(a.device.peak_flop_per_s, b.device.peak_flop_per_s);
  EXPECT_EQ(a.device.memory_bytes, b.device.memory_bytes);
  EXPECT_EQ(a.device.memory_bytes_per_s, b.device.memory_bytes_per_s);
  EXPECT_EQ(a.device.host_bytes_per_s, b.device.host_bytes_per_s);
  EXPECT_EQ(a.device.compute_units, b.device.compute_units);
  EXPECT_EQ(a.device.power_w, b.device.power_w);
  EXPECT_EQ(a.device.aliases, b.device.aliases);
}

void expect_round_trip(const spec::Job& job) {
  const std::string text = file_of(job, &catalog());
  const spec::Job again = job_of(text);
  EXPECT_EQ(again.name, job.name);
  EXPECT_EQ(again.model.entry, job.model.entry);
  EXPECT_EQ(again.model.max_sequence, job.model.max_sequence);
  EXPECT_EQ(again.model.dropout, job.model.dropout);
  EXPECT_EQ(model::parameters(again.model).total, model::parameters(job.model).total);
  EXPECT_EQ(model::forward_flop(again.model, 4096).total, model::forward_flop(job.model, 4096).total);
  EXPECT_EQ(again.stack.name, job.stack.name);
  for (const spec::PhysicsField& field : spec::physics_fields()) {
    EXPECT_EQ(again.stack.physics.*field.member, job.stack.physics.*field.member) << field.name;
  }
  expect_same_layout(again.layout, job.layout);
  EXPECT_EQ(again.schedule_file, job.schedule_file);
  expect_same_training(again.training, job.training);
  expect_same_cluster(again.cluster, job.cluster);
  EXPECT_EQ(file_of(again, &catalog()), text);
}

TEST(JobFile, CatalogJobsComeBack) {
  for (const std::vector<NamedJob>& jobs : {mcore_jobs(), torchtitan_jobs()}) {
    for (const NamedJob& job : jobs) expect_round_trip(job_of(job.text));
  }
}

TEST(JobFile, EveryModelOfTheCatalogComesBackWrittenOut) {
  for (const std::string& name : catalog().names(spec::Shelf::models)) {
    SCOPED_TRACE(name);
    spec::Job job =
        job_of("model: " + name + "\ncluster: dgx-h100\ndevices: 1\ntraining: {global_batch: 1, sequence: 128}\n");
    job.model.entry.clear();
    job.model.published_parameters = 0;
    expect_round_trip(job);
  }
}

TEST(JobFile, EveryClusterOfTheCatalogComesBackWrittenOut) {
  for (const std::string& name : catalog().names(spec::Shelf::clusters)) {
    SCOPED_TRACE(name);
    spec::Job job = job_of("model: gpt2\ncluster: " + name + "\ntraining: {global_batch: 1000000, sequence: 128}\n");
    job.training.global_batch = spec::data_parallel(job);
    job.cluster.entry.clear();
    expect_round_trip(job);
  }
}

TEST(JobFile, ADeviceOfTheJobsOwnComesBack) {
  expect_round_trip(
      job_of("model: {base: llama3-8b, layers: 16}\n"
             "cluster: {base: dgx-h100, device: {base: h100-sxm, memory: 141 GB, memory_bandwidth: 4.8 TB/s}}\n"
             "layout: {dp: 4, tp: 2, recompute: full, recompute_layers: 3, offload_optimizer: true}\n"
             "training: {global_batch: 64, tokens: 1.5 T, target_loss: 2.1, gradient_bytes: 2, optimizer: sgd}\n"));
}

TEST(JobFile, AScheduleOfAFileAndTheExchangeOfContextComeBack) {
  expect_round_trip(
      job_of("model: llama3-8b\ncluster: dgx-h100\n"
             "layout: {pp: 2, cp: 2, context_exchange: gather, schedule: {file: \"my schedules/one.csv\"}}\n"
             "training: {global_batch: 64}\n"));
}

TEST(JobFile, AChangedStackComesBack) {
  expect_round_trip(
      job_of("model: llama3-8b\ncluster: dgx-h100\nlayout: {zero: 1}\n"
             "stack: {base: nemo-2025, gradient_bytes: 2, memory: {reserve: 0.1}, parameters: {pace: 1.07}}\n"
             "training: {global_batch: 64}\n"));
}

TEST(JobFile, WithoutACatalogAStackIsItsName) {
  const spec::Job job =
      job_of("model: llama3-8b\ncluster: dgx-h100\nstack: torchtitan\ntraining: {global_batch: 64}\n");
  EXPECT_NE(file_of(job, nullptr).find("stack: torchtitan\n"), std::string::npos);
}

TEST(JobFile, QuotesInNamesAreEscaped) {
  spec::Job job = job_of("model: llama3-8b\ncluster: dgx-h100\nlayout: {zero: 1}\ntraining: {global_batch: 64}\n");
  job.name = "a \"quoted\" \\ name: yes";
  expect_round_trip(job);
}

}  // namespace
}  // namespace twinpod::emit
