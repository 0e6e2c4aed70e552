// libFuzzer: any bytes are the trace of two ranks, which runs or is refused with the name of its file; never a crash.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "chakra/run.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinpod;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<chakra::RankWork> rank = chakra::parse_rank(text, "t.0.et");
  if (!rank) {
    if (rank.error().file != "t.0.et" || rank.error().message.empty()) std::abort();
    return 0;
  }
  const Result<chakra::Workload> workload = chakra::join_ranks({*rank, *rank}, {});
  if (!workload) return 0;
  spec::Cluster cluster;
  cluster.devices = 2;
  cluster.device.memory_bytes_per_s = 1e12;
  cluster.device.peak_flop_per_s = {0, 0, 1e14, 1e14, 0, 0};
  cluster.scale_up_bytes_per_s = 1e11;
  const spec::Physics physics = spec::default_physics();
  const Result<chakra::WorkloadRun> run = chakra::run_workload(*workload, {cluster, physics, 2});
  const bool right = run ? std::isfinite(run->step_s) && run->step_s >= 0 : !run.error().file.empty();
  if (!right) std::abort();
  return 0;
}
