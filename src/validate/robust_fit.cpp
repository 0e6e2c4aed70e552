#include "validate/robust_fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace twinpod::validate {
namespace {

constexpr double kDifference = 1e-4;  // in the logarithm of a number
constexpr double kMostDamping = 1e8;
constexpr double kLeastGain = 1e-6;  // of the loss; less ends a descent

using Residuals = std::function<std::vector<double>()>;

class Fit {
 public:
  Fit(const std::vector<FitNumber>& numbers, const Residuals& residuals, const RobustFitOptions& options)
      : numbers_(numbers), residuals_(residuals), options_(options) {
    x_ = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(numbers.size()));
  }

  double run() {
    place(x_);
    current_ = residuals_();
    loss_ = loss_of(current_, x_);
    descend();
    for (double move = options_.first_move; move >= options_.last_move; move /= 2) search(move);
    descend();
    place(x_);
    return loss_;
  }

 private:
  // Keeps the point if it is better.
  bool try_point(const Eigen::VectorXd& x) {
    place(x);
    std::vector<double> tried = residuals_();
    const double loss = loss_of(tried, x);
    if (!(loss < loss_)) return false;
    x_ = x;
    current_ = std::move(tried);
    loss_ = loss;
    return true;
  }

  void descend() {
    double damping = 1e-2;
    linearize();
    for (int i = 0; i < options_.iterations && damping < kMostDamping; ++i) {
      const double before = loss_;
      if (!try_point(step(damping))) {
        damping *= 5;
        continue;
      }
      if (before - loss_ < kLeastGain * before) return;
      damping = std::max(1e-6, damping / 4);
      linearize();
    }
  }

  void search(double move) {
    for (Eigen::Index i = 0; i < x_.size(); ++i) {
      for (const double sign : {1.0, -1.0}) {
        Eigen::VectorXd moved = x_;
        moved(i) += sign * move;
        if (try_point(moved)) break;
      }
    }
  }

  void place(const Eigen::VectorXd& x) const {
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const FitNumber& number = numbers_[i];
      *number.value = std::clamp(number.prior * std::exp(x(static_cast<Eigen::Index>(i))), number.low, number.high);
    }
  }

  double pull() const { return 1 / (options_.pull * options_.corner); }

  double loss_of(const std::vector<double>& residuals, const Eigen::VectorXd& x) const {
    double loss = 0;
    for (const double r : residuals) loss += 2 * (std::sqrt(1 + r * r / (options_.corner * options_.corner)) - 1);
    return loss + x.squaredNorm() * pull() * pull();
  }

  // The normal equations at x_.
  void linearize() {
    const auto rows = static_cast<Eigen::Index>(current_.size());
    Eigen::MatrixXd jacobian(rows, x_.size());
    for (Eigen::Index i = 0; i < x_.size(); ++i) {
      Eigen::VectorXd moved = x_;
      moved(i) += kDifference;
      place(moved);
      const std::vector<double> there = residuals_();
      for (Eigen::Index r = 0; r < rows; ++r) {
        const auto row = static_cast<std::size_t>(r);
        jacobian(r, i) = (there[row] - current_[row]) / kDifference;
      }
    }
    const Eigen::Map<const Eigen::VectorXd> residual(current_.data(), rows);
    const Eigen::ArrayXd scaled = residual.array() / options_.corner;
    const Eigen::VectorXd weight = (1 + scaled.square()).rsqrt() / (options_.corner * options_.corner);
    const Eigen::MatrixXd weighted = weight.asDiagonal() * jacobian;
    normal_ = jacobian.transpose() * weighted;
    gradient_ = weighted.transpose() * residual + pull() * pull() * x_;
  }

  Eigen::VectorXd step(double damping) const {
    Eigen::MatrixXd normal = normal_;
    for (Eigen::Index i = 0; i < x_.size(); ++i) normal(i, i) += pull() * pull() + damping * (normal(i, i) + 1e-3);
    return x_ - normal.ldlt().solve(gradient_);
  }

  const std::vector<FitNumber>& numbers_;
  const Residuals& residuals_;
  const RobustFitOptions& options_;
  Eigen::VectorXd x_;
  std::vector<double> current_;  // residuals at x_
  double loss_ = 0;
  Eigen::MatrixXd normal_;
  Eigen::VectorXd gradient_;
};

}  // namespace

double robust_fit(const std::vector<FitNumber>& numbers, const Residuals& residuals, const RobustFitOptions& options) {
  return Fit(numbers, residuals, options).run();
}

}  // namespace twinpod::validate
