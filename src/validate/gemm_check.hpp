// Predicted times of matrix products beside measured ones.
//
//     Result<GemmCheck> check = check_gemm(catalog, "gemm.csv", GemmHoldOut::none);
//     check->all.median        // of |predicted / measured - 1|
//
// The table has the columns device, dtype, batch, m, n, k and tflops_measured. A device is one of catalog/gemm.yaml or
// of the catalog's devices.
#pragma once

#include <string>
#include <vector>

#include "cluster/gemm_time.hpp"
#include "core/error.hpp"
#include "spec/catalog.hpp"
#include "validate/measured_table.hpp"

namespace twinpod::validate {

// How the numbers that predict a row were fitted: as the catalog has them; without any row of the same m, n, k on any
// device, in any precision and batch; without every fifth row.
enum class GemmHoldOut { none, shapes, rows };

struct GemmRow {
  int line = 0;
  std::string device;
  std::string dtype;
  spec::Precision precision = spec::Precision::bf16;
  cluster::GemmShape shape;
  double tflops_measured = 0;
  double measured_s = 0;
  double predicted_s = 0;
  double error = 0;  // predicted / measured - 1
};

struct GemmCheck {
  std::string file;
  GemmHoldOut hold_out = GemmHoldOut::none;
  std::vector<GemmRow> rows;
  int free_numbers = 0;
  ErrorSummary all;
};

std::string gemm_path(const spec::Catalog& catalog);

Result<GemmCheck> check_gemm(const spec::Catalog& catalog, const std::string& path, GemmHoldOut hold_out);

// Fits the numbers again to the table and returns the text of catalog/gemm.yaml.
Result<std::string> refit_gemm(const spec::Catalog& catalog, const std::string& path);

}  // namespace twinpod::validate
