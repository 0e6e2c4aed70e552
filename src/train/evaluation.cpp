#include "train/evaluation.hpp"

#include <algorithm>

#include "core/half.hpp"

namespace twinpod::train {

int evaluation_batches(const spec::Job& job, const data::Samples& samples) {
  const std::int64_t whole = std::max<std::int64_t>(1, samples.num_evaluation / samples.settings.global_batch);
  return static_cast<int>(std::min<std::int64_t>(job.training.recipe.evaluation_batches, whole));
}

template <typename T>
Result<void> read_evaluation(Rank<T>& rank, const data::Samples& samples, int batch) {
  const auto sequence = static_cast<std::size_t>(samples.settings.sequence);
  const std::int64_t dp = samples.settings.data_parallel;
  const std::int64_t each = samples.settings.micro_batch;
  std::size_t place = 0;
  for (std::int64_t m = 0; m < rank.program.micro_batches; ++m) {
    for (std::int64_t i = 0; i < each; ++i, place += sequence) {
      const std::int64_t own = batch * samples.settings.global_batch + (m * dp + rank.dp_rank) * each + i;
      const std::int64_t number = samples.num_training + own % samples.num_evaluation;
      Result<void> read = data::read_sample(samples, number, {rank.tokens.data() + place, sequence},
                                            {rank.labels.data() + place, sequence});
      if (!read) return read;
    }
  }
  return {};
}

template Result<void> read_evaluation(Rank<float>&, const data::Samples&, int);
template Result<void> read_evaluation(Rank<double>&, const data::Samples&, int);
template Result<void> read_evaluation(Rank<Bf16>&, const data::Samples&, int);

}  // namespace twinpod::train
