// Why this layout and not another: what each small change of it would bring, and what holds it back.
//
//     job.layout = found.ranked.front().layout;
//     for (const Neighbour& n : neighbours(job)) ...         "tp 8 instead of 4": slower, tensor +1.2 s, bubble -0.4 s
//     bottleneck(job, step_time(job)).advice                 "a scale-up network twice as fast would save ..."
//
// A neighbour differs in one knob, one step down or up, or in tp and pp at once on as many ranks. What is not valid is
// left out; where only the chunks of a stage stand in the way, they change with it, and the neighbour says so.
//
// REQUIRES everywhere: a job that passed layout::check.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/estimate.hpp"
#include "plan/fits.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

enum class Verdict { does_not_fit, slower, as_fast, faster };
std::string_view name_of(Verdict verdict);  // "does_not_fit"

// Seconds of a step that a part takes more (or less: negative) than in another layout.
struct PartChange {
  Part part = Part::products;
  double seconds = 0;
};

// The part that grew most, and the one that shrank most; 0 s when none did.
struct PartChanges {
  PartChange grew;
  PartChange shrank;
};
PartChanges part_changes(const Parts& from, const Parts& to);

struct Neighbour {
  std::string change;   // "tp 8 instead of 4"
  spec::Layout layout;  // canonical
  Verdict verdict = Verdict::slower;
  std::string beyond;  // what of it the stack cannot run: "schedule zb-1p"; empty: it can
  double memory_bytes = 0;
  // Of one that fits:
  double step_time_s = 0;
  double difference_s = 0;  // to the best
  PartChanges parts;
  // Of one that does not:
  std::optional<Shortage> shortage;
  double remedy_step_time_s = 0;  // with the remedy
  std::string remedy;  // what else would have to change: "recompute full"; empty: no one or two changes are enough
};

// `margin` is the share of the device's memory that must stay free.
std::vector<Neighbour> neighbours(const spec::Job& best, double margin = 0);

// Parts of a step that have one cause; all of them add up to the step. "compute" is products, attention, elements and
// head; the others have their part's name.
struct Cost {
  std::string_view name;
  std::string_view meaning;
  double seconds = 0;
};

struct Bottleneck {
  std::vector<Cost> costs;  // the largest first, none of 0 s
  double compute_share = 0;
  Cost largest;  // of those that are not compute; no name: there is none
  double share = 0;
  std::string advice;  // what more of the resource behind it would save, in numbers; empty: nothing to tell
};

Bottleneck bottleneck(const spec::Job& job, const StepTime& step);

}  // namespace twinpod::plan
