#include "plan/space.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "layout/check.hpp"
#include "program/volume.hpp"

namespace twinpod::plan {
namespace {

using spec::Recompute;
using spec::Schedule;

constexpr int kLeastContextTokens = 512;    // of a sequence on one context rank; less than this nobody splits off
constexpr std::size_t kMostCounts = 64;     // device counts that a planned batch looks at
constexpr std::int64_t kMicroBatches = 64;  // so that there is a choice of micro-batches, too
constexpr double kBatchSlack = 0.05;        // by which a planned batch may miss the tokens that were asked for

template <typename T>
bool contains(const std::vector<T>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

template <typename T>
bool is_wished(const std::vector<T>& wish, T value) {
  return wish.empty() || contains(wish, value);
}

// The wish, or what stands open; with the value of a layout that the job itself has among it.
template <typename T>
std::vector<T> values_of(const spec::Job& job, const std::vector<T>& wish, std::vector<T> open, T own) {
  if (!wish.empty()) return wish;
  if (job.has_layout && !contains(open, own)) open.push_back(own);
  return open;
}

// Of an axis that means nothing where it is asked: 0 is what it is then.
std::vector<int> vacuous(const Wishes& wishes, const std::vector<int>& wish) {
  return !wishes.literal || is_wished(wish, 0) ? std::vector<int>{0} : std::vector<int>{};
}

template <typename T>
void sort_once(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

Wishes without_repeats(Wishes wishes) {
  for (std::vector<int>* axis :
       {&wishes.devices, &wishes.tp, &wishes.pp, &wishes.virtual_stages, &wishes.cp, &wishes.ep, &wishes.etp,
        &wishes.dp, &wishes.micro_batch, &wishes.zero, &wishes.servers, &wishes.sequence_parallel,
        &wishes.offload_optimizer, &wishes.offload_activations})
    sort_once(*axis);
  sort_once(wishes.recompute);
  sort_once(wishes.schedule);
  return wishes;
}

std::vector<int> switch_of(const spec::Job& job, const std::vector<int>& wish, bool able, bool own) {
  return values_of(job, wish, able ? std::vector<int>{0, 1} : std::vector<int>{0}, own ? 1 : 0);
}

// What waits on the host must get there.
std::vector<int> host_switch_of(const spec::Job& job, const std::vector<int>& wish, bool able, bool own) {
  if (job.cluster.device.host_bytes_per_s > 0) return switch_of(job, wish, able, own);
  return is_wished(wish, 0) ? std::vector<int>{0} : std::vector<int>{};
}

std::vector<int> divisors_of(std::int64_t number) {
  const std::vector<std::int64_t> all = layout::divisors(number);
  return {all.begin(), all.end()};
}

bool tp_divides(const spec::Model& model, int tp) {
  const spec::Attention& a = model.attention;
  if (a.heads % tp != 0 || model.hidden % tp != 0 || model.ffn % tp != 0) return false;
  return a.kv_rank > 0 || a.kv_heads < 1 || a.kv_heads % tp == 0 || tp % a.kv_heads == 0;
}

std::vector<int> tensor_sizes(const Space& space) {
  const spec::Job& job = *space.job;
  std::vector<int> sizes;
  for (const int tp : divisors_of(job.model.attention.heads)) {
    if (!tp_divides(job.model, tp) || !is_wished(space.wishes.tp, tp)) continue;
    const bool own = job.has_layout && tp == job.layout.tp;
    if (tp > 1 && space.wishes.tp.empty() && !space.abilities.tensor_parallel && !own) continue;
    sizes.push_back(tp);
  }
  return sizes;
}

std::vector<int> context_sizes(const Space& space) {
  const spec::Job& job = *space.job;
  std::vector<int> open = {1};
  if (space.abilities.context_parallel) {
    for (const int cp : divisors_of(job.training.sequence)) {
      if (cp > 1 && job.training.sequence / cp >= kLeastContextTokens) open.push_back(cp);
    }
  }
  std::vector<int> sizes = values_of(job, space.wishes.cp, open, job.layout.cp);
  std::erase_if(sizes, [&](int cp) { return cp < 1 || (cp > 1 && job.training.sequence % (2 * cp) != 0); });
  return sizes;
}

std::vector<int> expert_sizes(const Space& space) {
  const spec::Job& job = *space.job;
  if (job.model.experts.count == 0) return is_wished(space.wishes.ep, 1) ? std::vector<int>{1} : std::vector<int>{};
  std::vector<int> open = {1};
  if (space.abilities.expert_parallel) open = divisors_of(job.model.experts.count);
  std::vector<int> sizes = values_of(job, space.wishes.ep, open, job.layout.ep);
  std::erase_if(sizes, [&](int ep) { return ep < 1 || job.model.experts.count % ep != 0; });
  return sizes;
}

// 0 means as tp, so tp itself is not a second name for it.
int canonical_etp(const spec::Job& job, int tp, int etp) { return job.model.experts.count == 0 || etp == tp ? 0 : etp; }

std::vector<int> expert_tensor_sizes(const Space& space, int tp) {
  const spec::Job& job = *space.job;
  if (job.model.experts.count == 0) return vacuous(space.wishes, space.wishes.etp);
  std::vector<int> sizes;
  for (const int etp : values_of(job, space.wishes.etp, {0, 1}, job.layout.etp)) {
    const int size = canonical_etp(job, tp, etp);
    if (job.model.experts.ffn % (size > 0 ? size : tp) == 0 && !contains(sizes, size)) sizes.push_back(size);
  }
  return sizes;
}

std::vector<int> sequence_splits(const Space& space, int tp, int cp) {
  if (tp == 1) return vacuous(space.wishes, space.wishes.sequence_parallel);
  const spec::Job& job = *space.job;
  std::vector<int> splits =
      switch_of(job, space.wishes.sequence_parallel, space.abilities.sequence_parallel, job.layout.sequence_parallel);
  if ((job.training.sequence / cp) % tp != 0) std::erase(splits, 1);
  return splits;
}

std::vector<int> micro_batches_sizes(const Space& space) {
  const auto batch = static_cast<std::int64_t>(space.job->training.global_batch);
  std::vector<int> sizes = divisors_of(std::max<std::int64_t>(1, batch));
  std::erase_if(sizes, [&](int size) { return !is_wished(space.wishes.micro_batch, size); });
  return sizes;
}

// Data-parallel ranks, or 0 when these sizes do not divide devices, batch and experts.
int data_ranks(const Space& space, const Group& group, int devices, int pp) {
  const std::int64_t ranks = std::int64_t{group.tp} * group.cp * pp;
  if (ranks > devices || devices % ranks != 0) return 0;
  const auto dp = static_cast<int>(devices / ranks);
  const double share = static_cast<double>(dp) * group.micro_batch;
  const double batch = space.job->training.global_batch;
  if (batch < share || std::fmod(batch, share) != 0 || !is_wished(space.wishes.dp, dp)) return 0;
  if (space.job->model.experts.count == 0) return dp;
  const std::int64_t etp = group.etp > 0 ? group.etp : group.tp;
  return std::int64_t{dp} * group.cp * group.tp % (group.ep * etp) == 0 ? dp : 0;
}

int nodes_of(const Space& space, int devices) {
  const int per_node = std::max(1, space.job->cluster.devices_per_node);
  return (devices + per_node - 1) / per_node;
}

// Ends that hold a layer less make other stages equal where the layers alone do not divide.
std::vector<bool> end_choices(const Space& space, int pp) {
  const spec::Job& job = *space.job;
  const int layers = job.model.layers;
  if (pp == 1) return {false};
  std::vector<bool> choices;
  const bool divides = layers % pp == 0;
  const bool own = job.has_layout && pp == job.layout.pp;
  if (divides || space.abilities.uneven_stages || own) choices.push_back(false);
  const bool helps = !divides && (layers + 2) % pp == 0;
  if (helps || job.layout.uneven_ends) choices.push_back(true);
  std::erase_if(choices, [&](bool uneven) { return layout::fewest_layers_of_a_stage(layers, pp, uneven) < 1; });
  return choices;
}

void add_interleavings(const Space& space, int pp, bool uneven, double micro_batches, std::vector<Pipelining>& list) {
  const int layers = space.job->model.layers + (uneven ? 2 : 0);
  if (layers % pp != 0 || std::fmod(micro_batches, pp) != 0) return;
  for (const int v : divisors_of(layers / pp)) {
    if (v > 1 && is_wished(space.wishes.virtual_stages, v)) list.push_back({Schedule::interleaved, v, uneven});
  }
}

bool schedule_works(const Space& space, Schedule schedule, int pp, bool uneven, double micro_batches) {
  const int layers = space.job->model.layers + (uneven ? 2 : 0);
  if (schedule == Schedule::zb_v) return layers % (2 * pp) == 0;
  if (schedule == Schedule::dualpipe)
    return pp % 2 == 0 && micro_batches >= 2.0 * pp && std::fmod(micro_batches, 2) == 0;
  return true;
}

// Whether any parameter has a second copy to share its state with: dense ones in data parallelism, routed experts in
// tensor parallelism, too, when they are not split by it.
bool has_copies(const spec::Model& model, int dp, int cp, int tp, int ep, int etp) {
  if (dp * cp > 1) return true;
  return model.experts.count > 0 && tp > ep * (etp > 0 ? etp : tp);
}

// Interleaving and DualPipe are nothing without stages; who wants one of them wants a pipeline. Literally so does who
// wants anything but what one stage is called.
bool runs_on_one_stage(const Wishes& wishes) {
  const bool plain =
      wishes.schedule.empty() || std::any_of(wishes.schedule.begin(), wishes.schedule.end(), [&](Schedule s) {
        if (wishes.literal) return s == Schedule::one_f_one_b;
        return s != Schedule::interleaved && s != Schedule::dualpipe;
      });
  return plain && is_wished(wishes.virtual_stages, 1);
}

std::vector<int> zero_stages(const Space& space, int pp) {
  std::vector<int> open = space.abilities.zero;
  if (pp > 1 && !space.abilities.sharded_pipeline) std::erase_if(open, [](int zero) { return zero > 1; });
  return values_of(*space.job, space.wishes.zero, open, space.job->layout.zero);
}

// Optimizer state with all ranks, shared by them, on the host, or on servers.
void add_homes(const Space& space, const Group& group, int devices, int pp, std::vector<Keeping>& list) {
  const spec::Job& job = *space.job;
  const int dp = data_ranks(space, group, devices, pp);
  std::vector<int> zeros = zero_stages(space, pp);
  if (!has_copies(job.model, dp, group.cp, group.tp, group.ep, group.etp))
    zeros = vacuous(space.wishes, space.wishes.zero);
  for (const int zero : zeros) {
    for (const int offload : host_switch_of(job, space.wishes.offload_optimizer, space.abilities.offload_optimizer,
                                            job.layout.offload_optimizer)) {
      list.push_back({.zero = zero, .offload_optimizer = offload != 0});
    }
  }
  const int nodes = nodes_of(space, devices);
  std::vector<int> open = {0};
  if (space.abilities.parameter_server) open.push_back(nodes);
  for (const int servers : values_of(job, space.wishes.servers, open, job.layout.servers)) {
    if (servers > 0 && servers <= nodes && dp > 1 && is_wished(space.wishes.zero, 0) &&
        is_wished(space.wishes.offload_optimizer, 0))
      list.push_back({.zero = 0, .servers = servers});
  }
  if (!is_wished(space.wishes.servers, 0)) std::erase_if(list, [](const Keeping& k) { return k.servers == 0; });
}

}  // namespace

spec::Abilities all_abilities() {
  spec::Abilities all;
  all.schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_1p,
                   Schedule::zb_2p, Schedule::zb_v,        Schedule::dualpipe};
  all.sharded_pipeline = true;
  all.offload_optimizer = true;
  all.offload_activations = true;
  all.parameter_server = true;
  return all;
}

Space space_of(const spec::Job& job, const Wishes& asked, const spec::Abilities& abilities) {
  const Wishes wishes = without_repeats(asked);
  Space space{&job, wishes, abilities, wishes.devices, {}};
  if (space.devices.empty()) space.devices = {job.cluster.devices};
  const std::vector<int> context = context_sizes(space);
  const std::vector<int> experts = expert_sizes(space);
  const std::vector<int> batches = micro_batches_sizes(space);
  for (const int tp : tensor_sizes(space)) {
    for (const int cp : context) {
      for (const int ep : experts) {
        for (const int etp : expert_tensor_sizes(space, tp)) {
          for (const int micro_batch : batches) {
            for (const int split : sequence_splits(space, tp, cp))
              space.groups.push_back({tp, cp, ep, etp, micro_batch, split != 0});
          }
        }
      }
    }
  }
  return space;
}

std::vector<int> stage_counts(const Space& space, const Group& group, int devices) {
  const spec::Job& job = *space.job;
  std::vector<int> counts;
  const std::int64_t of_model = std::int64_t{group.tp} * group.cp;
  if (devices % of_model != 0) return counts;
  const std::int64_t most = std::min<std::int64_t>(job.model.layers, devices / of_model);
  for (int pp = 1; pp <= most; ++pp) {
    if (devices % (of_model * pp) != 0) continue;
    const bool able =
        space.abilities.pipeline_parallel || !space.wishes.pp.empty() || (job.has_layout && pp == job.layout.pp);
    if (!is_wished(space.wishes.pp, pp) || (pp > 1 && !able)) continue;
    if (data_ranks(space, group, devices, pp) > 0) counts.push_back(pp);
  }
  return counts;
}

std::vector<Pipelining> pipelinings(const Space& space, const Group& group, int devices, int pp) {
  const spec::Job& job = *space.job;
  const Wishes& wishes = space.wishes;
  if (pp == 1) return runs_on_one_stage(wishes) ? std::vector<Pipelining>{{}} : std::vector<Pipelining>{};
  const int dp = data_ranks(space, group, devices, pp);
  const double micro_batches = job.training.global_batch / (static_cast<double>(dp) * group.micro_batch);
  std::vector<Pipelining> list;
  for (const bool uneven : end_choices(space, pp)) {
    for (const Schedule schedule : values_of(job, wishes.schedule, space.abilities.schedules, job.layout.schedule)) {
      if (schedule == Schedule::interleaved) {
        add_interleavings(space, pp, uneven, micro_batches, list);
      } else if (is_wished(wishes.virtual_stages, 1) && schedule_works(space, schedule, pp, uneven, micro_batches)) {
        list.push_back({schedule, 1, uneven});
      }
    }
  }
  return list;
}

std::vector<Keeping> keepings(const Space& space, const Group& group, int devices, int pp) {
  const spec::Job& job = *space.job;
  std::vector<Keeping> homes;
  add_homes(space, group, devices, pp, homes);
  const std::vector<int> parked = host_switch_of(job, space.wishes.offload_activations,
                                                 space.abilities.offload_activations, job.layout.offload_activations);
  std::vector<Keeping> list;
  for (const Recompute recompute :
       values_of(job, space.wishes.recompute, space.abilities.recompute, job.layout.recompute)) {
    for (const int park : parked) {
      for (Keeping keeping : homes) {
        keeping.recompute = recompute;
        keeping.offload_activations = park != 0;
        list.push_back(keeping);
      }
    }
  }
  return list;
}

spec::Layout canonical(const spec::Job& job) {
  spec::Layout layout = job.layout;
  layout.dp = spec::data_parallel(job);
  if (layout.tp == 1) layout.sequence_parallel = false;
  if (!has_copies(job.model, layout.dp, layout.cp, layout.tp, layout.ep, layout.etp)) layout.zero = 0;
  if (layout.zero == 0) layout.shard_group = 0;
  layout.etp = canonical_etp(job, layout.tp, layout.etp);
  if (layout.pp == 1) {
    layout.schedule = Schedule::one_f_one_b;
    layout.uneven_ends = false;
  }
  if (layout.virtual_stages > 1) layout.schedule = Schedule::interleaved;
  if (layout.recompute != Recompute::full) layout.recompute_layers = 0;
  return layout;
}

double planned_batch(double tokens, int sequence, const std::vector<int>& devices) {
  const double target = std::max(1.0, std::round(tokens / sequence));
  const auto low = static_cast<std::int64_t>(std::max(1.0, std::ceil(target * (1 - kBatchSlack))));
  const auto high = static_cast<std::int64_t>(std::max(1.0, std::floor(target * (1 + kBatchSlack))));
  const std::size_t stride = std::max<std::size_t>(1, devices.size() / kMostCounts);
  std::int64_t best = low;
  std::int64_t most = -1;
  for (std::int64_t batch = low; batch <= high; ++batch) {
    std::int64_t shared = 0;
    for (std::size_t i = 0; i < devices.size(); i += stride) {
      const std::int64_t common = std::gcd<std::int64_t>(batch, kMicroBatches * devices[i]);
      shared += static_cast<std::int64_t>(layout::divisors(common).size());
    }
    const bool nearer = std::abs(static_cast<double>(batch) - target) < std::abs(static_cast<double>(best) - target);
    if (shared < most || (shared == most && !nearer)) continue;
    most = shared;
    best = batch;
  }
  return static_cast<double>(best);
}

}  // namespace twinpod::plan
