#include "report/scatter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/quote.hpp"

namespace twinpod::report {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 560;
constexpr double kLeft = 70;
constexpr double kRight = 190;  // room for the legend
constexpr double kTop = 40;
constexpr double kBottom = 55;
constexpr double kBand = 0.10;

// Eight colours that are told apart by colour-blind readers too (Okabe and Ito).
constexpr std::array<const char*, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#7f7f7f", "#000000"};

struct Axes {
  double low = 0;  // log10 of seconds
  double high = 0;
  double x(double seconds) const {
    return kLeft + (std::log10(seconds) - low) / (high - low) * (kWidth - kLeft - kRight);
  }
  double y(double seconds) const {
    return kHeight - kBottom - (std::log10(seconds) - low) / (high - low) * (kHeight - kTop - kBottom);
  }
};

bool drawn(const validate::Case& one) { return one.covered() && one.documented() && one.predicted_s > 0; }

Axes axes_of(const std::vector<validate::Case>& cases) {
  double low = 1e30;
  double high = 1e-30;
  for (const validate::Case& one : cases) {
    if (!drawn(one)) continue;
    low = std::min({low, one.run.measured_s(), one.predicted_s});
    high = std::max({high, one.run.measured_s(), one.predicted_s});
  }
  if (low > high) return {0, 1};
  return {std::floor(std::log10(low)), std::ceil(std::log10(high))};
}

std::string family_of(const validate::Case& one) {
  return one.mixture() ? "mixtures of experts" : one.made.job.stack.family;
}

void draw_grid(const Axes& axes, std::string& svg) {
  for (double decade = axes.low; decade <= axes.high + 1e-9; ++decade) {
    const double seconds = std::pow(10, decade);
    const std::string label = seconds >= 1 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:g} s", seconds);
    svg += fmt::format("<path d='M{:.1f} {:.1f}V{:.1f}M{:.1f} {:.1f}H{:.1f}' stroke='#ddd'/>\n", axes.x(seconds), kTop,
                       kHeight - kBottom, kLeft, axes.y(seconds), kWidth - kRight);
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", axes.x(seconds),
                       kHeight - kBottom + 18, label);
    svg +=
        fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n", kLeft - 8, axes.y(seconds) + 4, label);
  }
}

void draw_band(const Axes& axes, std::string& svg) {
  const double low = std::pow(10, axes.low);
  const double high = std::pow(10, axes.high);
  svg += "<clipPath id='plot'>";
  svg += fmt::format("<rect x='{}' y='{}' width='{}' height='{}'/></clipPath>\n", kLeft, kTop, kWidth - kLeft - kRight,
                     kHeight - kTop - kBottom);
  svg += fmt::format(
      "<polygon clip-path='url(#plot)' fill='#0072b2' opacity='0.12' points='{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} "
      "{:.1f},{:.1f}'/>\n",
      axes.x(low), axes.y(low * (1 + kBand)), axes.x(high), axes.y(high * (1 + kBand)), axes.x(high),
      axes.y(high * (1 - kBand)), axes.x(low), axes.y(low * (1 - kBand)));
  svg += fmt::format("<path d='M{:.1f} {:.1f}L{:.1f} {:.1f}' stroke='#333'/>\n", axes.x(low), axes.y(low), axes.x(high),
                     axes.y(high));
}

}  // namespace

std::string scatter_svg(const std::vector<validate::Case>& cases) {
  const Axes axes = axes_of(cases);
  std::map<std::string, int> count;
  for (const validate::Case& one : cases) {
    if (drawn(one)) ++count[family_of(one)];
  }
  std::map<std::string, const char*> colour;
  for (const auto& [family, unused] : count) colour[family] = kColours[colour.size() % kColours.size()];

  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' font-family='sans-serif' "
      "font-size='12'>\n<rect width='{0}' height='{1}' fill='white'/>\n",
      kWidth, kHeight);
  svg +=
      fmt::format("<text x='{}' y='24' font-size='15'>Time of a training step: predicted and measured</text>\n", kLeft);
  draw_grid(axes, svg);
  draw_band(axes, svg);
  for (const validate::Case& one : cases) {
    if (!drawn(one)) continue;
    svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='2.6' fill='{}' opacity='0.65'/>\n",
                       axes.x(one.run.measured_s()), axes.y(one.predicted_s), colour[family_of(one)]);
  }
  svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>measured</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 12);
  svg += fmt::format("<text transform='translate(16 {:.1f}) rotate(-90)' text-anchor='middle'>predicted</text>\n",
                     (kTop + kHeight - kBottom) / 2);
  double y = kTop + 10;
  for (const auto& [family, rows] : count) {
    svg +=
        fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='{}'/>", kWidth - kRight + 16, y - 4, colour[family]);
    svg +=
        fmt::format("<text x='{:.1f}' y='{:.1f}'>{} ({})</text>\n", kWidth - kRight + 26, y, xml_escaped(family), rows);
    y += 20;
  }
  svg += fmt::format("<text x='{:.1f}' y='{:.1f}' fill='#555'>band: 10 % either way</text>\n", kWidth - kRight + 12,
                     y + 6);
  return svg + "</svg>\n";
}

}  // namespace twinpod::report
