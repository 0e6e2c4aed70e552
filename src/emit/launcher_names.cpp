// Flags of torchrun, and directives of sbatch and srun.
#include <array>

#include "emit/name_tables.hpp"

namespace twinpod::emit {
namespace {

constexpr std::string_view kRun = "torch/distributed/run.py";
constexpr std::array kTorchrun = {
    KnownName{"--nproc_per_node", kRun, "devices of a node: one process each"},
    KnownName{"--nnodes", kRun, "nodes"},
    KnownName{"--node_rank", kRun, "which node this is"},
    KnownName{"--rdzv_id", kRun, "name of the run at the meeting point"},
    KnownName{"--rdzv_backend", kRun, "c10d: the first node is the meeting point"},
    KnownName{"--rdzv_endpoint", kRun, "its address and port"},
    KnownName{"-m", kRun, "a module instead of a file"},
};

constexpr std::array kSlurm = {
    KnownName{"--job-name", "man sbatch", "name of the job"},
    KnownName{"--nodes", "man sbatch", "nodes"},
    KnownName{"--ntasks-per-node", "man sbatch", "1: one torchrun on each node"},
    KnownName{"--gpus-per-node", "man sbatch", "devices of a node"},
    KnownName{"--time", "man sbatch", "the estimated run and a fifth more; without `tokens` none is written"},
    KnownName{"--exclusive", "man sbatch", "nobody else on the nodes"},
    KnownName{"--output", "man sbatch", "file of the log"},
};

}  // namespace

std::span<const KnownName> torchrun_names() { return kTorchrun; }
std::span<const KnownName> slurm_names() { return kSlurm; }

}  // namespace twinpod::emit
