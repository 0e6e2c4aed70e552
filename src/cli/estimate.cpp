// twinpod estimate: one job in; its memory, step time and training time out.
#include <fmt/format.h>

#include <array>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "layout/check.hpp"
#include "plan/assessment.hpp"
#include "plan/fits.hpp"
#include "report/json.hpp"
#include "report/tables.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kJobFlags = {
    Flag{"on", "CLUSTER", "the cluster: a name of the catalog, or a file", ""},
    Flag{"devices", "N", "devices that the job uses (default: all of the cluster)", "devices"},
    Flag{"stack", "NAME", "the software stack (`twinpod show stacks`)", "stack"},
    Flag{"tp", "N", "tensor parallel ranks", "layout.tp"},
    Flag{"pp", "N", "pipeline stages", "layout.pp"},
    Flag{"virtual-stages", "N", "model chunks of a stage (interleaving)", "layout.virtual_stages", "vp"},
    Flag{"cp", "N", "context parallel ranks", "layout.cp"},
    Flag{"ep", "N", "expert parallel ranks", "layout.ep"},
    Flag{"etp", "N", "tensor parallel ranks inside an expert (default: as tp)", "layout.etp"},
    Flag{"dp", "N", "data parallel ranks, to be checked: devices / (tp pp cp)", "layout.dp"},
    Flag{"sequence-parallel", "", "split norms and residuals over the tensor ranks", "layout.sequence_parallel", "sp"},
    Flag{"zero", "0..3", "what data parallel ranks share: 1 optimizer, 2 gradients, 3 parameters", "layout.zero"},
    Flag{"shard-group", "N", "ranks over which ZeRO shards (default: all)", "layout.shard_group"},
    Flag{"micro-batch", "N", "sequences of a micro-batch (default: 1)", "layout.micro_batch"},
    Flag{"recompute", "WHAT", "none, selective or full", "layout.recompute"},
    Flag{"recompute-layers", "N", "layers of a stage that full recomputes (default: all)", "layout.recompute_layers"},
    Flag{"schedule", "NAME", "gpipe, 1f1b, interleaved, zb-1p, zb-2p, zb-v or dualpipe", "layout.schedule"},
    Flag{"servers", "N", "parameter servers on the nodes' hosts (default: 0, all-reduce)", "layout.servers"},
    Flag{"offload-optimizer", "", "optimizer state and update on the host", "layout.offload_optimizer"},
    Flag{"offload-activations", "", "activations wait in the host's memory", "layout.offload_activations"},
    Flag{"uneven-ends", "", "first and last stage hold one layer less", "layout.uneven_ends"},
    Flag{"async-tp", "", "products cut in pieces that hide their collectives", "layout.async_tp"},
};
constexpr std::array kOutputFlags = {
    Flag{"explain", "", "print the formula of each figure", ""},
    Flag{"stages", "", "print the memory of every stage", ""},
};
constexpr std::array kFlags = joined(joined(kJobFlags, kTrainingFlags), kOutputFlags);

Result<std::string> estimate(const Arguments& arguments) {
  const Result<spec::Request> request = request_of("estimate", arguments, arguments.value_or("on", ""));
  if (!request) return tl::unexpected(request.error());
  const spec::Catalog catalog = catalog_of(arguments);
  const Result<spec::Job> job = spec::read_job(*request, catalog);
  if (!job) return tl::unexpected(job.error());
  const Result<void> valid = layout::check(*job);
  if (!valid) return tl::unexpected(valid.error());
  const Result<void> fits = plan::check_memory(*job);
  if (!fits) return tl::unexpected(fits.error());
  const Result<plan::Accuracy> accuracy = plan::read_accuracy(catalog.folder() + "/accuracy.yaml");
  if (!accuracy) return tl::unexpected(accuracy.error());

  const plan::Assessment assessment = plan::assess(*job, *accuracy);
  const report::EstimateOptions options{arguments.has("explain"), arguments.has("stages")};
  if (arguments.has("json")) return report::estimate_json(*job, assessment, options);
  return report::estimate_text(*job, assessment, options);
}

}  // namespace

const Command kEstimate = {
    "estimate",
    "MODEL|JOB.yaml|config.json [--on CLUSTER] [flags]",
    "memory, step time, training time and cost of a job",
    "twinpod estimate gpt3-175b --on dgx-superpod-a100-140 --devices 1024 --tp 8 --pp 8 --tokens 300e9\n"
    "twinpod estimate llama3-70b --on h100-superpod --devices 512 --tp 4 --pp 4 --zero 1 --json\n"
    "twinpod estimate examples/llama3-70b.yaml --set layout.tp=8 --explain\n"
    "twinpod estimate path/to/config.json --on dgx-h100 --zero 3 --recompute full\n",
    kFlags,
    estimate};

}  // namespace twinpod::cli
