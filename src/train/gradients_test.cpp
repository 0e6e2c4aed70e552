// Gradients of whole models: against differences of the loss in fp64, and of one layout and number format against
// another.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "train/test_tensors.hpp"

namespace twinpod::train {
namespace {

// Two layers, positions that no sample reaches, two micro-batches.
spec::Job tiny_job(bool llama) {
  spec::Job job = small_job(llama);
  job.model.layers = 2;
  job.model.hidden = 16;
  job.model.ffn = 24;
  job.model.attention.head_dim = 4;
  job.training.sequence = 12;
  job.training.global_batch = 4;
  job.layout.micro_batch = 2;
  return job;
}

using Model = std::pair<const char*, spec::Job>;

std::vector<Model> models() {
  std::vector<Model> list = {{"gpt", tiny_job(false)}, {"llama", tiny_job(true)}};
  list.emplace_back("gpt, untied, norms without bias", tiny_job(false));
  list.back().second.model.tied_embeddings = false;
  list.back().second.model.norm_bias = false;
  list.emplace_back("llama, tied, one key head, biases of queries and keys", tiny_job(true));
  list.back().second.model.tied_embeddings = true;
  list.back().second.model.attention.kv_heads = 1;
  list.back().second.model.attention.qkv_bias = true;
  list.emplace_back("gates with biases", tiny_job(false));
  list.back().second.model.gated_mlp = true;
  return list;
}

double dot(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (const auto& [name, values] : a) sum = std::inner_product(values.begin(), values.end(), b.at(name).begin(), sum);
  return sum;
}

// Of length 1.
Tensors unit(Tensors direction) {
  const double length = std::sqrt(dot(direction, direction));
  for (auto& [name, values] : direction) {
    for (double& value : values) value /= length;
  }
  return direction;
}

using Loss = Result<double> (*)(Rank<double>&);

// Of the first step, with all that it drops.
Result<double> loss_of_step(Rank<double>& rank) {
  StepSettings settings;
  settings.adamw.rate = 0;
  const Result<StepResult> done = run_step(rank, settings);
  if (!done) return tl::unexpected(done.error());
  return done->loss;
}

// The slope of the loss in a direction, by four points: the error goes with the fourth power of their distance.
Result<double> slope(Rank<double>& rank, const std::vector<double>& base, const Tensors& direction,
                     Loss loss_of = evaluate<double>) {
  constexpr double kDistance = 2.5e-4;
  constexpr std::pair<double, double> kPoints[] = {{-2, 1}, {-1, -8}, {1, 8}, {2, -1}};
  double sum = 0;
  const auto place_at = [&](double distance) {
    std::copy(base.begin(), base.end(), rank.parameters);
    for_each_parameter(rank, [&](const model::Tensor& tensor, std::size_t whole, double& value) {
      const auto moved = direction.find(tensor.name);
      if (moved != direction.end()) value += distance * moved->second[whole];
    });
  };
  for (const auto& [steps, weight] : kPoints) {
    place_at(steps * kDistance);
    const Result<double> loss = loss_of(rank);
    if (!loss) return loss;
    sum += weight * *loss;
  }
  place_at(0);
  return sum / (12 * kDistance);
}

std::vector<double> parameters_of(const Rank<double>& rank) {
  const std::int64_t count = rank.shards_parameters ? rank.pieces.elements / rank.pieces.shards : rank.pieces.elements;
  return {rank.parameters, rank.parameters + count};
}

// Along the tensor's own gradient, which finds what is missing, and along two others, which find what is too much.
Result<void> check_tensor(Rank<double>& rank, const std::string& name, const Tensors& gradients,
                          const std::vector<Tensors>& others) {
  const Tensors own = {{name, gradients.at(name)}};
  const double length = std::sqrt(dot(own, own));
  EXPECT_GT(length, 1e-6) << name;
  std::vector<Tensors> directions = {unit(own)};
  for (const Tensors& other : others) directions.push_back(unit({{name, other.at(name)}}));
  const std::vector<double> base = parameters_of(rank);
  for (const Tensors& direction : directions) {
    const Result<double> found = slope(rank, base, direction);
    if (!found) return tl::unexpected(found.error());
    EXPECT_NEAR(dot(direction, gradients), *found, 1e-8 * length) << name;
  }
  return {};
}

TEST(Gradients, OfEveryTensorAreTheSlopesOfTheLoss) {
  for (const auto& [name, job] : models()) {
    SCOPED_TRACE(name);
    const Tensors gradients = gradients_of<double>(job);
    const std::vector<Tensors> others = {random_directions(job.model, 1), random_directions(job.model, 2)};
    on_ranks<double>(job, [&](Rank<double>& rank) -> Result<void> {
      for (const auto& [tensor, values] : gradients) {
        if (Result<void> done = check_tensor(rank, tensor, gradients, others); !done) return done;
      }
      return {};
    });
  }
}

// ---- any layout has the same ----

const TestLayout kCases[] = {
    {.tp = 2},
    {.tp = 2, .sp = true},
    {.tp = 4, .sp = true},
    {.pp = 2},
    {.dp = 2},
    {.dp = 2, .overlap = true},
    {.dp = 2, .zero = 1},
    {.dp = 2, .zero = 1, .overlap = true},
    {.dp = 2, .zero = 2},
    {.dp = 2, .zero = 3},
    {.recompute = spec::Recompute::selective},
    {.recompute = spec::Recompute::full},
    {.tp = 2, .sp = true, .recompute = spec::Recompute::full},
    {.dp = 2, .zero = 3, .recompute = spec::Recompute::full},
    {.dp = 2, .tp = 2, .sp = true, .zero = 3},
    {.dp = 2, .tp = 2, .pp = 2, .sp = true, .zero = 1},
};

// Models whose heads four ranks can share.
std::vector<Model> divisible_models() {
  std::vector<Model> list;
  for (const Model& model : models()) {
    if (model.second.model.attention.kv_heads == 4) list.push_back(model);
  }
  list.emplace_back("llama", tiny_job(true));
  list.back().second.model.attention = {.heads = 8, .kv_heads = 4, .head_dim = 4};
  return list;
}

TEST(Gradients, AreTheSameInAnyLayout) {
  for (const auto& [name, job] : divisible_models()) {
    const Tensors expected = gradients_of<double>(job);
    for (const TestLayout& one : kCases) {
      SCOPED_TRACE(fmt::format("{}, {}", name, text_of(one)));
      const Tensors found = gradients_of<double>(with_layout(job, one));
      for (const auto& [tensor, values] : expected) EXPECT_LT(apart(found.at(tensor), values), 1e-13) << tensor;
    }
  }
}

// All parameters at once, evaluated as the layout does.
TEST(Gradients, AreTheSlopesOfTheLossThatALayoutEvaluates) {
  for (const bool llama : {false, true}) {
    for (const TestLayout& one : kCases) {
      const spec::Job job = with_layout(tiny_job(llama), one);
      if (llama && one.tp > 2) continue;
      SCOPED_TRACE(fmt::format("{}, {}", llama ? "llama" : "gpt", text_of(one)));
      const Tensors gradients = gradients_of<double>(job);
      const Tensors direction = unit(random_directions(job.model, 3));
      on_ranks<double>(job, [&](Rank<double>& rank) -> Result<void> {
        const Result<double> found = slope(rank, parameters_of(rank), direction);
        if (!found) return tl::unexpected(found.error());
        EXPECT_NEAR(dot(direction, gradients), *found, 1e-10 * std::sqrt(dot(gradients, gradients)));
        return {};
      });
    }
  }
}

// ---- dropout ----

spec::Job with_dropout(spec::Job job) {
  job.training.recipe.dropout = 0.2;
  job.training.recipe.attention_dropout = 0.3;
  return job;
}

TEST(Gradients, WithDropoutAreTheSlopesOfTheStepsLoss) {
  for (const auto& [name, plain] : models()) {
    SCOPED_TRACE(name);
    const spec::Job job = with_dropout(plain);
    const Tensors gradients = gradients_of<double>(job);
    const Tensors own = unit(gradients);
    const Tensors other = unit(random_directions(job.model, 3));
    on_ranks<double>(job, [&](Rank<double>& rank) -> Result<void> {
      for (const Tensors& direction : {own, other}) {
        const Result<double> found = slope(rank, parameters_of(rank), direction, loss_of_step);
        if (!found) return tl::unexpected(found.error());
        EXPECT_NEAR(dot(direction, gradients), *found, 1e-9 * std::sqrt(dot(gradients, gradients)));
      }
      return {};
    });
  }
}

TEST(Gradients, WithDropoutAreTheSameInAnyLayout) {
  for (const bool llama : {false, true}) {
    const spec::Job job = with_dropout(tiny_job(llama));
    const Tensors expected = gradients_of<double>(job);
    EXPECT_GT(apart(gradients_of<double>(tiny_job(llama)).at("embedding.tokens"), expected.at("embedding.tokens")),
              0.1);
    for (const TestLayout& one : kCases) {
      if (llama && one.tp > 2) continue;
      SCOPED_TRACE(fmt::format("{}, {}", llama ? "llama" : "gpt", text_of(one)));
      const Tensors found = gradients_of<double>(with_layout(job, one));
      for (const auto& [tensor, values] : expected) EXPECT_LT(apart(found.at(tensor), values), 1e-13) << tensor;
    }
  }
}

// ---- in plain passes ----

TEST(Gradients, WithoutFusionsAreTheSame) {
  for (const auto& [name, plain] : models()) {
    for (const bool drops : {false, true}) {
      SCOPED_TRACE(name);
      const spec::Job job = drops ? with_dropout(plain) : plain;
      spec::Job unfused = job;
      unfused.training.recipe.unfused = {spec::Fusion::all};
      const Tensors expected = gradients_of<double>(job);
      const Tensors found = gradients_of<double>(unfused);
      for (const auto& [tensor, values] : expected) EXPECT_LT(apart(found.at(tensor), values), 1e-13) << tensor;
    }
  }
}

// ---- other numbers ----

TEST(Gradients, InFloatAreNearThoseInDouble) {
  for (const auto& [name, job] : models()) {
    SCOPED_TRACE(name);
    const Tensors expected = gradients_of<double>(job);
    const Tensors found = gradients_of<float>(job);
    for (const auto& [tensor, values] : expected) EXPECT_LT(apart(found.at(tensor), values), 1e-5) << tensor;
  }
}

TEST(Gradients, InBf16TrainAsFloatDoes) {
  constexpr int kSteps = 50;
  for (const bool llama : {false, true}) {
    SCOPED_TRACE(llama ? "llama" : "gpt");
    spec::Job job = small_job(llama);
    const Trained expected = train_small<float>(job, kSteps);
    job.training.precision = spec::Precision::bf16;
    const Trained trained = train_small<Bf16>(job, kSteps);
    ASSERT_EQ(trained.losses.size(), expected.losses.size());
    for (std::size_t i = 0; i < expected.losses.size(); ++i)
      EXPECT_NEAR(trained.losses[i], expected.losses[i], 0.01 * expected.losses[i]) << "step " << i;
  }
}

}  // namespace
}  // namespace twinpod::train
