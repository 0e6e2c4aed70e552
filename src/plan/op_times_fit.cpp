// Brings the ops of a pass to the length that the closed form has for it, where they overlap in ways that it sees
// otherwise.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "plan/op_times_parts.hpp"
#include "program/volume.hpp"

namespace twinpod::plan {
namespace {

using program::Block;
using program::Lane;
using program::Op;
using program::OpKind;

constexpr double kFits = 1e-6;      // how near to its length a pass must come
constexpr double kMostStretch = 8;  // of computation that is disturbed

// What is hidden of a transfer must not make the next one wait for the lane: it is cut to the computation between them.
void cut_hidden(const Block& block, BlockTimes& times) {
  double leading = -1;
  double gap = 0;
  std::size_t last = times.size();
  const auto cut = [&](double room) {
    sim::OpTime& time = times[last];
    const double shows = time.exposed * time.seconds();
    if (time.seconds() <= shows + room) return;
    const double shorter = (shows + room) / time.seconds();
    time.latency_s *= shorter;
    time.transfer_s *= shorter;
    time.exposed = shows + room > 0 ? shows / (shows + room) : 1;
  };
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Op& op = block.ops[i];
    if (op.lane == Lane::compute) gap += times[i].seconds();
    if (op.lane != Lane::tensor || op.kind == OpKind::recv) continue;
    if (last < times.size()) cut(gap);
    if (leading < 0) leading = gap;
    last = i;
    gap = 0;
  }
  if (last < times.size()) cut(gap + leading);
}

double with_length(double target, double low, double high, const auto& length) {
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (length(middle) < target ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Brings a pass to its length: what is too short gets longer computation, because what runs side by side disturbs each
// other; what is too long gets shorter traffic on lanes that have too much of it.
void fit(const Block& block, double target, std::initializer_list<Lane> beside, BlockTimes& times,
         const auto& length_s) {
  const BlockTimes plain = times;
  const auto length = [&](std::initializer_list<Lane> lanes, double factor) {
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (std::find(lanes.begin(), lanes.end(), block.ops[i].lane) == lanes.end()) continue;
      times[i].latency_s = factor * plain[i].latency_s;
      times[i].transfer_s = factor * plain[i].transfer_s;
    }
    return length_s();
  };
  const double now = length({}, 1);
  if (now <= 0 || std::abs(now / target - 1) < kFits) return;
  const std::initializer_list<Lane> compute = {Lane::compute};
  const bool is_short = now < target;
  const std::initializer_list<Lane>& lanes = is_short ? compute : beside;
  const double factor =
      with_length(target, is_short ? 1 : 0, is_short ? kMostStretch : 1, [&](double f) { return length(lanes, f); });
  length(lanes, factor);
}

// Two passes side by side hide of each other's traffic what they can; the closed form knows better how much.
void fit_pair(const Block& block, double target, BlockTimes& times) {
  fit(block, target, {Lane::tensor}, times, [&] { return run_blocks({{&block, &times}}).chain_s; });
}

// Traffic of one layer runs beside the layer before it, which may be of another size; the closed form sees it beside
// its own. Measured where such passes follow each other.
void fit_neighbours(const spec::Job& job, const Block& block, double target, BlockTimes& times) {
  const auto with_traffic = [](const Op& op) {
    return op.lane == Lane::host || (op.lane == Lane::data && !is_overlapped_bucket(op));
  };
  const bool once = job.layout.zero == 3 && program::gathers_once_a_step(job);
  if (once || std::none_of(block.ops.begin(), block.ops.end(), with_traffic)) return;
  const TimedBlock one{&block, &times};
  fit(block, target, {Lane::data, Lane::host}, times, [&] {
    return run_blocks({one, one}).chain_s - run_blocks({one}).chain_s;
  });
}

}  // namespace

void fit_pass(const OpTimer& timer, const Block& block, double target, BlockTimes& times) {
  if (block.pair) {
    fit_pair(block, target, times);
    return;
  }
  cut_hidden(block, times);
  fit_neighbours(timer.job, block, target, times);
}

}  // namespace twinpod::plan
