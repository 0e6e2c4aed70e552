#include "emit/mcore.hpp"

#include <fmt/format.h>

#include <array>

#include "model/arithmetic.hpp"
#include "program/schedule.hpp"

namespace twinpod::emit {

Split split_of(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  if (layout.pp == 1) return Split::even;
  if (layout.uneven_ends) return (job.model.layers + 2) % layout.pp == 0 ? Split::account : Split::by_the_list;
  return job.model.layers % layout.pp == 0 ? Split::even : Split::by_the_list;
}

std::string pipeline_text(const spec::Job& job) {
  const std::vector<int> stages = program::layers_of_stages(job.model.layers, job.layout);
  std::string text = "E";
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    text += fmt::format("{}t*{}", stage == 0 ? "" : "|", stages[stage]);
  }
  for (int module = 0; module < job.model.mtp_layers; ++module) text += "m";
  return text + "L";
}

std::string expert_layers_text(const spec::Model& model) {
  if (model::num_expert_layers(model) == model.layers) return "1";
  std::string text;
  for (int layer = 0; layer < model.layers;) {
    const bool expert = model::is_expert_layer(model, layer);
    int run = 0;
    while (layer + run < model.layers && model::is_expert_layer(model, layer + run) == expert) ++run;
    text += fmt::format("{}[{}]*{}", text.empty() ? "(" : "+", expert ? 1 : 0, run);
    layer += run;
  }
  return text + ")";
}

Fp8 fp8_of(const spec::Job& job) {
  constexpr std::array<std::string_view, 4> kBlackwell = {"b200", "b300", "gb200", "gb300"};
  for (const std::string_view family : kBlackwell) {
    if (job.cluster.device.family == family) return {"e4m3", "mxfp8"};
  }
  return job.training.rowwise_scaling ? Fp8{"hybrid", "blockwise"} : Fp8{"hybrid", "tensorwise"};
}

int optimizer_instances(const spec::Job& job) {
  const int ranks = spec::data_parallel(job) * job.layout.cp;
  return job.layout.shard_group > 0 ? ranks / job.layout.shard_group : 1;
}

bool uses_fsdp(const spec::Layout& layout) { return layout.zero >= 2; }

// With a bias that balances the load the loss only keeps single sequences from going astray (DeepSeek-V3, section 4.2);
// without, 1e-2 is what Megatron Core recommends to begin with.
double auxiliary_loss(const spec::Experts& experts) { return experts.router_bias ? 1e-4 : 1e-2; }

std::string_view load_balancing(const spec::Experts& experts) {
  return experts.router_bias ? "seq_aux_loss" : "aux_loss";
}

}  // namespace twinpod::emit
