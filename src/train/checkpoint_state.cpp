#include "train/checkpoint_state.hpp"

#include <fmt/format.h>

#include <charconv>
#include <climits>
#include <cstdlib>
#include <sstream>

#include "spec/names.hpp"

namespace twinpod::train {
namespace {

// %a and back: every bit.
std::string exact_text(double value) { return fmt::format("{:a}", value); }

std::string text_in(const Values& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "" : found->second;
}

void add_model(const spec::Model& model, Values& facts) {
  const auto add = [&](const char* key, auto value) { facts[fmt::format("model.{}", key)] = fmt::format("{}", value); };
  add("layers", model.layers);
  add("hidden", model.hidden);
  add("ffn", model.ffn);
  add("gated_mlp", model.gated_mlp);
  add("mlp_bias", model.mlp_bias);
  add("vocab", model.vocab);
  add("norm", spec::name_of(model.norm));
  add("norm_bias", model.norm == spec::Norm::layer_norm && model.norm_bias);
  add("positions", spec::name_of(model.positions));
  if (model.positions == spec::Positions::learned) add("max_sequence", model.max_sequence);
  add("tied_embeddings", model.tied_embeddings);
  add("attention.heads", model.attention.heads);
  add("attention.kv_heads", model.attention.kv_heads);
  add("attention.head_dim", model.attention.head_dim);
  add("attention.bias", model.attention.bias);
  add("attention.qkv_bias", model.attention.qkv_bias);
}

}  // namespace

Values facts_of(const spec::Job& job, const data::Samples& samples) {
  Values facts;
  add_model(job.model, facts);
  facts["training.optimizer"] = spec::name_of(job.training.optimizer);
  facts["training.sequence"] = fmt::format("{}", job.training.sequence);
  facts["training.global_batch"] = fmt::format("{}", samples.settings.global_batch);
  facts["training.seed"] = fmt::format("{}", job.training.recipe.seed);
  facts["data.samples"] = fmt::format("{}", samples.num_training);
  return facts;
}

Result<void> check_facts(const Values& stored, const Values& facts, const std::string& checkpoint) {
  std::string differing;
  for (const auto& [key, value] : facts) {
    const auto found = stored.find(key);
    if (found != stored.end() && found->second == value) continue;
    differing += fmt::format("{}{} is {}, here {}", differing.empty() ? "" : "; ", key,
                             found == stored.end() ? "not said" : found->second, value);
  }
  if (differing.empty()) return {};
  return input_error(fmt::format("{} is of another run: {}", checkpoint, differing),
                     "without a job, --resume takes that of the checkpoint");
}

store::TrainingState state_of(const Position& position, const data::Samples& samples, const Values& values) {
  store::TrainingState state;
  state.step = position.step;
  state.samples = position.step * samples.settings.global_batch;
  state.values = values;
  state.values["elapsed_s"] = exact_text(position.elapsed_s);
  state.values["reached"] = exact_text(position.reached);
  std::string losses;
  for (const double loss : position.losses) losses += (losses.empty() ? "" : " ") + exact_text(loss);
  state.values["losses"] = losses;
  return state;
}

bool is_imported(const store::TrainingState& state) {
  return state.step == 0 && state.samples == 0 && state.values.empty();
}

Result<Position> position_in(const store::TrainingState& state, const std::string& checkpoint) {
  Position position;
  if (is_imported(state)) return position;
  const std::string batch = text_in(state.values, "training.global_batch");
  std::int64_t samples = 0;
  std::from_chars(batch.data(), batch.data() + batch.size(), samples);
  const bool possible = state.step >= 0 && state.step <= INT_MAX && samples >= 1 && samples <= INT_MAX;
  if (!possible || state.samples != state.step * samples) {
    return input_error(fmt::format("{}: step {} with {} samples of batches of \"{}\" is no position of a run",
                                   checkpoint, state.step, state.samples, batch),
                       "was it saved by `twinpod train`, or made by `twinpod checkpoint import`?");
  }
  position.step = static_cast<int>(state.step);
  position.elapsed_s = std::strtod(text_in(state.values, "elapsed_s").c_str(), nullptr);
  position.reached = std::strtod(text_in(state.values, "reached").c_str(), nullptr);
  std::istringstream losses(text_in(state.values, "losses"));
  for (std::string loss; losses >> loss;) position.losses.push_back(std::strtod(loss.c_str(), nullptr));
  return position;
}

}  // namespace twinpod::train
