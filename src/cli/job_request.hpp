// What commands that take a job have in common: their words, the flags for training, and how both become a request.
//
//     twinpod estimate gpt3-175b --on dgx-superpod-a100-140 --sequence 4096
//     twinpod plan examples/llama3-70b.yaml --set training.tokens=1e12
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args.hpp"
#include "core/error.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {

// The cluster, the stack and how the ranks are divided, each as one value.
inline constexpr std::array kJobFlags = {
    Flag{"on", "CLUSTER", "the cluster: a name of the catalog, or a file", ""},
    Flag{"devices", "N", "devices that the job uses (default: all that whole copies fill)", "devices"},
    Flag{"stack", "NAME", "the software stack (`twinpod show stacks`)", "stack"},
    Flag{"tp", "N", "tensor parallel ranks", "layout.tp"},
    Flag{"pp", "N", "pipeline stages", "layout.pp"},
    Flag{"virtual-stages", "N", "model chunks of a stage (interleaving)", "layout.virtual_stages", "vp"},
    Flag{"cp", "N", "context parallel ranks", "layout.cp"},
    Flag{"context-exchange", "HOW", "keys and values of other context ranks: ring or gather",
         "layout.context_exchange"},
    Flag{"ep", "N", "expert parallel ranks", "layout.ep"},
    Flag{"etp", "N", "tensor parallel ranks inside an expert (default: as tp)", "layout.etp"},
    Flag{"dp", "N", "data parallel ranks, to be checked: devices / (tp pp cp)", "layout.dp"},
    Flag{"sequence-parallel", "", "split norms and residuals over the tensor ranks", "layout.sequence_parallel", "sp"},
    Flag{"zero", "0..3", "what data parallel ranks share: 1 optimizer, 2 gradients, 3 parameters", "layout.zero"},
    Flag{"shard-group", "N", "ranks over which ZeRO shards (default: all)", "layout.shard_group"},
    Flag{"micro-batch", "N", "sequences of a micro-batch (default: 1)", "layout.micro_batch"},
    Flag{"recompute", "WHAT", "none, selective or full", "layout.recompute"},
    Flag{"recompute-layers", "N", "layers of a stage that full recomputes (default: all)", "layout.recompute_layers"},
    Flag{"schedule", "NAME", "gpipe, 1f1b, interleaved, zb-1p, zb-2p, zb-v, dualpipe, dualpipe-v, or a file: mine.csv",
         "layout.schedule"},
    Flag{"servers", "N", "parameter servers on the nodes' hosts (default: 0, all-reduce)", "layout.servers"},
    Flag{"offload-optimizer", "", "optimizer state and update on the host", "layout.offload_optimizer"},
    Flag{"offload-activations", "", "activations wait in the host's memory", "layout.offload_activations"},
    Flag{"uneven-ends", "", "first and last stage hold one layer less", "layout.uneven_ends"},
    Flag{"async-tp", "", "products cut in pieces that hide their collectives", "layout.async_tp"},
    Flag{"overlap", "",
         "reduce gradients beside the backward passes (default: as the stack; train: when cores are free)",
         "layout.overlap"},
};

inline constexpr std::array kTrainingFlags = {
    Flag{"global-batch", "N", "sequences of a step (default: about 4 M tokens)", "training.global_batch"},
    Flag{"global-batch-tokens", "N", "the same in tokens", "training.global_batch_tokens"},
    Flag{"sequence", "N", "tokens of a sequence (default: the model's)", "training.sequence"},
    Flag{"precision", "NAME", "fp32, tf32, fp16, bf16, fp8 or fp4", "training.precision"},
    Flag{"optimizer", "NAME", "adam, sgd_momentum, sgd or adafactor", "training.optimizer"},
    Flag{"tokens", "N", "tokens of the whole run: 300e9, 15 T", "training.tokens"},
    Flag{"target-loss", "L", "loss to reach: how long, by a scaling law", "training.target_loss"},
    Flag{"set", "KEY=VALUE", "any key of a job: --set layout.tp=8 --set cluster.device.memory=96GB", ""},
};

// Two lists of flags as one.
template <std::size_t A, std::size_t B>
constexpr std::array<Flag, A + B> joined(const std::array<Flag, A>& a, const std::array<Flag, B>& b) {
  std::array<Flag, A + B> all{};
  for (std::size_t i = 0; i < A; ++i) all[i] = a[i];
  for (std::size_t i = 0; i < B; ++i) all[A + i] = b[i];
  return all;
}

// A list without one of its flags, for a command that has another of that name. REQUIRES: it is there once.
template <std::size_t A>
constexpr std::array<Flag, A - 1> without(const std::array<Flag, A>& flags, std::string_view name) {
  std::array<Flag, A - 1> rest{};
  std::size_t count = 0;
  for (const Flag& flag : flags) {
    if (flag.name != name) rest[count++] = flag;
  }
  return rest;
}

// By its ending.
bool is_job_file(std::string_view word);

// One model or job file on one cluster; `cluster` is empty when the job file names it. Flags with a setting and --set
// change the job. `no_cluster` makes a cluster for a job that has none; without it, one must be named.
Result<spec::Request> request_of(std::string_view command, const Arguments& arguments, const std::string& cluster,
                                 const std::vector<spec::Setting>& no_cluster = {});

// The job of a command that works on one layout, on as many devices as whole copies of the model fill.
Result<spec::Job> one_job(std::string_view command, const Arguments& arguments, const spec::Catalog& catalog);

}  // namespace twinpod::cli
