// Questions people ask of a cluster. Each is answered by the search: the best layout is looked for anew in every world
// that a question compares, so that no answer rests on a layout that nobody would use there.
//
//     const Terms terms{.wishes = wishes};
//     what_if(job, default_changes(), catalog, terms);                what a faster network or more memory buys
//     scale_curve(job, {64, 128, 256, 512}, {.threshold = 0.8}, terms);   throughput over devices
//     within_deadline(job, 60 * kDay, {1024, 2048, 4096}, terms);     fewest and cheapest devices
//     largest_sequence(job, terms);                                    also largest_batch, largest_model
//     side_by_side({on_a100, on_h100}, terms);                         several clusters for one model
//     why_nothing_fits(job, terms);                                    and with what it would
//
// What a world leaves as it is: the batch in sequences, unless a question says otherwise. Nothing here knows of broken
// parts: the closed form has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "plan/metrics.hpp"
#include "plan/search.hpp"
#include "plan/space.hpp"
#include "spec/catalog.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

// On what terms layouts are searched for: the same in every world of a question.
struct Terms {
  Wishes wishes;
  std::optional<spec::Abilities> abilities;  // empty: what the stack of the job can
  SearchOptions options;                     // keep, asked and pareto are the question's own business
};

// The best layout of one world, and what it means.
struct Answer {
  spec::Job job;  // with the devices and the layout of the best
  double memory_bytes = 0;
  Metrics metrics;
  std::uint64_t evaluated = 0;  // layouts that were tried
};

// Empty: nothing fits. REQUIRES: a job with a batch and a sequence.
std::optional<Answer> best_of(const spec::Job& job, const Terms& terms);

// The same question without its answer, for less: one sequence at a time takes least memory and divides every batch, so
// whether anything fits is seen with that alone.
bool anything_fits(const spec::Job& job, const Terms& terms);
Terms least_micro_batch(const Terms& terms);

// The best on each of these numbers of devices, rising; numbers on which nothing fits are left out.
std::vector<Answer> best_of_each(const spec::Job& job, const std::vector<int>& devices, const Terms& terms);

// Empty when the price is not known.
std::optional<double> usd_per_step(const Answer& answer);
std::optional<double> usd_per_million_tokens(const Answer& answer);

// {"tp 4 → 8", "recompute full → selective"}; empty when they are the same.
std::vector<std::string> layout_changes(const spec::Layout& from, const spec::Layout& to);

// ---- What if ----

// One thing that is different in another world. Keys: flops, memory, memory_bandwidth, network (scale-up and scale-out
// together), scale_up, scale_out, latency, host (the link to the host's memory), price, each with a factor; device with
// a name of the catalog; perfect_network (no time at all for what is sent).
struct Change {
  std::string key;
  double factor = 1;
  std::string name;  // of the device
};

// "network ×2", "latency ×0.5", "device h100-sxm", "perfect network".
std::string change_text(const Change& change);

// Everything twice as good, one at a time, and a network that costs nothing.
std::vector<Change> default_changes();

// The job in the changed world. Another device brings its peaks, memory, links to them, power and price, and the
// numbers of the closed form for its family; nodes and networks around it stay.
Result<spec::Job> apply(const spec::Job& job, const Change& change, const spec::Catalog& catalog);

struct World {
  std::vector<Change> changes;              // empty: today
  std::optional<Answer> best;               // empty: nothing fits
  std::optional<double> speed_up;           // tokens/s over today's; empty: one of them does not fit
  std::vector<std::string> layout_changes;  // from today's layout
};

// Today, then each change alone, then, if there are several that can be had at once, all of them together.
Result<std::vector<World>> what_if(const spec::Job& job, const std::vector<Change>& changes,
                                   const spec::Catalog& catalog, const Terms& terms);

// ---- Number of devices ----

struct ScaleOptions {
  double threshold = 0.8;    // of the scale factor; 0: not asked
  bool batch_grows = false;  // with the devices (weak scaling); else it stays (strong scaling)
};

struct ScalePoint {
  int devices = 0;
  double global_batch = 0;
  std::optional<Answer> best;  // empty: nothing fits
  double scale_factor = 0;     // T_n / (n T), with the T of the whole curve
  double of_smallest = 0;      // tokens/s of a device over that of the smallest count on which something fits
};

struct ScaleCurve {
  ScaleOptions options;
  // T, one for all points, or they could not be compared: the fastest that one device with memory enough is with the
  // micro-batch, recompute and share of the batch of any of them. (metrics() takes the layout's own.)
  double one_device_tokens_per_s = 0;
  std::vector<ScalePoint> points;  // rising
  // The largest count whose scale factor is not under the threshold, looked for between the last point that holds it
  // and the next, by node. Empty: no point holds it, or it was not asked.
  std::optional<ScalePoint> last_above;
  bool falls_under = false;  // a larger count of the list is under it; else the list ends before
};

ScaleCurve scale_curve(const spec::Job& job, const std::vector<int>& devices, const ScaleOptions& options,
                       const Terms& terms);

struct DeadlineAnswer {
  double deadline_s = 0;
  std::vector<Answer> tried;       // best of each count on which something fits, rising; those between list points too
  std::optional<Answer> fewest;    // devices that meet it
  std::optional<Answer> cheapest;  // of those tried that meet it: fewest device-hours, which is what is paid for
  std::optional<Answer> nearest;   // none meets it: the shortest time of the list
  std::optional<Answer> beyond;    // none meets it: the first doubling of the largest count that does
};

// Refuses a job that does not say how many tokens it trains on; infeasible when nothing fits on any of the counts.
Result<DeadlineAnswer> within_deadline(const spec::Job& job, double deadline_s, const std::vector<int>& devices,
                                       const Terms& terms);

// ---- The largest that fits ----

struct LargestSequence {
  int sequence = 0;             // a multiple of 1,024
  std::optional<int> too_long;  // the next, which does not fit; empty: the longest that can be written
  Answer best;                  // with about as many tokens a step as the job has
};
Result<LargestSequence> largest_sequence(const spec::Job& job, const Terms& terms);

// A step of any size can be made of many micro-batches. What has limits is how many sequences the cluster works on at
// one time, and how large a step must be to keep it busy.
struct LargestBatch {
  Answer at_once;                     // most sequences that all ranks take in one micro-batch: dp × micro_batch
  double sequences = 0;               // that number
  std::vector<Answer> curve;          // best of each batch, every one about twice the last
  std::optional<std::size_t> enough;  // the first of the curve after which doubling brings no more than 2 %
};
Result<LargestBatch> largest_batch(const spec::Job& job, const Terms& terms);

// The model with this many heads, everything else in its own proportions: depth grows as width does.
spec::Model scaled_model(const spec::Model& model, int heads);

struct LargestModel {
  double parameters = 0;
  double factor = 1;                // of width and depth, over the job's model
  Answer best;                      // best.job.model is the model
  std::optional<double> too_large;  // parameters of the next, which does not fit; empty: the widest that can be written
};
Result<LargestModel> largest_model(const spec::Job& job, const Terms& terms);

// ---- Side by side ----

struct Contender {
  spec::Job job;
  std::optional<Answer> best;
  std::string why_not;  // nothing fits: by how much
};
std::vector<Contender> side_by_side(const std::vector<spec::Job>& jobs, const Terms& terms);

// ---- Nothing fits ----

// Nothing when something fits. Else how many layouts were tried and by how much the nearest misses; the hint has the
// recompute, ZeRO or offload setting with which these devices would do, and the fewest devices on which something fits.
Result<void> why_nothing_fits(const spec::Job& job, const Terms& terms);

}  // namespace twinpod::plan
