#include "cluster/measured_collective.hpp"

#include <algorithm>
#include <cmath>

namespace twinpod::cluster {
namespace {

double between(double x, double low_x, double high_x, double low_y, double high_y) {
  const double share = std::log(x / low_x) / std::log(high_x / low_x);
  return std::exp(std::log(low_y) + share * std::log(high_y / low_y));
}

}  // namespace

double interpolated_s(const spec::MeasuredCollective& one, double bytes) {
  const std::vector<double>& x = one.bytes;
  const std::vector<double>& y = one.seconds;
  const auto above = static_cast<std::size_t>(std::lower_bound(x.begin(), x.end(), bytes) - x.begin());
  if (above == 0) return y.front();
  if (above < x.size()) return between(bytes, x[above - 1], x[above], y[above - 1], y[above]);
  if (x.size() == 1) return y[0] * bytes / x[0];
  const double rate = (x.back() - x[x.size() - 2]) / std::max(y.back() - y[y.size() - 2], 1e-3 * y.back());
  return y.back() + (bytes - x.back()) / rate;
}

std::optional<double> measured_s(const spec::Measured& measured, std::string_view verb, int ranks, double bytes) {
  const spec::MeasuredCollective* below = nullptr;
  const spec::MeasuredCollective* above = nullptr;
  for (const spec::MeasuredCollective& one : measured.collectives) {
    if (one.verb != verb) continue;
    if (one.ranks <= ranks && (below == nullptr || one.ranks > below->ranks)) below = &one;
    if (one.ranks >= ranks && (above == nullptr || one.ranks < above->ranks)) above = &one;
  }
  if (below == nullptr || above == nullptr) return {};
  const double low = interpolated_s(*below, bytes);
  if (below->ranks == above->ranks) return low;
  return between(ranks, below->ranks, above->ranks, low, interpolated_s(*above, bytes));
}

}  // namespace twinpod::cluster
