#include "data/prefetch.hpp"

#include <system_error>

namespace twinpod::data {
namespace {

// The pages of all samples are asked for before the first is copied, so that the disk sees them together.
std::vector<std::int64_t> numbers_of(const Samples& samples, std::int64_t step, std::int64_t rank) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t m = 0; m < num_micro_batches(samples); ++m) {
    for (std::int64_t i = 0; i < samples.settings.micro_batch; ++i) {
      numbers.push_back(sample_number(samples, step, {rank, m, i}));
      read_ahead(*samples.data, first_token(samples, numbers.back()), samples.settings.sequence + 1);
    }
  }
  return numbers;
}

}  // namespace

Result<void> read_batch(const Samples& samples, std::int64_t step, std::int64_t data_parallel_rank, Batch& batch) {
  const std::vector<std::int64_t> numbers = numbers_of(samples, step, data_parallel_rank);
  const auto sequence = static_cast<std::size_t>(samples.settings.sequence);
  batch.step = step;
  batch.tokens.resize(numbers.size() * sequence);
  batch.labels.resize(numbers.size() * sequence);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::span tokens = std::span(batch.tokens).subspan(i * sequence, sequence);
    const std::span labels = std::span(batch.labels).subspan(i * sequence, sequence);
    if (Result<void> read = read_sample(samples, numbers[i], tokens, labels); !read) {
      read.error().message = "step " + std::to_string(step + 1) + ": " + read.error().message;
      return read;
    }
  }
  return {};
}

std::span<const std::int32_t> micro_batch_of(const Samples& samples, const std::vector<std::int32_t>& values,
                                             std::int64_t micro_batch) {
  const std::int64_t size = samples.settings.micro_batch * samples.settings.sequence;
  return std::span(values).subspan(static_cast<std::size_t>(micro_batch * size), static_cast<std::size_t>(size));
}

Prefetcher::Prefetcher(const Samples& samples, std::int64_t data_parallel_rank, std::int64_t first_step)
    : samples_(samples), rank_(data_parallel_rank), step_(first_step) {
  try {
    thread_ = std::thread([this] { read_all(); });
  } catch (const std::system_error&) {
    // Slower, and right all the same.
  }
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::read_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !ready_ || ending_; });
    if (ending_) return;
    const std::int64_t step = step_;
    lock.unlock();
    Result<void> read = read_batch(samples_, step, rank_, ahead_);
    lock.lock();
    read_ = std::move(read);
    ready_ = true;
    changed_.notify_all();
  }
}

Result<void> Prefetcher::next(Batch& batch) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    Result<void> read = read_batch(samples_, step_, rank_, batch);
    if (read) ++step_;
    return read;
  }
  changed_.wait(lock, [this] { return ready_; });
  if (!read_) return read_;  // stays ready, so the thread does not go on
  std::swap(batch, ahead_);
  ++step_;
  ready_ = false;
  changed_.notify_all();
  return {};
}

}  // namespace twinpod::data
