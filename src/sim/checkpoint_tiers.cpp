#include "sim/checkpoint_tiers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/units.hpp"
#include "spec/names.hpp"

namespace twinpod::sim {
namespace {

using program::Op;
using program::OpKind;
using program::Tier;
using spec::TierKind;

Tier tier_of(TierKind tier) {
  switch (tier) {
    case TierKind::memory:
      return Tier::host_memory;
    case TierKind::peer:
      return Tier::peer_memory;
    case TierKind::local:
      return Tier::local_disk;
    case TierKind::shared:
      return Tier::storage;
    case TierKind::object:
      return Tier::object_store;
  }
  return Tier::none;
}

int nodes_of(const spec::Cluster& cluster) {
  return (cluster.devices + cluster.devices_per_node - 1) / cluster.devices_per_node;
}

double or_no_limit(double rate) { return rate > 0 ? rate : StorageLinks::kNoLimit; }

// A replica stands beyond the scale-up domain, where there is more than one: what takes down a rack takes all of it.
int peer_distance(const spec::Cluster& cluster) {
  const bool several = cluster.devices > cluster.scale_up_domain && cluster.scale_up_domain > 0;
  return several ? std::max(cluster.scale_up_domain, cluster.devices_per_node) : cluster.devices_per_node;
}

StorageLinks storage_links(const spec::Cluster& cluster) {
  StorageLinks links;
  links.devices_per_node = cluster.devices_per_node;
  links.num_nodes = nodes_of(cluster);
  links.peer_distance = peer_distance(cluster);
  links.disk_bytes_per_s = or_no_limit(cluster.storage.local_write_bytes_per_s);
  links.shared_bytes_per_s = or_no_limit(cluster.storage_write_bytes_per_s);
  links.object_bytes_per_s = or_no_limit(cluster.storage.object_write_bytes_per_s);
  links.on_fabric = cluster.storage.on_fabric;
  const double nics = cluster.scale_out_bytes_per_s * cluster.devices_per_node;
  const double own = cluster.storage.node_write_bytes_per_s;
  links.node_bytes_per_s = or_no_limit(own > 0 ? own : nics);
  return links;
}

// A processor copies in its own memory: every byte is read and written there.
double snapshot_rate(const spec::Device& device) {
  if (device.family == "cpu") return device.memory_bytes_per_s / 2;
  return std::min(device.host_bytes_per_s, device.memory_bytes_per_s);
}

tl::unexpected<Error> no_rate(const spec::Cluster& cluster, TierKind tier, std::string_view what,
                              std::string_view key) {
  return input_error(fmt::format("checkpoint: {} has no write rate for its {}, which the tier `{}` needs",
                                 cluster.name.empty() ? "the cluster" : cluster.name, what, name_of(tier)),
                     fmt::format("write cluster.storage.{}, or --set cluster.storage.{}='10 GB/s'", key, key));
}

// Whether the tier is there at all.
Result<void> check_tier(const spec::Cluster& cluster, TierKind tier) {
  if (tier == TierKind::peer && nodes_of(cluster) < 2) {
    return infeasible(fmt::format("checkpoint: the tier `peer` is the memory of another host; the job's {} devices "
                                  "are in one",
                                  cluster.devices),
                      fmt::format("use more than {} devices, or the tier `local`", cluster.devices_per_node));
  }
  if (tier == TierKind::local && cluster.storage.local_write_bytes_per_s <= 0)
    return no_rate(cluster, tier, "local disks", "local.write");
  if (tier == TierKind::shared && cluster.storage_write_bytes_per_s <= 0)
    return no_rate(cluster, tier, "shared file system", "write");
  if (tier == TierKind::object && cluster.storage.object_write_bytes_per_s <= 0)
    return no_rate(cluster, tier, "object store", "object.write");
  return {};
}

// What the job says; if nothing, the slowest place that is known. A snapshot is always there.
std::vector<spec::CheckpointTier> tiers_of(const spec::Job& job) {
  std::vector<spec::CheckpointTier> tiers = job.checkpoint.store;
  const spec::Cluster& cluster = job.cluster;
  const bool only_local = cluster.storage_write_bytes_per_s <= 0 && cluster.storage.local_write_bytes_per_s > 0;
  if (tiers.empty()) tiers.push_back({only_local ? TierKind::local : TierKind::shared, ""});
  // A folder alone is somewhere; on one host it may be its disk.
  if (tiers.size() == 1 && tiers.front().kind == TierKind::shared && only_local && nodes_of(cluster) == 1)
    tiers.front().kind = TierKind::local;
  std::stable_sort(tiers.begin(), tiers.end(), [](const auto& a, const auto& b) { return a.kind < b.kind; });
  const auto again = std::unique(tiers.begin(), tiers.end(), [](const auto& a, const auto& b) {
    return a.kind == TierKind::memory && b.kind == TierKind::memory;
  });
  tiers.erase(again, tiers.end());
  if (tiers.front().kind != TierKind::memory) {
    spec::CheckpointTier memory{TierKind::memory, "", 1, 1};
    tiers.insert(tiers.begin(), memory);
  }
  return tiers;
}

// A snapshot and, for the peer before, the replicas.
Result<void> check_host_memory(const spec::Job& job, const CheckpointTiers& tiers,
                               const program::CheckpointBytes& bytes) {
  if (job.cluster.host_memory_bytes <= 0) return {};
  double copies = 0;
  for (const spec::CheckpointTier& tier : tiers.tiers) {
    const bool in_memory = tier.kind == TierKind::memory || tier.kind == TierKind::peer;
    if (in_memory) copies += tier.keep > 0 ? tier.keep : job.checkpoint.keep;
  }
  const double most = *std::max_element(bytes.of_rank.begin(), bytes.of_rank.end());
  const double needed = copies * most * std::min(job.cluster.devices, job.cluster.devices_per_node);
  if (needed <= job.cluster.host_memory_bytes) return {};
  return infeasible(fmt::format("checkpoint: {} of snapshots and replicas do not fit into the {} of a host's memory",
                                format_bytes(needed), format_bytes(job.cluster.host_memory_bytes)),
                    "keep fewer in memory, or use more ranks");
}

// All nodes at once, each with its even part.
double estimate(const CheckpointTiers& tiers, double bytes, double peer_bytes_per_s, int devices) {
  const StorageLinks& links = tiers.links;
  const double of_node = bytes / links.num_nodes;
  double seconds = 0;
  for (const Tier tier : tiers.drains) {
    if (tier == Tier::peer_memory) seconds += bytes / devices / peer_bytes_per_s;
    if (tier == Tier::local_disk) seconds += of_node / links.disk_bytes_per_s;
    const double all = tier == Tier::storage ? links.shared_bytes_per_s : links.object_bytes_per_s;
    if (tier == Tier::storage || tier == Tier::object_store)
      seconds += std::max(bytes / all, of_node / links.node_bytes_per_s);
  }
  return seconds;
}

// Of one rank, with nobody else there: through the NICs of its host, whatever joins the devices.
double peer_rate(const spec::Job& job) {
  return job.cluster.scale_out_bytes_per_s * job.stack.physics.scale_out_efficiency;
}

double alone_rate(const spec::Job& job, const StorageLinks& links, Tier tier) {
  if (tier == Tier::peer_memory) return peer_rate(job);
  if (tier == Tier::local_disk) return links.disk_bytes_per_s;
  const double all = tier == Tier::storage ? links.shared_bytes_per_s : links.object_bytes_per_s;
  return std::min(
      {all, links.node_bytes_per_s, links.on_fabric ? or_no_limit(peer_rate(job)) : StorageLinks::kNoLimit});
}

OpTime write_time(const spec::Job& job, const CheckpointTiers& tiers, const Op& op, double drawn) {
  OpTime time;
  if (op.tier == Tier::host_memory) {
    time.latency_s = op.bytes / tiers.snapshot_bytes_per_s;
    return time;
  }
  time.bytes_per_s = alone_rate(job, tiers.links, op.tier);
  time.transfer_s = drawn * op.bytes / time.bytes_per_s;
  if (op.tier != Tier::local_disk) time.latency_s = job.cluster.scale_out_latency_s;
  return time;
}

}  // namespace

Result<CheckpointTiers> checkpoint_tiers(const spec::Job& job, const program::CheckpointBytes& bytes) {
  if (job.layout.servers > 0) {
    return infeasible(
        "checkpoint: parameter servers hold the optimizer's state, and their checkpoints are not simulated",
        "try servers 0");
  }
  CheckpointTiers result;
  result.tiers = tiers_of(job);
  result.links = storage_links(job.cluster);
  for (const spec::CheckpointTier& tier : result.tiers) {
    if (const Result<void> there = check_tier(job.cluster, tier.kind); !there) return tl::unexpected(there.error());
    if (tier.kind != TierKind::memory) result.drains.push_back(tier_of(tier.kind));
  }
  if (const Result<void> fits = check_host_memory(job, result, bytes); !fits) return tl::unexpected(fits.error());
  result.snapshot_bytes_per_s = snapshot_rate(job.cluster.device);
  if (result.snapshot_bytes_per_s <= 0) {
    return input_error(fmt::format("checkpoint: {} has no host_link, over which a snapshot leaves it",
                                   job.cluster.device.name.empty() ? "the device" : job.cluster.device.name),
                       "--set cluster.device.host_link='63 GB/s'");
  }
  const bool replicates = std::count(result.drains.begin(), result.drains.end(), Tier::peer_memory) > 0;
  if (replicates && peer_rate(job) <= 0)
    return input_error("checkpoint: the cluster has no scale_out bandwidth, over which the tier `peer` is reached",
                       "--set cluster.scale_out.bandwidth='200 Gbit/s'");
  result.estimate_s = estimate(result, bytes.all, replicates ? peer_rate(job) : 1, job.cluster.devices);
  return result;
}

StepTimes checkpoint_times(const spec::Job& job, const CheckpointTiers& tiers, const program::Steps& steps,
                           const StepTimes& step, double drawn) {
  StepTimes times;
  times.ops = step.ops;
  for (std::size_t b = static_cast<std::size_t>(steps.num_step_blocks); b < steps.program.blocks.size(); ++b) {
    std::vector<OpTime>& ops = times.ops.emplace_back();
    const bool ends_step = b == static_cast<std::size_t>(steps.num_step_blocks);
    for (const Op& op : steps.program.blocks[b].ops) {
      ops.push_back(op.kind == OpKind::write ? write_time(job, tiers, op, drawn) : OpTime{});
    }
    // What no op explains is a part of every step.
    if (ends_step) ops.front().latency_s = step.tail_s;
  }
  return times;
}

}  // namespace twinpod::sim
