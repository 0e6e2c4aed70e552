#include "plan/metrics.hpp"

#include <algorithm>

#include "cluster/device_time.hpp"
#include "model/arithmetic.hpp"
#include "plan/rules.hpp"

namespace twinpod::plan {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kJoulesPerKwh = 3.6e6;

double computing_s(const Parts& parts) {
  double sum = 0;
  for (const Part part :
       {Part::products, Part::attention, Part::elements, Part::head, Part::recompute, Part::optimizer}) {
    sum += parts[part];
  }
  return sum;
}

double single_device_tokens_per_s(const spec::Job& job) {
  const spec::Job one = single_device_job(job);
  return one.training.global_batch * one.training.sequence / step_time(one).total_s;
}

void add_whole_run(const spec::Job& job, Metrics& m) {
  if (job.training.target_loss > 0) {
    m.accuracy = time_to_accuracy(besiroglu_2024(), visited_parameters(job), job.training.target_loss,
                                  m.tokens_per_step, m.step_time_s);
  }
  m.training_tokens = job.training.tokens;
  if (m.training_tokens <= 0 && m.accuracy && m.accuracy->tokens) m.training_tokens = *m.accuracy->tokens;
  if (m.training_tokens <= 0) return;
  m.time_to_train_s = m.training_tokens / m.tokens_per_s;
  m.time_to_train_8tp_s =
      training_time_8tp_s(m.training_tokens, visited_parameters(job), job.cluster.devices, m.hardware_flop_per_s);
  m.device_hours = job.cluster.devices * *m.time_to_train_s / kSecondsPerHour;
  const double price = usd_per_device_hour(job.cluster);
  if (price > 0) m.cost_usd = *m.device_hours * price;
  const double power = watts_per_device(job.cluster);
  if (power > 0) m.energy_kwh = power * job.cluster.devices * *m.time_to_train_s / kJoulesPerKwh;
}

}  // namespace

double visited_parameters(const spec::Job& job) { return model::parameters(job.model).active; }

double usd_per_device_hour(const spec::Cluster& cluster) {
  return cluster.usd_per_device_hour > 0 ? cluster.usd_per_device_hour : cluster.device.usd_per_hour;
}

double watts_per_device(const spec::Cluster& cluster) {
  return cluster.node_power_w > 0 ? cluster.node_power_w / std::max(1, cluster.devices_per_node)
                                  : cluster.device.power_w;
}

spec::Job single_device_job(const spec::Job& job) {
  spec::Job one = job;
  spec::Layout layout;
  // Experts of an expert-parallel group get the tokens of all its ranks; so must those of the device alone, to do
  // alike.
  layout.micro_batch = job.layout.micro_batch * job.layout.ep;
  layout.recompute = job.layout.recompute;
  layout.recompute_layers = 0;
  one.layout = layout;
  one.cluster.devices = 1;
  one.cluster.scale_up_domain = 1;
  one.cluster.scale_up = spec::ScaleUpKind::none;
  // As many tokens for the device as it has in the cluster; at least one micro-batch, which it cannot divide.
  one.training.global_batch = std::max<double>(job.training.global_batch / job.cluster.devices, layout.micro_batch);
  return one;
}

StepWork step_work(const spec::Job& job) {
  return {job.training.global_batch * job.training.sequence, model::training_flop(job.model, job.training.sequence),
          cluster::usable_peak(job.cluster.device, job.training.precision)};
}

Metrics metrics(const spec::Job& job, const StepTime& step) {
  const double devices = job.cluster.devices;
  const StepWork work = step_work(job);
  Metrics m;
  m.step_time_s = step.total_s;
  m.tokens_per_step = work.tokens;
  m.tokens_per_s = work.tokens_per_s(step.total_s);
  m.tokens_per_s_per_device = m.tokens_per_s / devices;
  m.model_flop_per_s = work.model_flop_per_s(step.total_s, devices);
  m.hardware_flop_per_s = step.executed_flop / step.total_s / devices;
  m.peak_flop_per_s = work.peak_flop_per_s;
  m.mfu = work.mfu(step.total_s, devices);
  m.hfu = m.hardware_flop_per_s / m.peak_flop_per_s;
  m.one_device_tokens_per_s = single_device_tokens_per_s(job);
  m.scale_factor = scale_factor(m.tokens_per_s, devices, m.one_device_tokens_per_s);
  m.computation_rate_flop_per_s =
      computation_rate(work.flop_of_token * m.one_device_tokens_per_s, devices, m.scale_factor);
  m.cluster_utilisation = computing_s(step.parts) / step.total_s;
  m.bubble_share = step.parts[Part::bubble] / step.total_s;
  add_whole_run(job, m);
  return m;
}

}  // namespace twinpod::plan
