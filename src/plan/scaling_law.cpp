#include "plan/scaling_law.hpp"

#include <cmath>

namespace twinpod::plan {

ScalingLaw hoffmann_2022() { return {"Hoffmann et al. 2022, approach 3", 1.69, 406.4, 0.34, 410.7, 0.28}; }

ScalingLaw besiroglu_2024() { return {"Besiroglu et al. 2024", 1.8172, 482.01, 0.3478, 2085.43, 0.3658}; }

double loss_floor(const ScalingLaw& law, double parameters) {
  return law.floor + law.a / std::pow(parameters, law.alpha);
}

double loss_of(const ScalingLaw& law, double parameters, double tokens) {
  return loss_floor(law, parameters) + law.b / std::pow(tokens, law.beta);
}

std::optional<double> tokens_for_loss(const ScalingLaw& law, double parameters, double loss) {
  const double left_for_data = loss - loss_floor(law, parameters);
  if (left_for_data <= 0) return std::nullopt;
  const double tokens = std::pow(law.b / left_for_data, 1 / law.beta);
  return std::isfinite(tokens) ? std::optional(tokens) : std::nullopt;
}

double critical_batch_tokens(double loss) {
  constexpr double kBatchAtLossOne = 2e8;
  constexpr double kAlpha = 0.21;
  return kBatchAtLossOne / std::pow(loss, 1 / kAlpha);
}

TimeToAccuracy time_to_accuracy(const ScalingLaw& law, double parameters, double target_loss, double batch_tokens,
                                double step_time_s) {
  TimeToAccuracy result;
  result.target_loss = target_loss;
  result.floor = loss_floor(law, parameters);
  result.critical_batch_tokens = critical_batch_tokens(target_loss);
  result.batch_factor = 1 + batch_tokens / result.critical_batch_tokens;
  const std::optional<double> tokens = tokens_for_loss(law, parameters, target_loss);
  if (!tokens) return result;
  result.tokens = *tokens * result.batch_factor;
  result.steps = std::ceil(*result.tokens / batch_tokens);
  result.seconds = *result.steps * step_time_s;
  return result;
}

}  // namespace twinpod::plan
