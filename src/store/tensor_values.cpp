#include "store/tensor_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.hpp"
#include "store/load.hpp"
#include "store/safetensors.hpp"

namespace twinpod::store {
namespace {

constexpr std::int64_t kPartBytes = 32 << 20;

template <typename T, typename ToDouble>
std::vector<double> converted(std::span<const std::byte> bytes, const ToDouble& to_double) {
  std::vector<double> numbers(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = to_double(value);
  }
  return numbers;
}

template <typename T>
std::vector<double> plain(std::span<const std::byte> bytes) {
  return converted<T>(bytes, [](T value) { return static_cast<double>(value); });
}

// F8_E5M2 is the upper byte of an F16.
double of_e5m2(std::uint8_t bits) { return to_float(F16{static_cast<std::uint16_t>(bits << 8)}); }

// F8_E4M3: no infinities, one NaN (all bits but the sign), bias 7.
double of_e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

struct Sums {
  double sum = 0;
  double squares = 0;
};

void add_to(TensorSummary& summary, Sums& sums, const std::vector<double>& numbers) {
  for (const double number : numbers) {
    ++summary.elements;
    summary.num_nan += std::isnan(number) ? 1 : 0;
    summary.num_infinite += std::isinf(number) ? 1 : 0;
    if (!std::isfinite(number)) continue;
    const bool first = summary.elements - summary.num_nan - summary.num_infinite == 1;
    summary.min = first ? number : std::min(summary.min, number);
    summary.max = first ? number : std::max(summary.max, number);
    sums.sum += number;
    sums.squares += number * number;
  }
}

}  // namespace

std::vector<double> numbers_of(const std::string& dtype, std::span<const std::byte> bytes) {
  if (dtype == "F32") return plain<float>(bytes);
  if (dtype == "BF16") return converted<Bf16>(bytes, [](Bf16 value) { return to_float(value); });
  if (dtype == "F16") return converted<F16>(bytes, [](F16 value) { return to_float(value); });
  if (dtype == "F64") return plain<double>(bytes);
  if (dtype == "I64") return plain<std::int64_t>(bytes);
  if (dtype == "U64") return plain<std::uint64_t>(bytes);
  if (dtype == "I32") return plain<std::int32_t>(bytes);
  if (dtype == "U32") return plain<std::uint32_t>(bytes);
  if (dtype == "I16") return plain<std::int16_t>(bytes);
  if (dtype == "U16") return plain<std::uint16_t>(bytes);
  if (dtype == "I8") return plain<std::int8_t>(bytes);
  if (dtype == "F8_E5M2") return converted<std::uint8_t>(bytes, of_e5m2);
  if (dtype == "F8_E4M3") return converted<std::uint8_t>(bytes, of_e4m3);
  return plain<std::uint8_t>(bytes);  // U8, BOOL
}

std::int64_t elements_at_once(const std::string& dtype) { return kPartBytes / std::max(1, element_bytes(dtype)); }

Result<void> load_elements(const ReadFrom& from, const StoredTensor& tensor, std::int64_t begin, std::int64_t end,
                           Bytes& bytes) {
  const std::int64_t element = element_bytes(tensor.dtype);
  bytes.resize(static_cast<std::size_t>((end - begin) * element));
  std::span<std::byte> rest(bytes);
  std::vector<WantedRegion> wanted;
  for (const Region& region : regions_of_range(tensor.shape, begin, end)) {
    const auto count = static_cast<std::size_t>(num_elements(region.size) * element);
    wanted.push_back({tensor.name, tensor.dtype, region, rest.first(count)});
    rest = rest.subspan(count);
  }
  const Result<std::int64_t> loaded = load_regions(from.files, from.folder, from.manifest, wanted);
  if (!loaded) return tl::unexpected(loaded.error());
  return {};
}

Result<void> for_each_part(const ReadFrom& from, const StoredTensor& tensor, const OnPart& body) {
  const std::int64_t elements = num_elements(tensor.shape);
  const std::int64_t most = elements_at_once(tensor.dtype);
  Bytes bytes;
  for (std::int64_t begin = 0; begin < elements; begin += most) {
    const Result<void> loaded = load_elements(from, tensor, begin, std::min(elements, begin + most), bytes);
    if (!loaded) return loaded;
    if (Result<void> done = body(bytes); !done) return done;
  }
  return {};
}

Result<TensorSummary> summary_of(const ReadFrom& from, const StoredTensor& tensor) {
  TensorSummary summary;
  Sums sums;
  const Result<void> read = for_each_part(from, tensor, [&](std::span<const std::byte> bytes) -> Result<void> {
    add_to(summary, sums, numbers_of(tensor.dtype, bytes));
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  const auto finite = static_cast<double>(summary.elements - summary.num_nan - summary.num_infinite);
  summary.mean = finite > 0 ? sums.sum / finite : 0;
  summary.norm = std::sqrt(sums.squares);
  return summary;
}

}  // namespace twinpod::store
