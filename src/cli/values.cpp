#include "cli/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/nearest.hpp"
#include "core/units.hpp"

namespace twinpod::cli {
namespace {

constexpr std::int64_t kMostValues = 100'000;  // of one flag: more is a slip of the keyboard
constexpr double kLargestFactor = 1e6;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    parts.push_back(trimmed(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return parts;
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

tl::unexpected<Error> refusal(std::string_view flag, std::string_view found, const std::string& expected,
                              std::string hint = "") {
  return input_error(fmt::format("--{}: found `{}`, expected {}", flag, found, expected), std::move(hint));
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : fmt::format("did you mean `{}`?", nearest);
}

template <typename T>
bool contains(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// One part of a list: `8`, `1..64` or `1..64:x2`. A number is a range that ends where it begins.
struct Range {
  int first = 0;
  int last = 0;
  int factor = 0;  // 0: every whole number
};

std::optional<Range> range_in(std::string_view text) {
  Range range;
  const std::size_t colon = text.find(":x");
  if (colon != std::string_view::npos) {
    const std::optional<int> factor = number_in(text.substr(colon + 2));
    if (!factor || *factor < 2) return std::nullopt;
    range.factor = *factor;
    text = text.substr(0, colon);
  }
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos && range.factor > 0) return std::nullopt;
  const std::optional<int> first = number_in(text.substr(0, dots));
  const std::optional<int> last = dots == std::string_view::npos ? first : number_in(text.substr(dots + 2));
  if (!first || !last) return std::nullopt;
  range.first = *first;
  range.last = *last;
  return range;
}

void append(const Range& range, std::vector<int>& values) {
  for (std::int64_t v = range.first; v <= range.last; v = range.factor > 0 ? v * range.factor : v + 1) {
    values.push_back(static_cast<int>(v));
    if (range.factor > 0 && v <= 0) return;  // a power of it is no larger
  }
}

Result<void> check_range(std::string_view flag, std::string_view part, const Range& range, int low, int high) {
  if (range.last < range.first) {
    return refusal(flag, part, "a range that rises",
                   fmt::format("try {}..{}{}", range.last, range.first,
                               range.factor > 0 ? fmt::format(":x{}", range.factor) : ""));
  }
  if (range.first < low || range.last > high)
    return refusal(flag, part, fmt::format("whole numbers from {} to {}", low, high));
  if (range.factor == 0 && std::int64_t{range.last} - range.first >= kMostValues) {
    return refusal(flag, part, fmt::format("at most {} values", kMostValues),
                   fmt::format("try {}..{}:x2", std::max(1, range.first), range.last));
  }
  return {};
}

// "2x", "1.5x" or "2".
std::optional<double> factor_in(std::string_view text) {
  if (text.ends_with('x')) text.remove_suffix(1);
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(factor)) return std::nullopt;
  return factor;
}

bool may_be_zero(Change change) {
  return change == Change::latency || change == Change::price || change == Change::failures;
}

std::vector<std::string> change_names() {
  std::vector<std::string> known;
  for (const auto& [name, unused] : kChangeNames) known.emplace_back(name);
  return known;
}

Result<WhatIf> one_what_if(std::string_view flag, std::string_view part) {
  const std::size_t sign = part.find('=');
  const std::string_view key = trimmed(part.substr(0, sign));
  const std::vector<std::string> known = change_names();
  const auto found = std::find(known.begin(), known.end(), key);
  if (found == known.end()) {
    return refusal(flag, part, fmt::format("one of {} with `=` and its value", fmt::join(known, ", ")),
                   did_you_mean(key, known));
  }
  WhatIf wish;
  wish.change = kChangeNames[static_cast<std::size_t>(found - known.begin())].second;
  const std::string_view value = sign == std::string_view::npos ? "" : trimmed(part.substr(sign + 1));
  if (wish.change == Change::device) {
    wish.name = value;
    if (value.empty()) return refusal(flag, part, "a device of the catalog, such as device=h100-sxm");
    return wish;
  }
  const std::optional<double> factor = factor_in(value);
  const bool zero = may_be_zero(wish.change);
  if (!factor || *factor < 0 || (*factor == 0 && !zero) || *factor > kLargestFactor) {
    return refusal(
        flag, part,
        fmt::format("a factor {} 0, at most {:.0f}, such as {}=2x", zero ? "from" : "above", kLargestFactor, key));
  }
  wish.factor = *factor;
  return wish;
}

}  // namespace

Result<std::vector<int>> whole_numbers(std::string_view flag, std::string_view text, int low, int high) {
  std::vector<int> values;
  for (const std::string_view part : parts_of(text)) {
    const std::optional<Range> range = range_in(part);
    if (!range) {
      return refusal(
          flag, part,
          fmt::format("whole numbers from {} to {}: 8, a list 2,4,8, a range 1..64 or doublings 1..64:x2", low, high));
    }
    const Result<void> valid = check_range(flag, part, *range, low, high);
    if (!valid) return tl::unexpected(valid.error());
    append(*range, values);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

Result<std::vector<std::size_t>> name_indices(std::string_view flag, std::string_view text,
                                              const std::vector<std::string>& known) {
  std::vector<std::size_t> indices;
  for (const std::string_view part : parts_of(text)) {
    const auto found = std::find(known.begin(), known.end(), part);
    if (found == known.end())
      return refusal(flag, part, fmt::format("some of {}", fmt::join(known, ", ")), did_you_mean(part, known));
    const auto index = static_cast<std::size_t>(found - known.begin());
    if (!contains(indices, index)) indices.push_back(index);
  }
  return indices;
}

Result<std::vector<int>> switches(std::string_view flag, std::string_view text) {
  std::vector<int> values;
  for (const std::string_view part : parts_of(text)) {
    const bool on = part == "on" || part == "true";
    if (!on && part != "off" && part != "false") return refusal(flag, part, "on, off or on,off");
    if (!contains(values, on ? 1 : 0)) values.push_back(on ? 1 : 0);
  }
  std::sort(values.begin(), values.end());
  return values;
}

Result<std::vector<WhatIf>> what_if(std::string_view flag, std::string_view text) {
  std::vector<WhatIf> wishes;
  for (const std::string_view part : parts_of(text)) {
    Result<WhatIf> wish = one_what_if(flag, part);
    if (!wish) return tl::unexpected(wish.error());
    const bool twice = std::any_of(wishes.begin(), wishes.end(),
                                   [&](const WhatIf& earlier) { return earlier.change == wish->change; });
    if (twice) return refusal(flag, part, "each key once");
    wishes.push_back(std::move(*wish));
  }
  return wishes;
}

Result<double> duration(std::string_view flag, std::string_view text) {
  const std::string expected = "a time with its unit, such as 60d, 12h, 2w or 90 days";
  const Result<double> seconds = parse_quantity(text, Quantity::seconds);
  if (!seconds) return refusal(flag, text, expected, seconds.error().hint);
  if (factor_in(trimmed(text))) return refusal(flag, text, expected, fmt::format("did you mean {}d?", trimmed(text)));
  if (*seconds <= 0) return refusal(flag, text, "a time above 0");
  return *seconds;
}

}  // namespace twinpod::cli
