// libFuzzer: any bytes are a log with steps that take a time, or are refused with a file and a line.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "validate/training_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinpod;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<validate::TrainingLog> log = validate::parse_training_log(text, "run.log");
  if (!log) {
    const bool right = log.error().file == "run.log" && log.error().line >= 1 && !log.error().message.empty();
    if (!right) std::abort();
    return 0;
  }
  spec::Job job;
  job.training.global_batch = 8;
  job.training.sequence = 1024;
  job.cluster.devices = 8;
  const Result<validate::MeasuredStep> step = validate::measured_step(*log, job);
  const bool right =
      step ? step->seconds > 0 && std::isfinite(step->seconds) && step->used >= 1 : !step.error().message.empty();
  if (!right) std::abort();
  for (const validate::LoggedMemory& memory : log->memory) {
    if (!(memory.bytes > 0) || !std::isfinite(memory.bytes)) std::abort();
  }
  return 0;
}
