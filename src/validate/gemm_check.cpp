#include "validate/gemm_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/parallel.hpp"
#include "spec/names.hpp"
#include "spec/reader.hpp"
#include "validate/robust_fit.hpp"

namespace twinpod::validate {
namespace {

using cluster::GemmCatalog;
using cluster::GemmModel;
using spec::Precision;

constexpr int kFolds = 5;
constexpr double kTera = 1e12;

struct Dtype {
  std::string_view name;
  Precision precision;
};
constexpr std::array<Dtype, 10> kDtypes = {{{"bf16", Precision::bf16},
                                            {"fp16", Precision::fp16},
                                            {"f16", Precision::fp16},
                                            {"tf32", Precision::tf32},
                                            {"f32_default(tf32)", Precision::tf32},
                                            {"fp32", Precision::fp32},
                                            {"f32", Precision::fp32},
                                            {"fp8", Precision::fp8},
                                            {"fp8_e4m3", Precision::fp8},
                                            {"fp4", Precision::fp4}}};

Result<Precision> precision_of(const MeasuredTable& table, const MeasuredRow& row, const MeasuredCell& cell) {
  std::vector<std::string> known;
  for (const Dtype& dtype : kDtypes) {
    if (dtype.name == cell.text) return dtype.precision;
    known.emplace_back(dtype.name);
  }
  return refuse_cell(table, row, cell, fmt::format("dtype is `{}`; expected a type of numbers", cell.text),
                     spec::suggestion(cell.text, known));
}

// The devices that a table names, each with its model.
struct Devices {
  GemmCatalog catalog;
  std::map<std::string, spec::Device> device_of;  // by the table's name
  std::map<std::string, std::size_t> model_of;    // into catalog.models
};

Result<void> add_device(const spec::Catalog& catalog, const MeasuredTable& table, const MeasuredRow& row,
                        const MeasuredCell& cell, Devices& devices) {
  const std::string& name = cell.text;
  if (devices.device_of.contains(name)) return {};
  const GemmModel* own = cluster::find_gemm_model(devices.catalog, name);
  const Result<std::string> entry = own != nullptr ? Result<std::string>(own->device) : catalog.device_by_alias(name);
  if (!entry) {
    std::vector<std::string> known = cluster::gemm_names(devices.catalog);
    const std::vector<std::string> entries = catalog.names(spec::Shelf::devices);
    known.insert(known.end(), entries.begin(), entries.end());
    return refuse_cell(table, row, cell, fmt::format("device is `{}`; expected a device of the catalog", name),
                       spec::suggestion(name, known));
  }
  const Result<spec::Device> device = catalog.device(*entry);
  if (!device) return tl::unexpected(device.error());
  devices.device_of[name] = *device;
  const std::string model = cluster::gemm_model(devices.catalog, *device).device;
  devices.model_of[name] =
      static_cast<std::size_t>(cluster::find_gemm_model(devices.catalog, model) - devices.catalog.models.data());
  return {};
}

constexpr std::size_t kDevice = 0;
constexpr std::size_t kDtype = 1;
constexpr std::size_t kBatch = 2;  // m, n and k follow
constexpr std::size_t kRate = 6;
const std::vector<std::string> kRequired = {"device", "dtype", "batch", "m", "n", "k", "tflops_measured"};

Result<GemmRow> row_of(const MeasuredTable& table, const MeasuredRow& cells) {
  GemmRow row;
  row.line = cells.line;
  row.device = cells.cells[kDevice].text;
  row.dtype = cells.cells[kDtype].text;
  const Result<Precision> precision = precision_of(table, cells, cells.cells[kDtype]);
  if (!precision) return tl::unexpected(precision.error());
  row.precision = *precision;
  double* const sizes[] = {&row.shape.batch, &row.shape.m, &row.shape.n, &row.shape.k};
  for (std::size_t i = 0; i < 4; ++i) {
    const Result<int> size = whole_number_of(table, cells, cells.cells[kBatch + i], kRequired[kBatch + i], 1, 1 << 30);
    if (!size) return tl::unexpected(size.error());
    *sizes[i] = *size;
  }
  const Result<double> rate = number_of(table, cells, cells.cells[kRate], kRequired[kRate], 1e-9, 1e9);
  if (!rate) return tl::unexpected(rate.error());
  row.tflops_measured = *rate;
  row.measured_s = 2 * row.shape.batch * row.shape.m * row.shape.n * row.shape.k / (*rate * kTera);
  return row;
}

Result<std::vector<GemmRow>> rows_of(const spec::Catalog& catalog, const std::string& path, Devices& devices) {
  const Result<MeasuredTable> table = read_measured_table(path, kRequired, {});
  if (!table) return tl::unexpected(table.error());
  std::vector<GemmRow> rows;
  for (const MeasuredRow& cells : table->rows) {
    const Result<void> known = add_device(catalog, *table, cells, cells.cells[kDevice], devices);
    if (!known) return tl::unexpected(known.error());
    const Result<GemmRow> row = row_of(*table, cells);
    if (!row) return tl::unexpected(row.error());
    rows.push_back(*row);
  }
  return rows;
}

void predict(const Devices& devices, GemmRow& row) {
  const GemmModel& model = devices.catalog.models[devices.model_of.at(row.device)];
  row.predicted_s = cluster::gemm_s(devices.device_of.at(row.device), model, row.shape, row.precision);
  row.error = row.predicted_s / row.measured_s - 1;
}

std::vector<FitNumber> free_numbers(GemmModel& model) {
  std::vector<FitNumber> free;
  for (const auto& number : cluster::gemm_numbers()) {
    free.push_back({&(model.numbers.*number.member), number.prior, number.low, number.high});
  }
  for (auto& [precision, rate] : model.rates) {
    for (const auto& number : cluster::gemm_rates()) {
      free.push_back({&(rate.*number.member), number.prior, number.low, number.high});
    }
  }
  return free;
}

// Devices share nothing, so each is fitted by itself.
void fit_device(const std::vector<GemmRow>& all, const Devices& devices, GemmModel& model) {
  std::vector<GemmRow> rows;
  for (const GemmRow& row : all) {
    if (devices.device_of.at(row.device).entry == model.device) rows.push_back(row);
  }
  if (rows.empty()) return;
  const spec::Device& device = devices.device_of.at(rows.front().device);
  const auto residuals = [&] {
    std::vector<double> values;
    values.reserve(rows.size());
    for (const GemmRow& row : rows) {
      values.push_back(std::log(cluster::gemm_s(device, model, row.shape, row.precision) / row.measured_s));
    }
    return values;
  };
  robust_fit(free_numbers(model), residuals, {});
}

void fit(const std::vector<GemmRow>& rows, Devices& devices) {
  for (GemmModel& model : devices.catalog.models) fit_device(rows, devices, model);
}

std::vector<int> folds_of(const std::vector<GemmRow>& rows, GemmHoldOut hold_out) {
  std::map<std::tuple<double, double, double>, int> shape_of;
  std::vector<int> folds;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const cluster::GemmShape& shape = rows[i].shape;
    const int number =
        shape_of.try_emplace({shape.m, shape.n, shape.k}, static_cast<int>(shape_of.size())).first->second;
    folds.push_back((hold_out == GemmHoldOut::shapes ? number : static_cast<int>(i)) % kFolds);
  }
  return folds;
}

void cross_validate(const Devices& devices, GemmHoldOut hold_out, std::vector<GemmRow>& rows) {
  const std::vector<int> folds = folds_of(rows, hold_out);
  parallel_for(kFolds, [&](std::size_t fold) {
    std::vector<GemmRow> others;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (folds[i] != static_cast<int>(fold)) others.push_back(rows[i]);
    }
    Devices fitted = devices;
    fit(others, fitted);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (folds[i] == static_cast<int>(fold)) predict(fitted, rows[i]);
    }
  });
}

Result<Devices> devices_of(const spec::Catalog& catalog) {
  Result<GemmCatalog> gemm = cluster::read_gemm(catalog.folder() + "/gemm.yaml");
  if (!gemm) return tl::unexpected(gemm.error());
  return Devices{std::move(*gemm), {}, {}};
}

template <typename Owner>
std::string numbers_text(std::span<const cluster::FreeNumber<Owner>> numbers, const Owner& owner,
                         std::string_view indent) {
  std::string text;
  for (const auto& number : numbers) text += fmt::format("{}{}: {:.4g}\n", indent, number.name, owner.*number.member);
  return text;
}

}  // namespace

std::string gemm_path(const spec::Catalog& catalog) { return catalog.folder() + "/measured/gemm.csv"; }

Result<GemmCheck> check_gemm(const spec::Catalog& catalog, const std::string& path, GemmHoldOut hold_out) {
  Result<Devices> devices = devices_of(catalog);
  if (!devices) return tl::unexpected(devices.error());
  Result<std::vector<GemmRow>> rows = rows_of(catalog, path, *devices);
  if (!rows) return tl::unexpected(rows.error());
  GemmCheck check;
  check.file = path;
  check.hold_out = hold_out;
  check.rows = std::move(*rows);
  for (GemmModel& model : devices->catalog.models) check.free_numbers += static_cast<int>(free_numbers(model).size());
  if (hold_out == GemmHoldOut::none) {
    for (GemmRow& row : check.rows) predict(*devices, row);
  } else {
    cross_validate(*devices, hold_out, check.rows);
  }
  std::vector<double> errors;
  for (const GemmRow& row : check.rows) errors.push_back(std::abs(row.error));
  check.all = summary_of(std::move(errors));
  return check;
}

Result<std::string> refit_gemm(const spec::Catalog& catalog, const std::string& path) {
  Result<Devices> devices = devices_of(catalog);
  if (!devices) return tl::unexpected(devices.error());
  const Result<std::vector<GemmRow>> rows = rows_of(catalog, path, *devices);
  if (!rows) return tl::unexpected(rows.error());
  fit(*rows, *devices);
  std::string text =
      "# What cluster/gemm_time.hpp knows: numbers fitted to catalog/measured/gemm.csv by `validate --gemm --refit "
      "FILE`,\n"
      "# which writes this file. Peaks, compute units and memory are those of catalog/devices.\n#\n";
  for (const auto& number : cluster::gemm_numbers()) text += fmt::format("# {}: {}\n", number.name, number.meaning);
  for (const auto& number : cluster::gemm_rates()) text += fmt::format("# {}: {}\n", number.name, number.meaning);
  text += "devices:\n";
  for (const GemmModel& model : devices->catalog.models) {
    text += fmt::format("  {}:\n    vendor: {}\n    measured_as: [", model.device, model.vendor);
    for (const std::string& name : model.measured_as) text += fmt::format("'{}', ", name);
    text.erase(text.size() - 2);
    text += "]\n" + numbers_text(cluster::gemm_numbers(), model.numbers, "    ");
    for (const auto& [precision, rate] : model.rates) {
      text += fmt::format("    {}:\n", spec::name_of(precision)) + numbers_text(cluster::gemm_rates(), rate, "      ");
    }
  }
  return text;
}

}  // namespace twinpod::validate
