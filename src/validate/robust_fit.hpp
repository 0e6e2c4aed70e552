// Fits positive numbers to measurements that have outliers: damped Gauss-Newton on the logarithms of the numbers, with
// a soft-L1 loss on the residuals, and between two rounds of it a search along each number by itself, which leaves the
// hollows that a model with a choice inside (a minimum over tiles) has. Deterministic; derivatives by differences.
//
//     std::vector<FitNumber> numbers = {{&model.launch_s, 4e-6, 1e-7, 1e-4}};
//     robust_fit(numbers, [&] { return log_ratios(model, rows); }, {});   // leaves the best values in place
#pragma once

#include <functional>
#include <vector>

namespace twinpod::validate {

struct FitNumber {
  double* value = nullptr;
  double prior = 1;  // where it starts, and what it is pulled to
  double low = 0;
  double high = 0;
};

struct RobustFitOptions {
  double corner = 0.08;     // residuals below count squared, above linearly
  double pull = 20;         // width of the prior in units of the corner; larger pulls less
  int iterations = 40;      // of each round
  double first_move = 0.8;  // of the search along one number, in its logarithm; halved until the last
  double last_move = 0.02;
};

// `residuals`: ln(predicted / measured) of each row with the numbers as they stand. Returns the loss at the end.
double robust_fit(const std::vector<FitNumber>& numbers, const std::function<std::vector<double>()>& residuals,
                  const RobustFitOptions& options);

}  // namespace twinpod::validate
