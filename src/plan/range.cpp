#include "plan/range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/quote.hpp"
#include "core/thousands.hpp"
#include "spec/bounds.hpp"
#include "spec/node.hpp"
#include "spec/reader.hpp"

namespace twinpod::plan {
namespace {

constexpr std::array<std::string_view, 6> kKindNames = {"single-device", "data-only", "tensor",
                                                        "pipeline",      "sharded",   "experts"};
constexpr int kFarBeyond = 2;  // times the largest validated run

struct Place {
  std::string_view device;
  std::string_view stack;
  std::string_view kind;
};

const AccuracyRow* find(const Accuracy& accuracy, const Place& place) {
  const auto found = std::find_if(accuracy.begin(), accuracy.end(), [&](const AccuracyRow& row) {
    return row.device == place.device && row.stack == place.stack && row.kind == place.kind;
  });
  return found == accuracy.end() ? nullptr : &*found;
}

std::string place_text(const Place& place) {
  std::string text;
  if (!place.stack.empty()) text += fmt::format(" of {}", place.stack);
  if (!place.device.empty()) text += fmt::format(" on {}", place.device);
  if (!place.kind.empty()) text += fmt::format(", {}", place.kind);
  return text;
}

std::string runs_text(int count, const Place& place) {
  return fmt::format("{} run{}{}", count, count == 1 ? "" : "s", place_text(place));
}

Range range_from(const AccuracyRow& row, const Place& place) {
  Range range;
  range.low = std::min(1.0, row.p10);
  range.high = std::max(1.0, row.p90);
  range.count = row.count;
  range.basis = runs_text(row.count, place);
  // Else nobody would know why a range begins or ends at the estimate.
  constexpr double kShown = 5e-3;  // of what three digits tell apart
  if (row.p10 > 1 - kShown && row.p90 > 1 + kShown) range.basis += "; nearly all took as long as predicted or longer";
  if (row.p90 < 1 + kShown && row.p10 < 1 - kShown) range.basis += "; nearly all took as long as predicted or less";
  return range;
}

void read_row(const spec::Node& node, spec::Context& context, AccuracyRow& row) {
  spec::Reader reader(node, context, "a row of accuracy");
  reader.text("device", row.device);
  reader.text("stack", row.stack);
  reader.text("kind", row.kind);
  for (const std::string_view key : {"count", "p10", "p90"}) reader.require(key);
  reader.count("count", row.count, 0, spec::kMaxBatch);
  reader.count("max_devices", row.max_devices, 0, spec::kMaxDevices);
  reader.quantity("p10", row.p10, Quantity::number, 1e-3, 1e3);
  reader.quantity("p90", row.p90, Quantity::number, 1e-3, 1e3);
  reader.finish();
}

Result<Accuracy> read_root(const Result<spec::Node>& root, const std::string& file) {
  if (!root) return tl::unexpected(root.error());
  spec::Context context(file);
  if (root->kind != spec::Node::Kind::sequence) context.refuse(*root, "expected a list of rows of accuracy");
  Accuracy accuracy(root->items.size());
  for (std::size_t i = 0; i < root->items.size(); ++i) read_row(root->items[i], context, accuracy[i]);
  if (context.failed()) return tl::unexpected(context.error());
  return accuracy;
}

}  // namespace

std::string_view name_of(LayoutKind kind) { return kKindNames.at(static_cast<std::size_t>(kind)); }

LayoutKind layout_kind(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  if (job.model.experts.count > 0) return LayoutKind::experts;
  if (layout.zero == 3 && job.cluster.devices > 1) return LayoutKind::sharded;
  if (layout.pp > 1) return LayoutKind::pipeline;
  if (layout.tp > 1 || layout.cp > 1) return LayoutKind::tensor;
  return job.cluster.devices > 1 ? LayoutKind::data_only : LayoutKind::single_device;
}

Result<Accuracy> read_accuracy(const std::string& path) { return read_root(spec::parse_yaml_file(path), path); }

Result<Accuracy> read_accuracy_text(std::string_view text, const std::string& file) {
  return read_root(spec::parse_yaml(text, file), file);
}

std::string write_accuracy(const Accuracy& accuracy) {
  std::string text =
      "# Measured over predicted step time of published runs (grades A and B), each predicted by parameters that were\n"
      "# fitted without it and its siblings: 10th and 90th percentile. A key that is missing stands for any; rows "
      "without\n"
      "# a stack come from predictions that never saw any run of the stack. Written by `twinpod validate "
      "--cross-validate\n"
      "# --write-accuracy FILE`; read for the range of each estimate.\n";
  for (const AccuracyRow& row : accuracy) {
    text += "- {";
    if (!row.device.empty()) text += fmt::format("device: {}, ", yaml_word(row.device));
    if (!row.stack.empty()) text += fmt::format("stack: {}, ", yaml_word(row.stack));
    if (!row.kind.empty()) text += fmt::format("kind: {}, ", yaml_word(row.kind));
    text += fmt::format("count: {}, max_devices: {}, p10: {:.4f}, p90: {:.4f}}}\n", row.count, row.max_devices, row.p10,
                        row.p90);
  }
  return text;
}

Range range_of(const Accuracy& accuracy, const spec::Job& job) {
  const std::string_view device = job.cluster.device.family;
  const std::string_view stack = job.stack.name;
  const Place exact{device, stack, name_of(layout_kind(job))};
  const AccuracyRow* alike = find(accuracy, exact);
  if (alike != nullptr && alike->count >= kEnoughRuns) {
    Range range = range_from(*alike, exact);
    if (job.cluster.devices > kFarBeyond * alike->max_devices) {
      range.outside = fmt::format("{}, and the largest of {} had {}", counted(job.cluster.devices, "device"),
                                  runs_text(alike->count, exact), with_thousands(alike->max_devices));
    }
    return range;
  }
  const std::string outside =
      fmt::format("{}, and at least {} are needed", runs_text(alike == nullptr ? 0 : alike->count, exact), kEnoughRuns);
  // A stack's residuals on other devices say little about this one: the wider of theirs and the device's holds.
  const std::array<Place, 3> wider = {Place{"", stack, ""}, Place{device, "", ""}, Place{}};
  Range range;
  for (const Place& place : wider) {
    const AccuracyRow* row = find(accuracy, place);
    if (row == nullptr || row->count < kEnoughRuns) continue;
    const Range found = range_from(*row, place);
    const double width = found.high - found.low;
    if (width > range.high - range.low) range = found;
    if (!place.stack.empty()) continue;
    range.outside = outside;
    return range;
  }
  Range none;
  none.outside = outside;
  return none;
}

}  // namespace twinpod::plan
