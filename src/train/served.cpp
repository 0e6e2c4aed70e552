#include "train/served.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/half.hpp"
#include "core/rng.hpp"
#include "train/rate.hpp"

namespace twinpod::train {
namespace {

using ps::ShardId;

const ps::Shard& shard_at(const ps::Client& client, ShardId shard) {
  return client.worker.shards[static_cast<std::size_t>(shard)];
}

std::int64_t place_of(const ServedTensors& tensors, const ps::Shard& shard) {
  return tensors.offsets[static_cast<std::size_t>(shard.tensor)] + shard.first;
}

void set(float& to, float value) { to = value; }
void set(Bf16& to, float value) { to = to_bf16(value); }

// Initial values in fp32, whatever the rank computes in: those that its master copy has.
template <typename T>
ps::Payload initial_values(const Rank<T>& rank, const ps::Shard& shard, std::int64_t place) {
  const auto* const from = std::is_same_v<T, float> ? reinterpret_cast<const float*>(rank.parameters) : rank.master;
  return ps::payload_of(std::vector<float>(from + place, from + place + shard.count));
}

template <typename T>
void take_values(const ServedRun<T>& run, const ps::Client& client, const std::vector<ps::Arrival>& arrivals,
                 Rank<T>& rank) {
  for (const ps::Arrival& arrival : arrivals) {
    T* const to = rank.parameters + place_of(run.tensors, shard_at(client, arrival.shard));
    const std::span<const float> values = ps::floats_of(arrival.values);
    for (std::size_t i = 0; i < values.size(); ++i) set(to[i], values[i]);
  }
}

// In memory that servers can read, which the next step does not write to.
template <typename T>
std::vector<ps::Payload> gradients_of(const ServedRun<T>& run, const ps::Client& client, const Rank<T>& rank,
                                      double norm, double clip) {
  const auto scale = static_cast<float>(clip > 0 && norm > clip ? clip / norm : 1);
  std::vector<ps::Payload> gradients;
  for (const ps::Shard& shard : client.worker.shards) {
    const float* const from = rank.gradients + place_of(run.tensors, shard);
    auto values = std::make_shared<ps::Values>(from, from + shard.count, client.link.memory);
    if (scale != 1) {
      for (float& value : *values) value *= scale;
    }
    gradients.push_back(ps::payload_of(std::shared_ptr<const ps::Values>(std::move(values))));
  }
  return gradients;
}

template <typename T>
Result<StepResult> one_step(const ServedRun<T>& run, ps::Client& client, Rank<T>& rank) {
  const Result<std::vector<ps::Arrival>> values = ps::pull_all(client);
  if (!values) return tl::unexpected(values.error());
  take_values(run, client, *values, rank);
  const std::int64_t step = client.worker.clock;
  if (Result<void> read = run.read(rank, client.place, step); !read) return tl::unexpected(read.error());
  StepSettings settings;
  settings.adamw.step = step + 1;  // dropout counts by it
  settings.updates = false;
  const Result<StepResult> done = run_step(rank, settings);
  if (!done) return done;
  if (!std::isfinite(done->loss) || !std::isfinite(done->gradient_norm)) {
    return infeasible(fmt::format("train: worker {}, step {}: the loss is {}, the norm of the gradients {}",
                                  client.place, step + 1, done->loss, done->gradient_norm),
                      "a lower learning rate, a warm-up, or clip 1");
  }
  const spec::Recipe& recipe = run.job.training.recipe;
  const double rate = rate_at(recipe, static_cast<int>(step), static_cast<int>(run.steps));
  ps::push_all(client, gradients_of(run, client, rank, done->gradient_norm, recipe.clip), rate);
  if (run.note) run.note(step, *done);
  return done;
}

template <typename T>
Result<std::string> work(const ServedRun<T>& run, ps::Client& client, comm::Communicator& alone) {
  Rank<T> rank(run.job, run.program, alone);
  const auto seed = static_cast<std::uint64_t>(run.job.training.recipe.seed);
  if (Result<void> ready = set_up(rank, seed); !ready) return tl::unexpected(ready.error());
  std::uint64_t state = seed + static_cast<std::uint64_t>(client.place);
  if (client.place > 0) rank.seed = splitmix64(state);  // workers drop out different elements
  const Result<void> joined = ps::join(client, [&](ShardId id) {
    const ps::Shard& shard = shard_at(client, id);
    return initial_values(rank, shard, place_of(run.tensors, shard));
  });
  if (!joined) return tl::unexpected(joined.error());
  std::string losses;
  while (client.worker.clock < run.steps) {
    const Result<StepResult> done = one_step(run, client, rank);
    if (!done) return tl::unexpected(done.error());
    losses += fmt::format("{:a} ", done->loss);
  }
  if (Result<void> left = ps::leave(client); !left) return tl::unexpected(left.error());
  return losses;
}

}  // namespace

ServedTensors served_tensors(const spec::Job& job, const program::Program& program) {
  ServedTensors all;
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

ps::LaunchOptions served_options(const spec::Job& job, const ServedTensors& tensors, const ServedRequest& request) {
  const spec::Recipe& recipe = job.training.recipe;
  ps::LaunchOptions options{.servers = request.servers, .workers = request.workers, .copies = request.copies};
  options.settings = request.mode;
  const bool adam = job.training.optimizer == spec::Optimizer::adam;
  options.settings.optimizer = adam ? ps::Optimizer::adamw : ps::Optimizer::sgd;
  options.settings.adamw = {.beta1 = recipe.beta1, .beta2 = recipe.beta2, .epsilon = recipe.epsilon};
  options.settings.adamw.decay = options.settings.sgd.decay = recipe.weight_decay;
  options.settings.sgd.momentum = job.training.optimizer == spec::Optimizer::sgd ? 0 : recipe.momentum;
  options.shards = ps::shards_of(
      {.counts = tensors.counts, .most = ps::even_size(tensors.counts, request.servers), .decays = tensors.decays});
  return options;
}

template <typename T>
Result<std::string> train_served(const ServedRun<T>& run, ps::Client& client) {
  return comm::run_threads(1, {}, [&](comm::Communicator& alone) { return work(run, client, alone); });
}

template Result<std::string> train_served(const ServedRun<float>&, ps::Client&);
template Result<std::string> train_served(const ServedRun<Bf16>&, ps::Client&);

}  // namespace twinpod::train
