// Predicted times of collectives beside measured ones.
//
//     Result<CollectiveCheck> check = check_collectives(catalog, "collectives.csv", HoldOut::none);
//     check->large.median      // of |predicted / measured - 1| from 1 MiB on
//
// The table has the columns system, collective, group_size, bytes, time_us and, if it likes, concurrent_groups. A
// system is one of catalog/collectives.yaml, or a cluster of the catalog.
#pragma once

#include <string>
#include <vector>

#include "cluster/collective_cost.hpp"
#include "core/error.hpp"
#include "spec/catalog.hpp"
#include "validate/measured_table.hpp"

namespace twinpod::validate {

// How the numbers that predict a row were fitted: as the catalog has them; without the row's group (system, collective,
// number of ranks); without the row (every fifth size of a group).
enum class HoldOut { none, groups, rows };

struct CollectiveRow {
  int line = 0;
  std::string system;
  std::string collective;  // as the table writes it
  cluster::CollectiveVerb verb = cluster::CollectiveVerb::all_reduce;
  int ranks = 0;
  int concurrent_groups = 1;
  double bytes = 0;
  double measured_s = 0;
  cluster::CollectiveCost predicted;
  double error = 0;  // predicted / measured - 1
};

inline constexpr double kLargeBytes = 1 << 20;

struct CollectiveCheck {
  std::string file;
  HoldOut hold_out = HoldOut::none;
  std::vector<CollectiveRow> rows;
  int free_numbers = 0;
  ErrorSummary all, large, small;  // from 1 MiB on, and below
};

// The measurements of the catalog.
std::string collectives_path(const spec::Catalog& catalog);

Result<CollectiveCheck> check_collectives(const spec::Catalog& catalog, const std::string& path, HoldOut hold_out);

// Fits the numbers again to the table and returns catalog/collectives.yaml with the new ones.
Result<std::string> refit_collectives(const spec::Catalog& catalog, const std::string& path);

}  // namespace twinpod::validate
