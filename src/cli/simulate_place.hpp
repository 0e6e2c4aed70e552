// Where the ranks of `twinpod simulate` sit: the order of the axes from device to device (--order) and the shape of the
// slice of a torus (--slice), by rule, by the user, or searched.
//
//     twinpod simulate llama3-70b --on tpu-v4-4096 --devices 128 --tp 8 --slice 4x4x8 --order tp-cp-pp-dp
//     twinpod simulate llama3-70b --on tpu-v4-4096 --devices 128 --tp 8 --slice search --order search
#pragma once

#include <string>
#include <vector>

#include "cli/args.hpp"
#include "core/error.hpp"
#include "program/program.hpp"
#include "report/step_report.hpp"
#include "spec/job.hpp"

namespace twinpod::cli {

struct PlacedJob {
  spec::Job job;  // on the slice
  program::Program program;
  std::string words;                      // where it sits; empty: as usual
  std::vector<report::SliceStep> slices;  // that were tried, the fastest first
};

// What is searched is simulated on the machine without faults.
// Refused: an order, a slice or a job that is wrong (input); a layout that no order allows (infeasible).
Result<PlacedJob> placed_job(const Arguments& arguments);

}  // namespace twinpod::cli
