#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "store/load.hpp"
#include "store/safetensors.hpp"
#include "store/tensor_values.hpp"

namespace twinpod::store {
namespace {

void compare(TensorDifference& found, const std::string& dtype, std::span<const std::byte> a,
             std::span<const std::byte> b) {
  const auto element = static_cast<std::size_t>(element_bytes(dtype));
  found.elements += static_cast<std::int64_t>(a.size() / element);
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  const std::vector<double> of_a = numbers_of(dtype, a);
  const std::vector<double> of_b = numbers_of(dtype, b);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (std::memcmp(a.data() + i * element, b.data() + i * element, element) == 0) continue;
    ++found.num_different;
    if (!std::isfinite(of_a[i]) || !std::isfinite(of_b[i])) {
      ++found.num_apart;
      continue;
    }
    const double apart = std::abs(of_a[i] - of_b[i]);
    const double larger = std::max(std::abs(of_a[i]), std::abs(of_b[i]));
    found.max_absolute = std::max(found.max_absolute, apart);
    if (larger > 0) found.max_relative = std::max(found.max_relative, apart / larger);
  }
}

Result<void> compare_elements(const ReadFrom& a, const ReadFrom& b, const StoredTensor& tensor,
                              TensorDifference& found) {
  std::int64_t begin = 0;
  Bytes other;
  return for_each_part(a, tensor, [&](std::span<const std::byte> bytes) -> Result<void> {
    const std::int64_t end = begin + static_cast<std::int64_t>(bytes.size()) / element_bytes(tensor.dtype);
    const Result<void> loaded = load_elements(b, tensor, begin, end, other);
    if (!loaded) return loaded;
    begin = end;
    compare(found, tensor.dtype, bytes, other);
    return {};
  });
}

// "": their elements can be compared.
std::string why_not_comparable(const StoredTensor* a, const StoredTensor* b) {
  if (a == nullptr) return "only in the second";
  if (b == nullptr) return "only in the first";
  if (a->dtype == b->dtype && a->shape == b->shape) return "";
  return fmt::format("{} {} and {} {}", a->dtype, to_string(a->shape), b->dtype, to_string(b->shape));
}

// Of random generators only that they differ says something.
std::map<std::string, std::string> as_texts(const TrainingState& state) {
  std::map<std::string, std::string> texts = {{"step", fmt::to_string(state.step)},
                                              {"samples", fmt::to_string(state.samples)}};
  for (const auto& [name, text] : state.values) texts["values." + name] = text;
  for (const auto& [name, bytes] : state.random) {
    std::string& text = texts["random." + name];
    for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return texts;
}

std::vector<StateDifference> state_differences(const TrainingState& a, const TrainingState& b) {
  const std::map<std::string, std::string> of_a = as_texts(a);
  const std::map<std::string, std::string> of_b = as_texts(b);
  std::set<std::string> keys;
  for (const auto& [key, text] : of_a) keys.insert(key);
  for (const auto& [key, text] : of_b) keys.insert(key);
  std::vector<StateDifference> found;
  for (const std::string& key : keys) {
    const bool both = of_a.contains(key) && of_b.contains(key);
    StateDifference one{key, of_a.contains(key) ? of_a.at(key) : "", of_b.contains(key) ? of_b.at(key) : ""};
    if (!both || one.a != one.b) found.push_back(std::move(one));
  }
  return found;
}

}  // namespace

Result<Difference> difference_of(const ReadFrom& a, const ReadFrom& b) {
  Difference difference;
  difference.state = state_differences(a.manifest.state, b.manifest.state);
  std::set<std::string> names;
  for (const StoredTensor& tensor : a.manifest.tensors) names.insert(tensor.name);
  for (const StoredTensor& tensor : b.manifest.tensors) names.insert(tensor.name);
  for (const std::string& name : names) {
    const StoredTensor* of_a = find_tensor(a.manifest, name);
    TensorDifference found;
    found.name = name;
    found.problem = why_not_comparable(of_a, find_tensor(b.manifest, name));
    if (found.problem.empty()) {
      if (Result<void> done = compare_elements(a, b, *of_a, found); !done) return tl::unexpected(done.error());
    }
    if (found.problem.empty() && found.num_different == 0) {
      ++difference.num_same;
    } else {
      difference.tensors.push_back(std::move(found));
    }
  }
  return difference;
}

}  // namespace twinpod::store
