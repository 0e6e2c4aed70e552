#include "emit/flavors.hpp"

#include <fmt/format.h>

#include <array>

namespace twinpod::emit {
namespace {

// torchtitan/models/*/__init__.py and config_registry.py. The widths of Llama's MLP follow from compute_ffn_hidden_dim.
constexpr std::array kFlavors = {
    Flavor{"llama3-8b", "llama3", "llama3_8b", "8B", "", true, 32, 4096, 32, 8, 14336, 128256, 0, 0},
    Flavor{"llama3.1-8b", "llama3", "llama3_8b", "8B", "", true, 32, 4096, 32, 8, 14336, 128256, 0, 0},
    Flavor{"llama3-70b", "llama3", "llama3_70b", "70B", "", true, 80, 8192, 64, 8, 28672, 128256, 0, 0},
    Flavor{"llama3.1-70b", "llama3", "llama3_70b", "70B", "", true, 80, 8192, 64, 8, 28672, 128256, 0, 0},
    Flavor{"llama3-405b", "llama3", "llama3_405b", "405B", "", false, 126, 16384, 128, 8, 53248, 128256, 0, 0},
    Flavor{"llama3.1-405b", "llama3", "llama3_405b", "405B", "", false, 126, 16384, 128, 8, 53248, 128256, 0, 0},
    Flavor{"qwen3-0.6b", "qwen3", "qwen3_0_6b", "0.6B", "", true, 28, 1024, 16, 8, 3072, 151936, 0, 0},
    Flavor{"qwen3-1.7b", "qwen3", "qwen3_1_7b", "1.7B", "", true, 28, 2048, 16, 8, 6144, 151936, 0, 0},
    Flavor{"qwen3-4b", "qwen3", "qwen3_1_7b", "4B", "", false, 36, 2560, 32, 8, 9728, 151936, 0, 0},
    Flavor{"qwen3-8b", "qwen3", "qwen3_14b", "8B", "", false, 36, 4096, 32, 8, 12288, 151936, 0, 0},
    Flavor{"qwen3-14b", "qwen3", "qwen3_14b", "14B", "", true, 40, 5120, 40, 8, 17408, 151936, 0, 0},
    Flavor{"qwen3-32b", "qwen3", "qwen3_32b", "32B", "", true, 64, 5120, 64, 8, 25600, 151936, 0, 0},
    Flavor{"qwen3-30b-a3b", "qwen3", "qwen3_30b_a3b", "30B-A3B", "", true, 48, 2048, 32, 4, 6144, 151936, 128, 768},
    Flavor{"deepseek-v2-lite", "deepseek_v3", "deepseek_v3_16b", "16B", "flex", true, 27, 2048, 16, 16, 10944, 102400,
           64, 1408},
    Flavor{"deepseek-v2", "deepseek_v3", "deepseek_v3_16b", "236B", "flex", false, 60, 5120, 128, 128, 12288, 102400,
           160, 1536},
    Flavor{"deepseek-v3", "deepseek_v3", "deepseek_v3_671b", "671B", "flex", false, 61, 7168, 128, 128, 18432, 129280,
           256, 2048}};

std::string_view module_for(const spec::Model& model) {
  if (model.attention.kv_rank > 0) return "deepseek_v3";
  return model.attention.qk_norm || model.experts.count > 0 ? "qwen3" : "llama3";
}

}  // namespace

std::span<const Flavor> flavors() { return kFlavors; }

const Flavor* flavor_of(const spec::Model& model) {
  for (const Flavor& flavor : kFlavors) {
    if (flavor.entry == model.entry) return &flavor;
  }
  return nullptr;
}

std::string new_flavor_text(const spec::Model& model) {
  const spec::Attention& a = model.attention;
  std::string values =
      fmt::format("dim={}, n_layers={}, n_heads={}, n_kv_heads={}, head_dim={}, hidden_dim={}, vocab_size={}",
                  model.hidden, model.layers, a.heads, a.kv_heads, a.head_dim, model.ffn, model.vocab);
  if (model.experts.count > 0) {
    values += fmt::format(", num_experts={}, top_k={}, moe_hidden_dim={}", model.experts.count, model.experts.per_token,
                          model.experts.ffn);
  }
  return fmt::format("try megatron, or add a flavor to torchtitan/models/{}/__init__.py with {}", module_for(model),
                     values);
}

}  // namespace twinpod::emit
