// libFuzzer: the first byte chooses the quantity, the rest is its text. A value is finite, a refusal says something.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "core/units.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto quantity = static_cast<twinpod::Quantity>(data[0] % 8);
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const twinpod::Result<double> value = twinpod::parse_quantity(text, quantity);
  const bool right = value ? std::isfinite(*value) : !value.error().message.empty();
  if (!right) std::abort();
  return 0;
}
