// Four charts of one study: loss against time and against samples, throughput by mode, scale factor against workers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/study_report.hpp"
#include "report/svg_canvas.hpp"

namespace twinpod::report {
namespace {

constexpr double kWidth = 1280;
constexpr double kHeight = 860;
constexpr std::array kColours = {"#3b6fb6", "#d1495b", "#2a9d6f", "#e09f3e", "#7b5ea7", "#5c6770"};
constexpr const char* kInk = "#222";
constexpr const char* kSoft = "#666";
constexpr const char* kGrid = "#e3e6ea";

const char* colour_of(std::size_t mode) { return kColours[mode % kColours.size()]; }

// A chart's place, and what its axes run from and to.
struct Chart {
  double left = 0, top = 0, width = 0, height = 0;
  double x_low = 0, x_high = 1;
  double y_low = 0, y_high = 1;
  double x(double value) const { return left + (value - x_low) / (x_high - x_low) * width; }
  double y(double value) const { return top + height - (value - y_low) / (y_high - y_low) * height; }
};

// About `count` steps of 1, 2 or 5 times a power of ten.
double round_step(double range, int count) {
  const double rough = std::max(range, 1e-12) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string tick_text(double value) {
  if (std::abs(value) >= 1000) return with_thousands(value);
  return fmt::format("{:.4g}", std::abs(value) < 1e-9 ? 0 : value);
}

void draw_frame(Canvas& canvas, const Chart& chart, const char* title, const char* x_label, const char* y_label) {
  canvas.text(chart.left - 46, chart.top - 32, title, {.size = 19, .colour = kInk, .bold = true});
  canvas.text(chart.left - 46, chart.top - 12, y_label, {.size = 13, .colour = kSoft});
  canvas.text(chart.left + chart.width, chart.top + chart.height + 42, x_label,
              {.size = 13, .anchor = "end", .colour = kSoft});
}

void draw_y_axis(Canvas& canvas, const Chart& chart) {
  const double step = round_step(chart.y_high - chart.y_low, 5);
  for (double value = std::ceil(chart.y_low / step - 1e-9) * step; value <= chart.y_high + 1e-9 * step; value += step) {
    canvas.line(chart.left, chart.y(value), chart.left + chart.width, chart.y(value), kGrid, 1);
    canvas.text(chart.left - 8, chart.y(value) + 4.5, tick_text(value), {.size = 13, .anchor = "end", .colour = kSoft});
  }
  canvas.line(chart.left, chart.top + chart.height, chart.left + chart.width, chart.top + chart.height, "#9aa3ad", 1.2);
}

void draw_x_axis(Canvas& canvas, const Chart& chart) {
  const double step = round_step(chart.x_high - chart.x_low, 6);
  for (double value = std::ceil(chart.x_low / step - 1e-9) * step; value <= chart.x_high + 1e-9 * step; value += step) {
    canvas.text(chart.x(value), chart.top + chart.height + 20, tick_text(value),
                {.size = 13, .anchor = "middle", .colour = kSoft});
  }
}

using Along = double StudyPoint::*;

void fit_axes(const Study& study, Along along, Chart& chart) {
  double lowest = 1e300;
  double highest = -1e300;
  for (const StudyMode& mode : study.modes) {
    for (const StudyPoint& point : mode.curve) {
      chart.x_high = std::max(chart.x_high, point.*along);
      lowest = std::min(lowest, point.loss);
      highest = std::max(highest, point.loss);
    }
  }
  if (lowest > highest) lowest = 0, highest = 1;
  const double step = round_step(highest - lowest, 5);
  chart.y_low = std::floor(lowest / step) * step;
  chart.y_high = std::max(chart.y_low + step, std::ceil(highest / step) * step);
}

void draw_losses(Canvas& canvas, const Study& study, Along along, Chart chart, const char* title, const char* x_label) {
  chart.x_high = 1e-9;
  fit_axes(study, along, chart);
  draw_frame(canvas, chart, title, x_label, "loss on held-out text, nats a token");
  draw_y_axis(canvas, chart);
  draw_x_axis(canvas, chart);
  if (study.target_loss > chart.y_low && study.target_loss < chart.y_high) {
    const double y = chart.y(study.target_loss);
    canvas.path(fmt::format("M{:.1f} {:.1f}H{:.1f}", chart.left, y, chart.left + chart.width), "#9aa3ad", 1.2, 1,
                "5 4");
    canvas.text(chart.left + 6, y + 16, fmt::format("target {:.3g}", study.target_loss), {.size = 12, .colour = kSoft});
  }
  for (std::size_t i = 0; i < study.modes.size(); ++i) {
    std::string path;
    for (const StudyPoint& point : study.modes[i].curve) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", chart.x(point.*along), chart.y(point.loss));
    }
    // Modes whose curves lie upon each other can still be told apart.
    canvas.path(path, colour_of(i), 2.6, 0.9, i % 2 == 1 ? "9 4" : "");
    for (const StudyPoint& point : study.modes[i].curve) {
      canvas.circle(chart.x(point.*along), chart.y(point.loss), 3, colour_of(i));
    }
  }
}

void draw_throughput(Canvas& canvas, const Study& study, Chart chart) {
  double most = study.alone_tokens_per_s * study.workers;
  for (const StudyMode& mode : study.modes) most = std::max({most, mode.tokens_per_s, mode.simulated_tokens_per_s});
  const double step = round_step(most * 1.12, 5);
  chart.y_high = std::max(step, std::ceil(most * 1.12 / step) * step);
  draw_frame(canvas, chart, "Throughput by mode", "number above a bar: scale factor", "tokens a second, all workers");
  draw_y_axis(canvas, chart);
  const double slot = chart.width / static_cast<double>(std::max<std::size_t>(1, study.modes.size()));
  const double bar = std::min(54.0, 0.34 * slot);
  for (std::size_t i = 0; i < study.modes.size(); ++i) {
    const StudyMode& mode = study.modes[i];
    const double middle = chart.left + slot * (static_cast<double>(i) + 0.5);
    const double bottom = chart.top + chart.height;
    const double measured = chart.y(mode.tokens_per_s);
    const double simulated = chart.y(mode.simulated_tokens_per_s);
    canvas.rect(middle - bar - 3, measured, bar, bottom - measured, colour_of(i), colour_of(i), 2);
    canvas.rect(middle + 3, simulated, bar, bottom - simulated, "#ffffff", colour_of(i), 2, 2);
    canvas.text(middle - bar / 2 - 3, measured - 7, fmt::format("{:.2f}", mode.scale_factor),
                {.size = 14, .anchor = "middle", .colour = kInk, .bold = true});
    canvas.text(middle, bottom + 20, mode.mode, {.size = 14, .anchor = "middle", .colour = kInk});
  }
  const double ideal = chart.y(study.alone_tokens_per_s * study.workers);
  canvas.path(fmt::format("M{:.1f} {:.1f}H{:.1f}", chart.left, ideal, chart.left + chart.width), "#9aa3ad", 1.2, 1,
              "5 4");
  canvas.text(chart.left + chart.width, ideal - 6, fmt::format("{} x one worker alone", study.workers),
              {.size = 12, .anchor = "end", .colour = kSoft});
  canvas.rect(chart.left + chart.width - 190, chart.top - 43, 13, 13, "#5c6770", "#5c6770", 2);
  canvas.text(chart.left + chart.width - 172, chart.top - 32, "measured", {.size = 13, .colour = kSoft});
  canvas.rect(chart.left + chart.width - 95, chart.top - 43, 13, 13, "#ffffff", "#5c6770", 2, 2);
  canvas.text(chart.left + chart.width - 77, chart.top - 32, "simulated", {.size = 13, .colour = kSoft});
}

// Workers on a scale of doublings.
void draw_scaling(Canvas& canvas, const Study& study, Chart chart) {
  draw_frame(canvas, chart, "Simulated at scale", "workers", "scale factor");
  if (study.scaling.empty()) {
    canvas.text(chart.left + chart.width / 2, chart.top + chart.height / 2, "not simulated",
                {.size = 14, .anchor = "middle", .colour = kSoft});
    return;
  }
  chart.x_low = 1e300, chart.x_high = -1e300;
  for (const StudyScaling& one : study.scaling) {
    chart.x_low = std::min(chart.x_low, std::log2(one.workers));
    chart.x_high = std::max(chart.x_high, std::log2(one.workers));
  }
  if (chart.x_high <= chart.x_low) chart.x_low -= 1, chart.x_high += 1;
  chart.y_high = 1;
  draw_y_axis(canvas, chart);
  for (std::size_t i = 0; i < study.modes.size(); ++i) {
    std::string path;
    for (const StudyScaling& one : study.scaling) {
      if (one.mode != study.modes[i].mode) continue;
      const double x = chart.x(std::log2(one.workers));
      const double y = chart.y(std::clamp(one.scale_factor, 0.0, 1.0));
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
      canvas.circle(x, y, 4, colour_of(i));
      if (i > 0) continue;
      canvas.text(x, chart.top + chart.height + 20, fmt::format("{}", one.workers),
                  {.size = 13, .anchor = "middle", .colour = kSoft});
    }
    canvas.path(path, colour_of(i), 2.6, 0.9, i % 2 == 1 ? "9 4" : "");
  }
}

void draw_legend(Canvas& canvas, const Study& study) {
  double x = 64;
  for (std::size_t i = 0; i < study.modes.size(); ++i) {
    const std::string& name = study.modes[i].mode;
    canvas.path(fmt::format("M{:.1f} 86H{:.1f}", x, x + 34), colour_of(i), 3.4, 1, i % 2 == 1 ? "9 4" : "");
    canvas.text(x + 42, 91, name, {.size = 16, .colour = kInk});
    x += 76 + 9.0 * static_cast<double>(name.size());
  }
}

}  // namespace

std::string study_svg(const Study& study) {
  Canvas canvas;
  canvas.text(64, 38, fmt::format("{}: synchronous, asynchronous, bounded staleness", study.name),
              {.size = 24, .colour = kInk, .bold = true});
  std::string words = fmt::format("{}, {} server{}, {} of each", counted(study.workers, "worker"), study.servers,
                                  study.servers == 1 ? "" : "s", counted(study.steps, "step"));
  if (study.pace_s > 0) words += fmt::format(", {} a step", format_seconds(study.pace_s));
  words += straggler_words(study);
  canvas.text(64, 62, words, {.size = 15, .colour = kSoft});
  draw_legend(canvas, study);
  constexpr double kLeft = 110;
  constexpr double kRight = 740;
  constexpr double kPlot = 490;
  constexpr double kTall = 240;
  draw_losses(canvas, study, &StudyPoint::seconds, {kLeft, 165, kPlot, kTall}, "Loss against time", "seconds");
  draw_losses(canvas, study, &StudyPoint::samples, {kRight, 165, kPlot, kTall}, "Loss against samples",
              "sequences trained on");
  draw_throughput(canvas, study, {kLeft, 540, kPlot, kTall});
  draw_scaling(canvas, study, {kRight, 540, kPlot, kTall});
  if (!study.scaled_on.empty()) {
    canvas.text(kWidth - 50, kHeight - 14, study.scaled_on, {.size = 12, .anchor = "end", .colour = kSoft});
  }
  return canvas.svg(kWidth, kHeight);
}

}  // namespace twinpod::report
