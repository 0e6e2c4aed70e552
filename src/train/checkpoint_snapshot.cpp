#include "train/checkpoint_snapshot.hpp"

#include <algorithm>
#include <cstring>

namespace twinpod::train {
namespace {

// Small enough that nobody waits long for the one that another has in hand.
constexpr std::size_t kPartBytes = std::size_t{1} << 19U;
constexpr std::int64_t kAlignment = 64;

}  // namespace

Snapshot::Snapshot(const std::vector<std::span<const std::byte>>& sources) {
  for (const std::span<const std::byte> source : sources)
    bytes_ += (static_cast<std::int64_t>(source.size()) + kAlignment - 1) / kAlignment * kAlignment;
  auto* to = static_cast<std::byte*>(memory_.take(bytes_, program::BufferKind::working));
  std::fill_n(to, bytes_, std::byte{0});  // its pages are there before they are needed
  for (const std::span<const std::byte> source : sources) {
    copies_.emplace_back(to, source.size());
    for (std::size_t i = 0; i < source.size(); i += kPartBytes)
      parts_.push_back({source.data() + i, to + i, std::min(kPartBytes, source.size() - i)});
    to += (source.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  next_ = done_ = parts_.size();
}

void Snapshot::begin() {
  done_ = 0;
  next_ = 0;
}

void Snapshot::copy() {
  for (std::size_t i = next_++; i < parts_.size(); i = next_++) {
    std::memcpy(parts_[i].to, parts_[i].from, parts_[i].bytes);
    if (++done_ == parts_.size()) done_.notify_all();
  }
}

void Snapshot::complete() {
  copy();
  for (std::size_t done = done_; done < parts_.size(); done = done_) done_.wait(done);
}

}  // namespace twinpod::train
