// bf16 and f16 to float and back, rounded to nearest even. Without branches, so that compilers make vectors of it, and
// without subnormal floats, so that it is right also when the processor flushes those to zero.
#pragma once

#include <bit>
#include <cstdint>

namespace twinpod {

// What a 16-bit float is stored as.
struct Bf16 {
  std::uint16_t bits = 0;
};
struct F16 {
  std::uint16_t bits = 0;
};

[[gnu::always_inline]] inline float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

[[gnu::always_inline]] inline Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  const std::uint32_t quiet = (bits >> 16U) | 0x40U;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<std::uint16_t>(is_nan ? quiet : rounded)};
}

[[gnu::always_inline]] inline float to_float(F16 value) {
  constexpr std::uint32_t kRebias = 112U << 23U;  // from an exponent bias of 15 to one of 127
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  const std::uint32_t sign = (value.bits & 0x8000U) << 16U;
  const std::uint32_t normal = (magnitude << 13U) + kRebias + (magnitude >= 0x7c00U ? kRebias : 0U);
  // A subnormal is its mantissa in units of 2^-24.
  const auto subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  return std::bit_cast<float>(sign | (magnitude < 0x400U ? subnormal : normal));
}

[[gnu::always_inline]] inline F16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13U) & 1U) - (112U << 23U)) >> 13U;
  // Added to a half, a number below 2^-14 is rounded to units of 2^-24, which is what is left of it.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t large = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  return {static_cast<std::uint16_t>(sign | (magnitude >= 0x47800000U ? large : finite))};
}

}  // namespace twinpod
