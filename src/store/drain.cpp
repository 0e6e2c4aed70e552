#include "store/drain.hpp"

#include <algorithm>

#include "store/checkpoints.hpp"
#include "store/save.hpp"

namespace twinpod::store {

Drain::Drain(std::vector<Tier> tiers, const DrainOptions& options)
    : tiers_(std::move(tiers)), options_(options), status_(tiers_.size()), debris_(tiers_.size()) {
  thread_ = std::thread([this] { run(); });
}

Drain::~Drain() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Drain::add(const std::string& name, bool last, std::size_t tier) {
  {
    const std::lock_guard lock(mutex_);
    num_left_out_ += waiting_ && waiting_->name != name ? 1 : 0;
    waiting_ = Waiting{name, last, tier};
    status_[tier].newest = name;
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
    const Waiting one = *waiting_;
    waiting_.reset();
    busy_ = true;
    lock.unlock();
    copy_to_tiers(one);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

// A copy that a slower tier got just now is as good as the first one: that may be damaged, or lost by now.
Result<std::int64_t> Drain::copy_from_any(const std::vector<std::size_t>& sources, std::size_t to,
                                          const std::string& name) {
  std::optional<Error> first;
  for (const std::size_t from : sources) {
    Result<std::int64_t> copied =
        copy_checkpoint(tiers_[from], tiers_[to], name, [this](std::int64_t bytes) { return keep_pace(bytes); });
    if (copied) return copied;
    if (!first) first = copied.error();
  }
  return tl::unexpected(*first);
}

// Of what failed before, and was not removed then.
void Drain::clear(std::size_t tier, const std::string& but) {
  std::erase_if(debris_[tier], [&](const std::string& name) {
    return name == but || drop_unfinished(*tiers_[tier].files, tiers_[tier].root, name).has_value();
  });
}

void Drain::copy_to_tiers(const Waiting& one) {
  next_part_ = std::chrono::steady_clock::now();
  std::vector<std::size_t> sources = {one.tier};
  for (std::size_t i = one.tier + 1; i < tiers_.size(); ++i) {
    const Tier& tier = tiers_[i];
    if (!one.last && tier.every > 1 && checkpoint_number(one.name) % tier.every != 0) continue;
    clear(i, one.name);
    Result<std::int64_t> copied = copy_from_any(sources, i, one.name);
    if (!copied) {
      record(i, copied.error());
      debris_[i].push_back(one.name);
      clear(i, "");
      prune(i, one.name);                                          // what could not be removed before takes the room
      if (one.last) copied = copy_from_any(sources, i, one.name);  // there is no later one
      if (!copied) continue;
    }
    {
      const std::lock_guard lock(mutex_);
      status_[i].newest = one.name;
      status_[i].num_copied += 1;
      status_[i].bytes += *copied;
    }
    sources.push_back(i);
    prune(i, one.name);
  }
  for (std::size_t i = 0; i <= one.tier; ++i) prune(i, one.name);
}

// What is newer than the last copied one is still to be copied, or being saved.
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
