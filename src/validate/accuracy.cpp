#include "validate/accuracy.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace twinpod::validate {
namespace {

// Device, stack, kind; an empty text stands for any.
using Key = std::tuple<std::string, std::string, std::string>;

struct Residuals {
  std::vector<double> ratios;  // measured / predicted
  int max_devices = 0;
};

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

bool counts(const Case& one) { return one.covered() && one.documented() && one.predicted_s > 0; }

void add(Residuals& residuals, const Case& one) {
  residuals.ratios.push_back(one.run.measured_s() / one.predicted_s);
  residuals.max_devices = std::max(residuals.max_devices, one.made.job.cluster.devices);
}

plan::AccuracyRow row_of(const Key& key, Residuals residuals) {
  std::sort(residuals.ratios.begin(), residuals.ratios.end());
  const auto& [device, stack, kind] = key;
  return {device,
          stack,
          kind,
          static_cast<int>(residuals.ratios.size()),
          residuals.max_devices,
          quantile(residuals.ratios, 0.1),
          quantile(residuals.ratios, 0.9)};
}

}  // namespace

plan::Accuracy accuracy_of(const std::vector<Case>& cross_validated, const std::vector<Case>& stack_left_out) {
  std::map<Key, Residuals> residuals;
  for (const Case& one : cross_validated) {
    if (!counts(one)) continue;
    const spec::Job& job = one.made.job;
    add(residuals[{job.cluster.device.family, job.stack.name, std::string(plan::name_of(plan::layout_kind(job)))}],
        one);
    add(residuals[{"", job.stack.name, ""}], one);
  }
  for (const Case& one : stack_left_out) {
    if (!counts(one)) continue;
    add(residuals[{one.made.job.cluster.device.family, "", ""}], one);
    add(residuals[{"", "", ""}], one);
  }
  plan::Accuracy accuracy;
  for (const auto& [key, value] : residuals) accuracy.push_back(row_of(key, value));
  return accuracy;
}

}  // namespace twinpod::validate
