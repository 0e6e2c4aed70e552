// A Slurm batch script: it writes the engine's own launch into a folder that all nodes see, and runs it on each of
// them.
#include <fmt/format.h>

#include <cmath>

#include "emit/engines.hpp"
#include "emit/facts.hpp"
#include "emit/script.hpp"

namespace twinpod::emit {
namespace {

// Restarts and checkpoints take time that the estimate does not hold.
constexpr double kMargin = 1.2;

std::string time_text(double seconds) {
  const auto minutes = static_cast<std::int64_t>(std::ceil(seconds * kMargin / 60));
  return fmt::format("{}-{:02}:{:02}:00", minutes / 1440, minutes / 60 % 24, minutes % 60);
}

std::string directives(const spec::Job& job, const Launch& launch) {
  const World world = world_of(job);
  std::string name = "twinpod-" + (job.model.entry.empty() ? std::string("model") : job.model.entry);
  std::string text = fmt::format(
      "#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={}\n"
      "#SBATCH --exclusive\n#SBATCH --output=%x-%j.log\n",
      name, world.nodes, world.devices_per_node);
  if (launch.run_s > 0) text += fmt::format("#SBATCH --time={}\n", time_text(launch.run_s));
  return text;
}

// The recipe of NeMo is Python: the batch script itself calls torchrun.
std::string command(const spec::Job& job, Engine engine) {
  if (engine != Engine::nemo) return "srun bash \"$RUN_DIR/launch\"\n";
  return "cat >\"$RUN_DIR/on-node\" <<'TWINPOD_NODE'\nset -euo pipefail\nNODE_RANK=${SLURM_NODEID:-0}\nexec " +
         torchrun_text(job) + "  \"$RUN_DIR/launch\"\nTWINPOD_NODE\nsrun bash \"$RUN_DIR/on-node\"\n";
}

}  // namespace

std::string slurm_script(const spec::Job& job, const Launch& launch, const std::string& text) {
  return "#!/usr/bin/env bash\n" + directives(job, launch) +
         head_comment(job, fmt::format("Slurm around {}. Hand it to sbatch.", name_of(launch.engine))) +
         "set -euo pipefail\n\n"
         "RUN_DIR=${RUN_DIR:-${SLURM_SUBMIT_DIR:-$PWD}/twinpod-${SLURM_JOB_ID:-run}}  # all nodes must see it\n"
         "mkdir -p \"$RUN_DIR\"\n"
         "hosts=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
         "MASTER_ADDR=${hosts%%$'\\n'*}\n"
         "MASTER_PORT=${MASTER_PORT:-29500}\n"
         "export RUN_DIR MASTER_ADDR MASTER_PORT\n\n"
         "cat >\"$RUN_DIR/launch\" <<'TWINPOD_LAUNCH'\n" +
         text + "TWINPOD_LAUNCH\n\n" + command(job, launch.engine);
}

}  // namespace twinpod::emit
