// twinpod demo: why GPT-3 needs a cluster, on one screen.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/command.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "layout/check.hpp"
#include "plan/assessment.hpp"
#include "plan/fits.hpp"
#include "plan/rules.hpp"
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

// Layouts of the literature for a model of this size, and their neighbours.
struct Candidate {
  int tp, pp, virtual_stages, micro_batch;
  std::string_view recompute;
};
constexpr std::array kCandidates = {Candidate{8, 16, 1, 1, "full"},      Candidate{8, 8, 1, 1, "full"},
                                    Candidate{8, 8, 1, 1, "selective"},  Candidate{8, 8, 3, 1, "selective"},
                                    Candidate{8, 8, 6, 1, "selective"},  Candidate{8, 16, 3, 1, "selective"},
                                    Candidate{4, 16, 3, 1, "selective"}, Candidate{4, 16, 6, 1, "selective"}};

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

spec::Request request_of(const Candidate& c) {
  spec::Request request;
  request.model = "gpt3-175b";
  request.cluster = kCluster;
  request.sets = {fmt::format("devices={}", kDevices),
                  fmt::format("stack={}", kStack),
                  fmt::format("layout.tp={}", c.tp),
                  fmt::format("layout.pp={}", c.pp),
                  fmt::format("layout.virtual_stages={}", c.virtual_stages),
                  fmt::format("layout.micro_batch={}", c.micro_batch),
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
  bool fits = false;
};

Result<std::vector<Tried>> try_candidates(const spec::Catalog& catalog) {
  const Result<plan::Accuracy> accuracy = plan::read_accuracy(catalog.folder() + "/accuracy.yaml");
  if (!accuracy) return tl::unexpected(accuracy.error());
  std::vector<Tried> tried;
  for (const Candidate& candidate : kCandidates) {
    Result<spec::Job> job = spec::read_job(request_of(candidate), catalog);
    if (!job) return tl::unexpected(job.error());
    const Result<void> valid = layout::check(*job);
    if (!valid) return tl::unexpected(valid.error());
    tried.push_back({*job, plan::assess(*job, *accuracy), !plan::shortage(*job)});
  }
  return tried;
}

const Tried* best_of(const std::vector<Tried>& tried) {
  const Tried* best = nullptr;
  for (const Tried& one : tried) {
    if (one.fits && (best == nullptr || one.assessment.step.total_s < best->assessment.step.total_s)) best = &one;
  }
  return best;
}

std::string table_of(const std::vector<Tried>& tried, const Tried* best) {
  Table table({{"layout"},
               {"memory", Align::right},
               {"step", Align::right},
               {"MFU", Align::right},
               {"scale factor", Align::right},
               {"time", Align::right},
               {"cost", Align::right},
               {"verdict"}},
              {.indent = 2});
  for (const Tried& one : tried) {
    const spec::Layout& l = one.job.layout;
    const plan::Metrics& m = one.assessment.metrics;
    const std::string chunks = l.virtual_stages > 1 ? fmt::format(" × {} chunks", l.virtual_stages) : "";
    table.row({fmt::format("tp {} × pp {}{}, {} recompute", l.tp, l.pp, chunks, spec::name_of(l.recompute)),
               format_bytes(one.assessment.memory.total()), format_seconds(m.step_time_s),
               fmt::format("{:.1f} %", 100 * m.mfu), fmt::format("{:.2f}", m.scale_factor),
               fmt::format("{:.1f} d", *m.time_to_train_s / kDay),
               m.cost_usd ? fmt::format("{:.2f} M USD", *m.cost_usd / 1e6) : "not known",
               !one.fits      ? "does not fit"
               : &one == best ? "best so far"
                              : "fits"});
  }
  return table.text();
}

std::string best_part(const Tried& best) {
  const plan::Assessment& a = best.assessment;
  const double days = *a.metrics.time_to_train_s / kDay;
  std::string text = fmt::format("\n  best: {:.1f} days", days);
  if (a.range.count > 0) {
    text += fmt::format(", between {:.1f} and {:.1f} in 8 of 10 cases ({})", days * a.range.low, days * a.range.high,
                        a.range.basis);
  }
  text += "\n";
  if (!a.range.validated()) text += fmt::format("  outside what was validated: {}\n", a.range.outside);
  return text +
         fmt::format(
             "\nSee all of it: twinpod estimate gpt3-175b --on {} --devices {} --stack {} --tp {} --pp {} --vp {} "
             "--sp --zero 1 --recompute selective --global-batch 1536 --tokens 300e9\n",
             kCluster, kDevices, kStack, best.job.layout.tp, best.job.layout.pp, best.job.layout.virtual_stages);
}

std::string demo_json(const std::vector<Tried>& tried, const Tried* best) {
  using Json = nlohmann::ordered_json;
  Json layouts = Json::array();
  for (const Tried& one : tried) {
    layouts.push_back({{"layout", report::layout_text(one.job)},
                       {"fits", one.fits},
                       {"best", &one == best},
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
                     {"layouts", std::move(layouts)}};
  return json.dump(2) + "\n";
}

Result<std::string> demo(const Arguments& arguments) {
  if (!arguments.words.empty())
    return input_error(fmt::format("demo takes no words, but `{}` is given", arguments.words[0]));
  const Result<std::vector<Tried>> tried = try_candidates(catalog_of(arguments));
  if (!tried) return tl::unexpected(tried.error());
  const Tried* best = best_of(*tried);
  if (arguments.has("json")) return demo_json(*tried, best);
  std::string text = memory_part() + "\n" + time_part() +
                     fmt::format("\ntwinpod's own estimate for {} devices of {}, stack {}:\n\n",
                                 with_thousands(kDevices), kCluster, kStack);
  text += table_of(*tried, best);
  if (best != nullptr) text += best_part(*best);
  return text;
}

}  // namespace

const Command kDemo = {"demo",      "", "why GPT-3 needs a cluster, on one screen (also without any command)",
                       "twinpod\n", {}, demo};

}  // namespace twinpod::cli
