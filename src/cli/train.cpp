// twinpod train: trains a job for real on this machine, or on those that MPI started it on.
#include <array>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "cli/served_flags.hpp"
#include "cli/train_ranks.hpp"
#include "cli/train_served.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kOwnFlags = {
    Flag{"ranks", "N", "ranks to start on this machine (default 1; under mpirun or srun: those that it started)", ""},
    Flag{"steps", "N", "steps (default: as training.tokens says, else 100)", "training.steps"},
    Flag{"learning-rate", "X", "at its highest (default 1e-3)", "training.learning_rate"},
    Flag{"warmup", "N", "steps in which the learning rate rises", "training.warmup"},
    Flag{"decay", "HOW", "of the learning rate: constant, linear, cosine or wsd (default cosine)", "training.decay"},
    Flag{"weight-decay", "X", "of matrices (default 0.1)", "training.weight_decay"},
    Flag{"clip", "X", "largest norm of all gradients; 0: any (default 1)", "training.clip"},
    Flag{"dropout", "P", "share of what is added to the residual stream that is dropped (default 0)",
         "training.dropout"},
    Flag{"unfused", "LIST",
         "fusions that are off: bias_gelu, residual_norm, cross_entropy, attention, rotary, optimizer; all", ""},
    Flag{"whole-gradients", "", "weight gradients from all bits of fp32 (slower; without: from 17 of 24)",
         "training.whole_gradients"},
    Flag{"seed", "N", "of the weights and of the order of the data (default 1)", "training.seed"},
    Flag{"evaluate-every", "N", "steps between evaluations (default: at the end only)", "training.evaluate_every"},
    Flag{"data", "NAME", "token files NAME.bin and NAME.idx (`twinpod data prepare`)", "data.tokens"},
    Flag{"text", "PATH", "or text: files and folders, with commas between them; each byte is a token", ""},
    Flag{"deterministic", "", "the same run twice gives the same bits", ""},
    Flag{"store", "DIR", "save checkpoints there, also at the end and when it is told to stop", "checkpoint.store"},
    Flag{"checkpoint-every", "N", "steps between checkpoints (default: at the end only)", "checkpoint.every"},
    Flag{"keep", "N", "checkpoints that are kept (default 2)", "checkpoint.keep"},
    Flag{"resume", "DIR", "go on from the newest checkpoint there, on any layout; its job when none is given", ""},
    Flag{"metrics", "FILE", "write a line of JSON for each step", ""},
    Flag{"timeline", "FILE", "write start and end of every op of one step as JSON, for `twinpod compare`", ""},
    Flag{"trace", "FILE", "the same step for ui.perfetto.dev", ""},
    Flag{"trace-step", "N", "which step (default: the 16th, or the last if there are fewer; with servers: all)", ""},
    Flag{"threads", "", "ranks are threads of one process", ""},
    Flag{"hosts", "LIST", "with servers: addresses of hosts that train together; run the same on each, with", ""},
    Flag{"host", "N", "which of them this is, from 0 (the controller) on", ""},
    Flag{"port", "N", "the first that they use, one for each process (default 7700)", ""},
    Flag{"key", "FILE", "secret by which their processes know each other; host 0 makes it, others get a copy", ""},
    Flag{"fault", "LIST", "with servers: kill:server:1@20 or kill:worker:0@20 (behind step 20), random:6 (six of all)",
         ""},
    Flag{"timeout", "TIME", "how long a rank waits for another (default 60 s)", ""},
};
constexpr std::array kFlagsOfTrain =
    joined(joined(joined(without(kJobFlags, "servers"), kTrainingFlags), kOwnFlags), kServedFlags);

Result<std::string> run_train(const Arguments& arguments) {
  const Result<TrainRequest> request = train_request(arguments);
  if (!request) return tl::unexpected(request.error());
  if (request->transport == "mpi") {
    return answered(comm::run_mpi(request->options,
                                  [&](comm::Communicator& world) { return train_rank(*request, nullptr, world); }));
  }
  const Result<TrainPlan> plan = plan_training(*request, request->ranks);
  if (!plan) return tl::unexpected(plan.error());
  if (request->served) return train_with_servers(*request, *plan);
  const comm::Body body = [&](comm::Communicator& world) { return train_rank(*request, &*plan, world); };
  if (request->transport == "threads") return answered(comm::run_threads(request->ranks, request->options, body));
  return answered(comm::run_processes(request->ranks, request->options, body));
}

}  // namespace

const Command kTrain = {
    "train",
    "MODEL|JOB.yaml|config.json [--ranks N] [--resume DIR] [flags]",
    "trains for real, on this machine or over MPI; prediction beside measurement",
    "twinpod train examples/tiny-gpt.yaml --ranks 2 --tp 2\n"
    "twinpod train examples/tiny-gpt.yaml --ranks 4 --dp 2 --pp 2 --zero 1 --schedule 1f1b\n"
    "twinpod train examples/tiny-gpt.yaml --set model.layers=6 --set model.hidden=384 --steps 20\n"
    "twinpod train examples/tiny-gpt.yaml --ranks 2 --trace step.json --metrics metrics.jsonl\n"
    "twinpod train examples/tiny-gpt.yaml --ranks 2 --steps 300 --store runs/a --checkpoint-every 100\n"
    "twinpod train --resume runs/a --tp 2 --dp 1 --steps 600\n"
    "twinpod train examples/tiny-gpt.yaml --servers 2 --workers 4 --mode ssp:3 --steps 200\n"
    "mpirun -n 16 twinpod train job.yaml\n",
    kFlagsOfTrain,
    run_train};

}  // namespace twinpod::cli
