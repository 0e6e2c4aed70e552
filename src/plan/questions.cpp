#include "plan/questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/nearest.hpp"
#include "plan/estimate.hpp"
#include "spec/bounds.hpp"
#include "spec/names.hpp"

namespace twinpod::plan {
namespace {

using spec::Job;
using spec::Layout;

constexpr double kSecondsPerHour = 3600;

// Only the best is wanted, and bounds change nothing about it.
SearchOptions best_only(SearchOptions options) {
  options.keep = 1;
  options.bounded = true;
  options.pareto = false;
  options.asked.reset();
  return options;
}

Answer answer_of(const Job& job, const Candidate& best, std::uint64_t evaluated) {
  Answer answer{job, best.memory_bytes, {}, evaluated};
  answer.job.cluster.devices = best.devices;
  answer.job.layout = best.layout;
  answer.metrics = metrics(answer.job, step_time(answer.job));
  return answer;
}

SearchResult found_with(const Job& job, const Terms& terms) {
  const spec::Abilities& abilities = terms.abilities ? *terms.abilities : job.stack.abilities;
  return search(space_of(job, terms.wishes, abilities), best_only(terms.options));
}

// ---- What if ----

void speed_up_collectives(Job& job, double factor) {
  job.cluster.scale_out_latency_s *= factor;
  job.stack.physics.collective_latency_s *= factor;
  job.stack.physics.collective_step_s *= factor;
}

void scale_up_by(Job& job, double factor) { job.cluster.scale_up_bytes_per_s *= factor; }
void scale_out_by(Job& job, double factor) { job.cluster.scale_out_bytes_per_s *= factor; }

void make_network_perfect(Job& job, double /*factor*/) {
  job.cluster.scale_up_bytes_per_s = spec::kMaxBytesPerS;
  job.cluster.scale_out_bytes_per_s = spec::kMaxBytesPerS;
  job.cluster.oversubscription = 1;
  speed_up_collectives(job, 0);
  job.stack.physics.collective_root = 0;
  job.stack.physics.broadcast_s = 0;
}

struct KnownChange {
  std::string_view key;
  void (*apply)(Job&, double);
  bool may_be_zero = false;
};

const std::array<KnownChange, 10>& known_changes() {
  static const std::array<KnownChange, 10> known = {{
      {"flops",
       [](Job& job, double f) {
         for (double& peak : job.cluster.device.peak_flop_per_s) peak *= f;
       }},
      {"memory", [](Job& job, double f) { job.cluster.device.memory_bytes *= f; }},
      {"memory_bandwidth", [](Job& job, double f) { job.cluster.device.memory_bytes_per_s *= f; }},
      {"network", [](Job& job, double f) { scale_up_by(job, f), scale_out_by(job, f); }},
      {"scale_up", scale_up_by},
      {"scale_out", scale_out_by},
      {"latency", speed_up_collectives, true},
      {"host", [](Job& job, double f) { job.cluster.device.host_bytes_per_s *= f; }},
      {"price",
       [](Job& job, double f) {
         job.cluster.usd_per_device_hour *= f;
         job.cluster.device.usd_per_hour *= f;
       },
       true},
      {"perfect_network", make_network_perfect, true},
  }};
  return known;
}

// The numbers of the closed form for another family. What the job itself has set stays set.
Result<spec::Physics> physics_on(const Job& job, const std::string& family, const spec::Catalog& catalog) {
  const Result<spec::Parameters> parameters = catalog.parameters();
  if (!parameters) return tl::unexpected(parameters.error());
  const spec::Physics usual = resolve(*parameters, job.cluster.device.family, job.stack);
  spec::Physics physics = resolve(*parameters, family, job.stack);
  for (const spec::PhysicsField& field : spec::physics_fields()) {
    const double own = job.stack.physics.*field.member;
    if (own != usual.*field.member) physics.*field.member = own;
  }
  return physics;
}

Result<void> check_precision(const spec::Device& device, spec::Precision wanted) {
  if (device.peak_flop_per_s[static_cast<std::size_t>(wanted)] > 0) return {};
  std::string able;
  for (const auto& [name, precision] : spec::kPrecisionNames) {
    if (device.peak_flop_per_s[static_cast<std::size_t>(precision)] > 0) able += fmt::format(" {}", name);
  }
  return input_error(fmt::format("what if: {} does not compute in {}", device.name, spec::name_of(wanted)),
                     "it computes in" + able);
}

Result<Job> with_device(const Job& job, const std::string& name, const spec::Catalog& catalog) {
  const Result<std::string> entry = catalog.device_by_alias(name);
  if (!entry) return tl::unexpected(entry.error());
  const Result<spec::Device> device = catalog.device(*entry);
  if (!device) return tl::unexpected(device.error());
  if (const Result<void> able = check_precision(*device, job.training.precision); !able)
    return tl::unexpected(able.error());
  const Result<spec::Physics> physics = physics_on(job, device->family, catalog);
  if (!physics) return tl::unexpected(physics.error());
  Job changed = job;
  spec::Cluster& cluster = changed.cluster;
  if (cluster.node_power_w > 0 && device->power_w > 0)
    cluster.node_power_w += cluster.devices_per_node * (device->power_w - cluster.device.power_w);
  cluster.usd_per_device_hour = 0;  // it was the other device's
  cluster.device = *device;
  changed.stack.physics = *physics;
  return changed;
}

Result<Job> apply_all(Job job, std::vector<Change> changes, const spec::Catalog& catalog) {
  // Another device first: what comes after is about the new one.
  std::stable_partition(changes.begin(), changes.end(), [](const Change& c) { return c.key == "device"; });
  for (const Change& change : changes) {
    Result<Job> changed = apply(job, change, catalog);
    if (!changed) return changed;
    job = std::move(*changed);
  }
  return job;
}

World world_of(const Job& job, std::vector<Change> changes, const std::optional<Answer>& today, const Terms& terms) {
  World world{std::move(changes), best_of(job, terms), std::nullopt, {}};
  if (!world.best || !today) return world;
  world.speed_up = world.best->metrics.tokens_per_s / today->metrics.tokens_per_s;
  world.layout_changes = layout_changes(today->job.layout, world.best->job.layout);
  const int devices = world.best->job.cluster.devices;
  if (devices != today->job.cluster.devices)
    world.layout_changes.insert(world.layout_changes.begin(),
                                fmt::format("devices {} → {}", today->job.cluster.devices, devices));
  return world;
}

}  // namespace

std::optional<Answer> best_of(const Job& job, const Terms& terms) {
  const SearchResult found = found_with(job, terms);
  if (found.ranked.empty()) return std::nullopt;
  return answer_of(job, found.ranked.front(), found.evaluated);
}

Terms least_micro_batch(const Terms& terms) {
  Terms least = terms;
  if (least.wishes.micro_batch.empty()) least.wishes.micro_batch = {1};
  return least;
}

bool anything_fits(const Job& job, const Terms& terms) {
  return !found_with(job, least_micro_batch(terms)).ranked.empty();
}

std::vector<Answer> best_of_each(const Job& job, const std::vector<int>& devices, const Terms& terms) {
  if (devices.empty()) return {};
  Terms on_these = terms;
  on_these.wishes.devices = devices;
  std::sort(on_these.wishes.devices.begin(), on_these.wishes.devices.end());
  const SearchResult found = found_with(job, on_these);
  std::vector<Answer> answers;
  for (const Candidate& best : found.of_devices) answers.push_back(answer_of(job, best, found.evaluated));
  return answers;
}

std::optional<double> usd_per_step(const Answer& answer) {
  const double price = usd_per_device_hour(answer.job.cluster);
  if (price <= 0) return std::nullopt;
  return price * answer.job.cluster.devices * answer.metrics.step_time_s / kSecondsPerHour;
}

std::optional<double> usd_per_million_tokens(const Answer& answer) {
  const std::optional<double> step = usd_per_step(answer);
  if (!step) return std::nullopt;
  return *step / answer.metrics.tokens_per_step * 1e6;
}

std::vector<std::string> layout_changes(const Layout& from, const Layout& to) {
  std::vector<std::string> changes;
  const auto number = [&](std::string_view name, int a, int b) {
    if (a != b) changes.push_back(fmt::format("{} {} → {}", name, a, b));
  };
  const auto word = [&](std::string_view name, std::string_view a, std::string_view b) {
    if (a != b) changes.push_back(fmt::format("{} {} → {}", name, a, b));
  };
  const auto flag = [&](std::string_view name, bool a, bool b) {
    if (a != b) changes.push_back(fmt::format("{} {}", name, b ? "on" : "off"));
  };
  number("dp", from.dp, to.dp);
  number("tp", from.tp, to.tp);
  number("pp", from.pp, to.pp);
  number("cp", from.cp, to.cp);
  number("ep", from.ep, to.ep);
  if (from.etp != to.etp) number("etp", spec::expert_tp(from), spec::expert_tp(to));
  word("schedule", spec::name_of(from.schedule), spec::name_of(to.schedule));
  number("virtual stages", from.virtual_stages, to.virtual_stages);
  number("micro-batch", from.micro_batch, to.micro_batch);
  flag("sequence parallel", from.sequence_parallel, to.sequence_parallel);
  number("ZeRO", from.zero, to.zero);
  number("servers", from.servers, to.servers);
  word("recompute", spec::name_of(from.recompute), spec::name_of(to.recompute));
  flag("optimizer on the host", from.offload_optimizer, to.offload_optimizer);
  flag("activations on the host", from.offload_activations, to.offload_activations);
  flag("uneven ends", from.uneven_ends, to.uneven_ends);
  return changes;
}

std::string change_text(const Change& change) {
  if (change.key == "device") return "device " + change.name;
  if (change.key == "perfect_network") return "perfect network";
  std::string key = change.key;
  std::replace(key.begin(), key.end(), '_', ' ');
  return fmt::format("{} ×{:.4g}", key, change.factor);
}

std::vector<Change> default_changes() {
  return {{"flops", 2, ""},     {"memory", 2, ""},    {"memory_bandwidth", 2, ""}, {"scale_up", 2, ""},
          {"scale_out", 2, ""}, {"latency", 0.5, ""}, {"perfect_network", 1, ""}};
}

Result<Job> apply(const Job& job, const Change& change, const spec::Catalog& catalog) {
  if (change.key == "device") return with_device(job, change.name, catalog);
  if (change.key == "failures")
    return input_error("what if: failures are not modelled yet: every estimate is of a cluster without them",
                       "leave failures out");
  std::vector<std::string> keys = {"device"};
  for (const KnownChange& known : known_changes()) {
    keys.emplace_back(known.key);
    if (known.key != change.key) continue;
    if (!std::isfinite(change.factor) || change.factor < 0 || (change.factor == 0 && !known.may_be_zero))
      return input_error(fmt::format("what if: {} × {} is no world that exists", change.key, change.factor),
                         "write a factor above 0, such as 2x");
    Job changed = job;
    known.apply(changed, change.factor);
    return changed;
  }
  const std::string near = nearest_name(change.key, keys);
  return input_error(fmt::format("what if: `{}` is nothing that can be changed", change.key),
                     near.empty() ? fmt::format("{}", fmt::join(keys, ", ")) : fmt::format("did you mean {}?", near));
}

Result<std::vector<World>> what_if(const Job& job, const std::vector<Change>& changes, const spec::Catalog& catalog,
                                   const Terms& terms) {
  std::vector<World> worlds = {{{}, best_of(job, terms), std::nullopt, {}}};
  if (worlds.front().best) worlds.front().speed_up = 1;
  for (const Change& change : changes) {
    const Result<Job> changed = apply(job, change, catalog);
    if (!changed) return tl::unexpected(changed.error());
    worlds.push_back(world_of(*changed, {change}, worlds.front().best, terms));
  }
  // A perfect network leaves no other network to be had beside it.
  const bool at_once = std::none_of(changes.begin(), changes.end(),
                                    [](const Change& change) { return change.key == "perfect_network"; });
  if (changes.size() < 2 || !at_once) return worlds;
  const Result<Job> changed = apply_all(job, changes, catalog);
  if (!changed) return tl::unexpected(changed.error());
  worlds.push_back(world_of(*changed, changes, worlds.front().best, terms));
  return worlds;
}

std::vector<Contender> side_by_side(const std::vector<Job>& jobs, const Terms& terms) {
  std::vector<Contender> contenders;
  for (const Job& job : jobs) {
    Contender contender{job, best_of(job, terms), ""};
    if (!contender.best) {
      const Result<void> fits = why_nothing_fits(job, terms);
      if (!fits) contender.why_not = fits.error().message;
    }
    contenders.push_back(std::move(contender));
  }
  return contenders;
}

}  // namespace twinpod::plan
