// twinpod program: one training step spelled out, as text and as the picture of its pipeline.
#include "program/program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "core/files.hpp"
#include "core/nearest.hpp"
#include "core/quote.hpp"
#include "core/units.hpp"
#include "program/check.hpp"
#include "program/generate.hpp"
#include "program/order.hpp"
#include "report/program_text.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kProgramOutputFlags = {
    Flag{"show", "WHAT", "pipeline (the picture), text (every op) or memory (over the step)", ""},
    Flag{"svg", "FILE", "draw the pipeline", ""},
    Flag{"stage", "N", "with text and --json: of one stage only", ""},
    Flag{"slots", "F:B:W", "how long passes are in the picture (default: 1:1:1)", ""},
};
constexpr std::array kFlagsOfProgram = joined(joined(kJobFlags, kTrainingFlags), kProgramOutputFlags);

constexpr double kMostBoxes = 200'000;  // that a picture can hold

Result<program::SlotWeights> weights_of(const Arguments& arguments) {
  const std::string text = arguments.value_or("slots", "1:1:1");
  std::array<double, 3> values{};
  std::size_t from = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t colon = i + 1 < values.size() ? text.find(':', from) : text.size();
    const Result<double> value = colon == std::string::npos || colon <= from
                                     ? Result<double>(input_error(""))
                                     : parse_quantity(text.substr(from, colon - from), Quantity::number);
    if (!value || *value <= 0 || *value > 1000)
      return input_error(fmt::format("--slots {}: expected three numbers above 0 and up to 1000", text),
                         "--slots 1:1:1");
    values[i] = *value;
    from = colon + 1;
  }
  return program::SlotWeights{values[0], values[1], values[2]};
}

Result<std::string> show_of(const Arguments& arguments) {
  const std::string what = arguments.value_or("show", "");
  const std::vector<std::string> known = {"pipeline", "text", "memory"};
  for (const std::string& one : known) {
    if (what == one) return what;
  }
  if (what.empty()) return what;
  const std::string nearest = nearest_name(what, known);
  return input_error(fmt::format("--show {}: expected pipeline, text or memory", what),
                     nearest.empty() ? "" : fmt::format("did you mean `{}`?", nearest));
}

// -1: all stages.
Result<int> stage_of(const Arguments& arguments, int stages) {
  if (!arguments.has("stage")) return -1;
  const Result<int> stage = whole_number(arguments, "stage", 0, 0);
  if (!stage || *stage < stages) return stage;
  return input_error(fmt::format("--stage {}: the job has stages 0 to {}", *stage, stages - 1));
}

Result<void> draw(const std::string& file, const report::ProgramView& view) {
  double boxes = 0;
  for (const auto& list : view.order.stages) boxes += static_cast<double>(list.size());
  if (boxes > kMostBoxes)
    return input_error(fmt::format("--svg: the picture would have {:.0f} boxes, more than {:.0f}", boxes, kMostBoxes),
                       "draw a job with a smaller --global-batch");
  return write_file(file, report::pipeline_svg(view));
}

std::string answer(const Arguments& arguments, const report::ProgramView& view, const std::string& show, int stage) {
  if (arguments.has("json")) return report::program_json(view, stage);
  if (show == "pipeline") return report::pipeline_text(view, isatty(STDOUT_FILENO) == 1);
  if (show == "text") return report::program_text(view, stage);
  if (show == "memory") return report::program_memory_text(view);
  return report::program_summary(view);
}

Result<std::string> show_program(const Arguments& arguments) {
  const Result<std::string> show = show_of(arguments);
  if (!show) return tl::unexpected(show.error());
  const Result<program::SlotWeights> weights = weights_of(arguments);
  if (!weights) return tl::unexpected(weights.error());
  const Result<spec::Job> job = one_job("program", arguments, catalog_of(arguments));
  if (!job) return tl::unexpected(job.error());
  const Result<int> stage = stage_of(arguments, job->layout.pp);
  if (!stage) return tl::unexpected(stage.error());

  const Result<program::Program> program = program::generate(*job);
  if (!program) return tl::unexpected(program.error());
  const Result<void> sound = program::check(*program);
  if (!sound) return tl::unexpected(sound.error());
  const Result<void> fits = program::check_memory(*program);
  if (!fits) return tl::unexpected(fits.error());
  const Result<program::Order> order = program::order_of(*job);
  if (!order) return tl::unexpected(order.error());
  const Result<program::Slots> slots = program::run_slots(*order, *weights);
  if (!slots) return tl::unexpected(slots.error());

  report::ProgramView view{*job, *program, *order, *slots, *weights, {}};
  for (int kind = 0; kind < static_cast<int>(program->kinds.size()); ++kind)
    view.memory.push_back(program::memory_of(*program, kind));
  if (const auto file = arguments.value("svg")) {
    const Result<void> drawn = draw(*file, view);
    if (!drawn) return tl::unexpected(drawn.error());
  }
  return answer(arguments, view, *show, *stage);
}

}  // namespace

const Command kProgramCommand = {
    "program",
    "MODEL|JOB.yaml|config.json [--on CLUSTER] [flags]",
    "one training step spelled out: ops, pipeline, memory over time",
    "twinpod program gpt3-175b --on dgx-superpod-a100-140 --devices 1024 --tp 8 --pp 8 --show pipeline\n"
    "twinpod program examples/llama3-70b.yaml --show text --stage 0\n"
    "twinpod program llama3-70b --on h100-superpod --devices 512 --tp 4 --pp 8 --schedule zb-v --svg pipeline.svg\n"
    "twinpod program llama3-70b --on h100-superpod --devices 512 --tp 4 --pp 4 --schedule mine.csv --show memory\n",
    kFlagsOfProgram,
    show_program,
    Colours::kept};

}  // namespace twinpod::cli
