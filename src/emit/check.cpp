// What each engine can run, and the refusals: what was asked for, what there is, the nearest that works.
#include "layout/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "emit/emit.hpp"
#include "emit/facts.hpp"
#include "emit/flavors.hpp"
#include "emit/mcore.hpp"
#include "spec/names.hpp"

namespace twinpod::emit {
namespace {

using spec::Job;
using spec::Layout;
using spec::Recompute;
using spec::Schedule;

using Rule = Result<void> (*)(const Job&, Engine);

std::string_view title(Engine engine) {
  constexpr std::array<std::string_view, 4> kTitles = {"Megatron-LM", "torchtitan", "NeMo (Megatron-Bridge)",
                                                       "twinpod"};
  return kTitles[static_cast<std::size_t>(engine)];
}

tl::unexpected<Error> refusal(Engine engine, const std::string& what, std::string hint) {
  return infeasible(fmt::format("emit {}: {} {}", name_of(engine), title(engine), what), std::move(hint));
}

template <typename T>
bool contains(const std::vector<T>& list, T value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// 1F1B with several chunks of a stage is the interleaved schedule.
Schedule schedule_of(const Layout& layout) {
  return layout.virtual_stages > 1 ? Schedule::interleaved : layout.schedule;
}

Result<void> runs_on_gpus(const Job& job, Engine engine) {
  const std::string& vendor = job.cluster.device.vendor;
  if (vendor.empty() || vendor == "NVIDIA" || vendor == "AMD") return {};
  return refusal(engine, fmt::format("runs on GPUs, but the job's device is {}", job.cluster.device.name),
                 "try --emit twinpod, or a cluster of GPUs");
}

Result<void> nodes_are_whole(const Job& job, Engine engine) {
  const int each = job.cluster.devices_per_node;
  const int devices = job.cluster.devices;
  if (devices <= each || devices % each == 0) return {};
  return refusal(engine, fmt::format("starts equal nodes, but {} devices do not fill nodes of {}", devices, each),
                 fmt::format("try {} devices", devices / each * each));
}

Result<void> schedule_is_known(const Job& job, Engine engine) {
  if (job.layout.pp == 1) return {};
  const std::vector<Schedule> known = abilities(engine).schedules;
  const Schedule wanted = schedule_of(job.layout);
  if (contains(known, wanted)) return {};
  std::string names;
  for (const Schedule schedule : known)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", spec::name_of(schedule));
  const bool folded = wanted == Schedule::zb_1p || wanted == Schedule::zb_2p;
  return refusal(engine, fmt::format("has no schedule {}; it has {}", spec::name_of(wanted), names),
                 contains(known, Schedule::zb_v) && folded ? "try schedule zb-v" : "try schedule 1f1b, or interleaved");
}

Result<void> zero_is_known(const Job& job, Engine engine) {
  const std::vector<int> known = abilities(engine).zero;
  const int wanted = job.layout.zero;
  if (spec::data_parallel(job) * job.layout.cp == 1 || contains(known, wanted)) return {};
  const auto above = std::find_if(known.begin(), known.end(), [&](int zero) { return zero > wanted; });
  return refusal(engine, fmt::format("has no ZeRO {}", wanted),
                 fmt::format("try zero {}", above != known.end() ? *above : known.back()));
}

// Whatever cp is: who writes it wants it.
Result<void> context_exchange_is_known(const Job& job, Engine engine) {
  const spec::ContextExchange wanted = job.layout.context_exchange;
  if (wanted == Layout().context_exchange) return {};
  return refusal(engine, fmt::format("is not written for context_exchange {}", spec::name_of(wanted)),
                 fmt::format("try context_exchange {}", spec::name_of(Layout().context_exchange)));
}

Result<void> nothing_on_servers(const Job& job, Engine engine) {
  if (job.layout.servers == 0) return {};
  return refusal(engine, fmt::format("has no parameter servers, but the layout has {}", job.layout.servers),
                 "try servers 0, with zero 1 for the optimizer state");
}

Result<void> optimizer_is_known(const Job& job, Engine engine) {
  const spec::Optimizer optimizer = job.training.optimizer;
  const bool sgd = optimizer == spec::Optimizer::sgd || optimizer == spec::Optimizer::sgd_momentum;
  if (optimizer == spec::Optimizer::adam || (sgd && engine == Engine::megatron)) return {};
  return refusal(engine, fmt::format("is not written for optimizer {}", spec::name_of(optimizer)),
                 "try optimizer adam");
}

// ---- Megatron Core: Megatron-LM and Megatron-Bridge ----

Result<void> precision_of_mcore(const Job& job, Engine engine) {
  const spec::Precision precision = job.training.precision;
  if (job.training.pure_low_precision) {
    return refusal(engine, "keeps an fp32 master copy, but the job asks for pure_low_precision",
                   "try pure_low_precision false");
  }
  const bool wide = precision == spec::Precision::fp32 && engine == Engine::megatron;
  if (!spec::is_wide(precision) || wide) return {};
  return refusal(engine, fmt::format("has no switch for precision {}", spec::name_of(precision)), "try precision bf16");
}

Result<void> fsdp_without_pipeline(const Job& job, Engine engine) {
  if (!uses_fsdp(job.layout) || job.layout.pp == 1) return {};
  return refusal(engine,
                 fmt::format("has ZeRO {} as Megatron FSDP, which goes with tp, cp and ep, but not with pp {}",
                             job.layout.zero, job.layout.pp),
                 "try zero 1, or pp 1");
}

Result<void> offloading_of_mcore(const Job& job, Engine engine) {
  const Layout& layout = job.layout;
  if (layout.offload_optimizer && layout.zero != 1) {
    return refusal(
        engine, fmt::format("offloads the optimizer with the distributed optimizer only, but zero is {}", layout.zero),
        "try zero 1");
  }
  if (!layout.offload_activations) return {};
  if (layout.pp > 1) {
    return refusal(engine, fmt::format("does not offload activations in a pipeline, but pp is {}", layout.pp),
                   "try pp 1, or recompute full");
  }
  if (layout.recompute == Recompute::none) return {};
  return refusal(engine, "does not offload activations that it recomputes", "try recompute none");
}

Result<void> recompute_of_mcore(const Job& job, Engine engine) {
  const Layout& layout = job.layout;
  if (layout.recompute_layers % layout.virtual_stages == 0) return {};
  const int up = (layout.recompute_layers / layout.virtual_stages + 1) * layout.virtual_stages;
  return refusal(engine,
                 fmt::format("recomputes equally many layers of each of {} chunks, but recompute_layers is {}",
                             layout.virtual_stages, layout.recompute_layers),
                 fmt::format("try recompute_layers {}", up));
}

Result<void> tensor_parallel_of_mcore(const Job& job, Engine engine) {
  const Layout& layout = job.layout;
  if (layout.tp == 1 || layout.sequence_parallel) return {};
  if (job.model.experts.count > 0) {
    return refusal(engine, "trains experts with tensor parallelism only with sequence_parallel",
                   "try sequence_parallel true");
  }
  if (!layout.async_tp) return {};
  return refusal(engine, "overlaps tensor-parallel collectives only with sequence_parallel",
                 "try sequence_parallel true, or async_tp false");
}

struct Feature {
  bool there;
  std::string_view what;
};

Result<void> model_of_mcore(const Job& job, Engine engine) {
  const spec::Model& m = job.model;
  const bool latent = m.attention.kv_rank > 0;
  const std::array features = {
      Feature{m.positions == spec::Positions::alibi, "ALiBi positions"},
      Feature{m.embedding_norm, "a norm behind the embedding"},
      Feature{m.parallel_block, "attention and MLP side by side"},
      Feature{m.post_norms > 0, "norms behind attention and MLP"},
      Feature{m.head_bias, "a bias on the logits"},
      Feature{!m.norm_weight, "norms without weights"},
      Feature{m.norm == spec::Norm::layer_norm && !m.norm_bias, "layer norms without bias"},
      Feature{!latent && m.attention.bias != m.mlp_bias, "biases on attention or MLP alone"},
  };
  for (const Feature& feature : features) {
    if (feature.there) {
      return refusal(engine, fmt::format("has no switch for {}, which {} has", feature.what, m.name),
                     "try --emit twinpod");
    }
  }
  return {};
}

// ---- torchtitan ----

Result<void> flavor_is_known(const Job& job, Engine engine) {
  if (flavor_of(job.model) != nullptr) return {};
  return refusal(engine, fmt::format("has no flavor for {}", job.model.name), new_flavor_text(job.model));
}

Result<void> precision_of_torchtitan(const Job& job, Engine engine) {
  const spec::Precision precision = job.training.precision;
  if (precision == spec::Precision::fp16 || precision == spec::Precision::fp4 || precision == spec::Precision::tf32) {
    return refusal(engine,
                   fmt::format("trains in bf16, fp32 or fp8, but the job asks for {}", spec::name_of(precision)),
                   precision == spec::Precision::fp4 ? "try precision fp8" : "try precision bf16");
  }
  const bool sharded = spec::data_parallel(job) * job.layout.cp > 1;
  if (sharded || job.cluster.devices == 1 || spec::is_wide(precision) || job.training.pure_low_precision) return {};
  return refusal(engine, "mixes precisions through FSDP, but dp × cp is 1", "try pure_low_precision true, or dp 2");
}

Result<void> sharding_of_torchtitan(const Job& job, Engine engine) {
  const Layout& layout = job.layout;
  const int dp = spec::data_parallel(job);
  if (layout.zero == 0 && dp > 1 && layout.tp * layout.pp * layout.cp > 1) {
    return refusal(engine, "replicates parameters with data parallelism alone, but the layout has other axes",
                   "try zero 2");
  }
  if (layout.offload_optimizer && layout.zero < 2) {
    return refusal(engine, "offloads to the host through FSDP, but zero is 0", "try zero 3");
  }
  if (layout.shard_group % layout.cp != 0) {
    return refusal(engine,
                   fmt::format("shards over whole context-parallel groups, but cp {} does not divide shard_group {}",
                               layout.cp, layout.shard_group),
                   fmt::format("try shard_group {}", (layout.shard_group / layout.cp + 1) * layout.cp));
  }
  return {};
}

Result<void> stages_of_torchtitan(const Job& job, Engine engine) {
  const Layout& layout = job.layout;
  const int slots = job.model.layers + (layout.uneven_ends ? 2 : 0);
  if (layout.pp == 1 || slots % layout.pp == 0 || !layout.remainder_last) return {};
  return refusal(engine, "gives layers that do not divide to the first stages, but remainder_last is true",
                 "try remainder_last false");
}

// Expert-parallel ranks are taken from those over which the other parameters are sharded.
Result<void> expert_ranks_of_torchtitan(const Job& job, Engine engine) {
  const Layout& layout = job.layout;
  const int shard = layout.zero == 0         ? layout.cp
                    : layout.shard_group > 0 ? layout.shard_group
                                             : spec::data_parallel(job) * layout.cp;
  const int ranks = shard * layout.tp;
  if (job.model.experts.count == 0 || ranks % layout.ep == 0) return {};
  return refusal(
      engine, fmt::format("spreads experts over shards × tp = {} ranks, which ep {} does not divide", ranks, layout.ep),
      fmt::format("try ep {}", layout::nearest_divisor(ranks, layout.ep)));
}

Result<void> experts_of_torchtitan(const Job& job, Engine engine) {
  const Layout& layout = job.layout;
  if (job.model.experts.count == 0 || layout.tp == 1) return {};
  const int etp = spec::expert_tp(layout);
  const int wanted = layout.ep > 1 ? 1 : layout.tp;
  if (etp == wanted) return {};
  return refusal(engine,
                 layout.ep > 1
                     ? fmt::format("takes the tensor-parallel ranks for expert parallelism, but etp is {}", etp)
                     : fmt::format("splits experts like everything else when ep is 1, but etp is {}", etp),
                 fmt::format("try etp {}", wanted));
}

Result<void> habits_of_torchtitan(const Job& job, Engine engine) {
  const Layout& layout = job.layout;
  if (layout.recompute_layers > 0) {
    return refusal(engine,
                   fmt::format("recomputes all layers alike, but recompute_layers is {}", layout.recompute_layers),
                   "try recompute_layers 0");
  }
  if (!layout.overlap.value_or(true)) {
    return refusal(engine, "always reduces gradients beside the backward passes, but overlap is false",
                   "try overlap true");
  }
  if (!layout.offload_activations) return {};
  return refusal(engine, "does not offload activations", "try recompute full");
}

constexpr std::array<Rule, 6> kRules = {runs_on_gpus,  nodes_are_whole,           schedule_is_known,
                                        zero_is_known, context_exchange_is_known, nothing_on_servers};
constexpr std::array<Rule, 7> kMcoreRules = {optimizer_is_known,  precision_of_mcore, fsdp_without_pipeline,
                                             offloading_of_mcore, recompute_of_mcore, tensor_parallel_of_mcore,
                                             model_of_mcore};
constexpr std::array<Rule, 8> kTorchtitanRules = {
    optimizer_is_known,   flavor_is_known,       precision_of_torchtitan,    sharding_of_torchtitan,
    stages_of_torchtitan, experts_of_torchtitan, expert_ranks_of_torchtitan, habits_of_torchtitan};

template <std::size_t N>
Result<void> all_of(const std::array<Rule, N>& rules, const Job& job, Engine engine) {
  for (const Rule rule : rules) {
    if (Result<void> result = rule(job, engine); !result) return result;
  }
  return {};
}

}  // namespace

spec::Abilities abilities(Engine engine) {
  spec::Abilities able;
  able.offload_optimizer = true;
  able.sharded_pipeline = engine == Engine::torchtitan || engine == Engine::twinpod;
  able.offload_activations = engine != Engine::torchtitan;
  if (engine == Engine::torchtitan) {
    able.schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_v};
    able.zero = {0, 2, 3};
  }
  if (engine == Engine::twinpod) {
    able.schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_1p,
                      Schedule::zb_2p, Schedule::zb_v,        Schedule::dualpipe};
    able.parameter_server = true;
  }
  return able;
}

Result<void> check(const Job& job, Engine engine) {
  if (Result<void> valid = layout::check(job); !valid) return valid;
  if (engine == Engine::twinpod) return {};
  if (Result<void> result = all_of(kRules, job, engine); !result) return result;
  return engine == Engine::torchtitan ? all_of(kTorchtitanRules, job, engine) : all_of(kMcoreRules, job, engine);
}

}  // namespace twinpod::emit
