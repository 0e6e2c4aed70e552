#include "program/volume.hpp"

#include <algorithm>
#include <cmath>

#include "model/arithmetic.hpp"

namespace twinpod::program {
namespace {

using cluster::Verb;

// One collective behind attention and one behind the MLP. A parallel block needs one; so does a layer whose experts are
// not split and have no shared part.
int tensor_calls(const spec::Job& job, const model::Shard& shard, model::LayerKind kind) {
  if (job.layout.tp <= 1) return 0;
  const bool experts_apart =
      kind == model::LayerKind::experts && shard.etp == 1 && model::shared_ffn(job.model.experts) <= 0;
  return job.model.parallel_block || experts_apart ? 1 : 2;
}

// Copies of a token that leave its scale-up domain, on average. A plain all-to-all sends one for each expert out there;
// a two-level one (DeepEP and alike) sends one for each domain that holds any of the token's k experts. Of n domains
// n (1 - (1 - 1/n)^k) are hit, and one of them is the token's own.
double copies_sent_out(const spec::Job& job, const cluster::Group& group) {
  const double n = group.domains();
  const double k = job.model.experts.per_token;
  if (n <= 1) return 0;
  const double hit = job.stack.two_level_dispatch ? n * (1 - std::pow(1 - 1 / n, k)) : k;
  return hit * (1 - 1 / n);
}

void add_exchange(const spec::Job& job, const model::Shard& shard, const model::LayerWork& work,
                  LayerVolumes& volumes) {
  if (job.layout.ep <= 1 || work.routed_tokens <= 0) return;
  const double stride = std::max(1, shard.etp);
  const cluster::Group group = cluster::group_of(job.cluster, job.layout.ep, stride);
  volumes.exchange_group = group;
  const double token_bytes = work.routed_tokens * job.model.hidden * activation_bytes(job);
  const double k = job.model.experts.per_token;
  volumes.exchange_inside_bytes = token_bytes * k * (group.per_domain - 1) / group.per_domain;
  volumes.exchange_outside_bytes = token_bytes * copies_sent_out(job, group);
}

// The ranks that hold the same routed experts.
cluster::Group expert_copies(const spec::Job& job) {
  const double stride = static_cast<double>(job.layout.ep) * model::shard_of(job).etp;
  return cluster::group_of(job.cluster, expert_shard_ranks(job), stride);
}

ShardVolumes shard_volumes(const spec::Job& job, double parameters, const cluster::Group& group) {
  const bool scatters = job.layout.zero == 2 && job.stack.executed;  // gradients only
  if ((job.layout.zero < 3 && !scatters) || parameters <= 0) return {};
  const bool narrow = spec::is_narrow(job.training.precision) && job.stack.fp8_gather;
  ShardVolumes volumes;
  volumes.group = group;
  volumes.calls = std::max(1.0, job.stack.gathers_per_layer);
  volumes.gather_bytes = parameters * (narrow ? 1 : gathered_bytes(job));
  volumes.scatter_bytes = parameters * scattered_bytes(job);
  return volumes;
}

}  // namespace

double activation_bytes(const spec::Job& job) { return spec::is_wide(job.training.precision) ? 4 : kHalfBytes; }

double scattered_bytes(const spec::Job& job) {
  return spec::is_wide(job.training.precision) ? 4 : job.stack.scatter_bytes;
}

double gathered_bytes(const spec::Job& job) {
  return spec::is_wide(job.training.precision) ? 4 : job.stack.gather_bytes;
}

LayerVolumes layer_volumes(const spec::Job& job, const model::Shard& shard, const model::LayerWork& work,
                           model::LayerKind kind) {
  LayerVolumes volumes;
  volumes.tensor_calls = tensor_calls(job, shard, kind);
  if (volumes.tensor_calls > 0) {
    volumes.tensor_group = cluster::group_of(job.cluster, job.layout.tp, 1);
    volumes.tensor_bytes = shard.tokens() * job.model.hidden * activation_bytes(job);
  }
  if (job.layout.cp > 1) {
    const model::AttentionWidths w = model::attention_widths(job.model);
    volumes.context_group = cluster::group_of(job.cluster, job.layout.cp, job.layout.tp);
    volumes.context_bytes = shard.tokens() * (w.key + w.value) / job.layout.tp * activation_bytes(job) * job.layout.cp;
  }
  add_exchange(job, shard, work, volumes);
  return volumes;
}

PieceParameters layer_parameters(const spec::Job& job, const model::Shard& shard, model::LayerKind kind) {
  const model::ParameterCount count = model::parameters(job.model);
  const double own = count.attention / shard.tp + count.norms;
  if (kind == model::LayerKind::dense) return {own + count.mlp / shard.tp, 0};
  return {own + count.shared_experts / shard.tp, count.routed_experts / (static_cast<double>(shard.ep) * shard.etp)};
}

ShardVolumes dense_shard_volumes(const spec::Job& job, double parameters) {
  return shard_volumes(job, parameters, cluster::group_of(job.cluster, shard_ranks(job), job.layout.tp));
}

ShardVolumes expert_shard_volumes(const spec::Job& job, double parameters) {
  return shard_volumes(job, parameters, expert_copies(job));
}

bool gathers_once_a_step(const spec::Job& job) {
  return job.layout.zero == 3 && (job.layout.pp > 1 || !job.stack.reshard_after_forward);
}

double shard_ranks(const spec::Job& job) {
  const double all = static_cast<double>(spec::data_parallel(job)) * job.layout.cp;
  return job.layout.shard_group > 0 ? std::min<double>(job.layout.shard_group, all) : all;
}

double expert_shard_ranks(const spec::Job& job) {
  const double ranks = static_cast<double>(spec::data_parallel(job)) * job.layout.cp * job.layout.tp;
  const double etp = spec::expert_tp(job.layout);
  return std::max(1.0, ranks / (job.layout.ep * etp));
}

DataVolumes data_volumes(const spec::Job& job, const PieceParameters& rank) {
  const double ranks = static_cast<double>(spec::data_parallel(job)) * job.layout.cp;
  const double gradient = scattered_bytes(job);
  DataVolumes volumes;
  if (job.layout.zero == 3) {
    // Shards that live in a smaller group are still summed over its copies.
    const double shards = shard_ranks(job);
    const cluster::Group over = cluster::group_of(job.cluster, ranks / shards, job.layout.tp * shards);
    if (ranks > shards) volumes.add({Verb::all_reduce, (rank.dense + rank.experts) / shards * gradient, over});
    return volumes;
  }
  const auto add = [&](double parameters, const cluster::Group& group) {
    if (job.layout.zero == 0 && job.layout.servers == 0) {
      volumes.add({Verb::all_reduce, parameters * gradient, group});
      return;
    }
    const cluster::Group own{group.per_domain, group.per_domain};
    const cluster::Group& reducing = job.layout.servers > 0 ? own : group;
    volumes.add({Verb::reduce_scatter, parameters * gradient, reducing});
    volumes.add({Verb::all_gather, parameters * gathered_bytes(job), reducing});
  };
  add(rank.dense, cluster::group_of(job.cluster, ranks, job.layout.tp));
  if (rank.experts > 0) add(rank.experts, expert_copies(job));
  return volumes;
}

ServerVolumes server_volumes(const spec::Job& job, const PieceParameters& mean) {
  ServerVolumes volumes;
  if (job.layout.servers == 0) return volumes;
  const double ranks = static_cast<double>(spec::data_parallel(job)) * job.layout.cp;
  const cluster::Group dense = cluster::group_of(job.cluster, ranks, job.layout.tp);
  const cluster::Group experts = expert_copies(job);
  // Of all ranks together: every parameter once, and once for each domain that contributes to it.
  const double share = static_cast<double>(job.cluster.devices) / job.layout.servers;
  const double sent = share * (mean.dense / dense.per_domain + mean.experts / experts.per_domain);
  volumes.push_bytes = sent * scattered_bytes(job);
  volumes.pull_bytes = sent * gathered_bytes(job);
  volumes.parameters = share * (mean.dense / dense.ranks + mean.experts / experts.ranks);
  volumes.domains = dense.domains();
  return volumes;
}

double transfer_bytes(const spec::Job& job, const model::Shard& shard) {
  const bool divided = !job.stack.executed || shard.sequence_parallel;
  return shard.tokens() * job.model.hidden * activation_bytes(job) / (divided ? job.layout.tp : 1);
}

}  // namespace twinpod::program
