// What commands that take a job have in common: their words, the flags for training, and how both become a request.
//
//     twinpod estimate gpt3-175b --on dgx-superpod-a100-140 --sequence 4096
//     twinpod plan examples/llama3-70b.yaml --set training.tokens=1e12
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "cli/args.hpp"
#include "core/error.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {

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

// One model or job file on one cluster; `cluster` is empty when the job file names it. Flags with a setting and --set
// change the job.
Result<spec::Request> request_of(std::string_view command, const Arguments& arguments, const std::string& cluster);

}  // namespace twinpod::cli
