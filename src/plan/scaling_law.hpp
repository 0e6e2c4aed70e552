// Time to accuracy: how many tokens a model needs to reach a loss, and what the size of the batch adds to that.
//
//     const ScalingLaw law = besiroglu_2024();
//     tokens_for_loss(law, 70e9, 2.0)      tokens, or empty when the model's floor is above the loss
//
// The law: L(N, D) = E + A/N^alpha + B/D^beta, N parameters, D tokens (Hoffmann et al. 2022, arXiv 2203.15556, approach
// 3). Two sets of constants are printed. The original's do not fit the data that they were fitted to: Besiroglu et al.
// 2024 (arXiv 2404.10102) recovered the data and fitted again, with other constants. The second set is the default; the
// first is kept for comparison. Both are for dense models, English text and the batch sizes of their runs.
//
// The batch: beyond the critical batch size B_crit = B*/L^(1/alpha_B) more devices in parallel save few steps. A run
// with batch B needs D (1 + B/B_crit) tokens, that is D/B_crit (1 + B_crit/B) steps (Kaplan et al. 2020, arXiv
// 2001.08361, section 5.1; McCandlish et al. 2018).
#pragma once

#include <optional>
#include <string_view>

namespace twinpod::plan {

struct ScalingLaw {
  std::string_view source;
  double floor = 0;  // E: loss of the text itself
  double a = 0, alpha = 0;
  double b = 0, beta = 0;
};

ScalingLaw hoffmann_2022();
ScalingLaw besiroglu_2024();

double loss_of(const ScalingLaw& law, double parameters, double tokens);

// The loss that a model of this size approaches with endless data: E + A/N^alpha.
double loss_floor(const ScalingLaw& law, double parameters);

// Empty when the loss is at or below the floor.
std::optional<double> tokens_for_loss(const ScalingLaw& law, double parameters, double loss);

// Tokens. Kaplan et al. 2020, table 5: B* = 2e8 tokens, alpha_B = 0.21.
double critical_batch_tokens(double loss);

struct TimeToAccuracy {
  double target_loss = 0;
  double floor = 0;              // of this model
  std::optional<double> tokens;  // by the law; empty: the model cannot reach the loss
  double critical_batch_tokens = 0;
  double batch_factor = 1;      // 1 + B/B_crit: tokens with this batch over tokens with a small one
  std::optional<double> steps;  // with this batch
  std::optional<double> seconds;
};

TimeToAccuracy time_to_accuracy(const ScalingLaw& law, double parameters, double target_loss, double batch_tokens,
                                double step_time_s);

}  // namespace twinpod::plan
