// A shard's state as bytes: what a new copy starts from.
#include <fmt/format.h>

#include <algorithm>

#include "ps/bytes.hpp"
#include "ps/compress.hpp"
#include "ps/state.hpp"

namespace twinpod::ps {
namespace {

void put_floats(ByteWriter& writer, std::span<const float> values) {
  writer.put(static_cast<std::uint64_t>(values.size()));
  writer.put_all(values);
}

std::vector<float> take_floats(ByteReader& reader) { return reader.take_all<float>(reader.take_count(sizeof(float))); }

Contribution take_contribution(ByteReader& reader) {
  Contribution one;
  one.worker = reader.take<NodeId>();
  one.clock = reader.take<std::int64_t>();
  one.rate = reader.take<double>();
  const auto encoding = reader.take<std::uint8_t>();
  if (encoding >= kNumEncodings) reader.failed = true;
  one.encoding = static_cast<Encoding>(encoding % kNumEncodings);
  one.gradient = payload_of(reader.take_all<std::byte>(reader.take_count(1)));
  return one;
}

void put_squares(ByteWriter& writer, const ShardState& state) {
  writer.put(static_cast<std::uint64_t>(state.squares.size()));
  for (const Squares& one : state.squares) {
    writer.put(one.clock);
    writer.put(static_cast<std::uint64_t>(one.parts.size()));
    writer.put_all(std::span<const double>(one.parts));
  }
  writer.put(static_cast<std::uint8_t>(state.pending ? 1 : 0));
  if (!state.pending) return;
  put_floats(writer, state.pending->gradient);
  writer.put(state.pending->pushes);
  writer.put(state.pending->scale);
  writer.put(state.pending->rate);
}

void take_squares(ByteReader& reader, ShardState& state) {
  constexpr std::size_t kSquaresBytes = 16;
  state.squares.resize(reader.take_count(kSquaresBytes));
  for (Squares& one : state.squares) {
    one.clock = reader.take<std::int64_t>();
    one.parts = reader.take_all<double>(reader.take_count(sizeof(double)));
  }
  if (reader.take<std::uint8_t>() == 0) return;
  Pending pending;
  pending.gradient = take_floats(reader);
  pending.pushes = reader.take<std::uint64_t>();
  pending.scale = reader.take<double>();
  pending.rate = reader.take<double>();
  state.pending = std::move(pending);
}

void put_workers(ByteWriter& writer, const std::vector<Progress>& workers) {
  writer.put(static_cast<std::uint64_t>(workers.size()));
  for (const Progress& progress : workers) {
    writer.put(progress.worker);
    writer.put(progress.sequence);
    writer.put(progress.clock);
  }
}

std::vector<Progress> take_workers(ByteReader& reader) {
  constexpr std::size_t kProgressBytes = 20;
  std::vector<Progress> workers(reader.take_count(kProgressBytes));
  for (Progress& progress : workers) {
    progress.worker = reader.take<NodeId>();
    progress.sequence = reader.take<std::uint64_t>();
    progress.clock = reader.take<std::int64_t>();
  }
  return workers;
}

bool is_consistent(const ShardState& state) {
  const auto count = static_cast<std::size_t>(state.count);
  const auto fits = [&](const std::vector<float>& v) { return v.empty() || v.size() == count; };
  if (state.pending && state.pending->gradient.size() != count) return false;
  if (state.values->size() != count || !fits(state.mean) || !fits(state.square)) return false;
  const auto right = [&](const Contribution& one) {
    Message entry{.kind = Kind::push, .entry = Kind::push, .encoding = one.encoding};
    entry.payload = one.gradient;
    return problem_with(state, entry).empty();
  };
  return std::all_of(state.waiting.begin(), state.waiting.end(), right) &&
         std::is_sorted(state.workers.begin(), state.workers.end(),
                        [](const Progress& a, const Progress& b) { return a.worker < b.worker; });
}

}  // namespace

Payload encode_state(const ShardState& state) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(state.initialised ? 1 : 0));
  writer.put(state.position);
  writer.put(state.version);
  writer.put(state.steps);
  writer.put(state.applied);
  writer.put(state.dropped);
  writer.put(state.clocks);
  put_workers(writer, state.workers);
  put_workers(writer, state.left);
  writer.put(static_cast<std::uint64_t>(state.waiting.size()));
  for (const Contribution& one : state.waiting) {
    writer.put(one.worker);
    writer.put(one.clock);
    writer.put(one.rate);
    writer.put(static_cast<std::uint8_t>(one.encoding));
    writer.put(static_cast<std::uint64_t>(one.gradient.bytes.size()));
    writer.put_all(one.gradient.bytes);
  }
  put_squares(writer, state);
  put_floats(writer, values_of(state));
  put_floats(writer, state.mean);
  put_floats(writer, state.square);
  return payload_of(std::move(writer.bytes));
}

Result<ShardState> decode_state(const Payload& payload, const Shard& shard, Memory* memory) {
  constexpr std::size_t kContributionBytes = 29;
  ByteReader reader{payload.bytes};
  ShardState state;
  state.count = shard.count;
  state.decays = shard.decays;
  state.parts = shard.parts;
  state.memory = memory;
  state.initialised = reader.take<std::uint8_t>() != 0;
  state.position = reader.take<std::uint64_t>();
  state.version = reader.take<std::int64_t>();
  state.steps = reader.take<std::int64_t>();
  state.applied = reader.take<std::uint64_t>();
  state.dropped = reader.take<std::uint64_t>();
  state.clocks = reader.take<std::uint64_t>();
  state.workers = take_workers(reader);
  state.left = take_workers(reader);
  const std::size_t waiting = reader.take_count(kContributionBytes);
  for (std::size_t i = 0; i < waiting && !reader.failed; ++i) state.waiting.push_back(take_contribution(reader));
  take_squares(reader, state);
  const std::vector<float> values = take_floats(reader);
  state.values = std::make_shared<Values>(values.begin(), values.end(), memory);
  state.mean = take_floats(reader);
  state.square = take_floats(reader);
  if (reader.failed || !reader.bytes.empty() || !is_consistent(state)) {
    return input_error(
        fmt::format("the state of a shard of {} numbers, in {} bytes, is not one", shard.count, payload.bytes.size()));
  }
  return state;
}

}  // namespace twinpod::ps
