// A published, measured run as its source prints it: one row of catalog/runs/*.yaml. What is missing was not stated.
//
//     Result<std::vector<PublishedRun>> runs = read_runs("catalog/runs/sc21.yaml");
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "spec/catalog.hpp"

namespace twinpod::validate {

struct PublishedRun {
  std::string file;
  int line = 0;
  std::string id, kind, task, grade, source, model, framework, date, device;
  std::string precision, recompute, schedule, sharding, intra_link, remark;
  // Zero: not stated.
  double layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0, seq = 0;
  double experts = 0, topk = 0;
  double devices = 0, devices_per_node = 0, intra_gbs = 0, inter_gbps_per_device = 0, peak_tflops = 0;
  double tp = 0, pp = 0, vpp = 0, dp = 0, cp = 0, ep = 0, etp = 0, mbs = 0, gbs = 0, grad_accum = 0;
  double iter_time_s = 0, iter_time_s_derived = 0, mem_gb = 0;
  int zero_stage = -1;  // -1: not stated
  int sp = -1;          // -1: not stated
  int gated_mlp = -1;

  double measured_s() const { return iter_time_s > 0 ? iter_time_s : iter_time_s_derived; }
};

// Every row of a file in the catalog's format. A malformed file or row is refused with its line.
Result<std::vector<PublishedRun>> read_runs(const std::string& path);

// All files of catalog/runs, in the order of their names.
Result<std::vector<PublishedRun>> read_catalog_runs(const spec::Catalog& catalog);

// The ids of the best-documented runs (catalog/runs/reference.txt).
Result<std::vector<std::string>> reference_ids(const spec::Catalog& catalog);

}  // namespace twinpod::validate
