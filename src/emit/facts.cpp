#include "emit/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/quote.hpp"
#include "layout/check.hpp"
#include "model/arithmetic.hpp"

namespace twinpod::emit {
namespace {

struct LearningRate {
  double parameters;
  double rate;
};

// Brown 2020, table 2.1.
constexpr std::array kLearningRates = {
    LearningRate{125e6, 6e-4},   LearningRate{350e6, 3e-4},   LearningRate{760e6, 2.5e-4}, LearningRate{1.3e9, 2e-4},
    LearningRate{2.7e9, 1.6e-4}, LearningRate{6.7e9, 1.2e-4}, LearningRate{13e9, 1e-4},    LearningRate{175e9, 6e-5}};

struct RotaryBase {
  std::string_view prefix;  // of the catalog's names
  int base;
};

// `rope_theta` of the released configs. The first prefix that fits counts.
constexpr std::array kRotaryBases = {
    RotaryBase{"llama3", 500'000},      RotaryBase{"llama4", 500'000},    RotaryBase{"llama", 10'000},
    RotaryBase{"codellama", 1'000'000}, RotaryBase{"mixtral", 1'000'000}, RotaryBase{"mistral-7b", 10'000},
    RotaryBase{"mistral", 1'000'000},   RotaryBase{"qwen3", 1'000'000},   RotaryBase{"qwen2", 1'000'000},
    RotaryBase{"deepseek", 10'000},     RotaryBase{"kimi-k2", 50'000},    RotaryBase{"gpt-oss", 150'000},
    RotaryBase{"gemma3", 1'000'000},    RotaryBase{"gemma", 10'000},      RotaryBase{"yi", 5'000'000},
    RotaryBase{"pythia", 10'000},       RotaryBase{"falcon", 10'000}};

}  // namespace

World world_of(const spec::Job& job) {
  World world;
  world.devices_per_node = std::min(job.cluster.devices_per_node, job.cluster.devices);
  world.nodes = job.cluster.devices / world.devices_per_node;
  world.dp = spec::data_parallel(job);
  return world;
}

std::int64_t steps(const spec::Job& job) {
  const spec::Training& training = job.training;
  if (training.tokens <= 0) return 0;
  return static_cast<std::int64_t>(std::ceil(training.tokens / (training.global_batch * training.sequence)));
}

std::string ranks_text(const spec::Job& job) {
  const spec::Layout& l = job.layout;
  return fmt::format("{} ranks = tp {} × pp {} × cp {} × dp {}", job.cluster.devices, l.tp, l.pp, l.cp,
                     spec::data_parallel(job));
}

std::string batch_text(const spec::Job& job) {
  return fmt::format("{:.0f} sequences = micro-batch {} × dp {} × {} micro-batches", job.training.global_batch,
                     job.layout.micro_batch, spec::data_parallel(job), spec::micro_batches(job));
}

std::string head_comment(const spec::Job& job, const std::string& what) {
  return fmt::format(
      "# {}\n# {}\n# Written by twinpod. Every name in here and where it comes from: docs/emit.md.\n"
      "#\n#   {}\n#   {}, each of {} tokens\n",
      one_line(job.name.empty() ? job.model.name : job.name), what, ranks_text(job), batch_text(job),
      job.training.sequence);
}

double usual_learning_rate(const spec::Model& model) {
  const double parameters = model::parameters(model).total;
  const LearningRate* nearest = &kLearningRates.front();
  for (const LearningRate& row : kLearningRates) {
    if (std::abs(std::log(row.parameters / parameters)) < std::abs(std::log(nearest->parameters / parameters))) {
      nearest = &row;
    }
  }
  return nearest->rate;
}

int rotary_base(const spec::Model& model) {
  for (const RotaryBase& row : kRotaryBases) {
    if (model.entry.starts_with(row.prefix)) return row.base;
  }
  return 0;
}

double gradient_bytes(const spec::Job& job) {
  return job.training.gradient_bytes > 0 ? job.training.gradient_bytes : job.stack.gradient_bytes;
}

}  // namespace twinpod::emit
