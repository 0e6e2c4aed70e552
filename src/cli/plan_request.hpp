// What `twinpod plan` is asked: the job, the values that each axis may take, and what is wanted of the answer.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/args.hpp"
#include "core/error.hpp"
#include "emit/emit.hpp"
#include "plan/questions.hpp"
#include "spec/catalog.hpp"
#include "spec/job.hpp"

namespace twinpod::cli {

// Axes of the layout take a value, a list `2,4,8` or a range `1..16`; what is not given stays open.
inline constexpr std::array kPlanFlags = {
    Flag{"on", "CLUSTER", "the cluster: a name of the catalog, or a file; several, with commas, side by side", ""},
    Flag{"devices", "N", "devices: 1024, or 256,512, or 1024..16384 by whole nodes (default: all)", ""},
    Flag{"stack", "NAME", "the software stack, and with it what can be run (`twinpod show stacks`)", "stack"},
    Flag{"space", "WHICH", "stack: what the stack can run (default); full: all that twinpod knows", ""},
    Flag{"tp", "LIST", "tensor parallel ranks", ""},
    Flag{"pp", "LIST", "pipeline stages", ""},
    Flag{"virtual-stages", "LIST", "model chunks of a stage (interleaving)", "", "vp"},
    Flag{"cp", "LIST", "context parallel ranks", ""},
    Flag{"ep", "LIST", "expert parallel ranks", ""},
    Flag{"etp", "LIST", "tensor parallel ranks inside an expert (0: as tp)", ""},
    Flag{"dp", "LIST", "data parallel ranks", ""},
    Flag{"micro-batch", "LIST", "sequences of a micro-batch", ""},
    Flag{"zero", "LIST", "stages of ZeRO, 0 to 3", ""},
    Flag{"servers", "LIST", "parameter servers (0: all-reduce)", ""},
    Flag{"sequence-parallel", "on|off", "split norms and residuals over the tensor ranks", "", "sp"},
    Flag{"offload-optimizer", "on|off", "optimizer state and update on the host", ""},
    Flag{"offload-activations", "on|off", "activations wait in the host's memory", ""},
    Flag{"recompute", "LIST", "none, selective, full", ""},
    Flag{"schedule", "LIST", "gpipe, 1f1b, interleaved, zb-1p, zb-2p, zb-v, dualpipe", ""},
};

// A wish that was given, and how to do without it.
struct WishFlag {
  std::string as_written;  // "--tp 5"
  std::function<void(plan::Wishes&)> clear;
};

struct PlanRequest {
  spec::Job job;                     // batch, tokens and devices settled
  std::optional<spec::Job> written;  // with the layout that the job file has, when it has one
  plan::Terms terms;                 // abilities are always there
  std::vector<WishFlag> given_wishes;
  std::vector<plan::Objective> pareto;  // --pareto; empty: not asked
  std::optional<emit::Launch> launch;   // --emit
  double within_s = 0;                  // --within; 0: not asked
  std::vector<std::string> notes;       // what was chosen for the user
};

// Flags that exclude each other.
Result<void> check_plan_arguments(const Arguments& arguments);

// The clusters of --on; one empty name when the job file has it.
std::vector<std::string> clusters_of(const Arguments& arguments);

Result<PlanRequest> plan_request(const Arguments& arguments, const std::string& cluster, const spec::Catalog& catalog);

// `--what-if`: "all" or a list.
Result<std::vector<plan::Change>> changes_of(const std::string& text);

// 0.8, 80%
Result<double> share_of(const Arguments& arguments, std::string_view name, double fallback);

// One node, two, four, ... and the whole cluster.
std::vector<int> doubling_counts(const spec::Cluster& cluster);

}  // namespace twinpod::cli
