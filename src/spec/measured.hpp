// What was measured on a machine at hand, beside what a data sheet says of it: part of a cluster that
// `twinpod bench machine` wrote.
//
//     measured:
//       numbers: {gemm_efficiency_bf16: 0.83, collective_latency_s: 4e-7}       # fields of Physics, for any stack
//       message: {inside: 0.4 us, between: 31 us}                               # start of one, in a node and beyond
//       collectives:
//         - {verb: all_reduce, ranks: 2, bytes: [8, 65536], seconds: [3e-7, 4e-6], error: 0.05}
//       errors: {products: 0.08}                                                # typical, of each fit
#pragma once

#include <map>
#include <string>
#include <vector>

namespace twinpod::spec {

// Sizes rise, as nccl-tests count them. `error`: typical, of a size that is interpolated between its neighbours.
struct MeasuredCollective {
  std::string verb;
  int ranks = 0;
  std::vector<double> bytes;
  std::vector<double> seconds;
  double error = 0;
};

struct Measured {
  std::map<std::string, double> numbers;  // of Physics; they take the place of a stack's
  double message_inside_s = 0;            // 0: not measured
  double message_between_s = 0;
  std::vector<MeasuredCollective> collectives;
  std::map<std::string, double> errors;  // by the name of the fit, relative

  bool has_messages() const { return message_inside_s > 0 || message_between_s > 0; }
};

}  // namespace twinpod::spec
