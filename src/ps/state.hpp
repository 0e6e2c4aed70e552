// A copy of one shard: what every server of its chain does with the same entries of the same log, in the same order.
//
// Nothing in here knows of chains, views or messages that get lost. Entries are pushes, clocks, initial values and
// lists of workers; the state after an entry depends on the state before it and on the entry alone, to the last bit, so
// copies that have seen the same entries are identical.
//
//     ShardState state = empty_state(shard);
//     apply(settings, entry, state);
//     if (may_read(settings, state, pull)) answer with state.values;
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/team.hpp"
#include "kernel/optimizer.hpp"
#include "ps/message.hpp"
#include "ps/shards.hpp"

namespace twinpod::ps {

enum class Mode {
  sync,   // the updates of a clock are summed in the order of the workers and applied when all of them are there
  async,  // each is applied as it comes
  ssp,    // the same, and a read waits until it holds all updates of clock - staleness
};

enum class Optimizer {
  add,      // values += sum, or mean, of what was pushed: deltas of local SGD
  replace,  // values are the sum, or mean, of what was pushed: averages of models
  sgd,      // with momentum
  adamw,    // kernel/optimizer.hpp
};

struct Settings {
  Mode mode = Mode::sync;
  int staleness = 0;       // ssp: clocks
  int backup_workers = 0;  // sync: how many pushes of a clock need not be waited for; they are dropped when they come
  bool mean = true;        // sync: the mean of the workers' pushes, else their sum
  int divided_by = 1;      // what pushes are divided by already: a mean of that many is their sum, to the last bit
  double clip = 0;         // sync: largest norm of the gradient of all shards; 0: any. Else workers clip what they push
  Optimizer optimizer = Optimizer::sgd;
  kernel::Sgd sgd = {};
  kernel::AdamW adamw = {};
};

// `sync`, `async`, `ssp:3`
Result<Settings> parse_mode(std::string_view text);

// How far a worker is on this shard.
struct Progress {
  NodeId worker = kNobody;
  std::uint64_t sequence = 0;  // its last push
  std::int64_t clock = -1;     // all its updates up to this one are here
};

struct Contribution {
  NodeId worker = kNobody;
  std::int64_t clock = 0;
  double rate = 0;
  Encoding encoding = Encoding::f32;
  Payload gradient;
};

// The gradient of a clock that waits for the norm of all shards.
struct Pending {
  std::vector<float> gradient;  // the sum of
  std::uint64_t pushes = 0;     // so many
  double scale = 1;             // makes it the mean
  double rate = 0;
};

// Of the parts of a clock's mean gradient.
struct Squares {
  std::int64_t clock = 0;
  std::vector<double> parts;
};

// Clocks of which squares are kept behind the update, for who asks. Shards are one clock apart at most, and one more
// for each backup worker.
inline constexpr std::int64_t kKeptSquares = 64;

using Memory = std::pmr::memory_resource;

struct ShardState {
  std::int64_t count = 0;
  bool decays = true;
  std::vector<NormPart> parts = {};
  bool initialised = false;
  std::uint64_t position = 0;              // entries applied
  std::int64_t version = 0;                // sync: clocks applied
  std::int64_t steps = 0;                  // of the optimizer
  std::uint64_t applied = 0;               // pushes that are in the values, and those that
  std::uint64_t dropped = 0;               // came too late
  std::uint64_t clocks = 0;                // entries that said only that nothing comes up to a clock
  std::vector<Progress> workers = {};      // in rising order
  std::vector<Progress> left = {};         // those that went, as they were then
  std::vector<Contribution> waiting = {};  // sync: of clocks that are not complete
  std::optional<Pending> pending = {};     // sync with clip: of clock `version`, which is
  std::vector<Squares> squares = {};       // in rising order
  // Shared with answers that are on their way; never changed while they are.
  std::shared_ptr<Values> values = {};
  std::shared_ptr<Values> spare = {};                 // what they were before: the next are written here, if it is free
  Memory* memory = std::pmr::get_default_resource();  // where values lie
  Payload replaced = {};         // Optimizer::replace: what was pushed stands for the values, where it lies
  std::vector<float> mean = {};  // AdamW's, or SGD's velocity; empty without
  std::vector<float> square = {};
};

// The memory is where its values will lie.
ShardState empty_state(const Shard& shard, Memory* memory = std::pmr::get_default_resource());

// The values as they are now; the payload keeps them.
std::span<const float> values_of(const ShardState& state);
Payload share_values(const ShardState& state);

const Progress* progress_of(const ShardState& state, NodeId worker);  // nullptr: not one of the workers

// "" when the payload is what its kind and encoding need.
std::string problem_with(const ShardState& state, const Message& entry);

// REQUIRES: no problem_with it; a push follows the worker's last one. What the entry is, is in entry.entry.
// The team shares the work of large shards, and changes nothing about the result.
void apply(const Settings& settings, const Message& entry, ShardState& state, Team* team = nullptr);

// The newest clock of which all updates are in the values.
std::int64_t oldest_clock(const Settings& settings, const ShardState& state);

// No push of this clock or an earlier one is taken any more: it is in the values, or its norm is all that it lacks.
std::int64_t closed_clock(const Settings& settings, const ShardState& state);

// Of a clock's gradient: empty when nobody contributed. Nothing when it is not there yet, or was long ago.
std::optional<std::vector<double>> squares_at(const ShardState& state, std::int64_t clock);

// Pushes that are in no values yet.
std::uint64_t num_waiting(const ShardState& state);

// The worker's own updates are in, and everybody's up to the bound.
bool may_read(const Settings& settings, const ShardState& state, const Message& pull);

Payload encode_state(const ShardState& state);
Result<ShardState> decode_state(const Payload& payload, const Shard& shard,
                                Memory* memory = std::pmr::get_default_resource());

// The entry that says who the workers are.
Payload encode_workers(std::span<const NodeId> workers);

}  // namespace twinpod::ps
