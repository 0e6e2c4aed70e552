#include "spec/physics.hpp"

namespace twinpod::spec {

const std::vector<PhysicsField>& physics_fields() {
  using P = Physics;
  static const std::vector<PhysicsField> fields = {
      {"gemm_efficiency_bf16", &P::gemm_efficiency_bf16, 0.78, 0.3, 0.95, "",
       "reachable share of the dense 16-bit peak for large products, clocks under load included"},
      {"gemm_efficiency_fp8", &P::gemm_efficiency_fp8, 0.68, 0.2, 0.95, "", "reachable share of the dense FP8 peak"},
      {"gemm_efficiency_fp4", &P::gemm_efficiency_fp4, 0.50, 0.1, 1.0, "", "reachable share of the dense FP4 peak"},
      {"gemm_depth", &P::gemm_depth, 215, 20, 1000, "", "start-up of a product's inner loop, in elements of k"},
      {"gemm_area", &P::gemm_area, 1.35e5, 1e3, 2e6, "",
       "output elements at which a product reaches half of its speed"},
      {"gemm_launch_s", &P::gemm_launch_s, 4e-6, 5e-7, 3e-5, "s", "start of one product on the device"},
      {"wave_weight", &P::wave_weight, 1.6, 0.0, 4.0, "",
       "weight of the tiles that idle in the last wave of a product"},
      {"rowwise_factor", &P::rowwise_factor, 1.95, 1.0, 3.0, "",
       "FP8 products with a scale for each row, over one scale for the tensor"},
      {"grouped_efficiency", &P::grouped_efficiency, 0.75, 0.2, 1.3, "",
       "speed of the experts' grouped products over one product of the same size (over 1: a device that cools down "
       "between them)"},
      {"grouped_efficiency_fp8", &P::grouped_efficiency_fp8, 0.6, 0.1, 1.3, "",
       "the same in FP8, where padding and quantisation of each expert's rows cost most"},
      {"attention_forward", &P::attention_forward, 0.55, 0.1, 1.0, "",
       "share of the 16-bit peak of fused attention, forward"},
      {"attention_backward", &P::attention_backward, 0.40, 0.05, 1.0, "",
       "share of the 16-bit peak of fused attention, backward"},
      {"attention_software", &P::attention_software, 1.0, 0.3, 2.0, "",
       "speed of this stack's attention kernels over those of the device's reference"},
      {"unfused_bytes", &P::unfused_bytes, 9, 3, 40, "bytes",
       "moved for each score by softmax, mask and dropout forward (backward: 1.35 times) when attention is not fused"},
      {"misalignment", &P::misalignment, 2.2, 0.0, 6.0, "",
       "further time of attention's products for each factor of two that the head width lacks to a multiple of 8"},
      {"memory_efficiency", &P::memory_efficiency, 0.80, 0.4, 1.0, "",
       "reachable share of the memory's peak bandwidth"},
      {"element_factor", &P::element_factor, 1.5, 0.3, 4.0, "",
       "bytes moved by memory-bound kernels over those of well-fused ones"},
      {"kernel_launch_s", &P::kernel_launch_s, 2.5e-6, 2e-7, 2e-5, "s",
       "start of one memory-bound kernel on the device"},
      {"cast_bytes", &P::cast_bytes, 4, 1, 12, "bytes",
       "moved for each element of a product's input to cast and transpose it to FP8"},
      {"logit_bytes", &P::logit_bytes, 24, 6, 100, "bytes", "moved for each logit by the loss, forward and backward"},
      {"optimizer_bytes", &P::optimizer_bytes, 35, 16, 120, "bytes", "moved for each parameter that a rank updates"},
      {"launch_s", &P::launch_s, 2.8e-5, 2e-6, 1e-4, "s",
       "host time to launch one kernel: interpreter, dispatcher, autograd, driver"},
      {"launch_tp_s", &P::launch_tp_s, 3e-4, 1e-7, 3e-3, "s",
       "further host time for a layer with eight tensor-parallel ranks, which wait for their slowest host (grows with "
       "the cube of the ranks)"},
      {"launch_head_s", &P::launch_head_s, 1e-3, 1e-6, 1e-2, "s",
       "host time to launch embedding, head and loss of a micro-batch"},
      {"launch_expert_s", &P::launch_expert_s, 4e-4, 1e-6, 5e-3, "s",
       "further host time to launch routing and experts of a layer"},
      {"collective_latency_s", &P::collective_latency_s, 2e-5, 1e-6, 2e-4, "s", "start of a collective"},
      {"collective_step_s", &P::collective_step_s, 2e-6, 1e-7, 2e-5, "s",
       "latency of one step of a ring inside the scale-up domain"},
      {"collective_root", &P::collective_root, 5e-9, 0, 5e-8, "s/sqrt(byte)",
       "slow approach of a collective to its full bandwidth"},
      {"scale_up_efficiency", &P::scale_up_efficiency, 0.77, 0.3, 1.0, "",
       "bus bandwidth of a collective over the scale-up link's rate"},
      {"scale_out_efficiency", &P::scale_out_efficiency, 0.75, 0.2, 1.0, "",
       "bus bandwidth of a collective over the network interface's rate"},
      {"tp_hidden", &P::tp_hidden, 0.16, 0.005, 0.99, "",
       "share of tensor-parallel communication hidden behind products"},
      {"sp_backward", &P::sp_backward, 1.25, 1.0, 2.0, "",
       "backward over forward volume of sequence parallelism (inputs are gathered again)"},
      {"cp_hidden", &P::cp_hidden, 0.7, 0.005, 0.99, "",
       "share of context-parallel communication hidden behind attention"},
      {"ep_hidden", &P::ep_hidden, 0.1, 0.005, 0.99, "", "share of expert all-to-all hidden behind computation"},
      {"dp_hidden", &P::dp_hidden, 0.6, 0.005, 0.99, "",
       "share of gradient and parameter traffic hidden behind the backward pass, where that is long enough"},
      {"p2p_hidden", &P::p2p_hidden, 0.3, 0.005, 0.99, "", "share of pipeline transfers hidden behind computation"},
      // Six calls of the host: a send and a receive are posted and waited for, then the device, then a first kernel.
      {"p2p_stop_s", &P::p2p_stop_s, 1.7e-4, 1e-6, 1e-3, "s",
       "a device idles at each exchange between stages that its host waits for, until there is work for it again"},
      {"zero3_overlap", &P::zero3_overlap, 0.25, 0.01, 1.5, "",
       "share of the shorter of computation and parameter gathering that ZeRO-3 does not hide"},
      {"broadcast_s", &P::broadcast_s, 2e-3, 1e-7, 1e-2, "s",
       "latency for each data-parallel rank of an optimizer that broadcasts its shards one by one"},
      {"recompute_share", &P::recompute_share, 1.0, 0.1, 1.0, "",
       "share of the forward pass that \"full\" recomputation really does again (compilers keep what is dear to "
       "recompute)"},
      {"bubble_factor", &P::bubble_factor, 1.0, 0.5, 1.2, "", "pipeline bubble over the ideal one"},
      {"step_fixed_s", &P::step_fixed_s, 0.005, 1e-4, 0.2, "s",
       "of a step that does not depend on its size: data, loss reduction, logging"},
      {"growth", &P::growth, 0.009, 1e-4, 0.05, "",
       "relative slowdown for each doubling of the number of nodes (the slowest of many)"},
      {"pace", &P::pace, 1.0, 0.5, 2.0, "",
       "time of this stack over the physics above: everything about it that has no term of its own"},
      {"expert_pace", &P::expert_pace, 1.0, 0.3, 4.0, "",
       "time of this stack's routing, permutation and expert products over the physics above"},
  };
  return fields;
}

const PhysicsField* find_physics_field(std::string_view name) {
  for (const PhysicsField& field : physics_fields()) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

Physics default_physics() {
  Physics physics{};
  for (const PhysicsField& field : physics_fields()) physics.*(field.member) = field.prior;
  return physics;
}

}  // namespace twinpod::spec
