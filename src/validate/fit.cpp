#include "validate/fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>

#include "core/parallel.hpp"
#include "plan/estimate.hpp"

namespace twinpod::validate {
namespace {

using spec::FieldValues;
using spec::Parameters;

enum class Scope { shared, device, trait, stack };

struct Entry {
  Scope scope;
  std::string key;
  const spec::PhysicsField* field;
  int parent = -1;   // index of the entry whose value this one starts from
  double start = 0;  // without a parent: the value that it starts from
};

FieldValues& values_of(Parameters& parameters, const Entry& entry) {
  switch (entry.scope) {
    case Scope::device:
      return parameters.by_device[entry.key];
    case Scope::trait:
      return parameters.by_trait[entry.key];
    case Scope::stack:
      return parameters.by_stack[entry.key];
    case Scope::shared:
      break;
  }
  return parameters.shared;
}

bool reaches(const Entry& entry, const spec::Job& job) {
  switch (entry.scope) {
    case Scope::shared:
      return true;
    case Scope::device:
      return job.cluster.device.family == entry.key;
    case Scope::trait:
      return std::find(job.stack.traits.begin(), job.stack.traits.end(), entry.key) != job.stack.traits.end();
    case Scope::stack:
      return job.stack.name == entry.key;
  }
  return false;
}

int find_entry(const std::vector<Entry>& entries, Scope scope, const std::string& key,
               const spec::PhysicsField* field) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].scope == scope && entries[i].key == key && entries[i].field == field) return static_cast<int>(i);
  }
  return -1;
}

void add_entries(const std::map<std::string, FieldValues>& scope_values, Scope scope, std::vector<Entry>& entries) {
  for (const auto& [key, values] : scope_values) {
    for (const auto& [name, unused] : values) entries.push_back({scope, key, spec::find_physics_field(name), -1});
  }
}

std::vector<Entry> entries_of(const Parameters& shape, const std::vector<Sample>& samples, const spec::Physics* base) {
  std::vector<Entry> entries;
  for (const auto& [name, unused] : shape.shared)
    entries.push_back({Scope::shared, "", spec::find_physics_field(name), -1});
  add_entries(shape.by_device, Scope::device, entries);
  add_entries(shape.by_trait, Scope::trait, entries);
  add_entries(shape.by_stack, Scope::stack, entries);
  for (Entry& entry : entries) {
    entry.start = base != nullptr ? base->*entry.field->member : entry.field->prior;
    if (entry.scope != Scope::shared) entry.parent = find_entry(entries, Scope::shared, "", entry.field);
    if (entry.scope != Scope::stack) continue;
    const auto row =
        std::find_if(samples.begin(), samples.end(), [&](const Sample& s) { return s.job.stack.name == entry.key; });
    if (row == samples.end()) continue;
    for (const std::string& trait : row->job.stack.traits) {
      const int parent = find_entry(entries, Scope::trait, trait, entry.field);
      if (parent >= 0) entry.parent = parent;
    }
  }
  return entries;
}

// The value of each entry: its parent's times exp(x), inside its plausible bounds. Parents come before their children.
Parameters parameters_at(const std::vector<Entry>& entries, const Eigen::VectorXd& x) {
  Parameters parameters;
  std::vector<double> value(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    const double base = entry.parent >= 0 ? value[static_cast<std::size_t>(entry.parent)] : entry.start;
    value[i] = std::clamp(base * std::exp(x[static_cast<Eigen::Index>(i)]), entry.field->low, entry.field->high);
    values_of(parameters, entry)[std::string(entry.field->name)] = value[i];
  }
  return parameters;
}

double value_at(const std::vector<Entry>& entries, const Eigen::VectorXd& x, int index) {
  const Entry& entry = entries[static_cast<std::size_t>(index)];
  const double base = entry.parent >= 0 ? value_at(entries, x, entry.parent) : entry.start;
  return std::clamp(base * std::exp(x[index]), entry.field->low, entry.field->high);
}

bool at_lower_bound(const std::vector<Entry>& entries, const Eigen::VectorXd& x, Eigen::Index index) {
  const spec::PhysicsField* field = entries[static_cast<std::size_t>(index)].field;
  return value_at(entries, x, static_cast<int>(index)) <= field->low * 1.01;
}

// An entry that was pushed past its bound is brought back to it, where its derivative is not zero.
void stay_inside(const std::vector<Entry>& entries, Eigen::VectorXd& x) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto k = static_cast<Eigen::Index>(i);
    const double base = entries[i].parent >= 0 ? value_at(entries, x, entries[i].parent) : entries[i].start;
    x[k] = std::clamp(x[k], std::log(std::max(entries[i].field->low, 1e-12) / base),
                      std::log(entries[i].field->high / base));
  }
}

double predicted_around(const spec::Physics& base, const spec::Job& job, const Parameters& parameters) {
  spec::Job moved = job;
  moved.stack.physics = base;
  spec::set_fields(parameters.shared, moved.stack.physics);
  return plan::step_time(moved).total_s;
}

double residual(const Sample& sample, const Parameters& parameters, const spec::Physics* base) {
  const double predicted =
      base != nullptr ? predicted_around(*base, sample.job, parameters) : predicted_s(sample.job, parameters);
  return std::log(predicted / sample.measured_s);
}

std::vector<double> row_weights(const std::vector<Sample>& samples, double cap) {
  std::map<std::string, double> rows;
  for (const Sample& s : samples) rows[s.job.stack.name] += s.weight;
  std::vector<double> weights;
  weights.reserve(samples.size());
  for (const Sample& s : samples) weights.push_back(s.weight * std::min(1.0, cap / rows[s.job.stack.name]));
  return weights;
}

struct Problem {
  const std::vector<Sample>& samples;
  const std::vector<Entry>& entries;
  std::vector<double> weights;
  FitOptions options;
};

std::vector<double> residuals(const Problem& problem, const Parameters& parameters) {
  return parallel_map<double>(problem.samples.size(), [&](std::size_t i) {
    return residual(problem.samples[i], parameters, problem.options.base);
  });
}

double loss_of(const Problem& problem, const std::vector<double>& r, const Eigen::VectorXd& x) {
  const double c = problem.options.corner;
  double loss = 0;
  for (std::size_t i = 0; i < r.size(); ++i)
    loss += problem.weights[i] * 2 * (std::sqrt(1 + (r[i] / c) * (r[i] / c)) - 1);
  return loss + x.squaredNorm() / (problem.options.pull * problem.options.pull);
}

// Columns of derivatives, only where an entry reaches a row.
Eigen::MatrixXd jacobian(const Problem& problem, const std::vector<double>& r, const Eigen::VectorXd& x) {
  constexpr double kStep = 1e-3;
  const auto rows = static_cast<Eigen::Index>(problem.samples.size());
  const auto columns = static_cast<Eigen::Index>(problem.entries.size());
  Eigen::MatrixXd j = Eigen::MatrixXd::Zero(rows, columns);
  for (Eigen::Index c = 0; c < columns; ++c) {
    // Downwards, so that an entry at its upper bound still feels its slope; away from the lower bound upwards.
    Eigen::VectorXd moved = x;
    const double step = at_lower_bound(problem.entries, x, c) ? kStep : -kStep;
    moved[c] += step;
    const Parameters parameters = parameters_at(problem.entries, moved);
    const Entry& entry = problem.entries[static_cast<std::size_t>(c)];
    parallel_for(problem.samples.size(), [&](std::size_t i) {
      if (!reaches(entry, problem.samples[i].job)) return;
      j(static_cast<Eigen::Index>(i), c) =
          (residual(problem.samples[i], parameters, problem.options.base) - r[i]) / step;
    });
  }
  return j;
}

}  // namespace

double predicted_s(const spec::Job& job, const Parameters& parameters) {
  spec::Job moved = job;
  moved.stack.physics = spec::resolve(parameters, job.cluster.device.family, job.stack);
  return plan::step_time(moved).total_s;
}

FitResult fit(const std::vector<Sample>& samples, const Parameters& shape, const FitOptions& options) {
  const std::vector<Entry> entries = entries_of(shape, samples, options.base);
  const Problem problem{samples, entries, row_weights(samples, options.stack_cap), options};
  const auto n = static_cast<Eigen::Index>(entries.size());
  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);
  std::vector<double> r = residuals(problem, parameters_at(entries, x));
  double loss = loss_of(problem, r, x);
  FitResult result;
  result.loss_before = loss;
  double damping = 1e-2;
  for (result.iterations = 0; result.iterations < options.iterations; ++result.iterations) {
    const Eigen::MatrixXd j = jacobian(problem, r, x);
    Eigen::VectorXd w(static_cast<Eigen::Index>(r.size()));
    Eigen::VectorXd rv(w.size());
    for (Eigen::Index i = 0; i < w.size(); ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double u = r[k] / options.corner;
      w[i] = problem.weights[k] / (options.corner * options.corner * std::sqrt(1 + u * u));
      rv[i] = r[k];
    }
    const double pull = 1 / (options.pull * options.pull);
    const Eigen::MatrixXd normal = j.transpose() * w.asDiagonal() * j + pull * Eigen::MatrixXd::Identity(n, n);
    const Eigen::VectorXd gradient = j.transpose() * w.cwiseProduct(rv) + pull * x;
    bool moved = false;
    for (int attempt = 0; attempt < 6 && !moved; ++attempt) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal() *= 1 + damping;
      Eigen::VectorXd next = x - damped.ldlt().solve(gradient);
      stay_inside(entries, next);
      const std::vector<double> next_r = residuals(problem, parameters_at(entries, next));
      const double next_loss = loss_of(problem, next_r, next);
      if (next_loss < loss) {
        moved = loss - next_loss > 1e-5 * loss;
        x = next;
        r = next_r;
        loss = next_loss;
        damping = std::max(1e-6, damping / 5);
        break;
      }
      damping *= 8;
    }
    if (!moved) break;
  }
  result.parameters = parameters_at(entries, x);
  result.loss_after = loss;
  return result;
}

}  // namespace twinpod::validate
