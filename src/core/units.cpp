#include "core/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "core/nearest.hpp"
#include "core/quote.hpp"

namespace twinpod {
namespace {

// One unit of a quantity, and how many base units it is.
struct Unit {
  std::string text;
  double factor;
};
using Units = std::vector<Unit>;

struct Prefix {
  std::string_view text;
  double factor;
};

constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
constexpr double kDay = 24 * kHour;
constexpr double kYear = 365.25 * kDay;

constexpr std::array kDecimal = {Prefix{"", 1},     Prefix{"k", 1e3},  Prefix{"M", 1e6}, Prefix{"G", 1e9},
                                 Prefix{"T", 1e12}, Prefix{"P", 1e15}, Prefix{"E", 1e18}};
constexpr std::array kBinary = {Prefix{"Ki", 0x1p10}, Prefix{"Mi", 0x1p20}, Prefix{"Gi", 0x1p30}, Prefix{"Ti", 0x1p40},
                                Prefix{"Pi", 0x1p50}};

void add_prefixed(Units& units, std::span<const Prefix> prefixes, std::string_view base, double factor) {
  for (const Prefix& prefix : prefixes) {
    units.push_back({std::string(prefix.text) + std::string(base), prefix.factor * factor});
  }
}

Units byte_units() {
  Units units;
  for (const auto& [base, factor] : {std::pair{"B", 1.0}, std::pair{"bit", 0.125}, std::pair{"b", 0.125}}) {
    add_prefixed(units, kDecimal, base, factor);
    add_prefixed(units, kBinary, base, factor);
  }
  units.insert(units.end(), {{"KB", 1e3}, {"byte", 1}, {"bytes", 1}});
  return units;
}

Units byte_per_s_units() {
  Units units = byte_units();
  for (Unit& unit : units) unit.text += "/s";
  add_prefixed(units, kDecimal, "bps", 0.125);
  return units;
}

Units flop_per_s_units() {
  Units units;
  for (const char* base : {"FLOP/s", "FLOPS", "FLOPs"}) add_prefixed(units, kDecimal, base, 1);
  return units;
}

Units second_units() {
  return {{"ns", 1e-9},
          {"us", 1e-6},
          {"µs", 1e-6} /* micro sign */,
          {"μs", 1e-6} /* Greek letter */,
          {"ms", 1e-3},
          {"s", 1},
          {"min", kMinute},
          {"h", kHour},
          {"d", kDay},
          {"w", 7 * kDay},
          {"y", kYear},
          {"hour", kHour},
          {"hours", kHour},
          {"day", kDay},
          {"days", kDay},
          {"week", 7 * kDay},
          {"weeks", 7 * kDay},
          {"year", kYear},
          {"years", kYear}};
}

struct Kind {
  std::string_view base_unit;
  std::string_view example;
  double most;  // far beyond anything that exists, and so small that sums and products of some stay finite
  Units units;
};

// In the order of enum Quantity.
const std::array<Kind, 8>& kinds() {
  static const std::array<Kind, 8> all = {{
      {"a number",
       "300e9 or 300 B",
       1e30,
       {{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"T", 1e12}, {"P", 1e15}}},
      {"bytes", "80 GB", 1e24, byte_units()},
      {"seconds", "30 d", 1e15, second_units()},
      {"bytes/s", "400 Gbit/s", 1e24, byte_per_s_units()},
      {"FLOP/s", "312 TFLOP/s", 1e27, flop_per_s_units()},
      {"watts", "700 W", 1e15, {{"mW", 1e-3}, {"W", 1}, {"kW", 1e3}, {"MW", 1e6}, {"GW", 1e9}}},
      {"USD/h", "2.5 USD/h", 1e15, {{"USD/h", 1}, {"$/h", 1}, {"/h", 1}, {"USD", 1}}},
      {"a fraction", "0.93 or 93 %", 1e6, {{"%", 0.01}}},
  }};
  return all;
}

const Kind& kind_of(Quantity quantity) { return kinds().at(static_cast<std::size_t>(quantity)); }

constexpr double kLeast = 1e-30;  // what is divided by less is soon no finite number

constexpr std::string_view kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// What was found, short enough to be read and on one line.
std::string found_text(std::string_view text) { return "'" + shortened(text, 40) + "'"; }

tl::unexpected<Error> refusal(std::string_view text, const Kind& kind, const std::string& why, std::string hint = "") {
  const std::string expected = fmt::format("expected {}, such as {}", kind.base_unit, kind.example);
  return input_error(fmt::format("found {}, {}{}", found_text(text), expected, why), std::move(hint));
}

std::string unit_hint(std::string_view unit, const Kind& kind) {
  std::vector<std::string> names;
  for (const Unit& known : kind.units) names.push_back(known.text);
  const std::string nearest = nearest_name(unit, names);
  if (!nearest.empty()) return fmt::format("did you mean {}?", nearest);
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 12); ++i) list += (i == 0 ? "" : ", ") + names[i];
  return fmt::format("known units: {}", list);
}

const Unit* find_unit(const Units& units, std::string_view text) {
  for (const Unit& unit : units) {
    if (unit.text == text) return &unit;
  }
  return nullptr;
}

// from_chars also reads "inf" and "nan"; a number here starts like a number.
bool starts_like_a_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && (text.front() == '.' || (text.front() >= '0' && text.front() <= '9'));
}

}  // namespace

std::string_view base_unit(Quantity quantity) { return kind_of(quantity).base_unit; }

Result<double> parse_quantity(std::string_view text, Quantity quantity) {
  const Kind& kind = kind_of(quantity);
  std::string_view rest = trimmed(text);
  if (quantity == Quantity::usd_per_hour && rest.starts_with('$')) rest = trimmed(rest.substr(1));
  if (!starts_like_a_number(rest)) return refusal(text, kind, "");

  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const std::string range = fmt::format(": the number is out of range, 0 or {:g} to {:g}", kLeast, kind.most);
  if (error == std::errc::result_out_of_range) return refusal(text, kind, range);
  if (error != std::errc()) return refusal(text, kind, "");
  const std::string_view unit_text = trimmed(rest.substr(static_cast<std::size_t>(end - rest.data())));
  const Unit* unit = find_unit(kind.units, unit_text);
  if (unit == nullptr && !unit_text.empty()) {
    return refusal(text, kind, fmt::format(": unit {} is not known", found_text(unit_text)),
                   unit_hint(unit_text, kind));
  }
  if (unit != nullptr) value *= unit->factor;
  const double size = std::abs(value);
  if (size > kind.most || (size < kLeast && size > 0)) return refusal(text, kind, range);
  return value;
}

namespace {

// A step of a scale for people: from this many base units on, count in this unit.
struct Step {
  double from;
  double factor;
  std::string_view unit;
};

// Three significant digits; what has more digits before the point keeps them. REQUIRES: value >= 0.
std::string three_digits(double value) {
  if (value >= 1e6) return fmt::format("{:.3g}", value);
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  if (value >= 0.9995) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3g}", value);
}

// Rounds first, so that 999.9 kB is 1.00 MB and not 1000 kB.
double rounded(double value) {
  if (value == 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  const double result = std::round(value / unit) * unit;
  return result > 0 && std::isfinite(result) ? result : value;
}

// REQUIRES: steps from the smallest to the largest.
std::string format_scaled(double value, std::span<const Step> steps) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const double size = std::abs(value);
  const double compared = rounded(size) * (1 + 1e-12);  // a rounded 1000 may have come out as 999.9999999999999
  const Step* step = &steps.front();
  for (const Step& candidate : steps) {
    if (compared >= candidate.from) step = &candidate;
  }
  const bool whole = step->from == 0 && step->factor == 1 && size == std::floor(size);
  const std::string digits = whole ? fmt::format("{:.0f}", size) : three_digits(size / step->factor);
  const std::string sign = value < 0 ? "-" : "";
  return sign + digits + (step->unit.empty() ? "" : " ") + std::string(step->unit);
}

}  // namespace

std::string format_bytes(double bytes) {
  static constexpr std::array kSteps = {Step{0, 1, "B"},       Step{1e3, 1e3, "kB"},   Step{1e6, 1e6, "MB"},
                                        Step{1e9, 1e9, "GB"},  Step{1e12, 1e12, "TB"}, Step{1e15, 1e15, "PB"},
                                        Step{1e18, 1e18, "EB"}};
  return format_scaled(bytes, kSteps);
}

std::string format_bytes_per_s(double bytes_per_s) { return format_bytes(bytes_per_s) + "/s"; }

std::string format_seconds(double seconds) {
  static constexpr std::array kSteps = {
      Step{0, 1e-9, "ns"},       Step{1e-6, 1e-6, "µs"},      Step{1e-3, 1e-3, "ms"},    Step{1, 1, "s"},
      Step{120, kMinute, "min"}, Step{2 * kHour, kHour, "h"}, Step{2 * kDay, kDay, "d"}, Step{2 * kYear, kYear, "y"}};
  constexpr double kRounding = 1e-12;  // less than that is what sums of times leave behind
  return std::abs(seconds) < kRounding ? "0 s" : format_scaled(seconds, kSteps);
}

std::string format_flop_per_s(double flop_per_s) {
  static constexpr std::array kSteps = {
      Step{0, 1, "FLOP/s"},        Step{1e3, 1e3, "kFLOP/s"},   Step{1e6, 1e6, "MFLOP/s"},  Step{1e9, 1e9, "GFLOP/s"},
      Step{1e12, 1e12, "TFLOP/s"}, Step{1e15, 1e15, "PFLOP/s"}, Step{1e18, 1e18, "EFLOP/s"}};
  return format_scaled(flop_per_s, kSteps);
}

std::string format_count(double count) {
  static constexpr std::array kSteps = {Step{0, 1, ""}, Step{1e3, 1e3, "k"}, Step{1e6, 1e6, "M"}, Step{1e9, 1e9, "B"},
                                        Step{1e12, 1e12, "T"}};
  return format_scaled(count, kSteps);
}

}  // namespace twinpod
