#include "emit/script.hpp"

#include <fmt/format.h>

#include "core/quote.hpp"
#include "emit/facts.hpp"

namespace twinpod::emit {

std::string array_text(const FlagGroup& group) {
  std::string text = group.name + "=(\n";
  for (const Flag& flag : group.flags) {
    text += flag.value.empty() ? fmt::format("  {}\n", flag.name) : fmt::format("  {} {}\n", flag.name, flag.value);
  }
  return text + ")\n";
}

std::string needs_text(const std::vector<Need>& needs) {
  std::string text =
      "missing=\n"
      "need() {  # need VARIABLE WHAT\n"
      "  if [[ -z ${!1:-} ]]; then\n"
      "    echo \"set $1: $2\" >&2\n"
      "    missing=yes\n"
      "  fi\n"
      "}\n";
  for (const Need& need : needs) {
    const std::string call = fmt::format("need {} {}", need.variable, shell_quoted(need.what));
    text += need.condition.empty() ? call + "\n" : fmt::format("if {}; then {}; fi\n", need.condition, call);
  }
  return text + "if [[ -n $missing ]]; then exit 2; fi\n";
}

std::string nodes_text(const spec::Job& job) {
  std::string text = "MASTER_PORT=${MASTER_PORT:-29500}\n";
  if (world_of(job).nodes == 1) return text + "MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}\nNODE_RANK=${NODE_RANK:-0}\n";
  return text + "NODE_RANK=${NODE_RANK:-${SLURM_NODEID:-}}\n";
}

std::string torchrun_text(const spec::Job& job) {
  const World world = world_of(job);
  return fmt::format(
      "torchrun \\\n"
      "  --nproc_per_node {} \\\n"
      "  --nnodes {} \\\n"
      "  --node_rank \"$NODE_RANK\" \\\n"
      "  --rdzv_id \"${{SLURM_JOB_ID:-twinpod}}\" \\\n"
      "  --rdzv_backend c10d \\\n"
      "  --rdzv_endpoint \"$MASTER_ADDR:$MASTER_PORT\" \\\n",
      world.devices_per_node, world.nodes);
}

}  // namespace twinpod::emit
