// Closed form, simulation and measurement of published runs, side by side.
//
//     const Result<SimulatedRun> run = simulate_run(one_case);
//     run->simulated_s / run->closed_form_s        // how far the two are apart
//     run->full_link                               // where transfers are in each other's way; empty: nowhere
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "validate/validation.hpp"

namespace twinpod::validate {

struct SimulatedRun {
  std::string id;
  double measured_s = 0;
  double closed_form_s = 0;
  double simulated_s = 0;
  double alone_s = 0;  // simulated without a network: nothing is in anything's way
  std::string full_link;
  double full_s = 0;  // how long that link is full
  int ranks = 0;
  int kinds = 0;
  double error() const { return simulated_s / measured_s - 1; }
  double closed_form_error() const { return closed_form_s / measured_s - 1; }
  double difference() const { return simulated_s / closed_form_s - 1; }
  double difference_alone() const { return alone_s / closed_form_s - 1; }
};

// REQUIRES: a case that is covered, with its parameters applied (predict()).
Result<SimulatedRun> simulate_run(const Case& one);

}  // namespace twinpod::validate
