#include "ps/compress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/half.hpp"
#include "ps/bytes.hpp"

namespace twinpod::ps {
namespace {

// Numbers that share a scale: large enough that scales cost little, small enough that they fit.
constexpr std::size_t kBlock = 256;

struct Block {
  std::size_t first = 0;
  std::size_t count = 0;
};

std::size_t num_blocks(std::size_t count) { return (count + kBlock - 1) / kBlock; }

Block block_of(std::size_t index, std::size_t count) {
  return {index * kBlock, std::min(kBlock, count - index * kBlock)};
}

// Bytes of a block: its scales, then its bits, filled up to whole bytes.
std::size_t block_bytes(Encoding encoding, std::size_t count) {
  return encoding == Encoding::one_bit ? 2 * sizeof(float) + (count + 7) / 8 : sizeof(float) + (count + 3) / 4;
}

template <typename Half>
Half to_half(float value) {
  if constexpr (std::is_same_v<Half, F16>) return to_f16(value);
  if constexpr (std::is_same_v<Half, Bf16>) return to_bf16(value);
}

template <typename Half>
void write_halves(std::span<const float> values, ByteWriter& writer) {
  std::vector<std::uint16_t> halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) halves[i] = to_half<Half>(values[i]).bits;
  writer.put_all(std::span<const std::uint16_t>(halves));
}

template <typename Half>
void read_halves(std::span<const std::byte> bytes, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Half half;
    std::memcpy(&half.bits, bytes.data() + 2 * i, 2);
    values[i] = to_float(half);
  }
}

std::size_t top_count(double share, std::size_t count) {
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(share * static_cast<double>(count))), 1,
                                 std::max<std::size_t>(1, count));
}

void write_top(double share, std::span<const float> values, ByteWriter& writer) {
  const std::size_t count = top_count(share, values.size());
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto larger = [&](std::uint32_t a, std::uint32_t b) {
    const float x = std::abs(values[a]);
    const float y = std::abs(values[b]);
    return x != y ? x > y : a < b;
  };
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count - 1), order.end(), larger);
  order.resize(count);
  std::sort(order.begin(), order.end());
  for (const std::uint32_t index : order) {
    writer.put(index);
    writer.put(values[index]);
  }
}

// The mean of what is above and below zero: the sum of a block stays what it was.
void write_one_bit(std::span<const float> values, ByteWriter& writer) {
  double sums[2] = {0, 0};
  int counts[2] = {0, 0};
  for (const float value : values) {
    const int side = value < 0 ? 1 : 0;
    sums[side] += value;
    ++counts[side];
  }
  for (int side = 0; side < 2; ++side) {
    writer.put(counts[side] == 0 ? 0.0F : static_cast<float>(sums[side] / counts[side]));
  }
  std::vector<std::uint8_t> bits((values.size() + 7) / 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (1U << (i % 8)));
  }
  writer.put_all(std::span<const std::uint8_t>(bits));
}

// t is the mean magnitude: what is smaller than half of it is sent as nothing.
void write_two_bit(std::span<const float> values, ByteWriter& writer) {
  double sum = 0;
  for (const float value : values) sum += std::abs(value);
  const auto threshold = static_cast<float>(sum / static_cast<double>(values.size()));
  writer.put(threshold);
  std::vector<std::uint8_t> bits((values.size() + 3) / 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned code = values[i] > threshold / 2 ? 1U : values[i] < -threshold / 2 ? 2U : 0U;
    bits[i / 4] = static_cast<std::uint8_t>(bits[i / 4] | (code << (2 * (i % 4))));
  }
  writer.put_all(std::span<const std::uint8_t>(bits));
}

void read_block(Encoding encoding, ByteReader& reader, std::span<float> values) {
  if (encoding == Encoding::one_bit) {
    const float sides[2] = {reader.take<float>(), reader.take<float>()};
    const auto bits = reader.take_all<std::uint8_t>((values.size() + 7) / 8);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = sides[(bits[i / 8] >> (i % 8)) & 1U];
    return;
  }
  const auto threshold = reader.take<float>();
  const float levels[4] = {0, threshold, -threshold, 0};
  const auto bits = reader.take_all<std::uint8_t>((values.size() + 3) / 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = levels[(bits[i / 4] >> (2 * (i % 4))) & 3U];
}

void write(const Compression& compression, std::span<const float> values, ByteWriter& writer) {
  switch (compression.encoding) {
    case Encoding::f32:
      return writer.put_all(values);
    case Encoding::f16:
      return write_halves<F16>(values, writer);
    case Encoding::bf16:
      return write_halves<Bf16>(values, writer);
    case Encoding::top_k:
      return write_top(compression.share, values, writer);
    case Encoding::one_bit:
    case Encoding::two_bit:
      break;
  }
  for (std::size_t i = 0; i < num_blocks(values.size()); ++i) {
    const Block block = block_of(i, values.size());
    const std::span<const float> part = values.subspan(block.first, block.count);
    compression.encoding == Encoding::one_bit ? write_one_bit(part, writer) : write_two_bit(part, writer);
  }
}

std::string top_problem(std::span<const std::byte> bytes, std::size_t count) {
  if (bytes.size() % 8 != 0) return fmt::format("{} bytes of pairs of 8", bytes.size());
  ByteReader reader{bytes};
  while (!reader.bytes.empty()) {
    const auto index = reader.take<std::uint32_t>();
    reader.take<float>();
    if (index >= count) return fmt::format("number {} of {}", index, count);
  }
  return "";
}

}  // namespace

Result<Compression> parse_compression(std::string_view text) {
  if (text == "none") return Compression{};
  if (text == "fp16") return Compression{.encoding = Encoding::f16};
  if (text == "bf16") return Compression{.encoding = Encoding::bf16};
  if (text == "1-bit") return Compression{.encoding = Encoding::one_bit};
  if (text == "2-bit") return Compression{.encoding = Encoding::two_bit};
  if (text == "top-k") return Compression{.encoding = Encoding::top_k};
  if (text.starts_with("top-k:")) {
    Compression compression{.encoding = Encoding::top_k};
    const std::string_view share = text.substr(6);
    const auto [end, error] = std::from_chars(share.data(), share.data() + share.size(), compression.share);
    const bool whole = error == std::errc() && end == share.data() + share.size();
    if (whole && compression.share > 0 && compression.share <= 1) return compression;
  }
  return input_error(fmt::format("compression {}: no such compression", text),
                     "none, fp16, bf16, top-k:0.01 (a share above 0, 1 at most), 1-bit, 2-bit");
}

Payload compress(const Compression& compression, std::span<const float> gradient, ErrorFeedback& feedback) {
  ByteWriter writer;
  if (compression.encoding == Encoding::f32) {
    writer.put_all(gradient);
    return payload_of(std::move(writer.bytes));
  }
  feedback.left.resize(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) feedback.left[i] += gradient[i];
  write(compression, feedback.left, writer);
  std::vector<float> sent(gradient.size());
  decompress(compression.encoding, writer.bytes, sent);
  for (std::size_t i = 0; i < sent.size(); ++i) feedback.left[i] -= sent[i];
  return payload_of(std::move(writer.bytes));
}

std::size_t compressed_bytes(const Compression& compression, std::size_t count) {
  switch (compression.encoding) {
    case Encoding::f32:
      return 4 * count;
    case Encoding::f16:
    case Encoding::bf16:
      return 2 * count;
    case Encoding::top_k:
      return 8 * top_count(compression.share, count);
    case Encoding::one_bit:
    case Encoding::two_bit:
      break;
  }
  const std::size_t rest = count % kBlock;
  const std::size_t last = rest > 0 ? block_bytes(compression.encoding, rest) : 0;
  return count / kBlock * block_bytes(compression.encoding, kBlock) + last;
}

std::string compressed_problem(Encoding encoding, std::span<const std::byte> bytes, std::size_t count) {
  if (encoding == Encoding::top_k) return top_problem(bytes, count);
  const std::size_t expected = compressed_bytes({.encoding = encoding}, count);
  return bytes.size() == expected ? "" : fmt::format("{} bytes for {} numbers, not {}", bytes.size(), count, expected);
}

void decompress(Encoding encoding, std::span<const std::byte> bytes, std::span<float> values) {
  ByteReader reader{bytes};
  switch (encoding) {
    case Encoding::f32:
      if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size_bytes());
      return;
    case Encoding::f16:
      return read_halves<F16>(bytes, values);
    case Encoding::bf16:
      return read_halves<Bf16>(bytes, values);
    case Encoding::top_k:
      std::fill(values.begin(), values.end(), 0.0F);
      while (!reader.bytes.empty()) {
        const auto index = reader.take<std::uint32_t>();
        values[index] = reader.take<float>();
      }
      return;
    case Encoding::one_bit:
    case Encoding::two_bit:
      break;
  }
  for (std::size_t i = 0; i < num_blocks(values.size()); ++i) {
    const Block block = block_of(i, values.size());
    read_block(encoding, reader, values.subspan(block.first, block.count));
  }
}

}  // namespace twinpod::ps
