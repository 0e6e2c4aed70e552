#include "data/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/quote.hpp"
#include "data/shuffle.hpp"

namespace twinpod::data {
namespace {

constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 31;

struct Parts {
  std::int64_t training = 0;
  std::int64_t evaluation = 0;
};

// A label follows the last token of each part, so one token is lost to the stream's end and one between the parts.
Parts parts_of(std::int64_t num_tokens, std::int64_t sequence, double evaluation_share) {
  const std::int64_t lost = evaluation_share > 0 ? 2 : 1;
  const std::int64_t all = std::max<std::int64_t>(0, num_tokens - lost) / sequence;
  const auto wanted = static_cast<std::int64_t>(std::ceil(static_cast<double>(all) * evaluation_share));
  const std::int64_t evaluation = std::min(wanted, all);
  return {all - evaluation, evaluation};
}

Result<void> at_least_one(std::string_view what, std::int64_t value) {
  if (value >= 1) return {};
  return input_error(fmt::format("{}: found {}, expected 1 or more", what, value));
}

Result<void> check_batch(const SampleSettings& settings) {
  // Compared by division: the product of three large numbers would not fit.
  const std::int64_t each = settings.global_batch / settings.data_parallel;
  const bool shared = settings.global_batch % settings.data_parallel == 0 && each % settings.micro_batch == 0;
  if (shared) return {};
  const double together = static_cast<double>(settings.data_parallel) * static_cast<double>(settings.micro_batch);
  const double below = std::floor(static_cast<double>(settings.global_batch) / together) * together;
  return input_error(
      fmt::format("global batch {}: {} data-parallel ranks with micro-batches of {} cannot share it",
                  settings.global_batch, settings.data_parallel, settings.micro_batch),
      below > 0 ? fmt::format("try {:.0f} or {:.0f}", below, below + together) : fmt::format("try {:.0f}", together));
}

Result<void> check_settings(const SampleSettings& settings) {
  for (const Result<void>& right :
       {at_least_one("sequence", settings.sequence), at_least_one("global batch", settings.global_batch),
        at_least_one("micro-batch", settings.micro_batch), at_least_one("data parallel", settings.data_parallel),
        at_least_one("vocabulary", settings.vocabulary)}) {
    if (!right) return right;
  }
  if (settings.vocabulary > kLargestVocabulary) {
    return input_error(
        fmt::format("vocabulary: found {}, expected at most {}", settings.vocabulary, kLargestVocabulary));
  }
  if (!(settings.evaluation_share >= 0 && settings.evaluation_share < 1)) {
    return input_error(
        fmt::format("evaluation share: found {}, expected 0 or more and less than 1", settings.evaluation_share),
        "0.1 holds the last tenth of the data out");
  }
  return check_batch(settings);
}

// 0: none.
std::int64_t longest_sequence_for(std::int64_t num_tokens, const SampleSettings& settings) {
  std::int64_t works = 0;
  std::int64_t too_long = settings.sequence;
  while (too_long - works > 1) {
    const std::int64_t middle = works + (too_long - works) / 2;
    const bool enough = parts_of(num_tokens, middle, settings.evaluation_share).training >= settings.global_batch;
    (enough ? works : too_long) = middle;
  }
  return works;
}

tl::unexpected<Error> too_short(const TokenData& data, const SampleSettings& settings, const Parts& parts) {
  const std::int64_t together = settings.micro_batch * settings.data_parallel;
  const std::int64_t batch = parts.training / together * together;
  const std::int64_t sequence = longest_sequence_for(data.index.num_tokens, settings);
  std::vector<std::string> tries;
  if (batch > 0) tries.push_back(fmt::format("a global batch of {}", batch));
  if (sequence > 0) tries.push_back(fmt::format("a sequence of {}", sequence));
  tries.emplace_back("more data");
  return infeasible(fmt::format("{}: {} tokens make {} samples of {} for training{}, but a step needs {}", data.name,
                                data.index.num_tokens, parts.training, settings.sequence,
                                parts.evaluation > 0 ? fmt::format(" ({} are held out)", parts.evaluation) : "",
                                settings.global_batch),
                    fmt::format("try {}", fmt::join(tries, " or ")));
}

tl::unexpected<Error> outside(const Samples& samples, std::int64_t number, const Outsider& found) {
  const std::int64_t token = first_token(samples, number) + found.position;
  std::string hint = "tokens below 0 are none: is the type of the token file right?";
  if (found.token >= 0)
    hint =
        fmt::format("the model's vocabulary must be {} or more; `twinpod data show {} --check` finds the largest token",
                    found.token + 1, shell_quoted(samples.data->name));
  if (samples.data->of_text)
    hint = "the model's vocabulary must be 257 or more: one token for each byte, one for the end of a document";
  return input_error(
      fmt::format(
          "{}: sample {}, position {}: token {} is not in the vocabulary of {} (token {} of the data, document {})",
          samples.data->name, number, found.position, found.token, samples.settings.vocabulary, token,
          document_of(*samples.data, token)),
      hint);
}

}  // namespace

Result<Samples> make_samples(const TokenData& data, const SampleSettings& settings) {
  if (Result<void> right = check_settings(settings); !right) return tl::unexpected(right.error());
  const Parts parts = parts_of(data.index.num_tokens, settings.sequence, settings.evaluation_share);
  if (parts.training < settings.global_batch) return too_short(data, settings, parts);
  return Samples{&data, settings, parts.training, parts.evaluation};
}

std::int64_t num_micro_batches(const Samples& samples) {
  const SampleSettings& settings = samples.settings;
  return settings.global_batch / (settings.micro_batch * settings.data_parallel);
}

std::int64_t global_sample_number(const Samples& samples, std::int64_t step, std::int64_t i) {
  const std::int64_t drawn = step * samples.settings.global_batch + i;
  const std::int64_t epoch = drawn / samples.num_training;
  return shuffled(make_shuffle(samples.num_training, samples.settings.seed, epoch), drawn % samples.num_training);
}

std::int64_t sample_number(const Samples& samples, std::int64_t step, const SamplePlace& place) {
  const SampleSettings& settings = samples.settings;
  const std::int64_t micro_batch = place.micro_batch * settings.data_parallel + place.data_parallel_rank;
  return global_sample_number(samples, step, micro_batch * settings.micro_batch + place.index);
}

double epochs_before(const Samples& samples, std::int64_t step) {
  return static_cast<double>(step) * static_cast<double>(samples.settings.global_batch) /
         static_cast<double>(samples.num_training);
}

std::int64_t first_token(const Samples& samples, std::int64_t number) {
  const std::int64_t first = number * samples.settings.sequence;
  return number < samples.num_training ? first : first + 1;  // behind the last label of training
}

Result<void> read_sample(const Samples& samples, std::int64_t number, std::span<std::int32_t> tokens,
                         std::span<std::int32_t> labels) {
  const std::int64_t first = first_token(samples, number);
  const std::int64_t vocabulary = samples.settings.vocabulary;
  if (const auto outsider = read_tokens(*samples.data, first, vocabulary, tokens)) {
    return outside(samples, number, *outsider);
  }
  std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
  // The last label is the only token that is not there yet.
  const auto last = static_cast<std::int64_t>(tokens.size());
  if (auto outsider = read_tokens(*samples.data, first + last, vocabulary, labels.last(1))) {
    return outside(samples, number, {last, outsider->token});
  }
  return {};
}

}  // namespace twinpod::data
