// The rules of thumb by which people size a cluster, and the numbers that a lecture on AI clusters draws from them.
//
//     training_time_8tp_s(300e9, 175e9, 1024, 140e12)   34 days
//
// They are for orders of magnitude. The estimate itself never uses them; it prints them beside its own result.
#pragma once

namespace twinpod::plan {

inline constexpr double kFp32Bytes = 4;
inline constexpr double kTrainingFactor = 8;  // parameters, gradients, Adam's moments and activations over parameters

// Parameters alone, in fp32: 175 B take 700 GB.
double parameter_bytes_fp32(double parameters);

// Training them: about eight times that, 5,600 GB.
double training_bytes_fp32(double parameters);

// 8·T·P/(n·X) (Narayanan et al. 2021, arXiv 2104.04473, equation 4): T tokens, P parameters, n devices, X FLOP/s that
// each achieves. 8 FLOP for a token and parameter: 2 forward, 4 backward, 2 for the forward pass done again.
double training_time_8tp_s(double tokens, double parameters, double devices, double flop_per_s);

// The X that a stated training time implies.
double implied_flop_per_s(double tokens, double parameters, double devices, double seconds);

// computation rate = rate of one device x devices x parallel efficiency
double computation_rate(double flop_per_s_of_one, double devices, double parallel_efficiency);

// scale factor = T_n / (n T): throughput of n devices over n times that of one.
double scale_factor(double throughput_of_all, double devices, double throughput_of_one);

}  // namespace twinpod::plan
