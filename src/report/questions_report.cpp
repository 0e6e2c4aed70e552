#include "report/questions_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/text_parts.hpp"
#include "spec/names.hpp"

namespace twinpod::report {
namespace {

using plan::Answer;

constexpr std::size_t kMostChanges = 3;  // of a layout that are told one by one

std::string time_text(const Answer& answer) {
  return answer.metrics.time_to_train_s ? format_seconds(*answer.metrics.time_to_train_s) : "-";
}

// "dp 16 × tp 4 × pp 16 × 6 chunks, micro-batch 1, ZeRO 1, recompute selective": what fits in a table.
std::string short_layout(const spec::Job& job) {
  const spec::Layout& l = job.layout;
  std::string text = fmt::format("dp {} × tp {} × pp {}", spec::data_parallel(job), l.tp, l.pp);
  const auto add = [&](bool wanted, const std::string& what) {
    if (wanted) text += what;
  };
  add(l.virtual_stages > 1, fmt::format(" × {}", counted(l.virtual_stages, "chunk")));
  add(l.cp > 1, fmt::format(" × cp {}", l.cp));
  add(l.ep > 1, fmt::format(", ep {}", l.ep));
  add(l.pp > 1 && l.schedule != spec::Schedule::one_f_one_b && l.schedule != spec::Schedule::interleaved,
      fmt::format(", {}", spec::name_of(l.schedule)));
  add(l.micro_batch > 1, fmt::format(", micro-batch {}", l.micro_batch));
  add(l.zero > 0, fmt::format(", ZeRO {}", l.zero));
  add(l.servers > 0, fmt::format(", {}", counted(l.servers, "server")));
  add(l.recompute != spec::Recompute::none, fmt::format(", {} recompute", spec::name_of(l.recompute)));
  add(l.offload_optimizer, ", optimizer on the host");
  add(l.offload_activations, ", activations on the host");
  return text;
}

std::string memory_text(const Answer& answer) {
  return fmt::format("{} of {}", format_bytes(answer.memory_bytes),
                     format_bytes(answer.job.cluster.device.memory_bytes));
}

// One answer in a few lines: where a table would have one row.
std::string answer_lines(const Answer& answer) {
  const plan::Metrics& m = answer.metrics;
  std::string text = fmt::format("  {} × {}: {}\n", with_thousands(answer.job.cluster.devices),
                                 answer.job.cluster.device.name, short_layout(answer.job));
  text += fmt::format("  batch {} × {} tokens, step {}, {} tokens/s, MFU {}, memory {}\n",
                      with_thousands(answer.job.training.global_batch), with_thousands(answer.job.training.sequence),
                      format_seconds(m.step_time_s), format_count(m.tokens_per_s), percent(m.mfu), memory_text(answer));
  return text;
}

// ---- What if ----

std::string world_name(const plan::World& world) {
  if (world.changes.empty()) return "today";
  if (world.changes.size() > 1) return "all of them";
  return plan::change_text(world.changes.front());
}

// The run's cost where its length is known, else that of a step.
bool has_run_cost(const std::vector<plan::World>& worlds) {
  return std::any_of(worlds.begin(), worlds.end(),
                     [](const plan::World& world) { return world.best && world.best->metrics.cost_usd; });
}

std::string layout_cell(const plan::World& world, bool today_fits) {
  if (world.changes.empty() || !today_fits) return short_layout(world.best->job);
  if (world.layout_changes.empty()) return "same layout";
  return world.layout_changes.size() <= kMostChanges ? joined(world.layout_changes) : short_layout(world.best->job);
}

Json changes_json(const std::vector<plan::Change>& changes) {
  Json json = Json::array();
  for (const plan::Change& change : changes) {
    Json one = {{"key", change.key}};
    if (change.name.empty()) {
      one["factor"] = change.factor;
    } else {
      one["name"] = change.name;
    }
    json.push_back(std::move(one));
  }
  return json;
}

Json answer_or_null(const std::optional<Answer>& answer) { return answer ? answer_json(*answer) : Json(nullptr); }

// ---- Number of devices ----

std::string threshold_line(const plan::ScaleCurve& curve) {
  const double threshold = curve.options.threshold;
  if (threshold <= 0) return "";
  if (!curve.last_above) {
    double most = 0;
    for (const plan::ScalePoint& point : curve.points) most = std::max(most, point.scale_factor);
    return fmt::format("it is under {:.2g} on all of them: {:.3f} at most\n", threshold, most);
  }
  const plan::ScalePoint& last = *curve.last_above;
  if (!curve.falls_under)
    return fmt::format("up to {} it is not under {:.2g}\n", counted(last.devices, "device"), threshold);
  const auto next = std::find_if(curve.points.begin(), curve.points.end(),
                                 [&](const plan::ScalePoint& point) { return point.devices > last.devices; });
  const std::string under = next->best ? fmt::format("{:.3f}", next->scale_factor) : "nothing that fits";
  return fmt::format("it falls under {:.2g} beyond {}: {:.3f} there, {} on {}\n", threshold,
                     counted(last.devices, "device"), last.scale_factor, under, with_thousands(next->devices));
}

std::string deadline_rows(const plan::DeadlineAnswer& answer) {
  Table table({{"devices", Align::right},
               {"time", Align::right},
               {"device-hours", Align::right},
               {"cost", Align::right},
               {"MFU", Align::right},
               {""},
               {"layout"}},
              {.indent = 2});
  const auto is = [](const std::optional<Answer>& one, const Answer& row) {
    return one && one->job.cluster.devices == row.job.cluster.devices;
  };
  for (const Answer& row : answer.tried) {
    std::string mark = *row.metrics.time_to_train_s <= answer.deadline_s ? "in time" : "too late";
    if (is(answer.fewest, row)) mark = is(answer.cheapest, row) ? "fewest and cheapest" : "fewest";
    if (!is(answer.fewest, row) && is(answer.cheapest, row)) mark = "cheapest";
    table.row({with_thousands(row.job.cluster.devices), time_text(row), with_thousands(*row.metrics.device_hours),
               usd_text(row.metrics.cost_usd), percent(row.metrics.mfu), mark, short_layout(row.job)});
  }
  return table.text();
}

// ---- Side by side ----

// A column of figures: how to read it, and which end is good.
struct Yardstick {
  std::string header;
  std::function<std::optional<double>(const Answer&)> value;
  std::function<std::string(double)> text;
  enum class Good { less, more, neither } good = Good::less;
};

std::vector<Yardstick> yardsticks() {
  const auto seconds = [](double value) { return format_seconds(value); };
  const auto share = [](double value) { return percent(value); };
  const auto usd = [](double value) { return usd_text(value); };
  return {
      {"step", [](const Answer& a) { return std::optional(a.metrics.step_time_s); }, seconds},
      {"tokens/s", [](const Answer& a) { return std::optional(a.metrics.tokens_per_s); }, format_count,
       Yardstick::Good::more},
      {"MFU", [](const Answer& a) { return std::optional(a.metrics.mfu); }, share, Yardstick::Good::more},
      {"memory", [](const Answer& a) { return std::optional(a.memory_bytes); }, format_bytes, Yardstick::Good::neither},
      {"USD/M tokens", plan::usd_per_million_tokens, [](double value) { return fmt::format("{:.3g}", value); }},
      {"time", [](const Answer& a) { return a.metrics.time_to_train_s; }, seconds},
      {"cost", [](const Answer& a) { return a.metrics.cost_usd; }, usd},
      {"energy", [](const Answer& a) { return a.metrics.energy_kwh; },
       [](double kwh) { return format_count(kwh * 1e3) + "Wh"; }},
  };
}

std::optional<double> value_of(const Yardstick& figure, const plan::Contender& contender) {
  return contender.best ? figure.value(*contender.best) : std::nullopt;
}

// The best of a column; empty when it is of one contender only.
std::optional<double> best_value(const Yardstick& figure, const std::vector<plan::Contender>& contenders) {
  std::optional<double> best;
  int known = 0;
  for (const plan::Contender& contender : contenders) {
    const std::optional<double> value = value_of(figure, contender);
    if (!value) continue;
    ++known;
    if (!best || (figure.good == Yardstick::Good::more ? *value > *best : *value < *best)) best = value;
  }
  return known > 1 && figure.good != Yardstick::Good::neither ? best : std::nullopt;
}

std::vector<Yardstick> known_figures(const std::vector<plan::Contender>& contenders) {
  std::vector<Yardstick> known = yardsticks();
  std::erase_if(known, [&](const Yardstick& figure) {
    return std::none_of(contenders.begin(), contenders.end(),
                        [&](const plan::Contender& c) { return value_of(figure, c).has_value(); });
  });
  return known;
}

std::string cluster_name(const spec::Job& job) {
  return job.cluster.name.empty() ? job.cluster.device.name : job.cluster.name;
}

}  // namespace

Json answer_json(const Answer& answer) {
  const plan::Metrics& m = answer.metrics;
  return {{"devices", answer.job.cluster.devices},
          {"device", answer.job.cluster.device.name},
          {"layout", layout_json(answer.job.layout, spec::data_parallel(answer.job))},
          {"global_batch", static_cast<std::int64_t>(answer.job.training.global_batch)},
          {"sequence", answer.job.training.sequence},
          {"step_time_s", m.step_time_s},
          {"tokens_per_s", m.tokens_per_s},
          {"mfu", m.mfu},
          {"scale_factor", m.scale_factor},
          {"memory_bytes", answer.memory_bytes},
          {"memory_capacity_bytes", answer.job.cluster.device.memory_bytes},
          {"time_to_train_s", or_null(m.time_to_train_s)},
          {"device_hours", or_null(m.device_hours)},
          {"cost_usd", or_null(m.cost_usd)},
          {"energy_kwh", or_null(m.energy_kwh)},
          {"cost_per_step_usd", or_null(plan::usd_per_step(answer))},
          {"cost_per_million_tokens_usd", or_null(plan::usd_per_million_tokens(answer))},
          {"evaluated", answer.evaluated}};
}

std::string what_if_text(const std::vector<plan::World>& worlds) {
  const bool of_run = has_run_cost(worlds);
  const bool today_fits = !worlds.empty() && worlds.front().best;
  Table table({{"what if"},
               {"step", Align::right},
               {"speed-up", Align::right},
               {"MFU", Align::right},
               {of_run ? "cost of the run" : "cost of a step", Align::right},
               {"best layout"}},
              {.indent = 2});
  for (const plan::World& world : worlds) {
    if (!world.best) {
      table.row({world_name(world), "-", "-", "-", "-", "nothing fits"});
      continue;
    }
    table.row({world_name(world), format_seconds(world.best->metrics.step_time_s),
               world.speed_up ? fmt::format("{:.3f}×", *world.speed_up) : "-", percent(world.best->metrics.mfu),
               usd_text(of_run ? world.best->metrics.cost_usd : plan::usd_per_step(*world.best)),
               layout_cell(world, today_fits)});
  }
  return table.text();
}

Json what_if_json(const std::vector<plan::World>& worlds) {
  Json json = Json::array();
  for (const plan::World& world : worlds) {
    json.push_back({{"name", world_name(world)},
                    {"changes", changes_json(world.changes)},
                    {"speed_up", or_null(world.speed_up)},
                    {"layout_changes", world.layout_changes},
                    {"best", answer_or_null(world.best)}});
  }
  return json;
}

std::string scale_curve_text(const plan::ScaleCurve& curve) {
  Table table({{"devices", Align::right},
               {"batch", Align::right},
               {"step", Align::right},
               {"tokens/s", Align::right},
               {"scale factor", Align::right},
               {"of smallest", Align::right},
               {"MFU", Align::right},
               {"time", Align::right},
               {"cost", Align::right},
               {"layout"}},
              {.indent = 2});
  for (const plan::ScalePoint& point : curve.points) {
    std::vector<std::string> cells = {with_thousands(point.devices), with_thousands(point.global_batch)};
    if (!point.best) {
      cells.insert(cells.end(), {"-", "-", "-", "-", "-", "-", "-", "nothing fits"});
    } else {
      const plan::Metrics& m = point.best->metrics;
      cells.insert(cells.end(),
                   {format_seconds(m.step_time_s), format_count(m.tokens_per_s),
                    fmt::format("{:.3f}", point.scale_factor), fmt::format("{:.3f}", point.of_smallest), percent(m.mfu),
                    time_text(*point.best), usd_text(m.cost_usd), short_layout(point.best->job)});
    }
    table.row(std::move(cells));
  }
  std::string text = table.text() + "\n";
  text += fmt::format("scale factor: tokens/s over n times the {} of one device that has memory enough\n",
                      format_count(curve.one_device_tokens_per_s));
  return text + threshold_line(curve);
}

Json scale_curve_json(const plan::ScaleCurve& curve) {
  const auto point_json = [](const plan::ScalePoint& point) -> Json {
    return {{"devices", point.devices},
            {"global_batch", static_cast<std::int64_t>(point.global_batch)},
            {"scale_factor", point.best ? Json(point.scale_factor) : Json(nullptr)},
            {"scale_factor_of_smallest", point.best ? Json(point.of_smallest) : Json(nullptr)},
            {"best", answer_or_null(point.best)}};
  };
  Json points = Json::array();
  for (const plan::ScalePoint& point : curve.points) points.push_back(point_json(point));
  return {{"scaling", curve.options.batch_grows ? "weak" : "strong"},
          {"one_device_tokens_per_s", curve.one_device_tokens_per_s},
          {"points", std::move(points)},
          {"threshold", curve.options.threshold > 0 ? Json(curve.options.threshold) : Json(nullptr)},
          {"last_above_threshold", curve.last_above ? point_json(*curve.last_above) : Json(nullptr)},
          {"falls_under_threshold", curve.falls_under}};
}

std::string deadline_text(const plan::DeadlineAnswer& answer) {
  const std::string deadline = format_seconds(answer.deadline_s);
  std::string text = deadline_rows(answer) + "\n";
  if (answer.fewest) {
    text +=
        fmt::format("within {}: {} {} enough ({})\n", deadline, counted(answer.fewest->job.cluster.devices, "device"),
                    answer.fewest->job.cluster.devices == 1 ? "is" : "are", time_text(*answer.fewest));
    return text;
  }
  text += fmt::format("within {}: not with any of these; the soonest is {} on {}, {:.2f} times as long\n", deadline,
                      time_text(*answer.nearest), counted(answer.nearest->job.cluster.devices, "device"),
                      *answer.nearest->metrics.time_to_train_s / answer.deadline_s);
  if (answer.beyond) {
    text += fmt::format("{} would do: {}\n", counted(answer.beyond->job.cluster.devices, "device"),
                        time_text(*answer.beyond));
  }
  return text;
}

Json deadline_json(const plan::DeadlineAnswer& answer) {
  Json tried = Json::array();
  for (const Answer& one : answer.tried) tried.push_back(answer_json(one));
  return {{"deadline_s", answer.deadline_s},
          {"fewest", answer_or_null(answer.fewest)},
          {"cheapest", answer_or_null(answer.cheapest)},
          {"nearest", answer_or_null(answer.nearest)},
          {"beyond", answer_or_null(answer.beyond)},
          {"tried", std::move(tried)}};
}

std::string largest_sequence_text(const plan::LargestSequence& answer) {
  std::string text = fmt::format("longest sequence that fits: {} tokens\n", with_thousands(answer.sequence));
  text += answer_lines(answer.best);
  text += answer.too_long ? fmt::format("  {} tokens do not fit\n", with_thousands(*answer.too_long))
                          : "  longer ones were not tried\n";
  return text;
}

Json largest_sequence_json(const plan::LargestSequence& answer) {
  return {{"sequence", answer.sequence},
          {"too_long", answer.too_long ? Json(*answer.too_long) : Json(nullptr)},
          {"best", answer_json(answer.best)}};
}

std::string largest_batch_text(const plan::LargestBatch& answer) {
  std::string text =
      fmt::format("most sequences at one time: {} (dp {} × micro-batch {})\n", with_thousands(answer.sequences),
                  answer.at_once.job.layout.dp, answer.at_once.job.layout.micro_batch);
  text += answer_lines(answer.at_once) + "\n";
  Table table({{"batch", Align::right},
               {"tokens", Align::right},
               {"step", Align::right},
               {"tokens/s", Align::right},
               {"MFU", Align::right},
               {""},
               {"layout"}},
              {.indent = 2});
  for (std::size_t i = 0; i < answer.curve.size(); ++i) {
    const Answer& row = answer.curve[i];
    table.row({with_thousands(row.job.training.global_batch), format_count(row.metrics.tokens_per_step),
               format_seconds(row.metrics.step_time_s), format_count(row.metrics.tokens_per_s),
               percent(row.metrics.mfu), answer.enough == i ? "enough" : "", short_layout(row.job)});
  }
  text += table.text();
  if (!answer.enough) return text;
  const Answer& enough = answer.curve[*answer.enough];
  text +=
      fmt::format("\nbeyond {} ({} tokens) a batch twice as large brings no more than 2 %\n",
                  counted(enough.job.training.global_batch, "sequence"), format_count(enough.metrics.tokens_per_step));
  return text;
}

Json largest_batch_json(const plan::LargestBatch& answer) {
  Json curve = Json::array();
  for (const Answer& one : answer.curve) curve.push_back(answer_json(one));
  return {{"sequences_at_once", static_cast<std::int64_t>(answer.sequences)},
          {"at_once", answer_json(answer.at_once)},
          {"enough_global_batch",
           answer.enough ? Json(static_cast<std::int64_t>(answer.curve[*answer.enough].job.training.global_batch))
                         : Json(nullptr)},
          {"curve", std::move(curve)}};
}

std::string largest_model_text(const plan::LargestModel& answer) {
  const spec::Model& model = answer.best.job.model;
  std::string text =
      fmt::format("largest model that fits: {} parameters ({})\n", format_count(answer.parameters), model.name);
  text += fmt::format("  {}, hidden {}, ffn {}, {}\n", counted(model.layers, "layer"), with_thousands(model.hidden),
                      with_thousands(model.ffn), counted(model.attention.heads, "head"));
  text += answer_lines(answer.best);
  if (answer.too_large) text += fmt::format("  the next, of {}, does not fit\n", format_count(*answer.too_large));
  return text;
}

Json largest_model_json(const plan::LargestModel& answer) {
  const spec::Model& model = answer.best.job.model;
  return {{"parameters", answer.parameters},
          {"factor", answer.factor},
          {"model",
           {{"name", model.name},
            {"layers", model.layers},
            {"hidden", model.hidden},
            {"ffn", model.ffn},
            {"heads", model.attention.heads},
            {"kv_heads", model.attention.kv_heads}}},
          {"too_large_parameters", or_null(answer.too_large)},
          {"best", answer_json(answer.best)}};
}

std::string side_by_side_text(const std::vector<plan::Contender>& contenders) {
  const std::vector<Yardstick> known = known_figures(contenders);
  std::vector<Column> columns = {{"cluster"}, {"devices", Align::right}};
  for (const Yardstick& figure : known) columns.push_back({figure.header, Align::right});
  columns.push_back({"best layout"});
  Table table(columns, {.indent = 2});
  for (const plan::Contender& contender : contenders) {
    std::vector<std::string> cells = {
        cluster_name(contender.job),
        with_thousands(contender.best ? contender.best->job.cluster.devices : contender.job.cluster.devices)};
    for (const Yardstick& figure : known) {
      const std::optional<double> value = value_of(figure, contender);
      const bool best = value && value == best_value(figure, contenders);
      cells.push_back(value ? (best ? "*" : "") + figure.text(*value) : "-");
    }
    cells.push_back(contender.best ? short_layout(contender.best->job) : contender.why_not);
    table.row(std::move(cells));
  }
  return table.text();
}

Json side_by_side_json(const std::vector<plan::Contender>& contenders) {
  Json json = Json::array();
  for (const plan::Contender& contender : contenders) {
    json.push_back({{"cluster", contender.job.cluster.name},
                    {"stack", contender.job.stack.name},
                    {"best", answer_or_null(contender.best)},
                    {"why_not", or_null(contender.why_not)}});
  }
  return json;
}

}  // namespace twinpod::report
