// How long work takes on one device. Seconds out of shapes, bytes and the device's efficiencies.
//
//     const DeviceTime time(job.cluster.device, job.stack.physics);
//     time.product({2048, 12288, 12288}, spec::Precision::bf16);
#pragma once

#include "spec/cluster.hpp"
#include "spec/physics.hpp"

namespace twinpod::cluster {

class DeviceTime {
 public:
  DeviceTime(const spec::Device& device, const spec::Physics& physics);

  // One product (m x k)(k x n), `groups` of them side by side:
  //   t = launch + F / (e P) * (1 + k0/k) * (1 + c/(m n) + q (W - 1)) + bytes / (memory bandwidth)
  // The inner loop hides its loads, but not the first ones nor the write of the result: the two add up, which shows in
  // products with a short k.
  // W is what the best tile shape loses to partly filled tiles and to the last wave over the compute units.
  double product(double m, double n, double k, double groups, spec::Precision precision) const;

  // A memory-bound kernel sequence that moves `bytes`.
  double memory_bound(double bytes) const { return bytes / memory_bytes_per_s_; }

  double peak(spec::Precision precision) const;

 private:
  double wave_loss(double m, double n, double groups) const;

  const spec::Device& device_;
  const spec::Physics& physics_;
  double memory_bytes_per_s_ = 0;
};

// The peak that a precision's products run at: FP8 falls back to 16 bits where the device has none, and so on.
double usable_peak(const spec::Device& device, spec::Precision precision);

}  // namespace twinpod::cluster
