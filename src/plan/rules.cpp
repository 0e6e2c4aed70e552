#include "plan/rules.hpp"

namespace twinpod::plan {

double parameter_bytes_fp32(double parameters) { return parameters * kFp32Bytes; }

double training_bytes_fp32(double parameters) { return kTrainingFactor * parameter_bytes_fp32(parameters); }

double training_time_8tp_s(double tokens, double parameters, double devices, double flop_per_s) {
  return 8 * tokens * parameters / (devices * flop_per_s);
}

double implied_flop_per_s(double tokens, double parameters, double devices, double seconds) {
  return 8 * tokens * parameters / (devices * seconds);
}

double computation_rate(double flop_per_s_of_one, double devices, double parallel_efficiency) {
  return flop_per_s_of_one * devices * parallel_efficiency;
}

double scale_factor(double throughput_of_all, double devices, double throughput_of_one) {
  return throughput_of_all / (devices * throughput_of_one);
}

}  // namespace twinpod::plan
