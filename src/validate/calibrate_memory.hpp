// The part of a calibration that is about memory: predicted beside logged peaks, and the two facts of a stack that the
// logs can settle.
//
// Tensors follow from the job. What an allocator leaves in holes (`reserve`) shows in logs that count reserved memory,
// what context, libraries and channels take (`runtime_bytes`) in logs that count all that the driver hands out. Each is
// the median over the logs that show it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/job.hpp"
#include "validate/memory_check.hpp"
#include "validate/training_log.hpp"

namespace twinpod::validate {

struct MemoryReading {
  std::string log;
  Counter counter = Counter::used;
  int stage = 0;
  double measured_bytes = 0;
  double before_bytes = 0;
  double after_bytes = 0;

  double error(double predicted_bytes) const { return predicted_bytes / measured_bytes - 1; }
};

struct MemoryCalibration {
  spec::MemoryHabits before;
  spec::MemoryHabits after;
  bool fits_reserve = false;
  bool fits_runtime = false;
  std::vector<MemoryReading> readings;  // none: no log tells
};

std::string_view name_of(Counter counter);

struct MemoryLog {
  const TrainingLog* log = nullptr;
  const spec::Job* job = nullptr;
};

// REQUIRES: all jobs have the same stack.
MemoryCalibration calibrate_memory(const std::vector<MemoryLog>& logs);

}  // namespace twinpod::validate
