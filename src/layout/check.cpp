#include "layout/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>

#include "spec/names.hpp"

namespace twinpod::layout {
namespace {

using spec::Job;
using spec::Layout;
using spec::Schedule;

using Rule = Result<void> (*)(const Job&);

std::int64_t model_ranks(const Layout& layout) { return std::int64_t{layout.tp} * layout.pp * layout.cp; }

// "tp 8 × pp 3", without the axes that are 1.
std::string axes_text(const Layout& layout, bool with_dp) {
  std::string text;
  const auto add = [&](std::string_view name, int size, bool always) {
    if (size > 1 || always) text += fmt::format("{}{} {}", text.empty() ? "" : " × ", name, size);
  };
  if (with_dp) add("dp", layout.dp, true);
  add("tp", layout.tp, layout.pp == 1 && layout.cp == 1);
  add("pp", layout.pp, false);
  add("cp", layout.cp, false);
  return text;
}

std::int64_t nearest_of(const std::vector<std::int64_t>& sorted, std::int64_t wish) {
  const auto closer = [&](std::int64_t a, std::int64_t b) { return std::abs(a - wish) < std::abs(b - wish); };
  return *std::min_element(sorted.begin(), sorted.end(), closer);
}

Result<void> sizes_are_positive(const Job& job) {
  const Layout& l = job.layout;
  struct Size {
    std::string_view name;
    int value;
  };
  const std::array sizes = {Size{"devices", job.cluster.devices},
                            Size{"tp", l.tp},
                            Size{"pp", l.pp},
                            Size{"virtual_stages", l.virtual_stages},
                            Size{"cp", l.cp},
                            Size{"ep", l.ep},
                            Size{"micro_batch", l.micro_batch},
                            Size{"sequence", job.training.sequence},
                            Size{"layers", job.model.layers},
                            Size{"heads", job.model.attention.heads}};
  for (const Size& size : sizes) {
    if (size.value < 1)
      return infeasible(fmt::format("layout: {} is {}, but must be at least 1", size.name, size.value));
  }
  if (l.servers < 0) return infeasible(fmt::format("layout: servers is {}, but must be at least 0", l.servers));
  if (l.zero < 0 || l.zero > 3) return infeasible(fmt::format("layout: zero is {}, but must be 0, 1, 2 or 3", l.zero));
  return {};
}

// The one axis that could be changed to make the others fit: pp first, for it moves the least traffic.
std::string try_another_axis(const Layout& layout, int devices, std::int64_t wanted_copies) {
  const std::int64_t others = wanted_copies * layout.tp * layout.cp;
  if (layout.pp > 1 && devices % others == 0) return fmt::format("pp {}", devices / others);
  const std::int64_t without_tp = wanted_copies * layout.pp * layout.cp;
  if (layout.tp > 1 && devices % without_tp == 0) return fmt::format("tp {}", devices / without_tp);
  return "";
}

Result<void> written_dp_is_right(const Job& job) {
  const Layout& layout = job.layout;
  const int devices = job.cluster.devices;
  const std::int64_t ranks = layout.dp * model_ranks(layout);
  if (layout.dp == 0 || ranks == devices) return {};
  std::string hint = try_another_axis(layout, devices, layout.dp);
  const std::int64_t copies = devices / model_ranks(layout);
  if (copies >= 1) {
    const std::int64_t idle = devices - copies * model_ranks(layout);
    hint += fmt::format("{}dp {}{}", hint.empty() ? "" : " or ", copies,
                        idle > 0 ? fmt::format(" with {} idle", idle) : "");
  }
  return infeasible(
      fmt::format("layout: {} = {} ranks, but the cluster has {}", axes_text(layout, true), ranks, devices),
      hint.empty() ? fmt::format("try {} devices", ranks) : "try " + hint);
}

Result<void> a_model_copy_fits_on_the_devices(const Job& job) {
  const std::int64_t ranks = model_ranks(job.layout);
  const int devices = job.cluster.devices;
  if (ranks <= devices) return {};
  std::string hint = try_another_axis(job.layout, devices, 1);
  return infeasible(
      fmt::format("layout: {} = {} ranks for one copy of the model, but the cluster has {}",
                  axes_text(job.layout, false), ranks, devices),
      hint.empty() ? fmt::format("try {} devices", ranks) : fmt::format("try {} or {} devices", hint, ranks));
}

Result<void> copies_divide_the_devices(const Job& job) {
  const std::int64_t ranks = model_ranks(job.layout);
  const int devices = job.cluster.devices;
  if (devices % ranks == 0) return {};
  const std::int64_t used = devices / ranks * ranks;
  std::string hint;
  if (job.layout.pp > 1 && devices % (ranks / job.layout.pp) == 0) {
    hint = fmt::format("pp {} or ", nearest_divisor(devices / (ranks / job.layout.pp), job.layout.pp));
  } else if (job.layout.tp > 1 && devices % (ranks / job.layout.tp) == 0) {
    hint = fmt::format("tp {} or ", nearest_divisor(devices / (ranks / job.layout.tp), job.layout.tp));
  }
  return infeasible(fmt::format("layout: {} = {} ranks for one copy of the model, which do not divide {} devices",
                                axes_text(job.layout, false), ranks, devices),
                    fmt::format("try {}devices {} with {} idle", hint, used, devices - used));
}

// Key/value heads are split, or copied when there are fewer of them than ranks.
bool tp_divides_heads(const spec::Model& model, std::int64_t tp) {
  const spec::Attention& a = model.attention;
  if (a.heads % tp != 0) return false;
  return a.kv_rank > 0 || a.kv_heads < 1 || a.kv_heads % tp == 0 || tp % a.kv_heads == 0;
}

Result<void> tp_divides_the_model(const Job& job) {
  const spec::Model& model = job.model;
  const int tp = job.layout.tp;
  const bool heads = tp_divides_heads(model, tp);
  const bool widths = model.ffn % tp == 0 && model.hidden % tp == 0;
  if (heads && widths) return {};
  std::vector<std::int64_t> working;
  const std::int64_t room = job.cluster.devices / (std::int64_t{job.layout.pp} * job.layout.cp);
  for (const std::int64_t d : divisors(std::gcd(model.attention.heads, model.hidden))) {
    if (tp_divides_heads(model, d) && model.ffn % d == 0 && room % d == 0) working.push_back(d);
  }
  const std::string found =
      heads ? fmt::format("hidden {} and ffn {}", model.hidden, model.ffn)
            : fmt::format("{} heads with {} key/value heads", model.attention.heads, model.attention.kv_heads);
  return infeasible(fmt::format("layout: tp {} does not divide {}", tp, found),
                    fmt::format("try tp {}", nearest_of(working, tp)));
}

Result<void> stages_hold_layers(const Job& job) {
  const Layout& layout = job.layout;
  if (fewest_layers_of_a_stage(job.model.layers, layout.pp, layout.uneven_ends) >= 1) return {};
  const int ends = layout.uneven_ends && layout.pp > 1 ? 2 : 0;
  const std::int64_t copies_of_stage = std::int64_t{layout.tp} * layout.cp;
  const std::int64_t most = std::gcd<std::int64_t>(job.model.layers, job.cluster.devices / copies_of_stage);
  return infeasible(fmt::format("layout: pp {} needs at least {} layers, but the model has {}", layout.pp,
                                std::int64_t{layout.pp} * (1 + ends / 2) - ends, job.model.layers),
                    fmt::format("try pp {}", nearest_divisor(most, layout.pp)));
}

bool is_interleaved(const Layout& layout) {
  return layout.schedule == Schedule::interleaved ||
         (layout.schedule == Schedule::one_f_one_b && layout.virtual_stages > 1);
}

Result<void> chunks_suit_the_schedule(const Job& job) {
  const Layout& layout = job.layout;
  const std::string_view schedule = spec::name_of(layout.schedule);
  if (layout.schedule == Schedule::interleaved && layout.virtual_stages < 2) {
    return infeasible("layout: schedule interleaved needs at least 2 virtual_stages, but there is 1",
                      "try virtual_stages 2 or schedule 1f1b");
  }
  if (layout.virtual_stages > 1 && layout.pp < 2) {
    return infeasible(fmt::format("layout: {} virtual_stages need a pipeline, but pp is 1", layout.virtual_stages),
                      "try virtual_stages 1 or pp 2");
  }
  if (layout.virtual_stages > 1 && !is_interleaved(layout) && layout.schedule != Schedule::custom) {
    return infeasible(fmt::format("layout: schedule {} sets its own chunks, but virtual_stages is {}", schedule,
                                  layout.virtual_stages),
                      "try virtual_stages 1 or schedule interleaved");
  }
  return {};
}

Result<void> a_custom_schedule_has_a_file(const Job& job) {
  if (job.layout.schedule != Schedule::custom || !job.schedule_file.empty()) return {};
  return infeasible("layout: schedule custom, but no file says who does what when",
                    "try schedule: {file: mine.csv}, or schedule 1f1b");
}

Result<void> chunks_hold_equal_layers(const Job& job) {
  const Layout& layout = job.layout;
  // ZB-V and DualPipeV fold two chunks of each stage into a V.
  const bool folds = layout.schedule == Schedule::zb_v || layout.schedule == Schedule::dualpipe_v;
  const int chunks_of_stage = folds && layout.pp > 1 ? 2 : layout.virtual_stages;
  if (chunks_of_stage == 1) return {};
  const int ends = layout.uneven_ends ? 2 : 0;
  const std::int64_t chunks = std::int64_t{layout.pp} * chunks_of_stage;
  const int layers = job.model.layers + ends;
  if (layers % chunks == 0) return {};
  const std::string counted = ends > 0 ? " (embedding and head counted)" : "";
  const std::string what = fmt::format("layout: pp {} × {} chunks of a stage = {} chunks do not divide {} layers{}",
                                       layout.pp, chunks_of_stage, chunks, layers, counted);
  if (folds || layers % layout.pp != 0) {
    std::vector<std::int64_t> working;
    const std::int64_t room = job.cluster.devices / (std::int64_t{layout.tp} * layout.cp);
    for (const std::int64_t d : divisors(std::gcd<std::int64_t>(layers, room))) {
      if (layers % (d * chunks_of_stage) == 0) working.push_back(d);
    }
    if (working.empty()) return infeasible(what, "try schedule 1f1b with virtual_stages 1");
    return infeasible(what, fmt::format("try pp {}", nearest_of(working, layout.pp)));
  }
  return infeasible(what, fmt::format("try virtual_stages {}", nearest_divisor(layers / layout.pp, chunks_of_stage)));
}

Result<void> batch_divides(const Job& job) {
  const double batch = job.training.global_batch;
  const double share = static_cast<double>(spec::data_parallel(job)) * job.layout.micro_batch;
  if (batch >= share && std::fmod(batch, share) == 0) return {};
  const double nearest = share * std::max(1.0, std::round(batch / share));
  std::string hint = fmt::format("try global_batch {:.0f}", nearest);
  const auto of_rank = static_cast<std::int64_t>(batch / spec::data_parallel(job));
  if (of_rank >= 1 && std::fmod(batch, spec::data_parallel(job)) == 0) {
    hint += fmt::format(" or micro_batch {}", nearest_divisor(of_rank, job.layout.micro_batch));
  }
  return infeasible(
      fmt::format("layout: global_batch {:.0f} is no multiple of dp {} × micro_batch {} = {:.0f} sequences", batch,
                  spec::data_parallel(job), job.layout.micro_batch, share),
      hint);
}

double nearest_batch(const Job& job, double multiple_of) {
  const double share = static_cast<double>(spec::data_parallel(job)) * job.layout.micro_batch * multiple_of;
  return share * std::max(1.0, std::round(job.training.global_batch / share));
}

// Narayanan 2021, section 2.2; Megatron refuses anything else.
Result<void> interleaving_has_whole_rounds(const Job& job) {
  if (!is_interleaved(job.layout)) return {};
  const double batches = spec::micro_batches(job);
  if (std::fmod(batches, job.layout.pp) == 0) return {};
  return infeasible(
      fmt::format(
          "layout: {:.0f} micro-batches with interleaving, which runs them in rounds of pp {} (Megatron demands it)",
          batches, job.layout.pp),
      fmt::format("try global_batch {:.0f} or virtual_stages 1", nearest_batch(job, job.layout.pp)));
}

// The two directions of DualPipe each need an even share of ranks and at least 2 p micro-batches between them.
Result<void> dualpipe_has_two_directions(const Job& job) {
  const Layout& layout = job.layout;
  if (layout.schedule != Schedule::dualpipe) return {};
  if (layout.pp % 2 != 0) {
    return infeasible(fmt::format("layout: schedule dualpipe needs an even pp, but it is {}", layout.pp),
                      fmt::format("try pp {} or schedule 1f1b", layout.pp + 1));
  }
  const double batches = spec::micro_batches(job);
  if (batches >= 2.0 * layout.pp && std::fmod(batches, 2) == 0) return {};
  const double even = std::max(2.0 * layout.pp, 2 * std::round(batches / 2));
  return infeasible(
      fmt::format("layout: schedule dualpipe needs an even number of micro-batches, at least 2 × pp = {}, but "
                  "there are {:.0f}",
                  2 * layout.pp, batches),
      fmt::format("try global_batch {:.0f} or schedule 1f1b", even * spec::data_parallel(job) * layout.micro_batch));
}

Result<void> sequence_divides(const Job& job) {
  const Layout& layout = job.layout;
  const std::int64_t sequence = job.training.sequence;
  // Each context rank takes one chunk from the front and one from the back, so that causal work is equal.
  const std::int64_t chunks = layout.cp > 1 ? std::int64_t{2} * layout.cp : 1;
  if (sequence % chunks != 0) {
    return infeasible(fmt::format("layout: sequence {} is no multiple of 2 × cp {}", sequence, layout.cp),
                      fmt::format("try sequence {}", std::max(chunks, (sequence + chunks / 2) / chunks * chunks)));
  }
  if (!layout.sequence_parallel || (sequence / layout.cp) % layout.tp == 0) return {};
  const std::int64_t all = std::lcm<std::int64_t>(chunks, std::int64_t{layout.cp} * layout.tp);
  return infeasible(
      fmt::format("layout: sequence {} over cp {} leaves {} tokens, which tp {} does not divide "
                  "(sequence_parallel splits them)",
                  sequence, layout.cp, sequence / layout.cp, layout.tp),
      fmt::format("try sequence {} or sequence_parallel false", std::max(all, (sequence + all / 2) / all * all)));
}

Result<void> experts_divide(const Job& job) {
  const Layout& layout = job.layout;
  const spec::Experts& experts = job.model.experts;
  if (experts.count == 0) {
    if (layout.ep == 1) return {};
    return infeasible(fmt::format("layout: ep {} spreads experts, but the model has none", layout.ep), "try ep 1");
  }
  if (experts.count % layout.ep != 0) {
    return infeasible(fmt::format("layout: ep {} does not divide {} experts", layout.ep, experts.count),
                      fmt::format("try ep {}", nearest_divisor(experts.count, layout.ep)));
  }
  const std::int64_t etp = spec::expert_tp(layout);
  if (experts.ffn % etp != 0) {
    return infeasible(fmt::format("layout: etp {} does not divide the experts' ffn {}", etp, experts.ffn),
                      fmt::format("try etp {}", nearest_divisor(experts.ffn, etp)));
  }
  const std::int64_t ranks = std::int64_t{spec::data_parallel(job)} * layout.cp * layout.tp;
  if (ranks % (layout.ep * etp) == 0) return {};
  const std::int64_t room = std::gcd<std::int64_t>(std::max<std::int64_t>(1, ranks / etp), experts.count);
  return infeasible(
      fmt::format("layout: ep {} × etp {} = {} ranks do not divide the dp {} × cp {} × tp {} = {} ranks of a stage",
                  layout.ep, etp, layout.ep * etp, spec::data_parallel(job), layout.cp, layout.tp, ranks),
      ranks % etp == 0 ? fmt::format("try ep {}", nearest_divisor(room, layout.ep)) : "try etp 1");
}

Result<void> shard_group_divides(const Job& job) {
  const Layout& layout = job.layout;
  if (layout.shard_group == 0) return {};
  const std::int64_t ranks = std::int64_t{spec::data_parallel(job)} * layout.cp;
  if (layout.zero == 0) {
    return infeasible(
        fmt::format("layout: shard_group {} says over which ranks ZeRO shards, but zero is 0", layout.shard_group),
        "try zero 1 or shard_group 0");
  }
  if (ranks % layout.shard_group == 0) return {};
  return infeasible(fmt::format("layout: shard_group {} does not divide dp {} × cp {} = {} ranks", layout.shard_group,
                                spec::data_parallel(job), layout.cp, ranks),
                    fmt::format("try shard_group {}", nearest_divisor(ranks, layout.shard_group)));
}

// Parameter servers run on the hosts, beside the workers. They hold the only copy of the optimizer state and stand
// between ranks that would otherwise reduce gradients among themselves.
Result<void> servers_stand_alone(const Job& job) {
  const Layout& layout = job.layout;
  if (layout.servers == 0) return {};
  const auto held_twice = [&](const std::string& by, std::string_view hint) {
    return infeasible(
        fmt::format("layout: servers {} with {}, but the servers hold the optimizer state", layout.servers, by),
        fmt::format("try {} or servers 0", hint));
  };
  if (layout.zero != 0) return held_twice(fmt::format("zero {}", layout.zero), "zero 0");
  if (layout.shard_group != 0) return held_twice(fmt::format("shard_group {}", layout.shard_group), "shard_group 0");
  if (layout.offload_optimizer) return held_twice("offload_optimizer", "offload_optimizer false");
  if (spec::data_parallel(job) > 1) return {};
  return infeasible(
      fmt::format("layout: servers {} with dp 1, but servers add up the gradients of several copies of the "
                  "model",
                  layout.servers),
      "try servers 0");
}

Result<void> servers_have_nodes(const Job& job) {
  const int servers = job.layout.servers;
  const int of_node = std::max(1, job.cluster.devices_per_node);
  const int nodes = (job.cluster.devices + of_node - 1) / of_node;
  if (servers <= nodes) return {};
  return infeasible(fmt::format("layout: servers {}, but {} devices stand in {} nodes, and a node holds one at most",
                                servers, job.cluster.devices, nodes),
                    fmt::format("try servers {}", nodes));
}

Result<void> recomputed_layers_exist(const Job& job) {
  const Layout& layout = job.layout;
  const int most = (job.model.layers + layout.pp - 1) / layout.pp;
  if (layout.recompute_layers <= most) return {};
  return infeasible(
      fmt::format("layout: recompute_layers {}, but a stage holds at most {}", layout.recompute_layers, most),
      "try recompute_layers 0, which means all of them");
}

Result<void> the_host_can_be_reached(const Job& job) {
  if (!job.layout.offload_optimizer && !job.layout.offload_activations) return {};
  if (job.cluster.device.host_bytes_per_s > 0) return {};
  return infeasible(
      fmt::format("layout: {} goes to the host, but no link of {} to it is known",
                  job.layout.offload_optimizer ? "the optimizer" : "activations", job.cluster.device.name),
      "try without offloading, or set cluster.device.host_link");
}

// Both run down one arm of a V and up the other, which needs as many micro-batches as DualPipe for its two directions.
Result<void> dualpipe_v_fills_the_v(const Job& job) {
  const Layout& layout = job.layout;
  const double batches = spec::micro_batches(job);
  if (layout.schedule != Schedule::dualpipe_v || layout.pp == 1 || batches >= 2.0 * layout.pp) return {};
  return infeasible(fmt::format("layout: schedule dualpipe-v needs at least 2 × pp = {} micro-batches, but there are "
                                "{:.0f}",
                                2 * layout.pp, batches),
                    fmt::format("try global_batch {:.0f} or schedule 1f1b",
                                2.0 * layout.pp * spec::data_parallel(job) * layout.micro_batch));
}

// In an order in which each rule may rely on those before it.
constexpr std::array<Rule, 20> kRules = {sizes_are_positive,
                                         a_model_copy_fits_on_the_devices,
                                         written_dp_is_right,
                                         copies_divide_the_devices,
                                         tp_divides_the_model,
                                         stages_hold_layers,
                                         chunks_suit_the_schedule,
                                         a_custom_schedule_has_a_file,
                                         chunks_hold_equal_layers,
                                         batch_divides,
                                         interleaving_has_whole_rounds,
                                         dualpipe_has_two_directions,
                                         dualpipe_v_fills_the_v,
                                         sequence_divides,
                                         experts_divide,
                                         servers_stand_alone,
                                         servers_have_nodes,
                                         shard_group_divides,
                                         recomputed_layers_exist,
                                         the_host_can_be_reached};

}  // namespace

int fewest_layers_of_a_stage(int layers, int pp, bool uneven_ends) {
  const int ends = uneven_ends && pp > 1 ? 2 : 0;
  return (layers + ends) / pp - ends / 2;
}

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d * d != number) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::int64_t nearest_divisor(std::int64_t number, std::int64_t wish) { return nearest_of(divisors(number), wish); }

Result<void> check(const Job& job) {
  for (const Rule rule : kRules) {
    Result<void> result = rule(job);
    if (!result) return result;
  }
  return {};
}

}  // namespace twinpod::layout
