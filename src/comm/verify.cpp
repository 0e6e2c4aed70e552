#include "comm/verify.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "core/half.hpp"

namespace twinpod::comm {
namespace {

using Verb = collective::Verb;

constexpr std::size_t kPeriod = 8;
using Cell = std::array<std::byte, 8>;      // one stored element
using Pattern = std::array<Cell, kPeriod>;  // what stands at index i: entry i % kPeriod

int value_of(ReduceOp op, int rank, std::size_t phase) {
  const int step = static_cast<int>((phase + 3 * static_cast<std::size_t>(rank)) % kPeriod);
  if (op == ReduceOp::product) return step == 0 ? 2 : 1;
  return 1 + step;
}

Cell stored(ElementType type, std::int64_t dividend, std::int64_t divisor) {
  Cell cell{};
  const auto put = [&](auto value) { std::memcpy(cell.data(), &value, sizeof value); };
  const float quotient = static_cast<float>(dividend) / static_cast<float>(divisor);
  switch (type) {
    case ElementType::f32:
      put(quotient);
      break;
    case ElementType::f64:
      put(static_cast<double>(dividend) / static_cast<double>(divisor));
      break;
    case ElementType::bf16:
      put(to_bf16(quotient));
      break;
    case ElementType::f16:
      put(to_f16(quotient));
      break;
    case ElementType::i32:
      put(static_cast<std::int32_t>(dividend / divisor));
      break;
    case ElementType::i64:
      put(dividend / divisor);
      break;
  }
  return cell;
}

Pattern pattern_of(const Call& call, int rank) {
  Pattern pattern;
  for (std::size_t i = 0; i < kPeriod; ++i) pattern[i] = stored(call.type, value_of(call.op, rank, i), 1);
  return pattern;
}

Pattern combined(const Call& call, int ranks) {
  Pattern pattern;
  for (std::size_t i = 0; i < kPeriod; ++i) {
    std::int64_t value = value_of(call.op, 0, i);
    for (int rank = 1; rank < ranks; ++rank) {
      const std::int64_t other = value_of(call.op, rank, i);
      if (call.op == ReduceOp::product) value *= other;
      if (call.op == ReduceOp::sum || call.op == ReduceOp::average) value += other;
      if (call.op == ReduceOp::min) value = std::min(value, other);
      if (call.op == ReduceOp::max) value = std::max(value, other);
    }
    pattern[i] = stored(call.type, value, call.op == ReduceOp::average ? ranks : 1);
  }
  return pattern;
}

void write(const Pattern& pattern, std::size_t first, std::size_t count, std::size_t size, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * size, pattern[(first + i) % kPeriod].data(), size);
}

std::size_t differing(const Pattern& pattern, std::size_t first, std::size_t count, std::size_t size,
                      const std::byte* at) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(at + i * size, pattern[(first + i) % kPeriod].data(), size) != 0) ++wrong;
  }
  return wrong;
}

}  // namespace

std::size_t input_elements(const Call& call, int rank, int ranks) {
  const bool is_root = rank == call.root;
  const std::size_t whole = call.count * static_cast<std::size_t>(ranks);
  switch (call.verb) {
    case Verb::barrier:
      return 0;
    case Verb::send:
    case Verb::broadcast:
      return is_root ? call.count : 0;
    case Verb::scatter:
      return is_root ? whole : 0;
    case Verb::reduce_scatter:
    case Verb::all_to_all:
      return whole;
    default:
      return call.count;
  }
}

std::size_t output_elements(const Call& call, int rank, int ranks) {
  const bool is_root = rank == call.root;
  const std::size_t whole = call.count * static_cast<std::size_t>(ranks);
  switch (call.verb) {
    case Verb::barrier:
      return 0;
    case Verb::send:
      return rank == call.peer ? call.count : 0;
    case Verb::reduce:
      return is_root ? call.count : 0;
    case Verb::gather:
      return is_root ? whole : 0;
    case Verb::all_gather:
    case Verb::all_to_all:
      return whole;
    default:
      return call.count;
  }
}

void fill_input(const Call& call, int rank, int ranks, void* input) {
  const bool is_part = call.verb == Verb::all_gather || call.verb == Verb::gather;
  const std::size_t first = is_part ? static_cast<std::size_t>(rank) * call.count : 0;
  write(pattern_of(call, rank), first, input_elements(call, rank, ranks), size_of(call.type),
        static_cast<std::byte*>(input));
}

std::size_t num_wrong(const Call& call, int rank, int ranks, const void* output) {
  const auto* const at = static_cast<const std::byte*>(output);
  const std::size_t size = size_of(call.type);
  const std::size_t own = static_cast<std::size_t>(rank) * call.count;
  const std::size_t count = output_elements(call, rank, ranks);
  if (count == 0) return 0;
  switch (call.verb) {
    case Verb::reduce:
    case Verb::all_reduce:
      return differing(combined(call, ranks), 0, count, size, at);
    case Verb::reduce_scatter:
      return differing(combined(call, ranks), own, count, size, at);
    case Verb::send:
    case Verb::broadcast:
      return differing(pattern_of(call, call.root), 0, count, size, at);
    case Verb::scatter:
      return differing(pattern_of(call, call.root), own, count, size, at);
    default:
      break;
  }
  std::size_t wrong = 0;
  for (int m = 0; m < ranks; ++m) {
    const std::size_t part = static_cast<std::size_t>(m) * call.count;
    const std::size_t first = call.verb == Verb::all_to_all ? own : part;
    wrong += differing(pattern_of(call, m), first, call.count, size, at + part * size);
  }
  return wrong;
}

}  // namespace twinpod::comm
