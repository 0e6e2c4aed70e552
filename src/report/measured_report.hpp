// Predicted beside measured times of collectives and matrix products, for people and for scripts.
//
//     const validate::CollectiveCheck check = ...;
//     collective_check_text({&check}, 10);   // the table by system and collective, and the 10 worst rows
//
// A report of several checks of one table (the same rows predicted by numbers fitted in different ways) prints the rows
// of the first and one line for each.
#pragma once

#include <string>
#include <vector>

#include "validate/collective_check.hpp"
#include "validate/gemm_check.hpp"

namespace twinpod::report {

// How the numbers were fitted: "groups left out" and so on.
std::string_view name_of(validate::HoldOut hold_out);
std::string_view name_of(validate::GemmHoldOut hold_out);

// `worst`: how many rows to print, those with the largest errors first; negative: 10.
std::string collective_check_text(const std::vector<validate::CollectiveCheck>& checks, int worst);
std::string gemm_check_text(const std::vector<validate::GemmCheck>& checks, int worst);

// Keys `rows` (each with the columns of the table, `measured_s`, `predicted_s`, `error` = predicted / measured - 1),
// `median_error` and `p90_error` of the errors' sizes, and the same by classes.
std::string collective_check_json(const std::vector<validate::CollectiveCheck>& checks);
std::string gemm_check_json(const std::vector<validate::GemmCheck>& checks);

}  // namespace twinpod::report
