// The trade-offs that a search found, as a picture (plan_report.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "core/quote.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/plan_report.hpp"

namespace twinpod::report {
namespace {

using plan::Candidate;

constexpr double kWidth = 760;
constexpr double kHeight = 480;
constexpr double kLeft = 80;
constexpr double kRight = 190;  // room for the legend
constexpr double kTop = 40;
constexpr double kBottom = 55;
constexpr double kWideRange = 4;  // values further apart than this factor stand on a logarithmic axis

constexpr const char* kParetoColour = "#0072b2";
constexpr const char* kCurveColour = "#d55e00";
constexpr const char* kBestColour = "#000000";
constexpr const char* kAskedColour = "#009e73";

// Values on a stretch of the picture, even or logarithmic.
struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;
  double from = 0;  // of the picture
  double to = 1;

  double at(double value) const {
    const double share = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  }

  // Round values: 1, 2 and 5 times a power of ten.
  std::vector<double> ticks() const {
    std::vector<double> values;
    if (!log) {
      const double rough = (high - low) / 6;
      const double decade = std::pow(10, std::floor(std::log10(rough)));
      const double unit = rough / decade < 2 ? 2 * decade : rough / decade < 5 ? 5 * decade : 10 * decade;
      for (double v = std::ceil(low / unit) * unit; v <= high * (1 + 1e-9); v += unit) values.push_back(v);
      return values;
    }
    for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10) {
      for (const double v : {decade, 2 * decade, 5 * decade}) {
        if (v >= low && v <= high) values.push_back(v);
      }
    }
    return values;
  }
};

std::string seconds_text(double seconds) {
  return seconds >= 1 ? with_thousands(seconds) + " s" : with_thousands(seconds * 1e3) + " ms";
}

// REQUIRES: values > 0.
Axis axis_of(const std::vector<double>& values, double from, double to) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  Axis axis{*least, *most, *most > kWideRange * *least, from, to};
  // Some air at both ends, so that no dot sits on the frame.
  const double air = axis.log ? 0.1 : std::max(0.08 * (axis.high - axis.low), 0.01 * axis.high);
  axis.low = axis.log ? axis.low * (1 - air) : std::max(0.0, axis.low - air);
  axis.high = axis.log ? axis.high * (1 + air) : axis.high + air;
  return axis;
}

struct Picture {
  bool by_devices = false;  // else by memory
  Axis x;
  Axis y;
  double value(const Candidate& c) const { return by_devices ? c.devices : c.memory_bytes; }
  double at_x(const Candidate& c) const { return x.at(value(c)); }
  double at_y(const Candidate& c) const { return y.at(c.step_time_s); }
};

// All that is drawn.
std::vector<Candidate> drawn(const PlanView& view) {
  std::vector<Candidate> all = view.found.pareto;
  all.insert(all.end(), view.found.of_devices.begin(), view.found.of_devices.end());
  if (!view.found.ranked.empty()) all.push_back(view.found.ranked.front());
  if (view.asked) all.push_back(*view.asked);
  std::erase_if(all, [](const Candidate& c) { return c.step_time_s <= 0 || c.memory_bytes <= 0; });
  return all;
}

Picture picture_of(const std::vector<Candidate>& all) {
  Picture picture;
  std::set<int> counts;
  for (const Candidate& c : all) counts.insert(c.devices);
  picture.by_devices = counts.size() > 1;
  std::vector<double> xs;
  std::vector<double> ys;
  for (const Candidate& c : all) {
    xs.push_back(picture.value(c));
    ys.push_back(c.step_time_s);
  }
  picture.x = axis_of(xs, kLeft, kWidth - kRight);
  picture.y = axis_of(ys, kHeight - kBottom, kTop);
  return picture;
}

void draw_grid(const Picture& picture, std::string& svg) {
  for (const double value : picture.x.ticks()) {
    const double x = picture.x.at(value);
    svg += fmt::format("<path d='M{:.1f} {}V{}' stroke='#ddd'/>", x, kTop, kHeight - kBottom);
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", x, kHeight - kBottom + 18,
                       picture.by_devices ? with_thousands(value) : format_bytes(value));
  }
  for (const double value : picture.y.ticks()) {
    const double y = picture.y.at(value);
    svg += fmt::format("<path d='M{} {:.1f}H{}' stroke='#ddd'/>", kLeft, y, kWidth - kRight);
    svg += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n", kLeft - 8, y + 4, seconds_text(value));
  }
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n", (kLeft + kWidth - kRight) / 2,
                     kHeight - 12, picture.by_devices ? "devices" : "memory of the fullest device");
  svg += fmt::format("<text transform='translate(16 {}) rotate(-90)' text-anchor='middle'>step time</text>\n",
                     (kTop + kHeight - kBottom) / 2);
}

void draw_curve(const Picture& picture, const std::vector<Candidate>& curve, std::string& svg) {
  std::string path;
  for (const Candidate& c : curve)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", picture.at_x(c), picture.at_y(c));
  if (curve.size() > 1)
    svg += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='1.5'/>\n", path, kCurveColour);
}

std::string dot(double x, double y, double radius, const char* colour, bool filled) {
  return fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='{}' {}/>\n", x, y, radius,
                     filled ? fmt::format("fill='{}' opacity='0.65'", colour)
                            : fmt::format("fill='none' stroke='{}' stroke-width='2'", colour));
}

struct Legend {
  std::string svg;
  double y = kTop + 10;
  void add(const char* colour, bool filled, const std::string& text) {
    svg += dot(kWidth - kRight + 16, y - 4, 4, colour, filled);
    svg += fmt::format("<text x='{}' y='{}'>{}</text>\n", kWidth - kRight + 28, y, xml_escaped(text));
    y += 20;
  }
};

std::string opened(const PlanView& view) {
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' font-family='sans-serif' "
      "font-size='12'>\n<rect width='{0}' height='{1}' fill='white'/>\n",
      kWidth, kHeight);
  return svg +
         fmt::format("<text x='{}' y='24' font-size='15'>{} on {}</text>\n", kLeft, xml_escaped(view.job.model.name),
                     xml_escaped(view.job.cluster.name.empty() ? view.job.cluster.device.name : view.job.cluster.name));
}

}  // namespace

std::string pareto_svg(const PlanView& view) {
  std::string svg = opened(view);
  const std::vector<Candidate> all = drawn(view);
  if (all.empty()) {
    return svg + fmt::format("<text x='{}' y='{}'>no layout fits</text>\n</svg>\n", kLeft, kTop + 20);
  }
  const Picture picture = picture_of(all);
  Legend legend;
  draw_grid(picture, svg);
  for (const Candidate& c : view.found.pareto) svg += dot(picture.at_x(c), picture.at_y(c), 2.6, kParetoColour, true);
  if (!view.found.pareto.empty()) legend.add(kParetoColour, true, "no other beats it");
  if (picture.by_devices) {
    draw_curve(picture, view.found.of_devices, svg);
    for (const Candidate& c : view.found.of_devices)
      svg += dot(picture.at_x(c), picture.at_y(c), 3, kCurveColour, true);
    legend.add(kCurveColour, true, "best of its device count");
  }
  if (!view.found.ranked.empty()) {
    const Candidate& best = view.found.ranked.front();
    svg += dot(picture.at_x(best), picture.at_y(best), 6, kBestColour, false);
    legend.add(kBestColour, false, "best");
  }
  if (view.asked && view.asked->step_time_s > 0 && view.asked->memory_bytes > 0) {
    svg += dot(picture.at_x(*view.asked), picture.at_y(*view.asked), 6, kAskedColour, false);
    legend.add(kAskedColour, false, "yours");
  }
  return svg + legend.svg + "</svg>\n";
}

}  // namespace twinpod::report
