// Names of passes in pictures and lists: F3, B3-1 (micro-batch 3 of chunk 1).
#pragma once

#include <fmt/format.h>

#include <string>

#include "report/program_text.hpp"
#include "spec/names.hpp"

namespace twinpod::report {

inline char action_letter(program::Phase phase) {
  if (phase == program::Phase::forward) return 'F';
  return phase == program::Phase::backward_weight ? 'W' : 'B';
}

inline std::string action_text(program::Phase phase, int micro_batch, int chunk) {
  const char letter = action_letter(phase);
  return chunk > 0 ? fmt::format("{}{}-{}", letter, micro_batch, chunk) : fmt::format("{}{}", letter, micro_batch);
}

inline std::string schedule_text(const ProgramView& view) {
  if (!view.job.schedule_file.empty()) return view.job.schedule_file;
  return std::string(spec::name_of(view.job.layout.schedule));
}

}  // namespace twinpod::report
