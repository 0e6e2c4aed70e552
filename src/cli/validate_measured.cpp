#include "cli/validate_measured.hpp"

#include <fmt/format.h>

#include <array>

#include "cli/command.hpp"
#include "core/files.hpp"
#include "report/measured_report.hpp"

namespace twinpod::cli {
namespace {

Result<void> check_measured_arguments(const Arguments& arguments) {
  if (arguments.has("collectives") && arguments.has("gemm")) {
    return input_error("--collectives and --gemm are two tables", "choose one");
  }
  if (arguments.words.size() > 1) {
    return input_error(fmt::format("validate takes one table at most, but {} are given", arguments.words.size()));
  }
  for (const std::string_view flag :
       {"split", "leave-stack-out", "reference", "plans", "svg", "write-accuracy", "by"}) {
    if (arguments.has(flag)) {
      return input_error(fmt::format("--{} is about published runs, not about single collectives or products", flag),
                         "leave it out");
    }
  }
  if (arguments.has("refit") && arguments.has("cross-validate")) {
    return input_error("--cross-validate and --refit are two ways to predict", "choose one");
  }
  return {};
}

Result<std::string> collectives(const Arguments& arguments, const spec::Catalog& catalog, int worst) {
  using validate::HoldOut;
  const std::string path = arguments.words.empty() ? validate::collectives_path(catalog) : arguments.words.front();
  if (const std::optional<std::string> file = arguments.value("refit")) {
    const Result<std::string> text = validate::refit_collectives(catalog, path);
    if (!text) return tl::unexpected(text.error());
    const Result<void> written = write_file(*file, *text);
    if (!written) return tl::unexpected(written.error());
    return fmt::format("{}: numbers fitted to {}\n", *file, path);
  }
  std::vector<HoldOut> ways = {HoldOut::none};
  if (arguments.has("cross-validate")) ways = {HoldOut::groups, HoldOut::rows, HoldOut::none};
  std::vector<validate::CollectiveCheck> checks;
  for (const HoldOut way : ways) {
    Result<validate::CollectiveCheck> check = validate::check_collectives(catalog, path, way);
    if (!check) return tl::unexpected(check.error());
    checks.push_back(std::move(*check));
  }
  if (arguments.has("json")) return report::collective_check_json(checks);
  return report::collective_check_text(checks, worst);
}

Result<std::string> gemm(const Arguments& arguments, const spec::Catalog& catalog, int worst) {
  using validate::GemmHoldOut;
  const std::string path = arguments.words.empty() ? validate::gemm_path(catalog) : arguments.words.front();
  if (const std::optional<std::string> file = arguments.value("refit")) {
    const Result<std::string> text = validate::refit_gemm(catalog, path);
    if (!text) return tl::unexpected(text.error());
    const Result<void> written = write_file(*file, *text);
    if (!written) return tl::unexpected(written.error());
    return fmt::format("{}: numbers fitted to {}\n", *file, path);
  }
  std::vector<GemmHoldOut> ways = {GemmHoldOut::none};
  if (arguments.has("cross-validate")) ways = {GemmHoldOut::shapes, GemmHoldOut::rows, GemmHoldOut::none};
  std::vector<validate::GemmCheck> checks;
  for (const GemmHoldOut way : ways) {
    Result<validate::GemmCheck> check = validate::check_gemm(catalog, path, way);
    if (!check) return tl::unexpected(check.error());
    checks.push_back(std::move(*check));
  }
  if (arguments.has("json")) return report::gemm_check_json(checks);
  return report::gemm_check_text(checks, worst);
}

}  // namespace

Result<std::string> validate_measured(const Arguments& arguments) {
  const Result<void> valid = check_measured_arguments(arguments);
  if (!valid) return tl::unexpected(valid.error());
  const Result<int> worst = whole_number(arguments, "worst", 0, -1);
  if (!worst) return tl::unexpected(worst.error());
  const spec::Catalog catalog = catalog_of(arguments);
  return arguments.has("gemm") ? gemm(arguments, catalog, *worst) : collectives(arguments, catalog, *worst);
}

}  // namespace twinpod::cli
