#include "cluster/gemm_time.hpp"

#include <gtest/gtest.h>

#include "cluster/device_time.hpp"
#include "spec/catalog.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::cluster {
namespace {

using spec::Precision;

const spec::Catalog& entries() {
  static const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  return catalog;
}

const GemmCatalog& shipped() {
  static const GemmCatalog catalog = read_gemm(std::string(TWINPOD_CATALOG_DIR) + "/gemm.yaml").value();
  return catalog;
}

double seconds(const std::string& name, const GemmShape& shape, Precision precision) {
  const spec::Device device = entries().device(name).value();
  return gemm_s(device, gemm_model(shipped(), device), shape, precision);
}

TEST(GemmTime, ALargeProductRunsBelowThePeak) {
  const spec::Device device = entries().device("h100-sxm").value();
  const double rate = 2 * 8192.0 * 8192 * 8192 / seconds("h100-sxm", {1, 8192, 8192, 8192}, Precision::bf16);
  EXPECT_LT(rate, usable_peak(device, Precision::bf16));
  EXPECT_GT(rate, 0.7 * usable_peak(device, Precision::bf16));
}

TEST(GemmTime, ATinyProductTakesTheLaunch) {
  const double tiny = seconds("b200", {1, 16, 16, 16}, Precision::bf16);
  EXPECT_GT(tiny, 2e-6);
  EXPECT_LT(tiny, 8e-6);
}

TEST(GemmTime, ALastWaveThatIsPartlyFilledCosts) {
  // 132 units: 12 x 11 tiles of 256 x 128 fill one wave, a row of tiles more begins the next.
  const double full = seconds("h100-sxm", {1, 3072, 1408, 8192}, Precision::bf16);
  const double over = seconds("h100-sxm", {1, 3328, 1408, 8192}, Precision::bf16);
  EXPECT_GT(over / full, 1.15 * 3328 / 3072);
}

TEST(GemmTime, ADeepProductOfFewTilesIsCutAlongK) {
  GemmModel dear = gemm_model(shipped(), entries().device("h100-sxm").value());
  dear.numbers.split_s = 1;  // forbids it
  const spec::Device device = entries().device("h100-sxm").value();
  const GemmShape shape{1, 256, 256, 32768};
  EXPECT_LT(seconds("h100-sxm", shape, Precision::bf16), 0.7 * gemm_s(device, dear, shape, Precision::bf16));
}

TEST(GemmTime, ABatchOfFourTakesLessThanFourProducts) {
  EXPECT_LT(seconds("b200", {4, 512, 512, 512}, Precision::bf16),
            4 * seconds("b200", {1, 512, 512, 512}, Precision::bf16));
}

TEST(GemmTime, NothingTakesNoTime) { EXPECT_EQ(seconds("b200", {1, 0, 512, 512}, Precision::bf16), 0); }

TEST(GemmTime, ADeviceThatWasNotMeasuredTakesTheNumbersOfItsVendor) {
  EXPECT_EQ(gemm_model(shipped(), entries().device("mi300x").value()).device, "mi350x");
}

TEST(GemmTime, APrecisionThatWasNotFittedTakesTheNearest) {
  EXPECT_GT(seconds("h100-sxm", {1, 4096, 4096, 4096}, Precision::bf16),
            seconds("h100-sxm", {1, 4096, 4096, 4096}, Precision::fp8));
}

TEST(ReadGemm, ADeviceWithoutPrecisionsIsRefused) {
  const spec::TestCatalog files;
  files.write("gemm.yaml", "devices:\n  b200:\n    vendor: NVIDIA\n");
  const Result<GemmCatalog> catalog = read_gemm(files.catalog().folder() + "/gemm.yaml");
  ASSERT_FALSE(catalog);
  EXPECT_EQ(catalog.error().line, 3);
}

TEST(ReadGemm, ANumberOutOfBoundsIsRefusedWithItsPlace) {
  const spec::TestCatalog files;
  files.write("gemm.yaml", "devices:\n  b200:\n    wave_weight: 3\n    bf16: {efficiency: 0.8}\n");
  const Result<GemmCatalog> catalog = read_gemm(files.catalog().folder() + "/gemm.yaml");
  ASSERT_FALSE(catalog);
  EXPECT_EQ(catalog.error().line, 3);
}

}  // namespace
}  // namespace twinpod::cluster
