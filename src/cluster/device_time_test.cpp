#include "cluster/device_time.hpp"

#include <gtest/gtest.h>

#include <array>

namespace twinpod::cluster {
namespace {

using enum spec::Precision;

spec::Device a100() {
  spec::Device device;
  device.peak_flop_per_s = {19.5e12, 156e12, 312e12, 312e12, 0, 0};
  device.memory_bytes_per_s = 2039e9;
  device.compute_units = 108;
  return device;
}

spec::Device h100() {
  spec::Device device = a100();
  device.peak_flop_per_s = {67e12, 494e12, 989e12, 989e12, 1979e12, 0};
  device.memory_bytes_per_s = 3352e9;
  device.compute_units = 132;
  return device;
}

// Systolic arrays: no waves over compute units.
spec::Device without_waves() {
  spec::Device device = a100();
  device.compute_units = 0;
  return device;
}

constexpr std::array<double, 6> kSizes = {1024, 2048, 4096, 8192, 16384, 32768};

// In the letters of device_time.hpp: e 0.8, k0 200, c 1e5, q 1.5. F/(e P) is 825.955 us; the depth costs 1 + 200/4096,
// the area adds 1e5/(2048 * 12288) and the waves 1.5 (W - 1). 128 x 128 tiles are best: 16 * 96 of them are 14.2 waves
// of 108, so 15, and W is 1.05 * 15 * 108 * 128^2 / (2048 * 12288) = 1.107. The matrices are 167.8 MB at 0.8 * 2039
// GB/s: 102.852 us.
TEST(DeviceTime, AProductOnAnA100TakesWhatAHandComputes) {
  spec::Physics physics = spec::default_physics();
  physics.gemm_efficiency_bf16 = 0.8;
  physics.gemm_depth = 200;
  physics.gemm_area = 1e5;
  physics.gemm_launch_s = 4e-6;
  physics.wave_weight = 1.5;
  physics.memory_efficiency = 0.8;
  const spec::Device device = a100();
  EXPECT_NEAR(DeviceTime(device, physics).product(2048, 12288, 4096, 1, bf16), 1116.166e-6, 1e-9);
}

TEST(DeviceTime, ASmallProductTakesMicroseconds) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  const DeviceTime time(device, physics);
  EXPECT_LT(time.product(8, 8, 8, 1, bf16), 20e-6);
  EXPECT_LT(time.product(64, 64, 1024, 1, bf16), 30e-6);
}

TEST(DeviceTime, AProductTakesLongerOnALessEfficientDevice) {
  spec::Physics slow = spec::default_physics();
  slow.gemm_efficiency_bf16 /= 2;
  const spec::Physics fast = spec::default_physics();
  const spec::Device device = a100();
  const double before = DeviceTime(device, fast).product(4096, 4096, 4096, 1, bf16);
  const double after = DeviceTime(device, slow).product(4096, 4096, 4096, 1, bf16);
  EXPECT_GT(after, 1.7 * before);
  EXPECT_LT(after, 2 * before);
}

// Below one wave of tiles a larger product may come out a little faster: idle units cost more than their share.
TEST(DeviceTime, TwiceTheWorkTakesLongerAlongEachSide) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  const DeviceTime time(device, physics);
  for (const double size : kSizes) {
    for (const double other : kSizes) {
      EXPECT_LT(time.product(size, other, 1024, 1, bf16), time.product(2 * size, other, 1024, 1, bf16)) << size;
      EXPECT_LT(time.product(other, size, 1024, 1, bf16), time.product(other, 2 * size, 1024, 1, bf16)) << size;
      EXPECT_LT(time.product(other, 1024, size, 1, bf16), time.product(other, 1024, 2 * size, 1, bf16)) << size;
      EXPECT_LT(time.product(other, 1024, size, 4, bf16), time.product(other, 1024, size, 8, bf16)) << size;
    }
  }
}

// Also in steps smaller than a tile, where there are no tiles.
TEST(DeviceTime, EveryRowCountsWhereThereAreNoWaves) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = without_waves();
  const DeviceTime time(device, physics);
  for (double rows = 1; rows < 2000; rows += 1) {
    EXPECT_LT(time.product(rows, 768, 512, 1, bf16), time.product(rows + 1, 768, 512, 1, bf16)) << rows;
    EXPECT_LT(time.product(768, 512, rows, 1, bf16), time.product(768, 512, rows + 1, 1, bf16)) << rows;
  }
}

TEST(DeviceTime, ALargeSquareProductReachesTheEfficiency) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  const double size = 131072;
  const double rate = 2 * size * size * size / DeviceTime(device, physics).product(size, size, size, 1, bf16);
  EXPECT_NEAR(rate, physics.gemm_efficiency_bf16 * 312e12, 0.01 * rate);
  EXPECT_LT(rate, physics.gemm_efficiency_bf16 * 312e12);
}

TEST(DeviceTime, AProductIsNeverFasterThanItsLaunch) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  EXPECT_GT(DeviceTime(device, physics).product(8, 8, 8, 1, bf16), physics.gemm_launch_s);
}

TEST(DeviceTime, NoWorkTakesNoTime) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  EXPECT_EQ(DeviceTime(device, physics).product(0, 128, 128, 1, bf16), 0);
}

// 3,072 x 1,152 is one full wave: 12 x 9 tiles of 256 x 128 on 108 units. One row more starts another one.
TEST(DeviceTime, OneRowMoreThanAFullWaveCosts) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  const DeviceTime time(device, physics);
  EXPECT_GT(time.product(3073, 1152, 8192, 1, bf16), 1.3 * time.product(3072, 1152, 8192, 1, bf16));
  const spec::Device smooth = without_waves();
  const DeviceTime without(smooth, physics);
  EXPECT_LT(without.product(3073, 1152, 8192, 1, bf16), 1.001 * without.product(3072, 1152, 8192, 1, bf16));
}

TEST(DeviceTime, WavesCostOnlyWhatTheirWeightSays) {
  spec::Physics physics = spec::default_physics();
  physics.wave_weight = 0;
  const spec::Device waves = a100();
  const spec::Device smooth = without_waves();
  EXPECT_DOUBLE_EQ(DeviceTime(waves, physics).product(3073, 1152, 8192, 1, bf16),
                   DeviceTime(smooth, physics).product(3073, 1152, 8192, 1, bf16));
}

// Sixteen products of one tile column each fill what one of them leaves idle.
TEST(DeviceTime, GroupsShareTheWaves) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  const DeviceTime time(device, physics);
  EXPECT_LT(time.product(256, 1024, 4096, 16, bf16), 8 * time.product(256, 1024, 4096, 1, bf16));
}

TEST(DeviceTime, AShortInnerLoopIsInefficient) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  const DeviceTime time(device, physics);
  EXPECT_GT(4 * time.product(8192, 8192, 128, 1, bf16), 1.5 * time.product(8192, 8192, 512, 1, bf16));
}

TEST(DeviceTime, Fp8IsFasterWhereTheDeviceHasIt) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = h100();
  const DeviceTime time(device, physics);
  EXPECT_LT(time.product(8192, 8192, 8192, 1, fp8), 0.7 * time.product(8192, 8192, 8192, 1, bf16));
  EXPECT_DOUBLE_EQ(time.peak(fp8), 1979e12);
}

TEST(DeviceTime, Fp8FallsBackTo16BitsWhereTheDeviceHasNone) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = a100();
  const DeviceTime time(device, physics);
  EXPECT_DOUBLE_EQ(time.product(2048, 4096, 8192, 1, fp8), time.product(2048, 4096, 8192, 1, bf16));
  EXPECT_DOUBLE_EQ(time.product(2048, 4096, 8192, 1, fp4), time.product(2048, 4096, 8192, 1, bf16));
}

TEST(DeviceTime, Fp4FallsBackToFp8First) {
  const spec::Physics physics = spec::default_physics();
  const spec::Device device = h100();
  const DeviceTime time(device, physics);
  EXPECT_DOUBLE_EQ(time.product(2048, 4096, 8192, 1, fp4), time.product(2048, 4096, 8192, 1, fp8));
}

TEST(UsablePeak, TheTwoHalfPrecisionsStandInForEachOther) {
  spec::Device v100;
  v100.peak_flop_per_s = {15.7e12, 0, 125e12, 0, 0, 0};
  EXPECT_DOUBLE_EQ(usable_peak(v100, bf16), 125e12);
  spec::Device tpu;
  tpu.peak_flop_per_s = {0, 0, 0, 275e12, 0, 0};
  EXPECT_DOUBLE_EQ(usable_peak(tpu, fp16), 275e12);
}

TEST(UsablePeak, Tf32FallsBackToFp32) {
  spec::Device v100;
  v100.peak_flop_per_s = {15.7e12, 0, 125e12, 0, 0, 0};
  EXPECT_DOUBLE_EQ(usable_peak(v100, tf32), 15.7e12);
  EXPECT_DOUBLE_EQ(usable_peak(a100(), tf32), 156e12);
}

TEST(DeviceTime, MemoryBoundKernelsMoveTheirBytesAtTheReachableBandwidth) {
  spec::Physics physics = spec::default_physics();
  physics.memory_efficiency = 0.5;
  const spec::Device device = a100();
  EXPECT_DOUBLE_EQ(DeviceTime(device, physics).memory_bound(2039e9), 2);
}

}  // namespace
}  // namespace twinpod::cluster
