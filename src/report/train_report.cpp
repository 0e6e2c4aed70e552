#include "report/train_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/progress.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "model/arithmetic.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {
namespace {

double step_tokens(const spec::Job& job) { return job.training.global_batch * job.training.sequence; }

// Share of the ranks' measured peak that the model's own arithmetic uses.
double utilisation(const spec::Job& job, double seconds, double peak_flop_per_s) {
  if (peak_flop_per_s <= 0 || seconds <= 0) return 0;
  const double flop = model::training_flop(job.model, job.training.sequence) * step_tokens(job);
  return flop / seconds / (peak_flop_per_s * job.cluster.devices);
}

double most(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// 0: of nothing.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::size_t fullest_rank(const train::LoopResult& run) {
  return static_cast<std::size_t>(std::max_element(run.peak_bytes.begin(), run.peak_bytes.end()) -
                                  run.peak_bytes.begin());
}

// What the peak of the fullest rank is made of.
Json memory_parts(const std::vector<program::BytesByKind>& by_rank, std::size_t rank) {
  Json json = Json::object();
  if (rank >= by_rank.size()) return json;
  for (int kind = 0; kind < program::kNumBufferKinds; ++kind) {
    json[fmt::format("{}_bytes", name_of(static_cast<program::BufferKind>(kind)))] =
        by_rank[rank][static_cast<std::size_t>(kind)];
  }
  return json;
}

std::string mesh_text(const spec::Job& job) {
  const spec::Layout& l = job.layout;
  std::string text = fmt::format("dp {}, tp {}, pp {}", spec::data_parallel(job), l.tp, l.pp);
  if (l.sequence_parallel && l.tp > 1) text += ", sequence parallel";
  if (l.pp > 1) text += fmt::format(", schedule {}", name_of(l.schedule));
  if (l.zero > 0) text += fmt::format(", zero {}", l.zero);
  if (l.recompute != spec::Recompute::none) text += fmt::format(", recompute {}", name_of(l.recompute));
  return text + fmt::format(", micro-batch {}", l.micro_batch);
}

// Share of the steps' time that training waited for its checkpoints.
double stall_share(const train::LoopResult& run) {
  double seconds = 0;
  for (const train::StepNote& note : run.steps) seconds += note.seconds;
  return seconds > 0 ? run.saves.stall_s / seconds : 0;
}

void add_saves(const train::LoopResult& run, Json& json) {
  json["finished"] = !run.stopped;
  json["stopped"] = run.stopped;
  json["first_step"] = run.first_step;
  json["resumed_from"] = run.resumed_from.empty() ? Json(nullptr) : Json(run.resumed_from);
  json["checkpoints"] = run.saves.saved;
  json["checkpoints_passed_over"] = run.saves.passed_over;
  json["checkpoints_failed"] = run.saves.failed;
  json["checkpoint_errors"] = run.saves.errors;
  json["checkpoint_step"] = run.saves.newest_step > 0 ? Json(run.saves.newest_step) : Json(nullptr);
  json["checkpoint_stall_s"] = run.saves.stall_s;
  json["checkpoint_stall_share"] = stall_share(run);
  json["checkpoint_memory_bytes"] = run.saves.snapshot_bytes;
}

// Below the peak, what it is made of.
void add_memory_parts(const train::LoopResult& run, Table& table) {
  const std::size_t rank = fullest_rank(run);
  if (rank >= run.peak_by_kind.size() || rank >= run.predicted_by_kind.size()) return;
  for (std::size_t kind = 0; kind < run.peak_by_kind[rank].size(); ++kind) {
    const double measured = run.peak_by_kind[rank][kind];
    const double predicted = run.predicted_by_kind[rank][kind];
    if (measured == 0 && predicted == 0) continue;
    table.row({fmt::format("  {}", name_of(static_cast<program::BufferKind>(kind))), format_bytes(predicted),
               format_bytes(measured), ""});
  }
}

void add_saves(const train::LoopResult& run, Table& table) {
  const train::SaveReport& saves = run.saves;
  if (saves.saved + saves.failed + saves.passed_over == 0) return;
  std::string note = fmt::format("the newest of step {}", saves.newest_step);
  if (saves.passed_over > 0) note += fmt::format("; {} passed over, the one before was not done", saves.passed_over);
  if (saves.failed > 0) note += fmt::format("; {} failed", saves.failed);
  table.row({"checkpoints", "", fmt::format("{}", saves.saved), note});
  table.row({"  stall", "", format_seconds(saves.stall_s),
             fmt::format("{:.2f} % of the steps' time; {} a rank for the copy, beside the peak", 100 * stall_share(run),
                         format_bytes(static_cast<double>(saves.snapshot_bytes)))});
}

void add_results(const TrainView& view, std::string& text) {
  const double seconds = step_seconds(view.run);
  Table table({{""}, {"predicted", Align::right}, {"measured", Align::right}, {""}}, {.indent = 2});
  const auto row = [&](const char* what, const std::string& before, const std::string& now, const std::string& note) {
    table.row({what, before, now, note});
  };
  const bool predicted = view.predicted_step_s > 0;
  row("step", predicted ? format_seconds(view.predicted_step_s) : "-", format_seconds(seconds),
      predicted
          ? fmt::format("{:+.1f} %; predicted by figures {}", 100 * (view.predicted_step_s / seconds - 1), view.basis)
          : "");
  row("rate", predicted ? fmt::format("{:.0f} tokens/s", step_tokens(view.job) / view.predicted_step_s) : "-",
      fmt::format("{:.0f} tokens/s", step_tokens(view.job) / seconds), "");
  row("MFU", "", fmt::format("{:.1f} %", 100 * utilisation(view.job, seconds, view.peak_flop_per_s)),
      fmt::format("of {:.1f} GFLOP/s a rank, measured here", 1e-9 * view.peak_flop_per_s));
  if (const double factor = scale_factor(view.run); factor > 0)
    row("scale factor", "", fmt::format("{:.3f}", factor), "share of the ranks' time that is arithmetic");
  row("peak memory", format_bytes(most(view.run.predicted_bytes)), format_bytes(most(view.run.peak_bytes)),
      view.run.predicted_bytes == view.run.peak_bytes ? "the same, byte for byte, on every rank"
                                                      : "of the fullest rank");
  add_memory_parts(view.run, table);
  row("final loss", "", fmt::format("{:.4f}", view.run.final_loss),
      view.run.evaluated ? "on text that was held out" : "of the last step");
  if (view.job.training.target_loss > 0) {
    row("time to target", "", view.run.time_to_target_s > 0 ? format_seconds(view.run.time_to_target_s) : "not reached",
        fmt::format("loss {:.3g}", view.job.training.target_loss));
  }
  add_saves(view.run, table);
  text += table.text();
}

// About a dozen spread evenly, and all that were evaluated, or as many of them as a screen has lines; many of these do
// without the others.
std::vector<std::size_t> steps_to_show(const std::vector<train::StepNote>& steps) {
  constexpr std::size_t kRows = 12;
  constexpr std::size_t kMostEvaluations = 30;
  std::vector<std::size_t> evaluated;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].evaluation_loss > 0) evaluated.push_back(i);
  }
  std::set<std::size_t> shown;
  const std::size_t thinned = (evaluated.size() + kMostEvaluations - 1) / kMostEvaluations;
  for (std::size_t i = 0; i < evaluated.size(); ++i) {
    if ((evaluated.size() - 1 - i) % thinned == 0) shown.insert(evaluated[i]);
  }
  const std::size_t every = std::max<std::size_t>(1, (steps.size() + kRows - 1) / kRows);
  for (std::size_t i = 0; i < steps.size(); i += every) {
    if (i == 0 || evaluated.size() < kRows) shown.insert(i);
  }
  if (!steps.empty()) shown.insert(steps.size() - 1);
  return {shown.begin(), shown.end()};
}

}  // namespace

std::string losses_text(const std::vector<train::StepNote>& steps) {
  Table table({{"step", Align::right},
               {"loss", Align::right},
               {"evaluation", Align::right},
               {"learning rate", Align::right},
               {"gradient norm", Align::right},
               {"step ms", Align::right}},
              {.indent = 2});
  for (const std::size_t i : steps_to_show(steps)) {
    const train::StepNote& note = steps[i];
    table.row({fmt::format("{}", note.step + 1), fmt::format("{:.4f}", note.loss),
               note.evaluation_loss > 0 ? fmt::format("{:.4f}", note.evaluation_loss) : "",
               fmt::format("{:.2e}", note.rate), fmt::format("{:.3f}", note.gradient_norm),
               fmt::format("{:.1f}", 1e3 * note.seconds)});
  }
  return table.text();
}

double step_seconds(const train::LoopResult& run) {
  std::vector<double> seconds;
  const std::size_t skipped = std::min<std::size_t>(run.steps.size() > 4 ? 2 : 0, run.steps.size());
  for (std::size_t i = skipped; i < run.steps.size(); ++i) seconds.push_back(run.steps[i].seconds);
  return median(seconds);
}

double scale_factor(const train::LoopResult& run) {
  std::vector<double> factors;
  for (const train::StepNote& note : run.steps) {
    const double last = factors.empty() ? 0 : factors.back();
    if (note.scale_factor > 0 && note.scale_factor != last) factors.push_back(note.scale_factor);
  }
  return median(factors);
}

std::string progress_text(const ProgressView& view) {
  const train::StepNote& note = view.note;
  const auto done = static_cast<std::size_t>(note.step) + 1;
  std::string text = progress_line("train", done, static_cast<std::size_t>(note.steps));
  text += fmt::format("  step {}/{}  loss {:.3f}", done, note.steps, note.loss);
  if (view.evaluation_loss > 0) text += fmt::format("  evaluation {:.3f}", view.evaluation_loss);
  text += fmt::format("  {:.1f} k tokens/s", 1e-3 * step_tokens(view.job) / view.step_s);
  if (view.peak_flop_per_s > 0)
    text += fmt::format("  MFU {:.0f} %", 100 * utilisation(view.job, view.step_s, view.peak_flop_per_s));
  if (note.scale_factor > 0) text += fmt::format("  scale factor {:.2f}", note.scale_factor);
  if (note.saved_step > 0) text += fmt::format("  saved {}", note.saved_step);
  const double left = note.elapsed_s / static_cast<double>(done) * (note.steps - static_cast<double>(done));
  return text + fmt::format("  {} left", format_seconds(left));
}

std::string metrics_line(const spec::Job& job, const train::StepNote& note) {
  Json json = {{"step", note.step + 1},
               {"loss", note.loss},
               {"learning_rate", note.rate},
               {"gradient_norm", note.gradient_norm},
               {"step_time_s", note.seconds},
               {"elapsed_s", note.elapsed_s},
               {"tokens_per_s", step_tokens(job) / note.seconds}};
  if (note.scale_factor > 0) json["scale_factor"] = note.scale_factor;
  if (note.evaluation_loss > 0) json["evaluation_loss"] = note.evaluation_loss;
  if (note.saved_step > 0) json["checkpoint_step"] = note.saved_step;
  return json.dump() + "\n";
}

std::string train_text(const TrainView& view) {
  const spec::Job& job = view.job;
  std::string text =
      fmt::format("{}: {} ({}), {}\n", job.name, counted(job.cluster.devices, "rank"), view.transport, mesh_text(job));
  text += fmt::format("{} of {} tokens a step, {}, {} in {}\n\n", counted(job.training.global_batch, "sequence"),
                      job.training.sequence, name_of(job.training.precision),
                      counted(static_cast<double>(view.run.steps.size()), "step"), format_seconds(view.run.seconds));
  text += losses_text(view.run.steps);
  text += "\n";
  add_results(view, text);
  if (view.predicted != nullptr && view.measured != nullptr) {
    text += fmt::format("\nOne step, op by op (step {}):\n\n", view.run.record_step + 1);
    text += compare_text(*view.predicted, *view.measured);
  }
  for (const std::string& note : view.notes) text += "\n" + note + "\n";
  return text;
}

std::string idle_json(const train::LoopResult& run, int steps) {
  Json json;
  json["finished"] = run.finished;
  json["stopped"] = run.stopped;
  json["steps"] = 0;
  json["first_step"] = run.first_step;
  json["last_step"] = steps;
  json["resumed_from"] = run.resumed_from.empty() ? Json(nullptr) : Json(run.resumed_from);
  return printed(json);
}

std::string train_json(const TrainView& view) {
  const spec::Job& job = view.job;
  const double seconds = step_seconds(view.run);
  Json json;
  json["name"] = job.name;
  json["ranks"] = job.cluster.devices;
  json["transport"] = view.transport;
  json["layout"] = layout_json(job.layout, spec::data_parallel(job));
  json["precision"] = name_of(job.training.precision);
  json["steps"] = view.run.steps.size();
  json["final_loss"] = view.run.final_loss;
  json["losses"] = Json::array();
  json["evaluations"] = Json::array();
  for (const train::StepNote& note : view.run.steps) {
    json["losses"].push_back(note.loss);
    if (note.evaluation_loss > 0)
      json["evaluations"].push_back({{"step", note.step + 1}, {"loss", note.evaluation_loss}});
  }
  json["tokens_per_s"] = seconds > 0 ? step_tokens(job) / seconds : 0;
  json["mfu"] = utilisation(job, seconds, view.peak_flop_per_s);
  const double factor = scale_factor(view.run);
  json["scale_factor"] = factor > 0 ? Json(factor) : Json(nullptr);
  json["peak_flop_per_s"] = view.peak_flop_per_s;
  json["step_time_s"] = seconds;
  json["predicted_step_time_s"] = view.predicted_step_s > 0 ? Json(view.predicted_step_s) : Json(nullptr);
  json["prediction_basis"] = view.predicted_step_s > 0 ? Json(view.basis) : Json(nullptr);
  json["peak_memory_bytes"] = most(view.run.peak_bytes);
  json["predicted_peak_memory_bytes"] = most(view.run.predicted_bytes);
  json["peak_memory_parts"] = memory_parts(view.run.peak_by_kind, fullest_rank(view.run));
  json["predicted_peak_memory_parts"] = memory_parts(view.run.predicted_by_kind, fullest_rank(view.run));
  json["peak_memory_bytes_by_rank"] = view.run.peak_bytes;
  json["predicted_peak_memory_bytes_by_rank"] = view.run.predicted_bytes;
  json["time_to_target_s"] = view.run.time_to_target_s > 0 ? Json(view.run.time_to_target_s) : Json(nullptr);
  json["run_time_s"] = view.run.seconds;
  add_saves(view.run, json);
  json["notes"] = view.notes;
  if (view.error != nullptr) json["error"] = error_value(*view.error);
  return printed(json);
}

}  // namespace twinpod::report
