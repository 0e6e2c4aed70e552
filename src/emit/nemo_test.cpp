#include <gtest/gtest.h>

#include "emit/known_names.hpp"
#include "emit/test_jobs.hpp"

namespace twinpod::emit {
namespace {

// Names that the recipe hands to Megatron-Bridge: `name=` inside calls and what is imported from it.
std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> names;
  const std::regex argument("\\b([a-z_][a-z0-9_]*)=[^=]");
  const std::regex imported("^from megatron[a-z_.]* import ([A-Za-z_]+)$");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    for (std::sregex_iterator match(line.begin(), line.end(), argument), end; match != end; ++match) {
      names.push_back((*match)[1]);
    }
    if (std::smatch match; std::regex_match(line, match, imported)) names.push_back(match[1]);
  }
  return names;
}

class EachNemoJob : public testing::TestWithParam<NamedJob> {};

INSTANTIATE_TEST_SUITE_P(Nemo, EachNemoJob, testing::ValuesIn(mcore_jobs()), test_name);

TEST_P(EachNemoJob, NamesAreKnown) {
  const std::string text = emitted(GetParam().text, "nemo");
  for (const std::string& name : names_of(text)) EXPECT_TRUE(is_known("nemo", name)) << name;
  for (const auto& [key, value] : settings_of(text)) EXPECT_TRUE(is_known("nemo", key)) << key;
}

TEST_P(EachNemoJob, SaysTheSameAsTheFlagsOfMegatron) {
  const std::string recipe = emitted(GetParam().text, "nemo");
  const auto flags = flags_of(emitted(GetParam().text, "megatron"));
  for (const auto& [flag, field] : std::map<std::string, std::string>{
           {"--num-layers", "num_layers"},
           {"--hidden-size", "hidden_size"},
           {"--tensor-model-parallel-size", "tensor_model_parallel_size"},
           {"--pipeline-model-parallel-size", "pipeline_model_parallel_size"},
           {"--context-parallel-size", "context_parallel_size"},
           {"--expert-model-parallel-size", "expert_model_parallel_size"},
           {"--num-virtual-stages-per-pipeline-rank", "virtual_pipeline_model_parallel_size"},
           {"--recompute-num-layers", "recompute_num_layers"},
           {"--micro-batch-size", "micro_batch_size"},
           {"--global-batch-size", "global_batch_size"}}) {
    const std::string wanted = flags.contains(flag) ? field + "=" + flags.at(flag) : "";
    EXPECT_NE(recipe.find(wanted), std::string::npos) << wanted;
  }
}

TEST(Nemo, LatentAttentionHasItsProvider) {
  EXPECT_NE(emitted(mcore_jobs()[4].text, "nemo").find("return MLAModelProvider("), std::string::npos);
  EXPECT_NE(emitted(mcore_jobs()[1].text, "nemo").find("return GPTModelProvider("), std::string::npos);
}

TEST(Nemo, Zero3IsMegatronFsdp) {
  const std::string text = emitted(mcore_jobs()[5].text, "nemo");
  EXPECT_NE(text.find("data_parallel_sharding_strategy=\"optim_grads_params\""), std::string::npos);
  EXPECT_NE(text.find("ckpt_format=\"fsdp_dtensor\""), std::string::npos);
}

TEST(Nemo, Fp8IsARecipeByName) {
  EXPECT_NE(emitted(mcore_jobs()[4].text, "nemo").find("bf16_with_fp8_current_scaling_mixed"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::emit
