#include "validate/collective_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/files.hpp"
#include "core/parallel.hpp"
#include "spec/reader.hpp"
#include "validate/robust_fit.hpp"

namespace twinpod::validate {
namespace {

using cluster::CollectiveCatalog;
using cluster::CollectiveSystem;
using cluster::CollectiveVerb;

constexpr int kFolds = 5;
constexpr double kMicro = 1e-6;
constexpr std::string_view kFittedKey = "\nfitted:";

std::string catalog_path(const spec::Catalog& catalog) { return catalog.folder() + "/collectives.yaml"; }

// `all-reduce` and `all_reduce` alike.
Result<CollectiveVerb> verb_of(const MeasuredTable& table, const MeasuredRow& row, const MeasuredCell& cell) {
  std::string name = cell.text;
  std::replace(name.begin(), name.end(), '-', '_');
  std::vector<std::string> known;
  for (const CollectiveVerb verb :
       {CollectiveVerb::broadcast, CollectiveVerb::reduce, CollectiveVerb::all_reduce, CollectiveVerb::reduce_scatter,
        CollectiveVerb::all_gather, CollectiveVerb::all_to_all}) {
    if (cluster::name_of(verb) == name) return verb;
    known.emplace_back(cluster::name_of(verb));
  }
  return refuse_cell(table, row, cell, fmt::format("collective is `{}`; expected a collective", cell.text),
                     spec::suggestion(name, known));
}

// The systems that a table names: measured ones, and clusters of the catalog.
struct Systems {
  CollectiveCatalog catalog;
  std::map<std::string, CollectiveSystem> derived;

  const CollectiveSystem* find(const std::string& name) const {
    if (const CollectiveSystem* system = cluster::find_system(catalog, name)) return system;
    const auto found = derived.find(name);
    return found == derived.end() ? nullptr : &found->second;
  }
};

Result<void> add_system(const spec::Catalog& catalog, const MeasuredTable& table, const MeasuredRow& row,
                        const MeasuredCell& cell, Systems& systems) {
  if (systems.find(cell.text) != nullptr) return {};
  if (const Result<spec::Cluster> cluster = catalog.cluster(cell.text)) {
    systems.derived[cell.text] = cluster::system_of(systems.catalog, *cluster);
    return {};
  }
  std::vector<std::string> known = cluster::system_names(systems.catalog);
  const std::vector<std::string> clusters = catalog.names(spec::Shelf::clusters);
  known.insert(known.end(), clusters.begin(), clusters.end());
  return refuse_cell(table, row, cell,
                     fmt::format("system is `{}`; expected a system of collectives.yaml or a cluster", cell.text),
                     spec::suggestion(cell.text, known));
}

constexpr std::size_t kSystem = 0;
constexpr std::size_t kCollective = 1;
constexpr std::size_t kRanks = 2;
constexpr std::size_t kBytes = 3;
constexpr std::size_t kTime = 4;
constexpr std::size_t kGroups = 5;
const std::vector<std::string> kRequired = {"system", "collective", "group_size", "bytes", "time_us"};
const std::vector<std::string> kOptional = {"concurrent_groups"};

Result<CollectiveRow> row_of(const MeasuredTable& table, const MeasuredRow& cells) {
  CollectiveRow row;
  row.line = cells.line;
  row.system = cells.cells[kSystem].text;
  row.collective = cells.cells[kCollective].text;
  const Result<CollectiveVerb> verb = verb_of(table, cells, cells.cells[kCollective]);
  if (!verb) return tl::unexpected(verb.error());
  row.verb = *verb;
  const Result<int> ranks = whole_number_of(table, cells, cells.cells[kRanks], "group_size", 2, 1 << 20);
  if (!ranks) return tl::unexpected(ranks.error());
  row.ranks = *ranks;
  const Result<double> bytes = number_of(table, cells, cells.cells[kBytes], "bytes", 1, 1e15);
  if (!bytes) return tl::unexpected(bytes.error());
  row.bytes = *bytes;
  const Result<double> time = number_of(table, cells, cells.cells[kTime], "time_us", 1e-3, 1e12);
  if (!time) return tl::unexpected(time.error());
  row.measured_s = *time * kMicro;
  if (cells.cells[kGroups].text.empty()) return row;
  const Result<int> groups = whole_number_of(table, cells, cells.cells[kGroups], "concurrent_groups", 1, 1 << 20);
  if (!groups) return tl::unexpected(groups.error());
  row.concurrent_groups = *groups;
  return row;
}

Result<std::vector<CollectiveRow>> rows_of(const spec::Catalog& catalog, const std::string& path, Systems& systems) {
  const Result<MeasuredTable> table = read_measured_table(path, kRequired, kOptional);
  if (!table) return tl::unexpected(table.error());
  std::vector<CollectiveRow> rows;
  for (const MeasuredRow& cells : table->rows) {
    const Result<void> known = add_system(catalog, *table, cells, cells.cells[kSystem], systems);
    if (!known) return tl::unexpected(known.error());
    const Result<CollectiveRow> row = row_of(*table, cells);
    if (!row) return tl::unexpected(row.error());
    const CollectiveSystem* system = systems.find(row->system);
    if (row->ranks > system->domain && system->nic_bytes_per_s <= 0) {
      return refuse_cell(*table, cells, cells.cells[kRanks],
                         fmt::format("group_size is {}; expected at most {}, the domain of {}, which has no network "
                                     "beyond it",
                                     row->ranks, system->domain, row->system));
    }
    rows.push_back(*row);
  }
  return rows;
}

void predict(const Systems& systems, CollectiveRow& row) {
  row.predicted = collective_cost(*systems.find(row.system), row.verb, row.ranks, row.bytes, row.concurrent_groups);
  row.error = row.predicted.time_s / row.measured_s - 1;
}

// The numbers that the file states are the free ones.
std::vector<FitNumber> free_numbers(CollectiveCatalog& catalog) {
  std::vector<FitNumber> free;
  for (const auto& number : cluster::shared_numbers()) {
    free.push_back({&(catalog.shared.*number.member), number.prior, number.low, number.high});
  }
  for (CollectiveSystem& system : catalog.systems) {
    for (const auto& number : cluster::system_numbers()) {
      const bool fitted = std::find(system.fitted.begin(), system.fitted.end(), number.name) != system.fitted.end();
      if (fitted) free.push_back({&(system.numbers.*number.member), number.prior, number.low, number.high});
    }
  }
  return free;
}

void fit(const std::vector<CollectiveRow>& rows, CollectiveCatalog& catalog) {
  std::vector<std::size_t> system_of;
  for (const CollectiveRow& row : rows) {
    system_of.push_back(static_cast<std::size_t>(cluster::find_system(catalog, row.system) - catalog.systems.data()));
  }
  const auto residuals = [&] {
    for (CollectiveSystem& system : catalog.systems) system.shared = catalog.shared;
    std::vector<double> values;
    values.reserve(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const CollectiveRow& row = rows[i];
      const cluster::CollectiveCost cost =
          collective_cost(catalog.systems[system_of[i]], row.verb, row.ranks, row.bytes, row.concurrent_groups);
      values.push_back(std::log(cost.time_s / row.measured_s));
    }
    return values;
  };
  robust_fit(free_numbers(catalog), residuals, {});
  for (CollectiveSystem& system : catalog.systems) system.shared = catalog.shared;
}

// Which fold a row belongs to. Groups are dealt out in the order in which they appear, rows in the order of their
// sizes.
std::vector<int> folds_of(const std::vector<CollectiveRow>& rows, HoldOut hold_out) {
  using Key = std::tuple<std::string, CollectiveVerb, int>;
  std::map<Key, int> group_of;
  std::map<Key, int> seen;
  std::vector<int> folds;
  for (const CollectiveRow& row : rows) {
    const Key key{row.system, row.verb, row.ranks};
    const int group = group_of.try_emplace(key, static_cast<int>(group_of.size())).first->second;
    folds.push_back((hold_out == HoldOut::groups ? group : group + seen[key]++) % kFolds);
  }
  return folds;
}

// Predicts each fold by numbers fitted to the others.
void cross_validate(const Systems& systems, HoldOut hold_out, std::vector<CollectiveRow>& rows) {
  const std::vector<int> folds = folds_of(rows, hold_out);
  parallel_for(kFolds, [&](std::size_t fold) {
    std::vector<CollectiveRow> others;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool measured_system = cluster::find_system(systems.catalog, rows[i].system) != nullptr;
      if (folds[i] != static_cast<int>(fold) && measured_system) others.push_back(rows[i]);
    }
    Systems fitted = systems;
    fit(others, fitted.catalog);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (folds[i] == static_cast<int>(fold)) predict(fitted, rows[i]);
    }
  });
}

void summarize(CollectiveCheck& check) {
  std::vector<double> all;
  std::vector<double> large;
  std::vector<double> small;
  for (const CollectiveRow& row : check.rows) {
    all.push_back(std::abs(row.error));
    (row.bytes >= kLargeBytes ? large : small).push_back(std::abs(row.error));
  }
  check.all = summary_of(std::move(all));
  check.large = summary_of(std::move(large));
  check.small = summary_of(std::move(small));
}

std::string fitted_text(const CollectiveCatalog& catalog) {
  std::string text = "fitted:\n  shared:\n";
  for (const auto& number : cluster::shared_numbers()) {
    text += fmt::format("    {}: {:.4g}  # {}\n", number.name, catalog.shared.*number.member, number.meaning);
  }
  text += "  # For each system, those of the following that its measurements can tell:\n";
  for (const auto& number : cluster::system_numbers()) text += fmt::format("  # {}: {}\n", number.name, number.meaning);
  text += "  system:\n";
  for (const CollectiveSystem& system : catalog.systems) {
    if (system.fitted.empty()) continue;
    text += fmt::format("    {}:\n", system.name);
    for (const auto& number : cluster::system_numbers()) {
      const bool fitted = std::find(system.fitted.begin(), system.fitted.end(), number.name) != system.fitted.end();
      if (fitted) text += fmt::format("      {}: {:.4g}\n", number.name, system.numbers.*number.member);
    }
  }
  return text;
}

}  // namespace

std::string collectives_path(const spec::Catalog& catalog) { return catalog.folder() + "/measured/collectives.csv"; }

Result<CollectiveCheck> check_collectives(const spec::Catalog& catalog, const std::string& path, HoldOut hold_out) {
  const Result<CollectiveCatalog> collectives = cluster::read_collectives(catalog_path(catalog));
  if (!collectives) return tl::unexpected(collectives.error());
  Systems systems{*collectives, {}};
  Result<std::vector<CollectiveRow>> rows = rows_of(catalog, path, systems);
  if (!rows) return tl::unexpected(rows.error());
  CollectiveCheck check;
  check.file = path;
  check.hold_out = hold_out;
  check.rows = std::move(*rows);
  check.free_numbers = static_cast<int>(free_numbers(systems.catalog).size());
  if (hold_out == HoldOut::none) {
    for (CollectiveRow& row : check.rows) predict(systems, row);
  } else {
    cross_validate(systems, hold_out, check.rows);
  }
  summarize(check);
  return check;
}

Result<std::string> refit_collectives(const spec::Catalog& catalog, const std::string& path) {
  const Result<CollectiveCatalog> collectives = cluster::read_collectives(catalog_path(catalog));
  if (!collectives) return tl::unexpected(collectives.error());
  Systems systems{*collectives, {}};
  Result<std::vector<CollectiveRow>> rows = rows_of(catalog, path, systems);
  if (!rows) return tl::unexpected(rows.error());
  std::erase_if(*rows,
                [&](const CollectiveRow& row) { return cluster::find_system(systems.catalog, row.system) == nullptr; });
  fit(*rows, systems.catalog);
  const Result<std::string> before = read_file(catalog_path(catalog));
  if (!before) return tl::unexpected(before.error());
  return before->substr(0, before->find(kFittedKey) + 1) + fitted_text(systems.catalog);
}

}  // namespace twinpod::validate
