#include "emit/known_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "emit/name_tables.hpp"

namespace twinpod::emit {
namespace {

struct Program {
  std::string_view name;
  std::string_view seen_at;
  std::span<const KnownName> names;
};

std::array<Program, 5> programs() {
  return {
      Program{"megatron",
              "NVIDIA/Megatron-LM, main of 2026: arguments.py and training_config.py at 8c090f2a, "
              "transformer_config.py at 002526d8, model_parallel_config.py at 02aa3ee4",
              megatron_names()},
      Program{"torchtitan",
              "pytorch/torchtitan, main of 2026: configs.py and the flavors of DeepSeek at 0014ac2c, those of Qwen at "
              "0310b491 and of Llama at 00f555e1, activation checkpointing as in the configurations at 02694955",
              torchtitan_names()},
      Program{"nemo",
              "NVIDIA-NeMo/Megatron-Bridge, main of 2026: recipes/common.py at 0eca073e, gpt_provider.py at 0254ddd4, "
              "mixed_precision.py at 05097809, recipes/llama/llama3.py at 0d5f5558",
              nemo_names()},
      Program{"torchrun", "pytorch/pytorch torch/distributed/run.py at 010929fd; dashes and underscores mean the same",
              torchrun_names()},
      Program{"slurm", "Slurm: directives as guides of clusters use them (nvidia.github.io/srt-slurm/slurm-faq)",
              slurm_names()}};
}

Program program_named(std::string_view name) {
  for (const Program& program : programs()) {
    if (program.name == name) return program;
  }
  return {};
}

}  // namespace

std::span<const KnownName> known_names(std::string_view program) { return program_named(program).names; }

std::string_view seen_at(std::string_view program) { return program_named(program).seen_at; }

bool is_known(std::string_view program, std::string_view name) {
  const std::span<const KnownName> names = known_names(program);
  return std::any_of(names.begin(), names.end(), [&](const KnownName& known) { return known.name == name; });
}

std::string names_as_markdown(std::string_view program) {
  std::string rows;
  for (const KnownName& known : known_names(program)) {
    rows += fmt::format("| `{}` | {} | {} |\n", known.name, known.source, known.meaning);
  }
  return rows;
}

}  // namespace twinpod::emit
