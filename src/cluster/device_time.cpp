#include "cluster/device_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace twinpod::cluster {
namespace {

double peak_of(const spec::Device& device, spec::Precision precision) {
  return device.peak_flop_per_s[static_cast<std::size_t>(precision)];
}

// What a device without it computes in instead: the next wider precision that it has.
spec::Precision usable_precision(const spec::Device& device, spec::Precision precision) {
  using enum spec::Precision;
  if (precision == fp4 && peak_of(device, fp4) <= 0) precision = fp8;
  if (precision == fp8 && peak_of(device, fp8) <= 0) precision = bf16;
  if (precision == bf16 && peak_of(device, bf16) <= 0) precision = fp16;
  if (precision == fp16 && peak_of(device, fp16) <= 0) precision = bf16;
  if (precision == tf32 && peak_of(device, tf32) <= 0) precision = fp32;
  if (peak_of(device, precision) <= 0) precision = fp32;
  return precision;
}

struct Tile {
  double m, n, penalty;
};
// Tile shapes of the vendors' libraries; small tiles reuse less of what they load.
constexpr std::array<Tile, 5> kTiles = {
    {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 1.05}, {64, 128, 1.2}, {128, 64, 1.2}}};

double efficiency(const spec::Physics& physics, spec::Precision precision) {
  switch (precision) {
    case spec::Precision::fp8:
      return physics.gemm_efficiency_fp8;
    case spec::Precision::fp4:
      return physics.gemm_efficiency_fp4;
    default:
      return physics.gemm_efficiency_bf16;
  }
}

double element_bytes(spec::Precision precision) {
  switch (precision) {
    case spec::Precision::fp32:
    case spec::Precision::tf32:
      return 4;
    case spec::Precision::fp8:
      return 1;
    case spec::Precision::fp4:
      return 0.5;
    default:
      return 2;
  }
}

}  // namespace

double usable_peak(const spec::Device& device, spec::Precision precision) {
  return peak_of(device, usable_precision(device, precision));
}

DeviceTime::DeviceTime(const spec::Device& device, const spec::Physics& physics)
    : device_(device), physics_(physics), memory_bytes_per_s_(device.memory_bytes_per_s * physics.memory_efficiency) {}

double DeviceTime::peak(spec::Precision precision) const { return usable_peak(device_, precision); }

double DeviceTime::wave_loss(double m, double n, double groups) const {
  const double units = device_.compute_units;
  if (units <= 0) return 1.0;
  double best = 1e30;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(m / tile.m) * std::ceil(n / tile.n) * groups;
    const double waves = std::ceil(tiles / units);
    best = std::min(best, tile.penalty * waves * units * tile.m * tile.n / (m * n * groups));
  }
  return best;
}

double DeviceTime::product(double m, double n, double k, double groups, spec::Precision asked) const {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  const spec::Precision precision = usable_precision(device_, asked);
  const bool narrow = spec::is_narrow(precision);
  const double scale = narrow ? 2 : 1;  // twice the rate needs twice the depth and area to fill the same pipeline
  const double flop = 2 * m * n * k * groups;
  double compute = flop / (efficiency(physics_, precision) * peak_of(device_, precision));
  compute *= 1 + scale * physics_.gemm_depth / k;
  compute *= 1 + scale * physics_.gemm_area / (m * n * groups) + physics_.wave_weight * (wave_loss(m, n, groups) - 1);
  const double bytes = groups * (element_bytes(precision) * (m * k + k * n) + 2 * m * n);
  return physics_.gemm_launch_s + compute + memory_bound(bytes);
}

}  // namespace twinpod::cluster
