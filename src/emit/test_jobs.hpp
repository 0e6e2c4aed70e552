// Jobs for the tests of launches, from the catalog of the repository, and readers of what was emitted.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "emit/emit.hpp"
#include "spec/read.hpp"

namespace twinpod::emit {

inline const spec::Catalog& catalog() {
  static const spec::Catalog all(TWINPOD_CATALOG_DIR);
  return all;
}

inline spec::Job job_of(const std::string& text) {
  const Result<spec::Job> job = spec::read_job_text(text, "test.yaml", catalog());
  EXPECT_TRUE(job) << (job ? "" : to_string(job.error())) << text;
  return job ? *job : spec::Job{};
}

struct NamedJob {
  std::string name;
  std::string text;
};

inline std::string test_name(const testing::TestParamInfo<NamedJob>& job) {
  return std::regex_replace(job.param.name, std::regex("[^a-z0-9]"), "_");
}

// Dense and mixture, even and uneven pipelines, every ZeRO stage, three precisions.
inline std::vector<NamedJob> mcore_jobs() {
  return {
      {"gpt3-175b",
       "model: gpt3-175b\ncluster: dgx-superpod-a100-140\ndevices: 1024\n"
       "layout: {tp: 8, pp: 8, virtual_stages: 3, zero: 0, recompute: full, micro_batch: 2}\n"
       "training: {global_batch: 1536, tokens: 300e9}\n"},
      {"llama3-70b",
       "model: llama3-70b\ncluster: h100-superpod\ndevices: 512\n"
       "layout: {tp: 8, pp: 4, virtual_stages: 5, zero: 1, sequence_parallel: true, recompute: selective}\n"
       "training: {global_batch: 512, tokens: 15e12}\n"},
      {"llama3-405b",
       "model: llama3-405b\ncluster: meta-24k-h100\ndevices: 8192\n"
       "layout: {tp: 8, pp: 16, uneven_ends: true, cp: 2, zero: 1, sequence_parallel: true, async_tp: true, overlap: "
       "true}\n"
       "training: {global_batch: 2048, tokens: 15.6e12}\n"},
      {"mixtral-8x7b",
       "model: mixtral-8x7b\ncluster: h100-superpod\ndevices: 64\n"
       "layout: {tp: 2, pp: 4, ep: 8, etp: 1, zero: 1, sequence_parallel: true, shard_group: 4}\n"
       "training: {global_batch: 256}\n"},
      {"deepseek-v3",
       "model: deepseek-v3\ncluster: hgx-h800-2048\ndevices: 2048\n"
       "layout: {tp: 1, pp: 16, ep: 64, etp: 1, zero: 1, recompute: selective}\n"
       "training: {global_batch: 15360, precision: fp8, tokens: 14.8e12}\n"},
      {"llama3-8b",
       "model: llama3-8b\ncluster: h100-superpod\ndevices: 64\nlayout: {zero: 3, tp: 2, sequence_parallel: true}\n"
       "training: {global_batch: 128}\n"},
      {"qwen3-30b-a3b",
       "model: qwen3-30b-a3b\ncluster: dgx-h100\ndevices: 8\n"
       "layout: {ep: 8, zero: 1, recompute: full, recompute_layers: 12, offload_optimizer: true}\n"
       "training: {global_batch: 64}\n"},
      {"qwen2.5-72b",
       "model: qwen2.5-72b\ncluster: dgx-superpod-a100-140\ndevices: 96\n"
       "layout: {tp: 8, pp: 3, zero: 1, sequence_parallel: true}\ntraining: {global_batch: 64}\n"},
  };
}

inline std::vector<NamedJob> torchtitan_jobs() {
  return {
      {"llama3-8b",
       "model: llama3-8b\ncluster: h100-superpod\ndevices: 64\nstack: torchtitan\n"
       "layout: {zero: 3, micro_batch: 2, recompute: selective}\ntraining: {global_batch: 512, tokens: 1e12}\n"},
      {"llama3-70b",
       "model: llama3-70b\ncluster: h100-superpod\ndevices: 256\nstack: torchtitan\n"
       "layout: {tp: 8, zero: 2, shard_group: 8, recompute: full, sequence_parallel: true}\n"
       "training: {global_batch: 256, precision: fp8, rowwise_scaling: true}\n"},
      {"llama3-405b",
       "model: llama3-405b\ncluster: h100-superpod\ndevices: 1024\nstack: torchtitan\n"
       "layout: {tp: 8, pp: 8, virtual_stages: 2, uneven_ends: true, zero: 3, recompute: full, sequence_parallel: "
       "true}\n"
       "training: {global_batch: 256}\n"},
      {"deepseek-v3",
       "model: deepseek-v3\ncluster: hgx-h800-2048\ndevices: 1024\nstack: torchtitan\n"
       "layout: {pp: 8, ep: 64, zero: 2, recompute: selective}\ntraining: {global_batch: 1024, precision: fp8}\n"},
      {"qwen3-8b",
       "model: qwen3-8b\ncluster: dgx-h100\ndevices: 8\nstack: torchtitan\n"
       "layout: {cp: 2, zero: 3, recompute: none}\ntraining: {global_batch: 32}\n"},
      {"qwen3-30b-a3b",
       "model: qwen3-30b-a3b\ncluster: dgx-h100\ndevices: 8\nstack: torchtitan\n"
       "layout: {tp: 2, ep: 8, etp: 1, zero: 3, offload_optimizer: true, sequence_parallel: true}\n"
       "training: {global_batch: 32}\n"},
      {"llama3.1-8b",
       "model: llama3.1-8b\ncluster: dgx-h100\ndevices: 8\nstack: torchtitan\n"
       "layout: {pp: 4, schedule: zb-v, zero: 3, recompute: full}\ntraining: {global_batch: 32}\n"},
  };
}

inline std::string emitted(const std::string& job, const std::string& launch) {
  const Result<std::string> text = emit(job_of(job), *launch_named(launch), &catalog());
  EXPECT_TRUE(text) << (text ? "" : to_string(text.error()));
  return text ? *text : "";
}

// Every --flag of a text with the word behind it; a switch has the next flag or nothing there.
inline std::map<std::string, std::string> flags_of(const std::string& text) {
  std::map<std::string, std::string> flags;
  const std::regex flag("(^|[\\s(])(--[a-z0-9][a-z0-9_-]*)(=|\\s+)?([^\\s\\\\)]*)");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#") && !line.starts_with("#SBATCH")) continue;
    auto begin = line.cbegin();
    for (std::smatch match; std::regex_search(begin, line.cend(), match, flag);) {
      flags[match[2]] = match[4];
      begin = match[2].second;
    }
  }
  return flags;
}

inline int number_of(const std::map<std::string, std::string>& flags, const std::string& name, int fallback = 0) {
  const auto found = flags.find(name);
  return found == flags.end() ? fallback : std::stoi(found->second);
}

// `config.a.b = value` lines.
inline std::map<std::string, std::string> settings_of(const std::string& text) {
  std::map<std::string, std::string> settings;
  const std::regex setting("^ +((config|cfg)\\.[a-z0-9_.]+) = (.*)$");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::smatch match; std::regex_match(line, match, setting)) settings[match[1]] = match[3];
  }
  return settings;
}

}  // namespace twinpod::emit
