#include "ps/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "ps/bytes.hpp"
#include "ps/compress.hpp"

namespace twinpod::ps {
namespace {

std::vector<NodeId> decode_workers(const Payload& payload) {
  ByteReader reader{payload.bytes};
  return reader.take_all<NodeId>(payload.bytes.size() / sizeof(NodeId));
}

// Each number of a shard is for itself; a multiple of what vectors hold, so that parts change no bit.
constexpr std::size_t kPart = std::size_t{1} << 14U;

// The values as they were, and where they will be: the same place, unless somebody still reads them.
struct Change {
  std::shared_ptr<const void> keeps;  // what they were
  const float* from = nullptr;
  float* to = nullptr;
};

Change begin_change(ShardState& state) {
  const std::span<const float> now = values_of(state);
  const bool replaced = !state.replaced.bytes.empty();
  Change change;
  change.from = now.data();
  if (replaced) change.keeps = std::exchange(state.replaced, {}).owner;
  if (!replaced && state.values.use_count() > 1) {
    change.keeps = state.values;
    std::swap(state.values, state.spare);  // free again, as a rule: who got an answer lets go of the one before
  }
  if (!state.values || state.values.use_count() > 1) {
    state.values = std::make_shared<Values>(now.size(), state.memory);
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // another thread may have been the last to let go
  change.to = state.values->data();
  return change;
}

// x += factor y
void add(std::size_t count, double factor, const float* y, float* x) {
  const kernel::Sgd addition{.rate = -1, .momentum = 0, .decay = 0, .gradient_scale = factor};
  kernel::sgd<float>(addition, static_cast<std::int64_t>(count), x, nullptr, y, nullptr);
}

kernel::Sgd sgd_of(const Settings& settings, double scale, double rate, const ShardState& state) {
  kernel::Sgd sgd = settings.sgd;
  sgd.gradient_scale *= scale;
  if (rate != 0) sgd.rate = rate;
  if (!state.decays) sgd.decay = 0;
  return sgd;
}

kernel::AdamW adamw_of(const Settings& settings, double scale, double rate, const ShardState& state) {
  kernel::AdamW adamw = settings.adamw;
  adamw.gradient_scale *= scale;
  adamw.step = state.steps;
  if (rate != 0) adamw.rate = rate;
  if (!state.decays) adamw.decay = 0;
  return adamw;
}

// `gradient` is of one push or a sum of several.
void step(const Settings& settings, std::span<const float> gradient, double scale, double rate, ShardState& state,
          Team* team) {
  const Change change = begin_change(state);
  const auto count = static_cast<std::size_t>(state.count);
  ++state.steps;
  const Optimizer optimizer = settings.optimizer;
  if (optimizer == Optimizer::sgd || optimizer == Optimizer::adamw) state.mean.resize(count);
  if (optimizer == Optimizer::adamw) state.square.resize(count);
  const kernel::Sgd sgd = sgd_of(settings, scale, rate, state);
  const kernel::AdamW adamw = adamw_of(settings, scale, rate, state);
  in_parts(team, count, kPart, [&](std::size_t first, std::size_t length) {
    float* const to = change.to + first;
    const float* const by = gradient.data() + first;
    const auto numbers = static_cast<std::int64_t>(length);
    if (optimizer == Optimizer::replace) {
      std::fill_n(to, length, 0.0F);
    } else if (change.from != change.to) {
      std::copy_n(change.from + first, length, to);
    }
    if (optimizer == Optimizer::sgd) {
      kernel::sgd<float>(sgd, numbers, to, nullptr, by, state.mean.data() + first);
    } else if (optimizer == Optimizer::adamw) {
      kernel::adamw<float>(adamw, numbers, to, nullptr, by, state.mean.data() + first, state.square.data() + first);
    } else {
      add(length, scale, by, to);
    }
  });
}

// As they lie in the payload if they can be used there.
std::span<const float> gradient_of(const Contribution& one, std::int64_t count, std::vector<float>& room) {
  if (one.encoding == Encoding::f32) return floats_of(one.gradient);
  room.resize(static_cast<std::size_t>(count));
  decompress(one.encoding, one.gradient.bytes, room);
  return room;
}

// The newest clock of which enough pushes are here.
std::int64_t complete_clock(const Settings& settings, const ShardState& state) {
  if (state.workers.empty()) return state.version - 1;
  if (settings.backup_workers == 0) {
    std::int64_t least = state.workers.front().clock;
    for (const Progress& progress : state.workers) least = std::min(least, progress.clock);
    return least;
  }
  std::vector<std::int64_t> clocks;
  for (const Progress& progress : state.workers) clocks.push_back(progress.clock);
  std::sort(clocks.begin(), clocks.end(), std::greater<>());
  const auto all = static_cast<std::ptrdiff_t>(clocks.size());
  return clocks[static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, all - settings.backup_workers) - 1)];
}

// One push by itself can stay where it is.
bool replace_whole(const Settings& settings, const Contribution& one, ShardState& state) {
  if (settings.optimizer != Optimizer::replace || one.encoding != Encoding::f32) return false;
  state.replaced = one.gradient;
  ++state.steps;
  ++state.applied;
  return true;
}

bool clips(const Settings& settings) { return settings.mode == Mode::sync && settings.clip > 0; }

// The gradient of clock `version`, until its norm is there. Copies have the same squares, and so has every worker the
// same norm of them.
void hold(std::span<const float> sum, std::uint64_t pushes, double scale, double rate, ShardState& state) {
  Squares squares{state.version, squares_of(state.parts, sum)};
  if (scale != 1) {
    for (double& one : squares.parts) one *= scale * scale;
  }
  std::erase_if(state.squares, [&](const Squares& old) { return old.clock < state.version - kKeptSquares; });
  state.squares.push_back(std::move(squares));
  state.pending = Pending{{sum.begin(), sum.end()}, pushes, scale, rate};
}

// ((g0 + g1) + g2) + ...: the sum that an all-reduce in the order of ranks makes.
void take_clock(const Settings& settings, std::span<const Contribution> parts, ShardState& state, Team* team) {
  if (parts.size() == 1 && replace_whole(settings, parts.front(), state)) return;
  std::vector<float> room;
  std::span<const float> sum = gradient_of(parts.front(), state.count, room);
  std::vector<float> total;
  std::vector<float> other;
  if (parts.size() > 1) {
    total.assign(sum.begin(), sum.end());
    for (const Contribution& one : parts.subspan(1)) {
      const std::span<const float> gradient = gradient_of(one, state.count, other);
      in_parts(team, total.size(), kPart, [&](std::size_t first, std::size_t length) {
        add(length, 1, gradient.data() + first, total.data() + first);
      });
    }
    sum = total;
  }
  const double scale = settings.mean ? settings.divided_by / static_cast<double>(parts.size()) : 1.0;
  if (clips(settings)) return hold(sum, parts.size(), scale, parts.front().rate, state);
  step(settings, sum, scale, parts.front().rate, state, team);
  state.applied += parts.size();
}

// The norm of another clock comes from somebody who is late.
void take_norm(const Settings& settings, const Message& entry, ShardState& state, Team* team) {
  if (!state.pending || entry.clock != state.version) return;
  const Pending pending = std::move(*state.pending);
  state.pending.reset();
  const double clipped = entry.rate > settings.clip ? settings.clip / entry.rate : 1;
  step(settings, pending.gradient, pending.scale * clipped, pending.rate, state, team);
  state.applied += pending.pushes;
  ++state.version;
}

// Clocks to which nobody contributed are passed over, however many they are.
void apply_complete_clocks(const Settings& settings, ShardState& state, Team* team) {
  const std::int64_t last = complete_clock(settings, state);
  while (state.version <= last && !state.pending) {
    std::int64_t next = last;
    for (const Contribution& one : state.waiting) next = std::min(next, std::max(one.clock, state.version));
    std::vector<Contribution> parts;
    std::erase_if(state.waiting, [&](Contribution& one) {
      if (one.clock > next) return false;
      parts.push_back(std::move(one));
      return true;
    });
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.worker < b.worker; });
    state.version = next;
    if (!parts.empty()) take_clock(settings, parts, state, team);
    if (!state.pending) ++state.version;
  }
}

void take_push(const Settings& settings, const Message& entry, ShardState& state, Team* team) {
  Contribution one{.worker = entry.worker,
                   .clock = entry.clock,
                   .rate = entry.rate,
                   .encoding = entry.encoding,
                   .gradient = entry.payload};
  if (settings.mode == Mode::sync) {
    if (entry.clock > closed_clock(settings, state)) return state.waiting.push_back(std::move(one));
    ++state.dropped;
    return;
  }
  if (replace_whole(settings, one, state)) return;
  std::vector<float> room;
  step(settings, gradient_of(one, state.count, room), 1, entry.rate, state, team);
  ++state.applied;
}

// Who comes is taken to be where the others are; who goes leaves what it pushed.
void set_workers(const Settings& settings, const std::vector<NodeId>& workers, ShardState& state) {
  const std::int64_t start = closed_clock(settings, state);
  std::vector<Progress> now;
  for (const NodeId worker : workers) {
    const Progress* const known = progress_of(state, worker);
    now.push_back(known != nullptr ? *known : Progress{.worker = worker, .sequence = 0, .clock = start});
  }
  for (const Progress& one : state.workers) {
    if (!std::binary_search(workers.begin(), workers.end(), one.worker)) state.left.push_back(one);
  }
  if (now.empty() && settings.mode != Mode::sync) state.version = std::max(state.version, start + 1);
  state.workers = std::move(now);
}

void set_values(const Message& entry, ShardState& state) {
  if (state.initialised) return;
  const std::span<const float> values = floats_of(entry.payload);
  state.values = std::make_shared<Values>(values.begin(), values.end(), state.memory);
  state.initialised = true;
}

}  // namespace

Result<Settings> parse_mode(std::string_view text) {
  Settings settings;
  if (text == "sync") return settings;
  settings.mode = Mode::async;
  if (text == "async") return settings;
  settings.mode = Mode::ssp;
  const std::string_view bound = text.substr(std::min<std::size_t>(4, text.size()));
  const auto [end, error] = std::from_chars(bound.data(), bound.data() + bound.size(), settings.staleness);
  const bool whole = error == std::errc() && end == bound.data() + bound.size();
  if (text.starts_with("ssp:") && whole && settings.staleness >= 0) return settings;
  return input_error(fmt::format("mode {}: no such mode", text), "sync, async, or ssp:3 (a number from 0 on)");
}

ShardState empty_state(const Shard& shard, Memory* memory) {
  ShardState state;
  state.count = shard.count;
  state.decays = shard.decays;
  state.parts = shard.parts;
  state.memory = memory;
  state.values = std::make_shared<Values>(static_cast<std::size_t>(shard.count), memory);
  return state;
}

std::span<const float> values_of(const ShardState& state) {
  return state.replaced.bytes.empty() ? std::span<const float>(*state.values) : floats_of(state.replaced);
}

Payload share_values(const ShardState& state) {
  return state.replaced.bytes.empty() ? payload_of(std::shared_ptr<const Values>(state.values)) : state.replaced;
}

const Progress* progress_of(const ShardState& state, NodeId worker) {
  const auto found = std::lower_bound(state.workers.begin(), state.workers.end(), worker,
                                      [](const Progress& p, NodeId id) { return p.worker < id; });
  return found == state.workers.end() || found->worker != worker ? nullptr : &*found;
}

std::string problem_with(const ShardState& state, const Message& entry) {
  const std::size_t bytes = entry.payload.bytes.size();
  if (entry.entry == Kind::view) return bytes % sizeof(NodeId) == 0 ? "" : "a list of workers that ends within one";
  if (entry.entry == Kind::clock) return "";
  if (entry.entry == Kind::norm) return std::isfinite(entry.rate) && entry.rate >= 0 ? "" : "no norm";
  if (entry.entry == Kind::initial || entry.encoding == Encoding::f32) {
    const auto found = static_cast<std::int64_t>(floats_of(entry.payload).size());
    return found == state.count ? "" : fmt::format("{} bytes for {} numbers", bytes, state.count);
  }
  return compressed_problem(entry.encoding, entry.payload.bytes, static_cast<std::size_t>(state.count));
}

void apply(const Settings& settings, const Message& entry, ShardState& state, Team* team) {
  ++state.position;
  if (entry.entry == Kind::view) {
    set_workers(settings, decode_workers(entry.payload), state);
  } else if (entry.entry == Kind::initial) {
    set_values(entry, state);
  } else if (entry.entry == Kind::norm) {
    take_norm(settings, entry, state, team);
  } else {
    auto* const progress = const_cast<Progress*>(progress_of(state, entry.worker));
    if (progress == nullptr) return;
    progress->sequence = entry.sequence;
    progress->clock = std::max(progress->clock, entry.clock);
    if (entry.entry == Kind::push) take_push(settings, entry, state, team);
    if (entry.entry == Kind::clock) ++state.clocks;
  }
  if (settings.mode == Mode::sync) apply_complete_clocks(settings, state, team);
}

std::int64_t oldest_clock(const Settings& settings, const ShardState& state) {
  if (settings.mode == Mode::sync || state.workers.empty()) return state.version - 1;
  std::int64_t oldest = state.workers.front().clock;
  for (const Progress& progress : state.workers) oldest = std::min(oldest, progress.clock);
  return oldest;
}

std::int64_t closed_clock(const Settings& settings, const ShardState& state) {
  return state.pending ? state.version : oldest_clock(settings, state);
}

std::optional<std::vector<double>> squares_at(const ShardState& state, std::int64_t clock) {
  const std::int64_t known = state.pending ? state.version : state.version - 1;
  if (clock > known || clock < state.version - kKeptSquares) return std::nullopt;
  const auto found =
      std::find_if(state.squares.begin(), state.squares.end(), [&](const Squares& one) { return one.clock == clock; });
  return found == state.squares.end() ? std::vector<double>() : found->parts;
}

std::uint64_t num_waiting(const ShardState& state) {
  return state.waiting.size() + (state.pending ? state.pending->pushes : 0);
}

bool may_read(const Settings& settings, const ShardState& state, const Message& pull) {
  const Progress* const own = progress_of(state, pull.worker);
  if (!state.initialised || own == nullptr || own->sequence < pull.sequence) return false;
  if (settings.mode == Mode::async) return true;
  const int bound = settings.mode == Mode::ssp ? settings.staleness : 0;
  return oldest_clock(settings, state) >= pull.clock - 1 - bound;
}

Payload encode_workers(std::span<const NodeId> workers) {
  ByteWriter writer;
  writer.put_all(workers);
  return payload_of(std::move(writer.bytes));
}

}  // namespace twinpod::ps
