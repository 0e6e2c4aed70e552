#include "emit/emit.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "core/nearest.hpp"
#include "emit/engines.hpp"

namespace twinpod::emit {
namespace {

struct Named {
  std::string_view name;
  Launch launch;
};

constexpr std::array kLaunches = {Named{"megatron", {Engine::megatron, false, 0}},
                                  Named{"torchtitan", {Engine::torchtitan, false, 0}},
                                  Named{"nemo", {Engine::nemo, false, 0}},
                                  Named{"slurm", {Engine::megatron, true, 0}},
                                  Named{"twinpod", {Engine::twinpod, false, 0}},
                                  Named{"slurm:megatron", {Engine::megatron, true, 0}},
                                  Named{"slurm:torchtitan", {Engine::torchtitan, true, 0}},
                                  Named{"slurm:nemo", {Engine::nemo, true, 0}}};

std::string text_of(const spec::Job& job, Engine engine, const spec::Catalog* catalog) {
  switch (engine) {
    case Engine::megatron:
      return megatron_script(job);
    case Engine::torchtitan:
      return torchtitan_script(job);
    case Engine::nemo:
      return nemo_recipe(job);
    case Engine::twinpod:
      return job_file(job, catalog);
  }
  return "";
}

}  // namespace

std::string_view name_of(Engine engine) {
  constexpr std::array<std::string_view, 4> kNames = {"megatron", "torchtitan", "nemo", "twinpod"};
  return kNames[static_cast<std::size_t>(engine)];
}

Result<Launch> launch_named(std::string_view name) {
  std::vector<std::string> known;
  for (const Named& row : kLaunches) {
    if (row.name == name) return row.launch;
    known.emplace_back(row.name);
  }
  const std::string near = nearest_name(name, known);
  return input_error(fmt::format("nothing to emit is called `{}`", name),
                     near.empty() ? "there are megatron, torchtitan, nemo, slurm, slurm:torchtitan, slurm:nemo, twinpod"
                                  : fmt::format("did you mean `{}`?", near));
}

Result<std::string> emit(const spec::Job& job, const Launch& launch, const spec::Catalog* catalog) {
  if (const Result<void> valid = check(job, launch.engine); !valid) return tl::unexpected(valid.error());
  std::string text = text_of(job, launch.engine, catalog);
  return launch.slurm && launch.engine != Engine::twinpod ? slurm_script(job, launch, text) : text;
}

}  // namespace twinpod::emit
