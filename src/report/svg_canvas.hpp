// Shapes and text of an SVG picture, for the pictures of this folder.
//
//     Canvas canvas;
//     canvas.text(20, 30, "title", {.size = 16});
//     return canvas.svg(800, 600);
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/quote.hpp"

namespace twinpod::report {

struct TextStyle {
  double size = 12;
  const char* anchor = "start";  // start, middle, end
  const char* colour = "#222";
  bool bold = false;
};

class Canvas {
 public:
  void text(double x, double y, std::string_view text, const TextStyle& style = {}) {
    body_ +=
        fmt::format("<text x='{:.1f}' y='{:.1f}' font-size='{}' text-anchor='{}' fill='{}'{}>{}</text>\n", x, y,
                    style.size, style.anchor, style.colour, style.bold ? " font-weight='bold'" : "", xml_escaped(text));
  }
  // A plate behind a number that stands on lines.
  void label(double x, double y, std::string_view content, const char* colour = "#222") {
    const double width = 7.0 * static_cast<double>(content.size()) + 6;
    body_ += fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='15' rx='3' fill='white' opacity='0.9'/>\n",
                         x - width / 2, y - 11, width);
    text(x, y, content, {11, "middle", colour, true});
  }
  void rect(double x, double y, double width, double height, const char* fill, const char* stroke, double radius = 3,
            double stroke_width = 1) {
    body_ += fmt::format(
        "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' rx='{}' fill='{}' stroke='{}' "
        "stroke-width='{}'/>\n",
        x, y, width, height, radius, fill, stroke, stroke_width);
  }
  void line(double x1, double y1, double x2, double y2, const char* colour, double width, double opacity = 1) {
    body_ += fmt::format(
        "<path d='M{:.1f} {:.1f}L{:.1f} {:.1f}' stroke='{}' stroke-width='{:.2f}' stroke-opacity='{}' fill='none'/>\n",
        x1, y1, x2, y2, colour, width, opacity);
  }
  void path(std::string_view points, const char* colour, double width, double opacity = 1, const char* dashes = "") {
    body_ += fmt::format(
        "<path d='{}' stroke='{}' stroke-width='{:.2f}' stroke-opacity='{}' stroke-dasharray='{}' fill='none'/>\n",
        points, colour, width, opacity, dashes);
  }
  void polygon(std::string_view points, const char* fill, const char* stroke) {
    body_ += fmt::format("<polygon points='{}' fill='{}' stroke='{}'/>\n", points, fill, stroke);
  }
  void circle(double x, double y, double radius, const char* fill, const char* stroke = "none") {
    body_ +=
        fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='{:.1f}' fill='{}' stroke='{}'/>\n", x, y, radius, fill, stroke);
  }

  std::string svg(double width, double height) const {
    return fmt::format(
               "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0:.0f} {1:.0f}' width='{0:.0f}' "
               "height='{1:.0f}' font-family='sans-serif'>\n<rect width='{0:.0f}' height='{1:.0f}' fill='white'/>\n",
               width, height) +
           body_ + "</svg>\n";
  }

 private:
  std::string body_;
};

}  // namespace twinpod::report
