#include "train/served.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <type_traits>

#include "comm/wait.hpp"
#include "core/half.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "train/rate.hpp"

namespace twinpod::train {
namespace {

using ps::ShardId;

constexpr const char* kCalmer = "a lower learning rate, a warm-up, or clip 1";

const ps::Shard& shard_at(const ps::Client& client, ShardId shard) {
  return client.worker.shards[static_cast<std::size_t>(shard)];
}

std::int64_t place_of(const ServedTensors& tensors, const ps::Shard& shard) {
  return tensors.offsets[static_cast<std::size_t>(shard.tensor)] + shard.first;
}

// Parameters in fp32, whatever the rank computes in.
template <typename T>
float* whole_of(Rank<T>& rank) {
  if constexpr (std::is_same_v<T, float>) return rank.parameters;
  return rank.master;
}

// What the ranks of a worker share. They are threads of one process.
template <typename T>
struct Team {
  const ServedRun<T>& run;
  ps::Client& client;
  std::vector<ps::Arrival> values = {};      // the first rank's to change, when no other reads them
  std::int64_t clock = 0;                    // of the batches
  int part = 0;                              // of them
  std::optional<std::int64_t> claimed = {};  // the next part, if parts are claimed
  bool goes_on = true;
  std::optional<Error> failure = {};
};

template <typename T>
struct Seat {
  Team<T>& team;
  Rank<T>& rank;
  std::int64_t begin_ns = 0;   // of the step
  std::int64_t optimized = 0;  // local steps of this process
  double waited_s = 0;
  bool leads() const { return rank.rank == 0; }
};

double seconds_between(std::int64_t begin_ns, std::int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

// All ranks of the worker are here; what the first one wrote before is seen by the others behind it.
template <typename T>
Result<void> meet(Rank<T>& rank) {
  if (comm::size_of(rank.world) == 1) return {};
  return comm::run(rank.world, {.verb = comm::Verb::barrier});
}

template <typename T>
void take_values(const Team<T>& team, Rank<T>& rank) {
  const auto to = [&](ps::ShardId shard) {
    return whole_of(rank) + place_of(team.run.tensors, shard_at(team.client, shard));
  };
  if (comm::size_of(rank.world) == 1) ps::copy_values(team.client, team.values, to);
  for (const ps::Arrival& arrival : team.values) {
    const std::span<const float> values = ps::floats_of(arrival.values);
    if (comm::size_of(rank.world) > 1) std::copy(values.begin(), values.end(), to(arrival.shard));  // each rank at once
    if constexpr (std::is_same_v<T, Bf16>) {
      T* const rounded = rank.parameters + (to(arrival.shard) - whole_of(rank));
      for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = to_bf16(values[i]);
    }
  }
}

// In memory that servers can read and the next step does not write to. What is compressed at once stays where it is.
ps::Payload payload_of(const ps::Client& client, const float* from, std::int64_t count) {
  const std::span<const float> values(from, static_cast<std::size_t>(count));
  if (client.options.compression.encoding != ps::Encoding::f32) return {nullptr, std::as_bytes(values)};
  return ps::payload_of(std::make_shared<const ps::Values>(values.begin(), values.end(), client.link.memory));
}

template <typename T>
std::vector<ps::Payload> gradients_of(const Seat<T>& seat, double scale) {
  const ps::Client& client = seat.team.client;
  std::vector<ps::Payload> gradients;
  for (const ps::Shard& shard : client.worker.shards) {
    float* const from = seat.rank.gradients + place_of(seat.team.run.tensors, shard);
    if (scale != 1) std::for_each_n(from, shard.count, [&](float& one) { one *= static_cast<float>(scale); });
    gradients.push_back(payload_of(client, from, shard.count));
  }
  return gradients;
}

// What local steps made of the values that were pulled. The gradients' room is free by now.
template <typename T>
std::vector<ps::Payload> changes_of(const Seat<T>& seat) {
  const Team<T>& team = seat.team;
  std::vector<ps::Payload> changes;
  for (std::size_t i = 0; i < team.values.size(); ++i) {
    const ps::Shard& shard = team.client.worker.shards[i];
    const std::int64_t place = place_of(team.run.tensors, shard);
    const std::span<const float> before = ps::floats_of(team.values[i].values);
    std::transform(before.begin(), before.end(), whole_of(seat.rank) + place, seat.rank.gradients + place,
                   [](float old, float now) { return now - old; });
    changes.push_back(payload_of(team.client, seat.rank.gradients + place, shard.count));
  }
  return changes;
}

template <typename T>
StepSettings settings_of(const Seat<T>& seat, std::int64_t step) {
  const spec::Recipe& recipe = seat.team.run.job.training.recipe;
  const spec::Optimizer optimizer = seat.team.run.job.training.optimizer;
  const double rate = rate_at(recipe, static_cast<int>(step), static_cast<int>(seat.team.run.steps));
  StepSettings settings;
  settings.adamw.step = step + 1;  // dropout counts by it
  settings.updates = seat.team.run.choice.local_steps > 1;
  if (!settings.updates) return settings;
  settings.sgd = optimizer != spec::Optimizer::adam;
  settings.clip = recipe.clip;
  // Who came for a dead worker has no moments yet.
  settings.adamw = {rate, recipe.beta1, recipe.beta2, recipe.epsilon, recipe.weight_decay, 1, seat.optimized + 1};
  settings.momentum = {rate, optimizer == spec::Optimizer::sgd ? 0 : recipe.momentum, recipe.weight_decay, 1};
  return settings;
}

// The passes take as long as they should: slowed down, and not less than the pace. Messages are heard meanwhile.
template <typename T>
void slow_down(Seat<T>& seat, std::int64_t begin_ns, std::int64_t step) {
  const ps::Choice& choice = seat.team.run.choice;
  const double factor = ps::slowdown(choice.straggler, seat.team.client.place, step);
  if (choice.pace_s == 0 && factor == 1) return;
  const double passes_s = std::max(choice.pace_s, seconds_between(begin_ns, comm::now_ns()));
  const std::int64_t end_ns = begin_ns + static_cast<std::int64_t>(1e9 * factor * passes_s);
  while (comm::now_ns() < end_ns) {
    ps::pump(seat.team.client);
    const std::int64_t left = std::clamp<std::int64_t>(end_ns - comm::now_ns(), 0, 1'000'000);
    std::this_thread::sleep_for(std::chrono::nanoseconds(left));
  }
}

// One step on one rank of the worker, from values to gradients.
template <typename T>
Result<void> one_step(Seat<T>& seat, std::int64_t step, ServedStep& told) {
  Team<T>& team = seat.team;
  if (Result<void> read = team.run.read(seat.rank, team.part, step); !read) return read;
  const std::int64_t begin_ns = comm::now_ns();
  const StepSettings settings = settings_of(seat, step);
  const Result<StepResult> done = run_step(seat.rank, settings);
  if (!done) return tl::unexpected(done.error());
  ++seat.optimized;
  const double parts = divided_by(team.run.choice);
  if (!std::isfinite(done->loss) || !std::isfinite(done->gradient_norm)) {
    return infeasible(fmt::format("train: worker {}, step {}: the loss is {:.6g}, the norm of the gradients {:.6g}",
                                  team.client.place, step + 1, parts * done->loss, parts * done->gradient_norm),
                      kCalmer);
  }
  if (!seat.leads()) return {};
  slow_down(seat, begin_ns,
            team.client.worker.clock * team.run.choice.local_steps + step % team.run.choice.local_steps);
  const spec::Recipe& recipe = team.run.job.training.recipe;
  told = {.worker = team.client.place, .part = team.part, .step = step, .clock = team.client.worker.clock};
  told.begin_ns = seat.begin_ns;
  told.waited_s = seat.waited_s;
  told.computed_s = seconds_between(begin_ns, comm::now_ns());
  told.loss_sum = seat.rank.reduced[1];
  told.gradient_norm = parts * done->gradient_norm;
  told.rate = rate_at(recipe, static_cast<int>(step), static_cast<int>(team.run.steps));
  return {};
}

std::int64_t clocks_of(std::int64_t steps, int local_steps) { return (steps + local_steps - 1) / local_steps; }

// Whether the next clock needs values. What it works on is claimed here, if it is claimed.
template <typename T>
bool has_next_clock(Team<T>& team) {
  std::int64_t next = team.client.worker.clock + 1;
  if (team.run.claim) {
    team.claimed = team.run.claim();
    next = *team.claimed / team.run.choice.workers;
  }
  return next < clocks_of(team.run.steps, team.run.choice.local_steps);
}

template <typename T>
void push(const Seat<T>& seat, const ServedStep& told) {
  Team<T>& team = seat.team;
  const ps::Then then = has_next_clock(team) ? ps::Then::pull : ps::Then::nothing;
  if (team.run.choice.local_steps > 1) return ps::push_all(team.client, changes_of(seat), told.rate, then);
  const bool by_servers = team.run.choice.settings.mode == ps::Mode::sync;
  const double clip = by_servers ? 0 : team.run.job.training.recipe.clip;
  const double scale = clip > 0 && told.gradient_norm > clip ? clip / told.gradient_norm : 1;
  ps::push_all(team.client, gradients_of(seat, scale), told.rate, then);
}

// The steps of a clock: one, or the local ones.
template <typename T>
Result<void> one_clock(Seat<T>& seat) {
  Team<T>& team = seat.team;
  take_values(team, seat.rank);
  const int local = team.run.choice.local_steps;
  // Servers can then write the next ones to the same place. Other ranks may still read them, and local steps need them.
  if (comm::size_of(seat.rank.world) == 1 && local == 1) team.values.clear();
  const std::int64_t first = team.clock * local;
  const std::int64_t end = std::min(first + local, team.run.steps);
  for (std::int64_t step = first; step < end; ++step) {
    ServedStep told;
    if (Result<void> done = one_step(seat, step, told); !done) return done;
    if (!seat.leads()) continue;
    if (step + 1 == end) push(seat, told);
    told.end_ns = comm::now_ns();
    if (team.run.note) team.run.note(told);
    seat.begin_ns = told.end_ns;
    seat.waited_s = 0;
  }
  return {};
}

// What to work on next: false when nothing is left.
template <typename T>
bool choose_work(Team<T>& team) {
  const int workers = team.run.choice.workers;
  const std::int64_t own = team.client.worker.clock * workers + team.client.place;
  if (team.run.claim && !team.claimed) team.claimed = team.run.claim();
  const std::int64_t next = team.claimed.value_or(own);
  team.claimed.reset();
  team.clock = next / workers;
  team.part = static_cast<int>(next % workers);
  return team.clock < clocks_of(team.run.steps, team.run.choice.local_steps);
}

Result<std::vector<ps::Arrival>> pull(ps::Client& client) {
  Result<std::vector<ps::Arrival>> values = ps::pull_all(client);
  const ps::Norm& norm = client.worker.norm;
  if (values || std::isfinite(norm.value)) return values;
  return infeasible(fmt::format("train: step {}: the norm of the gradients is {}", norm.clock + 1, norm.value),
                    kCalmer);
}

// New values, if there is another clock.
template <typename T>
Result<void> begin_clock(Seat<T>& seat) {
  Team<T>& team = seat.team;
  seat.begin_ns = comm::now_ns();
  team.goes_on = choose_work(team);
  if (!team.goes_on) return {};
  const double before_s = team.client.waited_s;
  Result<std::vector<ps::Arrival>> values = pull(team.client);
  if (!values) return tl::unexpected(values.error());
  team.values = std::move(*values);
  // With backup workers, the others may be further, and at the end.
  if (!team.run.claim) team.goes_on = choose_work(team);
  seat.waited_s = team.client.waited_s - before_s;
  if (team.goes_on && team.run.pulled) team.run.pulled(team.client, team.values, false);
  return {};
}

// All workers' updates are in what is read behind the barrier.
template <typename T>
Result<void> end_work(Team<T>& team) {
  if (Result<void> all = ps::wait_for_acks(team.client); !all) return all;
  if (Result<void> through = ps::barrier(team.client); !through) return through;
  const Result<std::vector<ps::Arrival>> values = pull(team.client);
  if (!values) return tl::unexpected(values.error());
  if (team.run.pulled) team.run.pulled(team.client, *values, true);
  return ps::leave(team.client);
}

template <typename T>
Result<void> join_job(Seat<T>& seat) {
  ps::Client& client = seat.team.client;
  return ps::join(client, [&](ShardId id) {
    const ps::Shard& shard = shard_at(client, id);
    const float* const from = whole_of(seat.rank) + place_of(seat.team.run.tensors, shard);
    return ps::payload_of(std::vector<float>(from, from + shard.count));
  });
}

// The leader's errors are known to the others before they wait for it.
template <typename T>
Result<void> work(Seat<T>& seat) {
  Team<T>& team = seat.team;
  Result<void> own;
  if (seat.leads()) own = join_job(seat);
  while (true) {
    if (seat.leads() && own) own = begin_clock(seat);
    if (seat.leads() && !own) team.failure = own.error();
    if (Result<void> met = meet(seat.rank); !met) return own ? met : own;
    if (team.failure) return tl::unexpected(*team.failure);
    if (!team.goes_on) return seat.leads() ? end_work(team) : Result<void>();
    if (Result<void> done = one_clock(seat); !done) return done;
    if (Result<void> met = meet(seat.rank); !met) return met;  // nobody reads the values any more
  }
}

template <typename T>
Result<std::string> work_on(Team<T>& team, comm::Communicator& world) {
  kernel::flush_denormals();
  kernel::set_threads(1);
  Rank<T> rank(team.run.job, team.run.program, world);
  const auto seed = static_cast<std::uint64_t>(team.run.job.training.recipe.seed);
  if (Result<void> ready = set_up(rank, seed); !ready) return tl::unexpected(ready.error());
  rank.copies = team.run.choice.workers * team.run.choice.group;
  rank.copy = team.client.place * team.run.choice.group + rank.dp_rank;
  Seat<T> seat{team, rank};
  if (Result<void> done = work(seat); !done) {
    if (seat.leads() && !team.failure) team.failure = done.error();
    return tl::unexpected(done.error());
  }
  if (team.run.ended) team.run.ended(rank);
  return std::string();
}

// Each rank sums up an equal part of each piece (`squares`, in update.cpp); here by tensor.
std::vector<std::vector<ps::NormPart>> parts_of(spec::Job job, const program::Program& program, int ranks) {
  job.cluster.devices = ranks;
  const Pieces pieces = pieces_of(job, program, 0);
  std::vector<std::vector<ps::NormPart>> all;
  for (const std::vector<Piece>& chunk : pieces.chunks) {
    for (const Piece& piece : chunk) {
      const std::int64_t each = piece.elements() / pieces.shards;
      for (std::size_t i = 0; i < piece.tensors.size(); ++i) {
        const std::int64_t first = piece.places.offsets[i];
        const std::int64_t end = first + model::local_elements(piece.tensors[i], 1);
        std::vector<ps::NormPart>& parts = all.emplace_back();
        for (std::int64_t at = first; at < end; at += parts.back().count) {
          const std::int64_t rank = at / each;
          parts.push_back({at - first, std::min(end, (rank + 1) * each) - at, static_cast<int>(rank)});
        }
      }
    }
  }
  return all;
}

}  // namespace

ServedTensors served_tensors(const spec::Job& job, const program::Program& program, int ranks) {
  ServedTensors all;
  all.parts = parts_of(job, program, ranks);
  for (const std::vector<Piece>& chunk : pieces_of(job, program, 0).chunks) {
    for (const Piece& piece : chunk) {
      for (std::size_t i = 0; i < piece.tensors.size(); ++i) {
        all.offsets.push_back(piece.offset + piece.places.offsets[i]);
        all.counts.push_back(model::local_elements(piece.tensors[i], 1));
        all.decays.push_back(piece.tensors[i].decays);
      }
    }
  }
  return all;
}

int divided_by(const ps::Choice& choice) {
  return choice.settings.mode == ps::Mode::sync && choice.local_steps == 1 ? choice.workers : 1;
}

ps::LaunchOptions served_options(const spec::Job& job, const ServedTensors& tensors, const ps::Choice& choice) {
  const spec::Recipe& recipe = job.training.recipe;
  ps::LaunchOptions options{.servers = choice.servers, .workers = choice.workers, .copies = choice.copies};
  options.settings = choice.settings;
  options.settings.divided_by = divided_by(choice);
  const bool adam = job.training.optimizer == spec::Optimizer::adam;
  options.settings.optimizer = adam ? ps::Optimizer::adamw : ps::Optimizer::sgd;
  if (choice.local_steps > 1) options.settings.optimizer = ps::Optimizer::add;
  options.settings.adamw = {.beta1 = recipe.beta1, .beta2 = recipe.beta2, .epsilon = recipe.epsilon};
  options.settings.adamw.decay = options.settings.sgd.decay = recipe.weight_decay;
  options.settings.sgd.momentum = job.training.optimizer == spec::Optimizer::sgd ? 0 : recipe.momentum;
  ps::ShardRequest request{.counts = tensors.counts, .most = ps::even_size(tensors.counts, choice.servers)};
  request.decays = tensors.decays;
  if (choice.settings.mode == ps::Mode::sync && choice.local_steps == 1 && recipe.clip > 0) {
    options.settings.clip = recipe.clip;
    request.parts = tensors.parts;
  }
  options.shards = ps::shards_of(request);
  options.client.compression = choice.compression;
  return options;
}

template <typename T>
Result<std::string> train_served(const ServedRun<T>& run, ps::Client& client) {
  Team<T> team{run, client};
  Result<std::string> done = comm::run_threads(run.choice.group, {.timeout_s = client.options.timeout_s},
                                               [&](comm::Communicator& world) { return work_on(team, world); });
  if (!done && team.failure) return tl::unexpected(*team.failure);  // in its own words
  return done;
}

template Result<std::string> train_served(const ServedRun<float>&, ps::Client&);
template Result<std::string> train_served(const ServedRun<Bf16>&, ps::Client&);

}  // namespace twinpod::train
