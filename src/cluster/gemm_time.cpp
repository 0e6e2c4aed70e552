#include "cluster/gemm_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cluster/device_time.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"
#include "spec/node.hpp"

namespace twinpod::cluster {
namespace {

using spec::Context;
using spec::Node;
using spec::Precision;
using spec::Reader;

constexpr std::array<FreeNumber<GemmNumbers>, 4> kNumbers = {{
    {"wave_weight", &GemmNumbers::wave_weight, 0.8, 0.05, 1, "1: a last wave that is partly filled costs a whole one"},
    {"wave_s", &GemmNumbers::wave_s, 3e-7, 1e-8, 5e-6, "seconds between two waves"},
    {"split_s", &GemmNumbers::split_s, 1e-6, 1e-8, 1e-5, "seconds for each part that k is cut into, to add them up"},
    {"cache_factor", &GemmNumbers::cache_factor, 3, 0.5, 20, "rate of the inputs over that of the memory: from cache"},
}};

constexpr std::array<FreeNumber<GemmRate>, 4> kRates = {{
    {"launch_s", &GemmRate::launch_s, 4e-6, 5e-7, 2e-5, "seconds from one kernel to the next, with nothing to do"},
    {"efficiency", &GemmRate::efficiency, 0.85, 0.1, 1.2, "of the peak, with tiles of 256 x 128"},
    {"depth", &GemmRate::depth, 120, 1, 2000, "elements that are added to k: filling the pipeline, writing the result"},
    {"tile_edge", &GemmRate::tile_edge, 25, 1, 1000, "elements c: a tile works at 1 / (1 + c (1/m + 1/n)) of the rate"},
}};

struct Tile {
  double m, n;
};
// Shapes that the vendors' libraries have; those wider than long are the same turned round.
constexpr std::array<Tile, 11> kTiles = {{{256, 256},
                                          {256, 128},
                                          {128, 256},
                                          {128, 128},
                                          {256, 64},
                                          {64, 256},
                                          {128, 64},
                                          {64, 128},
                                          {64, 64},
                                          {64, 32},
                                          {32, 64}}};
constexpr std::array<double, 4> kSplits = {1, 2, 4, 8};
constexpr double kLeastDepth = 128;  // of a part of k

double edges(const Tile& tile) { return 1 / tile.m + 1 / tile.n; }

double element_bytes(Precision precision) {
  if (spec::is_wide(precision)) return 4;
  if (precision == Precision::fp4) return 0.5;
  return spec::is_narrow(precision) ? 1 : 2;
}

const GemmRate& rate_of(const GemmModel& model, Precision precision) {
  const auto found = model.rates.find(precision);
  if (found != model.rates.end()) return found->second;
  const auto wider = model.rates.lower_bound(precision);
  return wider != model.rates.end() ? wider->second : model.rates.rbegin()->second;
}

// What one way of cutting the product up takes, without the launch.
struct Cut {
  Tile tile;
  double splits;
};
double cut_s(const spec::Device& device, const GemmModel& model, const GemmRate& rate, const GemmShape& shape,
             const Cut& cut, double peak) {
  const double units = std::max(1, device.compute_units);
  const GemmNumbers& numbers = model.numbers;
  const Tile& tile = cut.tile;
  const double reference = 1 + rate.tile_edge * edges({256, 128});
  const double slowdown = (1 + rate.tile_edge * edges(tile)) / reference;
  const double unit_rate = rate.efficiency * peak / units / slowdown;
  const double full = std::ceil(shape.m / tile.m) * std::ceil(shape.n / tile.n) * shape.batch * cut.splits / units;
  const double waves = std::max(1.0, numbers.wave_weight * std::ceil(full) + (1 - numbers.wave_weight) * full);
  const double work_s = 2 * tile.m * tile.n * (shape.k / cut.splits + rate.depth) / unit_rate;
  double seconds = waves * (work_s + numbers.wave_s);
  if (cut.splits > 1) {
    const double partial_bytes = 4 * shape.batch * shape.m * shape.n * cut.splits;
    seconds += numbers.split_s * cut.splits + partial_bytes / (numbers.cache_factor * device.memory_bytes_per_s);
  }
  return seconds;
}

bool same_text(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

void read_model(const Node& node, Context& context, GemmModel& model) {
  Reader reader(node, context, model.device);
  reader.text("vendor", model.vendor);
  reader.texts("measured_as", model.measured_as);
  model.numbers = prior_numbers(gemm_numbers());
  read_numbers(reader, gemm_numbers(), model.numbers);
  for (const auto& [name, precision] : spec::kPrecisionNames) {
    const Node* rates = reader.mapping(name);
    if (rates == nullptr) continue;
    Reader numbers(*rates, context, model.device + "." + std::string(name));
    model.rates[precision] = prior_numbers(gemm_rates());
    read_numbers(numbers, gemm_rates(), model.rates[precision]);
    numbers.finish();
  }
  spec::Source source;
  spec::read_source(reader, source);
  reader.finish();
  if (model.rates.empty())
    context.refuse(node, model.device + " has no precision; expected at least one, such as bf16");
}

}  // namespace

std::span<const FreeNumber<GemmNumbers>> gemm_numbers() { return kNumbers; }
std::span<const FreeNumber<GemmRate>> gemm_rates() { return kRates; }

double gemm_s(const spec::Device& device, const GemmModel& model, const GemmShape& shape, Precision precision) {
  if (shape.batch <= 0 || shape.m <= 0 || shape.n <= 0 || shape.k <= 0) return 0;
  const GemmRate& rate = rate_of(model, precision);
  const double peak = usable_peak(device, precision);
  double best = 1e30;
  for (const Tile& tile : kTiles) {
    for (const double splits : kSplits) {
      if (splits > 1 && shape.k / splits < kLeastDepth) continue;
      best = std::min(best, cut_s(device, model, rate, shape, {tile, splits}, peak));
    }
  }
  const double inputs = element_bytes(precision) * (shape.m * shape.k + shape.k * shape.n);
  const double bytes = shape.batch * (inputs + 2 * shape.m * shape.n);
  return rate.launch_s + best + bytes / (model.numbers.cache_factor * device.memory_bytes_per_s);
}

Result<GemmCatalog> read_gemm(const std::string& path) {
  const Result<Node> root = spec::parse_yaml_file(path);
  if (!root) return tl::unexpected(root.error());
  Context context(path);
  GemmCatalog catalog;
  Reader reader(*root, context, "gemm");
  reader.require("devices");
  if (const Node* devices = reader.mapping("devices")) {
    for (std::size_t i = 0; i < devices->keys.size(); ++i) {
      GemmModel& model = catalog.models.emplace_back();
      model.device = devices->keys[i];
      read_model(devices->items[i], context, model);
    }
  }
  reader.finish();
  if (!context.failed() && catalog.models.empty()) context.refuse(*root, "devices has no entry; expected at least one");
  if (context.failed()) return tl::unexpected(context.error());
  return catalog;
}

const GemmModel* find_gemm_model(const GemmCatalog& catalog, std::string_view name) {
  for (const GemmModel& model : catalog.models) {
    if (same_text(model.device, name)) return &model;
    for (const std::string& alias : model.measured_as) {
      if (same_text(alias, name)) return &model;
    }
  }
  return nullptr;
}

std::vector<std::string> gemm_names(const GemmCatalog& catalog) {
  std::vector<std::string> names;
  for (const GemmModel& model : catalog.models) {
    names.push_back(model.device);
    names.insert(names.end(), model.measured_as.begin(), model.measured_as.end());
  }
  return names;
}

GemmModel gemm_model(const GemmCatalog& catalog, const spec::Device& device) {
  if (const GemmModel* own = find_gemm_model(catalog, device.entry)) return *own;
  for (const GemmModel& model : catalog.models) {
    if (same_text(model.vendor, device.vendor)) return model;
  }
  return catalog.models.front();
}

}  // namespace twinpod::cluster
