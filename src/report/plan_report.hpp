// What a search found, for people and for scripts: the best layouts, the winner's reasons, the curve over device
// counts.
//
//     const PlanView view{job, found, options, assess(job, accuracy), asked, neighbours(job)};
//     std::fputs(plan_text(view).c_str(), stdout);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/assessment.hpp"
#include "plan/finalists.hpp"
#include "plan/reasons.hpp"
#include "plan/search.hpp"
#include "spec/job.hpp"

namespace twinpod::report {

struct PlanView {
  const spec::Job& job;  // its layout and devices are the best's, when there is one
  const plan::SearchResult& found;
  plan::SearchOptions options = {};              // as the search had them
  std::optional<plan::Assessment> best = {};     // of the winner
  std::optional<plan::Candidate> asked = {};     // the layout that the user wrote; its rank is found.asked_rank
  std::vector<plan::Neighbour> neighbours = {};  // with explain
  std::vector<plan::Finalist> finalists = {};    // simulated, fastest first
  std::size_t top = 10;                          // lines of the ranking
  bool explain = false;
  bool all_variants = false;            // every layout of the ranking; else the best of each shape
  std::vector<std::string> notes = {};  // "batch 1,960 chosen; --global-batch sets it"
};

std::string plan_text(const PlanView& view);

// One object; `ranked` has all that the search kept.
std::string plan_json(const PlanView& view);

// A header and a line for each ranked layout, as in RFC 4180. What is not known is empty.
std::string plan_csv(const PlanView& view);

// Step time against devices, or against memory where there is one device count only: the Pareto set, the best of each
// device count, the winner and the user's own layout.
std::string pareto_svg(const PlanView& view);

// The best so many, in the order of the ranking; unless all variants are wanted, one of each shape.
std::vector<plan::Candidate> first_ranked(const plan::SearchResult& found, bool all_variants, std::size_t number);

// What follows from a candidate's time and devices.
struct PlanFigures {
  double tokens_per_s = 0;
  double mfu = 0;
  std::optional<double> time_to_train_s;  // empty: no number of tokens is known
  std::optional<double> cost_usd;
};

// Cheap for thousands of candidates: what does not depend on the layout is computed once.
class PlanRates {
 public:
  explicit PlanRates(const PlanView& view);
  PlanFigures of(const plan::Candidate& candidate) const;

 private:
  plan::StepWork work_;
  double tokens_ = 0;  // of the whole run
  double usd_per_device_hour_ = 0;
};

// Throughput of a device over that of a device in the smallest cluster of the curve.
double relative_scale(const plan::SearchResult& found, const plan::Candidate& candidate);

// The job with a candidate's layout, on its devices.
spec::Job job_of(const spec::Job& job, const plan::Candidate& candidate);

}  // namespace twinpod::report
