#include "store/drain.hpp"

#include <algorithm>

#include "store/checkpoints.hpp"
#include "store/save.hpp"

namespace twinpod::store {

Drain::Drain(std::vector<Tier> tiers, const DrainOptions& options)
    : tiers_(std::move(tiers)), options_(options), status_(tiers_.size()), thread_([this] { run(); }) {}

Drain::~Drain() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Drain::add(const std::string& name, bool last) {
  {
    const std::lock_guard lock(mutex_);
    num_left_out_ += waiting_ && *waiting_ != name ? 1 : 0;
    last_waits_ = last;
    waiting_ = name;
    status_.front().newest = name;
  }
  changed_.notify_all();
}

void Drain::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !waiting_ && !busy_; });
}

bool Drain::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_ || waiting_.has_value();
}

std::vector<TierStatus> Drain::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::int64_t Drain::num_left_out() const {
  const std::lock_guard lock(mutex_);
  return num_left_out_;
}

std::optional<Error> Drain::fatal() const {
  const std::lock_guard lock(mutex_);
  return fatal_;
}

void Drain::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || waiting_; });
    if (stopping_) return;
    const std::string name = *waiting_;
    const bool last = last_waits_;
    waiting_.reset();
    busy_ = true;
    lock.unlock();
    copy_to_tiers(name, last);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Drain::copy_to_tiers(const std::string& name, bool last) {
  next_part_ = std::chrono::steady_clock::now();
  for (std::size_t i = 1; i < tiers_.size(); ++i) {
    const Tier& tier = tiers_[i];
    if (!last && tier.every > 1 && checkpoint_number(name) % tier.every != 0) continue;
    const Result<std::int64_t> copied =
        copy_checkpoint(tiers_.front(), tier, name, [this](std::int64_t bytes) { return keep_pace(bytes); });
    if (!copied) {
      record(i, copied.error());
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      status_[i].newest = name;
      status_[i].num_copied += 1;
      status_[i].bytes += *copied;
    }
    prune(i, name);
  }
  prune(0, name);
}

// Of the fastest tier, what is newer than the last copied one is still to be copied.
void Drain::prune(std::size_t tier, const std::string& copied) {
  const std::int64_t below = checkpoint_number(copied) + 1;
  const Result<int> pruned = prune_checkpoints(*tiers_[tier].files, tiers_[tier].root, tiers_[tier].keep, below);
  if (!pruned) record(tier, pruned.error());
}

void Drain::record(std::size_t tier, const Error& error) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;  // we ended it ourselves
  status_[tier].errors.push_back(to_string(error));
  if (tiers_[tier].on_error == OnError::stop && !fatal_) fatal_ = error;
}

// Waits until the bytes may have been moved; false: we are asked to stop.
bool Drain::keep_pace(std::int64_t bytes) {
  std::unique_lock lock(mutex_);
  if (options_.bytes_per_s > 0) {
    const std::chrono::duration<double> lasts(static_cast<double>(bytes) / options_.bytes_per_s);
    next_part_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(lasts);
    changed_.wait_until(lock, next_part_, [&] { return stopping_; });
  }
  return !stopping_;
}

}  // namespace twinpod::store
