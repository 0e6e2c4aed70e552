#include "validate/calibrate_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "plan/memory.hpp"

namespace twinpod::validate {
namespace {

constexpr double kMaxReserve = 0.5;        // an allocator that wastes more has another reason
constexpr double kMaxRuntimeBytes = 16e9;  // so has a process

// Ranks are counted with pipeline stages outermost, by Megatron and by torchtitan: a stage is a run of ranks. Without a
// rank the reading is taken for the fullest stage's.
plan::MemoryUse use_of(const spec::Job& job, int rank) {
  if (rank < 0 || rank >= job.cluster.devices) return plan::peak_memory(job);
  return plan::stage_memory(job, static_cast<int>(std::int64_t{rank} * job.layout.pp / job.cluster.devices));
}

double counted(const plan::MemoryUse& use, Counter counter) {
  if (counter == Counter::allocated) return use.allocated();
  return counter == Counter::reserved ? use.reserved() : use.total();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// One value for each reading of a counter: what the fact would have to be for the prediction to be right.
template <typename Wanted>
std::vector<double> wanted_values(const std::vector<MemoryLog>& logs, Counter counter, const Wanted& wanted) {
  std::vector<double> values;
  for (const MemoryLog& one : logs) {
    for (const LoggedMemory& reading : one.log->memory) {
      if (reading.counter == counter) values.push_back(wanted(use_of(*one.job, reading.rank), reading.bytes));
    }
  }
  return values;
}

void fit_reserve(const std::vector<MemoryLog>& logs, MemoryCalibration& result) {
  const std::vector<double> values =
      wanted_values(logs, Counter::reserved, [&](const plan::MemoryUse& use, double bytes) {
        const double transient = std::max(1.0, use.activations + use.communication);
        return result.before.reserve + (bytes - use.reserved()) / transient;
      });
  if (values.empty()) return;
  result.fits_reserve = true;
  result.after.reserve = std::clamp(median(values), 0.0, kMaxReserve);
}

void fit_runtime(const std::vector<MemoryLog>& logs, MemoryCalibration& result) {
  const std::vector<double> values = wanted_values(
      logs, Counter::used, [](const plan::MemoryUse& use, double bytes) { return bytes - use.reserved(); });
  if (values.empty()) return;
  result.fits_runtime = true;
  result.after.runtime_bytes = std::clamp(median(values), 0.0, kMaxRuntimeBytes);
}

MemoryReading reading_of(const MemoryLog& one, const LoggedMemory& logged, const spec::Job& after) {
  const plan::MemoryUse use = use_of(*one.job, logged.rank);
  return {std::filesystem::path(one.log->file).filename().string(),
          logged.counter,
          use.stage,
          logged.bytes,
          counted(use, logged.counter),
          counted(use_of(after, logged.rank), logged.counter)};
}

std::vector<spec::Job> jobs_with(const std::vector<MemoryLog>& logs, const spec::MemoryHabits& habits) {
  std::vector<spec::Job> jobs;
  for (const MemoryLog& one : logs) {
    jobs.push_back(*one.job);
    jobs.back().stack.memory = habits;
  }
  return jobs;
}

}  // namespace

std::string_view name_of(Counter counter) {
  if (counter == Counter::allocated) return "allocated";
  return counter == Counter::reserved ? "reserved" : "used";
}

MemoryCalibration calibrate_memory(const std::vector<MemoryLog>& logs) {
  MemoryCalibration result;
  if (logs.empty()) return result;
  result.before = result.after = logs.front().job->stack.memory;
  fit_reserve(logs, result);
  // The runtime is what is left when the allocator's share, as it now stands, is taken off.
  const std::vector<spec::Job> reserved = jobs_with(logs, result.after);
  std::vector<MemoryLog> moved = logs;
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i].job = &reserved[i];
  fit_runtime(moved, result);
  const std::vector<spec::Job> after = jobs_with(logs, result.after);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    for (const LoggedMemory& logged : logs[i].log->memory) {
      result.readings.push_back(reading_of(logs[i], logged, after[i]));
    }
  }
  return result;
}

}  // namespace twinpod::validate
