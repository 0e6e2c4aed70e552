// The numbers of the closed form that are not on a data sheet, each with its meaning, prior and plausible bounds.
//
// Physics is a plain struct of doubles; physics_fields() lists every member by name, so that the catalog can set one,
// the fit can move one, and `twinpod show parameters` can print them all with what they mean.
#pragma once

#include <string_view>
#include <vector>

namespace twinpod::spec {

struct Physics {
  // Products on one device.
  double gemm_efficiency_bf16;
  double gemm_efficiency_fp8;
  double gemm_efficiency_fp4;
  double gemm_depth;
  double gemm_area;
  double gemm_launch_s;
  double wave_weight;
  double rowwise_factor;
  double grouped_efficiency;
  double grouped_efficiency_fp8;
  // Attention.
  double attention_forward;
  double attention_backward;
  double attention_software;
  double unfused_bytes;
  double misalignment;
  // Memory-bound kernels.
  double memory_efficiency;
  double element_factor;
  double kernel_launch_s;
  double cast_bytes;
  double logit_bytes;
  double optimizer_bytes;
  // The host that launches kernels.
  double launch_s;
  double launch_tp_s;
  double launch_head_s;
  double launch_expert_s;
  // Communication.
  double collective_latency_s;
  double collective_step_s;
  double collective_root;
  double scale_up_efficiency;
  double scale_out_efficiency;
  double tp_hidden;
  double sp_backward;
  double cp_hidden;
  double ep_hidden;
  double dp_hidden;
  double p2p_hidden;
  double p2p_stop_s;
  double zero3_overlap;
  double broadcast_s;
  // The step as a whole.
  double recompute_share;
  double bubble_factor;
  double step_fixed_s;
  double growth;
  double pace;
  double expert_pace;
};

struct PhysicsField {
  std::string_view name;
  double Physics::*member;
  double prior;
  double low;
  double high;
  std::string_view unit;
  std::string_view meaning;
};

const std::vector<PhysicsField>& physics_fields();
const PhysicsField* find_physics_field(std::string_view name);  // nullptr: no such field

// All priors.
Physics default_physics();

}  // namespace twinpod::spec
