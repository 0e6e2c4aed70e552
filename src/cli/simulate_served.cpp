#include "cli/simulate_served.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "cluster/network.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "layout/check.hpp"
#include "model/arithmetic.hpp"
#include "plan/estimate.hpp"
#include "plan/predict.hpp"
#include "plan/step_pieces.hpp"
#include "program/check.hpp"
#include "program/generate.hpp"
#include "program/volume.hpp"
#include "report/served_simulation_report.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {
namespace {

int nodes_of(const spec::Cluster& cluster) {
  const int each = std::max(1, cluster.devices_per_node);
  return (cluster.devices + each - 1) / each;
}

// All workers' job: its devices, and a batch that they can share.
Result<spec::Job> shared_job(spec::Job job, const ps::Choice& choice) {
  const int devices = choice.workers * choice.group;
  if (devices > job.cluster.devices) {
    return infeasible(fmt::format("{} of {}, but the cluster has {}", counted(choice.workers, "worker"),
                                  counted(choice.group, "device"), counted(job.cluster.devices, "device")),
                      fmt::format("--workers {}", std::max(1, job.cluster.devices / choice.group)));
  }
  if (choice.servers > nodes_of(job.cluster)) {
    return infeasible(fmt::format("{}, but the cluster has {}, and a node holds one at most",
                                  counted(choice.servers, "server"), counted(nodes_of(job.cluster), "node")),
                      fmt::format("--servers {}", nodes_of(job.cluster)));
  }
  job.cluster.devices = devices;
  job.layout.dp = 0;
  if (job.training.batch_tokens > 0) job.training.global_batch = spec::shared_batch(job, job.training.batch_tokens);
  const double share = job.training.global_batch / choice.workers;
  if (share < 1 || share != std::floor(share)) {
    return input_error(fmt::format("{:g} sequences for {}: each needs as many as the others, and one at least",
                                   job.training.global_batch, counted(choice.workers, "worker")),
                       fmt::format("--global-batch {:g}", std::max(1.0, std::round(share)) * choice.workers));
  }
  return job;
}

// As the closed form has it (plan/step_pieces.cpp): a server has the interfaces of its node, a worker those of its
// devices.
sim::ServedCluster network_of(const spec::Job& job, const ps::Choice& choice) {
  const spec::Cluster& cluster = job.cluster;
  const spec::Physics& p = job.stack.physics;
  const double of_device =
      std::max(1.0, cluster.scale_out_bytes_per_s > 0 ? cluster.scale_out_bytes_per_s * p.scale_out_efficiency
                                                      : cluster.device.host_bytes_per_s);
  const int own = std::min(choice.group, cluster.devices_per_node);
  sim::ServedCluster network;
  network.host_bytes_per_s = of_device * cluster.devices_per_node;
  network.worker_bytes_per_s = of_device * own;
  network.latency_s = p.collective_latency_s + cluster.scale_out_latency_s;
  if (cluster.device.host_bytes_per_s > 0) network.local_bytes_per_s = cluster.device.host_bytes_per_s * own;
  network.memory_bytes_per_s = plan::kHostMemoryBytesPerS;
  network.workers_per_host = std::max(1, cluster.devices_per_node / choice.group);
  return network;
}

// The optimizer's state is with the servers: a worker holds as much as one that leaves it on the host.
Result<void> check_memory(spec::Job worker) {
  worker.layout.offload_optimizer = true;
  const Result<program::Program> program = program::generate(worker);
  if (!program) return tl::unexpected(program.error());
  return program::check_memory(*program);
}

Result<double> predicted_step_s(const spec::Job& worker) {
  if (Result<void> valid = layout::check(worker); !valid) return tl::unexpected(valid.error());
  if (Result<void> fits = check_memory(worker); !fits) return tl::unexpected(fits.error());
  const Result<program::Program> program = program::generate(worker);
  if (!program) return tl::unexpected(program.error());
  const Result<sim::StepRun> run = plan::predict_step(worker, *program, plan::Surroundings{});
  if (!run) return tl::unexpected(run.error());
  return run->step_s;
}

// Servers update; a worker that pushes what several steps changed updates for itself, too.
double without_update(const spec::Job& worker, const ps::Choice& choice, double step_s) {
  const double update_s = choice.local_steps > 1 ? 0 : plan::step_time(worker).parts[plan::Part::optimizer];
  return std::max(0.0, step_s - update_s);
}

// As in train: other pushes are clipped by who makes them.
bool servers_clip(const spec::Job& job, const ps::Choice& choice) {
  return job.training.recipe.clip > 0 && choice.settings.mode == ps::Mode::sync && choice.local_steps == 1;
}

// Of one worker, with its share of the batch.
spec::Job worker_job(spec::Job all, const ps::Choice& choice) {
  all.cluster.devices = choice.group;
  all.layout.dp = 0;
  all.layout.servers = 0;
  all.training.global_batch /= choice.workers;
  all.training.batch_tokens = 0;
  return all;
}

Result<sim::Kill> kill_of(const std::string& text, const ps::Choice& choice) {
  const std::size_t colon = text.find(':');
  const std::size_t at = text.find('@');
  const std::string who = text.substr(0, colon);
  const bool shaped = colon != std::string::npos && at != std::string::npos && colon < at;
  if (shaped && (who == "server" || who == "worker")) {
    const Result<double> place = parse_quantity(text.substr(colon + 1, at - colon - 1), Quantity::number);
    const Result<double> seconds = parse_quantity(text.substr(at + 1), Quantity::seconds);
    const int most = who == "server" ? choice.servers : choice.workers;
    if (place && seconds && *seconds >= 0 && *place >= 0 && *place < most && *place == std::floor(*place)) {
      return sim::Kill{who == "server" ? ps::Role::server : ps::Role::worker, static_cast<int>(*place), *seconds};
    }
  }
  return input_error(fmt::format("--kill {}: expected server or worker, its number and a time", text),
                     fmt::format("--kill server:{}@2s", choice.servers - 1));
}

Result<ServedOptions> options_of(const Arguments& arguments, const ps::Choice& choice) {
  ServedOptions options;
  const Result<int> steps = whole_number(arguments, "steps", 1, static_cast<int>(options.steps));
  if (!steps) return tl::unexpected(steps.error());
  options.steps = *steps;
  if (const auto text = arguments.value("step-time")) {
    const Result<double> seconds = parse_quantity(*text, Quantity::seconds);
    if (!seconds || *seconds <= 0) {
      return input_error(fmt::format("--step-time {}: expected a time above 0", *text), "--step-time 50ms");
    }
    options.step_s = *seconds;
  }
  if (const auto text = arguments.value("kill")) {
    std::size_t begin = 0;
    while (begin <= text->size()) {
      const std::size_t end = std::min(text->find(',', begin), text->size());
      const Result<sim::Kill> kill = kill_of(text->substr(begin, end - begin), choice);
      if (!kill) return tl::unexpected(kill.error());
      options.kills.push_back(*kill);
      begin = end + 1;
    }
  }
  return options;
}

// What says something of the one step that is simulated without servers' protocol.
Result<void> refuse_others(const Arguments& arguments) {
  for (const std::string_view flag : {"slow", "cut", "jitter", "order", "slice", "place", "checkpoint-every", "store",
                                      "no-network", "timeline", "trace", "chakra", "workload", "devices"}) {
    if (!arguments.has(flag)) continue;
    const bool slows = flag == "slow" || flag == "jitter";
    return input_error(fmt::format("--{} does not go with --workers", flag),
                       slows ? "--straggler 0:2 (worker 0 twice as slow), any:3:0.1 (each, in one step of ten)"
                       : flag == "devices" ? "--workers N and --group N: they say how many devices there are"
                                           : "without it, or without --workers");
  }
  return {};
}

Arguments without_servers(Arguments arguments) {
  std::erase_if(arguments.flags, [](const GivenFlag& given) { return given.flag->name == "servers"; });
  return arguments;
}

}  // namespace

std::vector<std::int64_t> parameter_counts(const spec::Model& model) {
  const model::ParameterCount all = model::parameters(model);
  const auto whole = [](double count) { return static_cast<std::int64_t>(std::llround(count)); };
  std::vector<std::int64_t> counts = {whole(all.embedding)};
  const double layers = all.total - all.embedding - all.final_norm - all.head;
  for (int layer = 0; layer < model.layers; ++layer) {
    const double each = layers / model.layers;
    const double attention = std::min(each, all.attention);
    counts.push_back(whole(attention));
    counts.push_back(whole(each - attention));
  }
  counts.push_back(whole(all.final_norm + all.head));
  std::erase(counts, 0);
  return counts;
}

Result<double> predicted_passes_s(const spec::Job& all, const ps::Choice& choice) {
  const spec::Job worker = worker_job(all, choice);
  const Result<double> step_s = predicted_step_s(worker);
  if (!step_s) return step_s;
  return without_update(worker, choice, *step_s);
}

sim::ServedInput on_this_host(const spec::Job& all, const ps::Choice& choice, double step_s, std::int64_t steps,
                              double copy_bytes_per_s) {
  sim::ServedInput input;
  input.choice = choice;
  input.job.counts = parameter_counts(all.model);
  input.job.step_s = step_s;
  input.job.step_tokens = all.training.global_batch * all.training.sequence / choice.workers;
  input.job.steps = steps;
  input.job.clips = servers_clip(all, choice);
  input.cluster.workers_per_host = choice.workers;
  input.cluster.servers_per_host = choice.servers;
  input.cluster.local_bytes_per_s = copy_bytes_per_s;
  input.cluster.memory_bytes_per_s = copy_bytes_per_s * 2;  // read and written
  return input;
}

bool wants_served_run(const Arguments& arguments) {
  return std::any_of(kSimulateServedFlags.begin(), kSimulateServedFlags.end(),
                     [&](const Flag& flag) { return arguments.has(flag.name); });
}

Result<ServedCase> served_case(const spec::Job& job, const ps::Choice& choice, const ServedOptions& options) {
  const Result<spec::Job> all = shared_job(job, choice);
  if (!all) return tl::unexpected(all.error());
  ServedCase one{worker_job(*all, choice), {}, 0, 0};
  one.input.choice = choice;
  one.input.cluster = network_of(*all, choice);
  one.input.faults.kills = options.kills;
  sim::ServedJob& work = one.input.job;
  work.counts = parameter_counts(job.model);
  work.steps = options.steps;
  work.clips = servers_clip(job, choice);
  work.step_tokens = one.job.training.global_batch * job.training.sequence;
  const bool executed = job.stack.executed;  // train pushes and pulls fp32
  work.push_bytes = executed ? 4 : program::scattered_bytes(job);
  work.pull_bytes = executed ? 4 : program::gathered_bytes(job);
  work.add_bytes = 2 * work.push_bytes;
  work.update_bytes = plan::kHostUpdateBytes;
  double alone_s = 0;
  if (options.step_s) {
    work.step_s = alone_s = *options.step_s;
  } else {
    const Result<double> predicted = predicted_step_s(one.job);
    if (!predicted) return tl::unexpected(predicted.error());
    alone_s = *predicted;
    work.step_s = without_update(one.job, choice, alone_s);
  }
  work.step_s = std::max(work.step_s, choice.pace_s);
  alone_s = std::max(alone_s, choice.pace_s);
  one.alone_tokens_per_s = alone_s > 0 ? work.step_tokens / alone_s : 0;
  const cluster::Group group = cluster::group_of(all->cluster, all->cluster.devices, 1);
  const double bytes = model::parameters(job.model).total * work.push_bytes;
  one.reduce_s = cluster::collective_s(all->cluster, all->stack.physics, cluster::Verb::all_reduce, bytes, group);
  return one;
}

Result<std::string> simulate_served(const Arguments& arguments) {
  if (Result<void> alone = refuse_others(arguments); !alone) return tl::unexpected(alone.error());
  const Result<ps::Choice> choice = served_choice(arguments);
  if (!choice) return tl::unexpected(choice.error());
  const Result<ServedOptions> options = options_of(arguments, *choice);
  if (!options) return tl::unexpected(options.error());
  const Result<spec::Request> request =
      request_of("simulate", without_servers(arguments), arguments.value_or("on", ""));
  if (!request) return tl::unexpected(request.error());
  const Result<spec::Job> job = spec::read_job(*request, catalog_of(arguments));
  if (!job) return tl::unexpected(job.error());
  const Result<ServedCase> one = served_case(*job, *choice, *options);
  if (!one) return tl::unexpected(one.error());
  const auto begin = std::chrono::steady_clock::now();
  const Result<sim::ServedRun> run = sim::run_served(one->input);
  if (!run) return tl::unexpected(run.error());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const report::SimulatedServedView view{one->job, one->input, *run, one->alone_tokens_per_s, took.count()};
  return arguments.has("json") ? report::simulated_served_json(view) : report::simulated_served_text(view);
}

}  // namespace twinpod::cli
