// From the residuals of a validation to the ranges of later estimates (plan/range.hpp).
//
//     cross_validate(cases, shape, {});
//     leave_stack_out(left_out, shape, {});
//     write_file("catalog/accuracy.yaml", plan::write_accuracy(accuracy_of(cases, left_out)));
#pragma once

#include <vector>

#include "plan/range.hpp"
#include "validate/validation.hpp"

namespace twinpod::validate {

// A row for each (device, stack, kind of layout) and each stack from the first set, a row for each device and one for
// all from the second: those are asked for only when the stack is not known. Only documented runs count. REQUIRES: the
// predictions of the first set never saw their rows; those of the second never saw their stacks.
plan::Accuracy accuracy_of(const std::vector<Case>& cross_validated, const std::vector<Case>& stack_left_out);

}  // namespace twinpod::validate
