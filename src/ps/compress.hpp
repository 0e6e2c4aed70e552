// Gradients in fewer bytes, with error feedback: what a push leaves out is kept and added to the next one, so that
// nothing is lost, only late.
//
//     ErrorFeedback kept;
//     const Payload small = compress({.encoding = Encoding::top_k, .share = 0.01}, gradient, kept);
//     decompress(Encoding::top_k, small.bytes, room);      // gradient + kept before = room + kept after
//
// In any order of sums that is exact only up to rounding; tests use numbers for which it is exact.
//
//   f16, bf16   2 bytes for each number
//   top_k       the share of numbers with the largest magnitude, 8 bytes each     (Aji and Heafield, 2017)
//   one_bit     the sign, and the mean magnitude of each block's two sides        (Seide et al., 2014)
//   two_bit     +t, 0, -t with t of each block                                    (as MXNet's kvstore has it)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/message.hpp"

namespace twinpod::ps {

struct Compression {
  Encoding encoding = Encoding::f32;
  double share = 0.01;  // top_k: of the numbers, at least one
};

// `none`, `fp16`, `bf16`, `top-k:0.01`, `1-bit`, `2-bit`
Result<Compression> parse_compression(std::string_view text);

// What was left out of all pushes of one shard by one worker so far; empty at first.
struct ErrorFeedback {
  std::vector<float> left = {};
};

Payload compress(const Compression& compression, std::span<const float> gradient, ErrorFeedback& feedback);

// How long that payload is, whatever the numbers are.
std::size_t compressed_bytes(const Compression& compression, std::size_t count);

// "" when the bytes are `count` numbers in that encoding.
std::string compressed_problem(Encoding encoding, std::span<const std::byte> bytes, std::size_t count);

// REQUIRES: no compressed_problem. Fills all of `values`.
void decompress(Encoding encoding, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace twinpod::ps
