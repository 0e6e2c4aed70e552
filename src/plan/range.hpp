// How far a prediction can be trusted: the spread of measured over predicted step times of the published runs like it.
//
//     Result<Accuracy> accuracy = read_accuracy("catalog/accuracy.yaml");
//     const Range range = range_of(*accuracy, job);
//     step_s * range.low .. step_s * range.high      eight of ten published runs like this one lie between
//
// "Like it" means the same device family, stack and kind of layout. With fewer than kEnoughRuns of them the stack's
// runs on all devices decide; when there are too few of those as well, the device's with other stacks, then all runs:
// those were predicted as if their stack had never been seen, and spread the wider for it. The Range then says that the
// job lies outside what was validated. The file is written by `twinpod validate --write-accuracy`, from predictions
// that never saw the row or its siblings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

// What decides the time of a layout's communication.
enum class LayoutKind { single_device, data_only, tensor, pipeline, sharded, experts };
std::string_view name_of(LayoutKind kind);
LayoutKind layout_kind(const spec::Job& job);

inline constexpr int kEnoughRuns = 5;

struct AccuracyRow {
  std::string device;   // family; empty: any
  std::string stack;    // empty: any
  std::string kind;     // name of a LayoutKind; empty: any
  int count = 0;        // published runs
  int max_devices = 0;  // of the largest of them
  double p10 = 1;       // of measured / predicted
  double p90 = 1;
};

using Accuracy = std::vector<AccuracyRow>;

Result<Accuracy> read_accuracy(const std::string& path);
Result<Accuracy> read_accuracy_text(std::string_view text, const std::string& file);
std::string write_accuracy(const Accuracy& accuracy);

struct Range {
  double low = 1;  // factors of the predicted step time
  double high = 1;
  int count = 0;        // runs that it rests on; 0: it rests on none
  std::string basis;    // "12 runs of megatron-2021 on a100, pipeline"
  std::string outside;  // why the job lies outside what was validated; empty: it does not
  bool validated() const { return outside.empty(); }
};

Range range_of(const Accuracy& accuracy, const spec::Job& job);

}  // namespace twinpod::plan
