// twinpod demo: why GPT-3 needs a cluster, on one screen.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/command.hpp"
#include "core/parallel.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "plan/assessment.hpp"
#include "plan/fits.hpp"
#include "plan/rules.hpp"
#include "plan/search.hpp"
#include "report/json_parts.hpp"
#include "report/plan_report.hpp"
#include "report/tables.hpp"
#include "spec/names.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {
namespace {

constexpr double kParameters = 175e9;
constexpr double kTokens = 300e9;
constexpr double kDay = 86400;
constexpr double kYear = 365.25 * kDay;
constexpr double kV100Rate = 46e12;   // what both published V100 figures imply
constexpr double kA100Rate = 140e12;  // measured by Narayanan et al. 2021
constexpr int kDevices = 1024;
constexpr std::string_view kCluster = "dgx-superpod-a100-140";
constexpr std::string_view kStack = "megatron-2022";  // the one with most published runs like this

constexpr std::size_t kPlanned = 3;   // layouts of the plan that are shown, each of another shape
constexpr std::size_t kRanked = 500;  // of the plan, among which those are

// Layouts of the literature for a model of this size.
struct Published {
  int tp, pp, virtual_stages;
  std::string_view recompute;
};
constexpr std::array kPublished = {Published{8, 16, 1, "full"}, Published{8, 8, 1, "full"},
                                   Published{8, 8, 1, "selective"}, Published{8, 8, 3, "selective"}};

std::string memory_part() {
  return fmt::format(
      "Why GPT-3 needs a cluster\n\n"
      "  memory   {} parameters × 4 bytes = {} GB; training them takes about {:.0f} times that, {} GB,\n"
      "           and the largest device of its day had 32 GB, an A100 has 80 GB.\n",
      format_count(kParameters), with_thousands(plan::parameter_bytes_fp32(kParameters) / 1e9), plan::kTrainingFactor,
      with_thousands(plan::training_bytes_fp32(kParameters) / 1e9));
}

double rule_s(double devices, double flop_per_s) {
  return plan::training_time_8tp_s(kTokens, kParameters, devices, flop_per_s);
}

std::string time_part() {
  return fmt::format(
      "  time     8·T·P/(n·X) for T = {} tokens, P = {} parameters, n devices at X FLOP/s each:\n"
      "               8 × V100 at {}   {:.0f} years\n"
      "             512 × V100 at {}   {:.0f} months\n"
      "           1,024 × A100 at {}    {:.0f} days\n",
      format_count(kTokens), format_count(kParameters), format_flop_per_s(kV100Rate), rule_s(8, kV100Rate) / kYear,
      format_flop_per_s(kV100Rate), rule_s(512, kV100Rate) / (kYear / 12), format_flop_per_s(kA100Rate),
      rule_s(kDevices, kA100Rate) / kDay);
}

spec::Request request_of(const Published& c) {
  spec::Request request;
  request.model = "gpt3-175b";
  request.cluster = kCluster;
  request.sets = {fmt::format("devices={}", kDevices),
                  fmt::format("stack={}", kStack),
                  fmt::format("layout.tp={}", c.tp),
                  fmt::format("layout.pp={}", c.pp),
                  fmt::format("layout.virtual_stages={}", c.virtual_stages),
                  fmt::format("layout.recompute={}", c.recompute),
                  "layout.sequence_parallel=true",
                  "layout.zero=1",
                  "training.global_batch=1536",
                  fmt::format("training.tokens={}", kTokens)};
  return request;
}

struct Tried {
  spec::Job job;
  plan::Assessment assessment;
  bool planned = false;  // else published
};

struct Shown {
  std::vector<Tried> layouts;  // published ones, then the plan's, its best first
  std::uint64_t tried = 0;
  std::uint64_t fit = 0;
  double seconds = 0;
  const Tried& best() const { return layouts[kPublished.size()]; }
};

bool has_shape(const std::vector<Tried>& layouts, const spec::Layout& l) {
  return std::any_of(layouts.begin(), layouts.end(), [&](const Tried& one) {
    return one.planned && one.job.layout.tp == l.tp && one.job.layout.pp == l.pp;
  });
}

void add_plan(const plan::Accuracy& accuracy, Shown& shown) {
  const spec::Job job = shown.layouts.front().job;
  const plan::SearchResult found =
      plan::search(plan::space_of(job, {}, job.stack.abilities), {.keep = kRanked, .memory_margin = 0.05});
  shown.tried = found.evaluated;
  shown.fit = found.feasible;
  shown.seconds = found.seconds;
  for (const plan::Candidate& candidate : found.ranked) {
    if (shown.layouts.size() == kPublished.size() + kPlanned) return;
    if (has_shape(shown.layouts, candidate.layout)) continue;
    const spec::Job planned = report::job_of(job, candidate);
    shown.layouts.push_back({planned, plan::assess(planned, accuracy), true});
  }
}

Result<Shown> try_layouts(const spec::Catalog& catalog) {
  const Result<plan::Accuracy> accuracy = plan::read_accuracy(catalog.folder() + "/accuracy.yaml");
  if (!accuracy) return tl::unexpected(accuracy.error());
  Shown shown;
  for (const Published& published : kPublished) {
    Result<spec::Job> job = spec::read_job(request_of(published), catalog);
    if (!job) return tl::unexpected(job.error());
    const Result<void> valid = plan::check_memory(*job);
    if (!valid) return tl::unexpected(valid.error());
    shown.layouts.push_back({*job, plan::assess(*job, *accuracy), false});
  }
  add_plan(*accuracy, shown);
  if (shown.layouts.size() == kPublished.size()) return infeasible("no layout fits");
  return shown;
}

std::string table_of(const Shown& shown) {
  Table table({{"layout"},
               {"memory", Align::right},
               {"step", Align::right},
               {"MFU", Align::right},
               {"scale factor", Align::right},
               {"time", Align::right},
               {"cost", Align::right},
               {"found by"}},
              {.indent = 2});
  for (const Tried& one : shown.layouts) {
    const spec::Layout& l = one.job.layout;
    const plan::Metrics& m = one.assessment.metrics;
    const std::string chunks = l.virtual_stages > 1 ? fmt::format(" × {}", counted(l.virtual_stages, "chunk")) : "";
    table.row({fmt::format("tp {} × pp {}{}, micro-batch {}, {} recompute", l.tp, l.pp, chunks, l.micro_batch,
                           spec::name_of(l.recompute)),
               format_bytes(one.assessment.memory.total()), format_seconds(m.step_time_s),
               fmt::format("{:.1f} %", 100 * m.mfu), fmt::format("{:.2f}", m.scale_factor),
               fmt::format("{:.1f} d", *m.time_to_train_s / kDay),
               m.cost_usd ? fmt::format("{:.2f} M USD", *m.cost_usd / 1e6) : "not known",
               one.planned ? "plan" : "people"});
  }
  return table.text();
}

std::string best_part(const Shown& shown) {
  const plan::Assessment& a = shown.best().assessment;
  const double days = *a.metrics.time_to_train_s / kDay;
  std::string text = fmt::format("\n  the plan's best of {}: {:.1f} days", counted(shown.tried, "layout"), days);
  if (a.range.count > 0) {
    text += fmt::format(", between {:.1f} and {:.1f} in 8 of 10 cases ({})", days * a.range.low, days * a.range.high,
                        a.range.basis);
  }
  text += "\n";
  if (!a.range.validated()) text += fmt::format("  outside what was validated: {}\n", a.range.outside);
  return text + fmt::format(
                    "\nWhy, and why not another: twinpod plan gpt3-175b --on {} --devices {} --stack {} "
                    "--global-batch 1536 --tokens 300e9 --memory-margin 5% --explain\n",
                    kCluster, kDevices, kStack);
}

std::string demo_json(const Shown& shown, const nlohmann::ordered_json& trained) {
  using Json = nlohmann::ordered_json;
  Json layouts = Json::array();
  for (const Tried& one : shown.layouts) {
    layouts.push_back({{"layout", report::layout_text(one.job)},
                       {"found_by", one.planned ? "plan" : "people"},
                       {"best", &one == &shown.best()},
                       {"memory_bytes", one.assessment.memory.total()},
                       {"step_time_s", one.assessment.step.total_s},
                       {"mfu", one.assessment.metrics.mfu},
                       {"scale_factor", one.assessment.metrics.scale_factor},
                       {"time_to_train_s", *one.assessment.metrics.time_to_train_s}});
  }
  const Json json = {{"parameter_bytes", plan::parameter_bytes_fp32(kParameters)},
                     {"training_bytes", plan::training_bytes_fp32(kParameters)},
                     {"time_on_8_v100_s", rule_s(8, kV100Rate)},
                     {"time_on_512_v100_s", rule_s(512, kV100Rate)},
                     {"time_on_1024_a100_s", rule_s(kDevices, kA100Rate)},
                     {"evaluated", shown.tried},
                     {"feasible", shown.fit},
                     {"layouts", std::move(layouts)},
                     {"train", trained}};
  return report::printed(json);
}

// A small model, trained on all cores for a few seconds: faster than the example's recipe goes, but calmly enough that
// bf16 would have the same losses.
Result<nlohmann::ordered_json> train_here() {
  const int ranks = num_hardware_threads();
  const std::vector<Flag> flags = all_flags(kTrain);
  const Result<Arguments> arguments =
      parse_arguments(flags, {TWINPOD_SOURCE_DIR "/examples/tiny-gpt.yaml", "--ranks", std::to_string(ranks),
                              "--micro-batch", "8", "--global-batch", std::to_string(8 * ranks), "--steps", "40",
                              "--learning-rate", "1.5e-3", "--warmup", "40", "--json"});
  if (!arguments) return tl::unexpected(arguments.error());
  const Result<std::string> answer = kTrain.run(*arguments);
  if (!answer) return tl::unexpected(answer.error());
  return nlohmann::ordered_json::parse(*answer, nullptr, false);
}

std::string train_part(const nlohmann::ordered_json& run) {
  const auto number = [&](const char* key) { return run[key].is_number() ? run[key].get<double>() : 0; };
  Table table({{"here, for real"}, {"predicted", Align::right}, {"measured", Align::right}}, {.indent = 2});
  table.row({"step", format_seconds(number("predicted_step_time_s")), format_seconds(number("step_time_s"))});
  table.row({"memory of a rank", format_bytes(number("predicted_peak_memory_bytes")),
             format_bytes(number("peak_memory_bytes"))});
  table.row({"MFU", "", fmt::format("{:.0f} %", 100 * number("mfu"))});
  table.row({"tokens a second", "", with_thousands(number("tokens_per_s"))});
  table.row({fmt::format("loss after {}", counted(number("steps"), "step")), "",
             fmt::format("{:.2f}", number("final_loss"))});
  return fmt::format(
      "\nAnd on the {} of this machine: a small GPT learns the text of this repository, each core a rank\n\n{}\n  "
      "predicted by figures {}\n  op by op: twinpod train examples/tiny-gpt.yaml --ranks {:.0f}\n",
      counted(number("ranks"), "core"), table.text(), run.value("prediction_basis", ""), number("ranks"));
}

Result<std::string> demo(const Arguments& arguments) {
  if (!arguments.words.empty())
    return input_error(fmt::format("demo takes no words, but `{}` is given", arguments.words[0]));
  const Result<Shown> shown = try_layouts(catalog_of(arguments));
  if (!shown) return tl::unexpected(shown.error());
  const Result<nlohmann::ordered_json> trained = train_here();
  if (!trained) return tl::unexpected(trained.error());
  if (arguments.has("json")) return demo_json(*shown, *trained);
  return memory_part() + "\n" + time_part() +
         fmt::format("\ntwinpod's own estimate for {} of {}, stack {}:\n\n", counted(kDevices, "device"), kCluster,
                     kStack) +
         table_of(*shown) + best_part(*shown) + train_part(*trained);
}

}  // namespace

const Command kDemo = {
    "demo",      "", "why GPT-3 needs a cluster, and a small model trained here (also without any command)",
    "twinpod\n", {}, demo};

}  // namespace twinpod::cli
