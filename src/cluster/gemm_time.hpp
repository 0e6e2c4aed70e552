// How long one matrix product takes on an otherwise idle device, as the vendor's library runs it.
//
//     t = launch + min over tiles and splits of  W (tile work / rate + wave) + split + bytes / (cache rate)
//
// The library chooses a tile shape and into how many parts it cuts k. W is the number of waves in which the tiles visit
// the compute units; a tile works at the device's rate divided by 1 + c (1/tile_m + 1/tile_n), because small tiles load
// more for each multiplication, and pays for `depth` more k: filling the pipeline and writing the result.
//
//     const Result<GemmCatalog> catalog = read_gemm("catalog/gemm.yaml");
//     gemm_s(device, gemm_model(*catalog, device), {1, 4096, 4096, 4096}, spec::Precision::bf16);
//
// DeviceTime::product (device_time.hpp) answers a different question: a product in the middle of a training step, with
// cold inputs, a hot device and neighbours. docs/measured.md compares the two.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/free_number.hpp"
#include "core/error.hpp"
#include "spec/cluster.hpp"

namespace twinpod::cluster {

// `batch` products (m x k)(k x n) side by side.
struct GemmShape {
  double batch = 1, m = 0, n = 0, k = 0;
};

// Fitted, one set for each device.
struct GemmNumbers {
  double wave_weight = 1, wave_s = 0, split_s = 0, cache_factor = 1;
};
std::span<const FreeNumber<GemmNumbers>> gemm_numbers();

// Fitted, one set for each precision of a device.
struct GemmRate {
  double launch_s = 0, efficiency = 1, depth = 0, tile_edge = 0;
};
std::span<const FreeNumber<GemmRate>> gemm_rates();

struct GemmModel {
  std::string device;                    // entry of the catalog
  std::string vendor;                    // whose library runs the product
  std::vector<std::string> measured_as;  // what tables of measurements call it
  GemmNumbers numbers;
  std::map<spec::Precision, GemmRate> rates;
};

// Seconds. A precision that the device lacks runs as the next wider one; one that was not fitted, as the nearest.
double gemm_s(const spec::Device& device, const GemmModel& model, const GemmShape& shape, spec::Precision precision);

struct GemmCatalog {
  std::vector<GemmModel> models;
};
Result<GemmCatalog> read_gemm(const std::string& path);

// By the device's entry or by what a table of measurements calls it; nullptr: not known.
const GemmModel* find_gemm_model(const GemmCatalog& catalog, std::string_view name);
std::vector<std::string> gemm_names(const GemmCatalog& catalog);

// Any device: its own numbers, else those of the measured device of the same vendor, else of the first.
GemmModel gemm_model(const GemmCatalog& catalog, const spec::Device& device);

}  // namespace twinpod::cluster
