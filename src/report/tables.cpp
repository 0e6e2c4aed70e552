#include "report/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "plan/fits.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

constexpr int kBarWidth = 40;

std::string job_line(const spec::Job& job) {
  const std::string cluster = job.cluster.name.empty() ? "" : fmt::format(" of {}", job.cluster.name);
  return fmt::format("{} on {} × {}{}\n", job.model.name, with_thousands(job.cluster.devices), job.cluster.device.name,
                     cluster) +
         idle_line(job);
}

std::string training_line(const spec::Job& job) {
  const spec::Training& t = job.training;
  return fmt::format("batch {} × {} tokens = {}, {}, {}, stack {}\n", with_thousands(t.global_batch),
                     with_thousands(t.sequence), format_count(t.global_batch * t.sequence), spec::name_of(t.precision),
                     spec::name_of(t.optimizer), job.stack.name);
}

std::string range_line(const plan::Assessment& a) {
  std::string text = fmt::format("step time {}", format_seconds(a.step.total_s));
  if (a.range.count > 0) {
    text += fmt::format(", between {} and {} in 8 of 10 cases ({})", format_seconds(a.step.total_s * a.range.low),
                        format_seconds(a.step.total_s * a.range.high), a.range.basis);
  }
  text += "\n";
  if (!a.range.validated()) text += fmt::format("outside what was validated: {}\n", a.range.outside);
  return text;
}

// The unit in which a step is told, and the decimals that give its parts four digits.
struct StepUnit {
  double seconds;
  std::string_view name;
  int decimals;
};

StepUnit step_unit(double total_s) {
  const StepUnit unit = total_s >= 1 ? StepUnit{1, "s", 0} : StepUnit{1e-3, "ms", 0};
  const double value = std::max(1.0, total_s / unit.seconds);
  return {unit.seconds, unit.name, std::clamp(3 - static_cast<int>(std::floor(std::log10(value))), 0, 3)};
}

// A device is called by its GiB, and all else is told in GB.
std::string memory_note(double bytes) {
  const std::string text = in_gib(bytes);
  return text.empty() ? "" : fmt::format("note: a device has {}\n", text);
}

std::string_view meaning(plan::Part part) {
  switch (part) {
    case plan::Part::products:
      return "matrix products of the layers, forward and backward";
    case plan::Part::attention:
      return "scores, softmax and weighted values";
    case plan::Part::elements:
      return "memory-bound kernels: norms, activations, residuals, casts";
    case plan::Part::head:
      return "embedding, head and loss";
    case plan::Part::recompute:
      return "forward work done again in the backward pass";
    case plan::Part::launch:
      return "the device waits for the host that launches its kernels";
    case plan::Part::tensor:
      return "tensor- and sequence-parallel communication that is not hidden";
    case plan::Part::context:
      return "context-parallel communication that is not hidden";
    case plan::Part::expert:
      return "all-to-all of experts that is not hidden";
    case plan::Part::shard:
      return "ZeRO-3 gathers and scatters that are not hidden";
    case plan::Part::parking:
      return "activations on their way to and from host memory that computation does not hide";
    case plan::Part::pipeline:
      return "transfers between stages that are not hidden";
    case plan::Part::bubble:
      return "waiting for other stages, uneven stages included";
    case plan::Part::data:
      return "reduction of gradients and gathering of parameters that is not hidden";
    case plan::Part::optimizer:
      return "the update of the parameters";
    case plan::Part::input:
      return "reading of training data that the step is too short to hide";
    case plan::Part::stragglers:
      return "waiting for the slowest of many nodes";
    case plan::Part::fixed:
      return "of each step, whatever its size";
  }
  return "";
}

std::string time_table(const plan::StepTime& step, bool explain) {
  const StepUnit unit = step_unit(step.total_s);
  std::vector<plan::Part> parts;
  std::vector<double> seconds;
  std::vector<double> percents;
  for (int i = 0; i < plan::kNumParts; ++i) {
    const auto part = static_cast<plan::Part>(i);
    if (step.parts[part] <= 0) continue;
    parts.push_back(part);
    seconds.push_back(step.parts[part] / unit.seconds);
    percents.push_back(100 * step.parts[part] / step.total_s);
  }
  const std::vector<double> shown = rounded_to_add_up(seconds, unit.decimals);
  const std::vector<double> shares = rounded_to_add_up(percents, 1);
  Table table({{"time of a step"}, {std::string(unit.name), Align::right}, {"%", Align::right}, {""}}, {.indent = 2});
  const double longest = *std::max_element(percents.begin(), percents.end());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (shown[i] == 0 && shares[i] == 0) continue;
    table.row({std::string(plan::part_name(parts[i])), fmt::format("{:.{}f}", shown[i], unit.decimals),
               fmt::format("{:.1f}", shares[i]),
               explain ? std::string(meaning(parts[i])) : bar(percents[i] / longest, kBarWidth)});
  }
  table.rule();
  table.row({"step", fmt::format("{:.{}f}", std::accumulate(shown.begin(), shown.end(), 0.0), unit.decimals), "100.0"});
  return table.text();
}

std::string memory_table(const spec::Job& job, const plan::MemoryUse& use) {
  constexpr double kGb = 1e9;
  const double capacity = job.cluster.device.memory_bytes;
  const std::string title =
      job.layout.pp > 1 ? fmt::format("memory, stage {} (fullest)", use.stage) : "memory of a device";
  Table table({{title}, {"GB", Align::right}, {"%", Align::right}, {""}}, {.indent = 2});
  std::vector<double> bytes;
  for (const auto& [name, value] : plan::memory_parts(use)) bytes.push_back(value / kGb);
  const std::vector<double> shown = rounded_to_add_up(bytes, 2);
  const plan::MemoryParts parts = plan::memory_parts(use);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (shown[i] == 0) continue;
    const double share = parts[i].second / capacity;
    table.row({std::string(parts[i].first), fmt::format("{:.2f}", shown[i]), fmt::format("{:.1f}", 100 * share),
               bar(share, kBarWidth)});
  }
  table.rule();
  table.row({"peak", fmt::format("{:.2f}", std::accumulate(shown.begin(), shown.end(), 0.0)),
             fmt::format("{:.1f}", 100 * use.total() / capacity), fmt::format("of {}", format_bytes(capacity))});
  return table.text();
}

std::string stage_table(const std::vector<plan::MemoryUse>& stages) {
  std::vector<Column> columns = {{"stage", Align::right}};
  for (const auto& [name, value] : plan::memory_parts(stages.front()))
    columns.push_back({std::string(name), Align::right});
  columns.push_back({"peak, GB", Align::right});
  Table table(columns, {.indent = 2});
  for (const plan::MemoryUse& use : stages) {
    std::vector<std::string> cells = {std::to_string(use.stage)};
    for (const auto& [name, value] : plan::memory_parts(use)) cells.push_back(fmt::format("{:.2f}", value / 1e9));
    cells.push_back(fmt::format("{:.2f}", use.total() / 1e9));
    table.row(std::move(cells));
  }
  return table.text();
}

// Two metrics a line, so that all of it stays on one screen; with formulas one a line.
std::string metrics_table(const spec::Job& job, const plan::Metrics& metrics, bool explain) {
  const std::vector<plan::MetricLine> lines = plan::described(metrics, job);
  if (explain) {
    std::string text;
    for (const plan::MetricLine& line : lines)
      text += fmt::format("  {}: {}\n    = {}\n", line.label, line.value, line.formula);
    return text;
  }
  Table table({{""}, {"", Align::right}, {""}, {"", Align::right}}, {.indent = 2, .gap = 3, .header_rule = false});
  const std::size_t half = (lines.size() + 1) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    std::vector<std::string> cells = {lines[i].label, lines[i].value};
    if (i + half < lines.size()) cells.insert(cells.end(), {lines[i + half].label, lines[i + half].value});
    table.row(std::move(cells));
  }
  return table.text();
}

}  // namespace

std::string bar(double share, int width) {
  const int blocks = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width));
  std::string text;
  for (int i = 0; i < blocks; ++i) text += "█";
  return text;
}

std::vector<double> rounded_to_add_up(const std::vector<double>& values, int decimals) {
  const double unit = std::pow(10.0, -decimals);
  std::vector<double> units;
  std::vector<std::size_t> order(values.size());
  for (const double value : values) units.push_back(std::floor(value / unit));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto remainder = [&](std::size_t i) { return values[i] / unit - units[i]; };
  const std::vector<double> floors = units;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder(a) > remainder(b); });
  const double wanted = std::round(std::accumulate(values.begin(), values.end(), 0.0) / unit);
  double missing = wanted - std::accumulate(floors.begin(), floors.end(), 0.0);
  for (std::size_t i = 0; i < order.size() && missing > 0.5; ++i, missing -= 1) units[order[i]] += 1;
  for (double& value : units) value *= unit;
  return units;
}

std::string layout_text(const spec::Job& job) {
  const spec::Layout& l = job.layout;
  std::string text = fmt::format("dp {} × tp {} × pp {}", spec::data_parallel(job), l.tp, l.pp);
  const auto add = [&](bool wanted, const std::string& what) {
    if (wanted) text += what;
  };
  add(l.cp > 1, fmt::format(" × cp {}", l.cp));
  add(l.ep > 1, fmt::format(", ep {}", l.ep));
  add(l.etp > 0 && l.ep > 1, fmt::format(", etp {}", l.etp));
  add(l.pp > 1, fmt::format(", {}", spec::name_of(l.schedule)));
  add(l.virtual_stages > 1, fmt::format(" × {}", l.virtual_stages));
  add(true, fmt::format(", micro-batch {}", l.micro_batch));
  add(l.sequence_parallel, ", sequence parallel");
  add(true, fmt::format(", ZeRO {}", l.zero));
  add(l.shard_group > 0, fmt::format(" over {}", l.shard_group));
  add(true, fmt::format(", recompute {}", spec::name_of(l.recompute)));
  add(l.recompute_layers > 0, fmt::format(" ({} of a stage)", counted(l.recompute_layers, "layer")));
  add(l.offload_optimizer, ", optimizer on the host");
  add(l.offload_activations, ", activations on the host");
  add(l.uneven_ends, ", uneven ends");
  add(l.async_tp, ", async tp");
  return text;
}

std::string idle_line(const spec::Job& job) {
  if (job.idle_devices == 0) return "";
  return fmt::format("{} of the cluster stay{} idle\n", counted(job.idle_devices, "device"),
                     job.idle_devices == 1 ? "s" : "");
}

std::string in_gib(double bytes) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const bool is_whole = bytes >= kGib && std::fmod(bytes, kGib) == 0 && std::fmod(bytes, 1e9) != 0;
  return is_whole ? fmt::format("{:.0f} GiB = {}", bytes / kGib, format_bytes(bytes)) : "";
}

std::string job_text(const spec::Job& job) { return job_line(job) + layout_text(job) + "\n" + training_line(job); }

std::string estimate_text(const spec::Job& job, const plan::Assessment& a, const EstimateOptions& options) {
  std::string text = job_text(job) + range_line(a) + memory_note(job.cluster.device.memory_bytes);
  for (const std::string& warning : a.warnings) text += fmt::format("note: {}\n", warning);
  text += "\n" + time_table(a.step, options.explain);
  text += "\n" + memory_table(job, a.memory);
  if (options.stages) text += "\n" + stage_table(a.stages);
  text += "\n" + metrics_table(job, a.metrics, options.explain);
  return text;
}

}  // namespace twinpod::report
