// Fits the free parameters of the closed form to measured steps.
//
// Each entry of a Parameters set is one free number; the fit moves all of them. A value is its parent's (the trait's
// for a stack, the shared one, the prior) times exp(x), and x is pulled to 0, so that an entry leaves its parent only
// as far as the data ask. Loss: soft-L1 on the logarithm of predicted over measured, corner at 8 %; no stack weighs
// more than `stack_cap` rows. Gauss-Newton with damping; derivatives by differences, only on the rows that an entry
// reaches.
//
//     const FitResult fitted = fit(samples, shape, {});
#pragma once

#include <string>
#include <vector>

#include "spec/job.hpp"
#include "spec/parameters.hpp"

namespace twinpod::validate {

// One measured step: the job (its stack's physics is overwritten) and its seconds.
struct Sample {
  spec::Job job;
  double measured_s = 0;
  double weight = 1;
};

struct FitOptions {
  double corner = 0.08;    // of the soft-L1 loss
  double pull = 0.5;       // width of the prior in log units; smaller pulls harder
  double stack_cap = 300;  // rows that one stack may count for
  int iterations = 25;
  // Around a stack that is already known: an entry starts from this value and is pulled to it, and what is no entry
  // keeps it. The shape may then hold shared entries only. nullptr: from the fields' priors.
  const spec::Physics* base = nullptr;
};

struct FitResult {
  spec::Parameters parameters;
  double loss_before = 0;
  double loss_after = 0;
  int iterations = 0;
};

// `shape` says which entries are free. Its values do not matter: each entry starts at its parent's value or its prior.
FitResult fit(const std::vector<Sample>& samples, const spec::Parameters& shape, const FitOptions& options);

double predicted_s(const spec::Job& job, const spec::Parameters& parameters);

}  // namespace twinpod::validate
