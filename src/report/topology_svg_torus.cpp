// Tori: chips in a grid, or cubes of chips in space, with an arc where an axis closes to a ring.
#include <algorithm>
#include <cmath>

#include "core/thousands.hpp"
#include "report/topology_svg_parts.hpp"

namespace twinpod::report {
namespace {

using cluster::ScaleUpRoutes;

constexpr const char* kLine = "#46689b";
constexpr const char* kArc = "#d55e00";

// What is drawn as one dot: a chip, or a cube of chips.
struct Cells {
  int count[3] = {1, 1, 1};
  int chips = 1;  // edge of a cell
};

Cells cells_of(const TopologyView& view) {
  const std::vector<int>& shape = view.graph.scale_up.shape;
  Cells cells;
  const int cube = view.cluster.topology.cube;
  bool cubes = cube > 1 && shape.size() == 3;
  int most = 0;
  for (const int length : shape) {
    cubes = cubes && length % cube == 0;
    most = std::max(most, length);
  }
  cells.chips = cubes && most > 8 ? cube : 1;
  for (std::size_t a = 0; a < std::min<std::size_t>(3, shape.size()); ++a) cells.count[a] = shape[a] / cells.chips;
  return cells;
}

void note_axes(const TopologyView& view, double y, Canvas& canvas) {
  const ScaleUpRoutes& torus = view.graph.scale_up;
  canvas.text(kMargin, y, fmt::format("{}{} chips", torus.twisted ? "twisted, " : "", spec::shape_text(torus.shape)),
              {14, "start", "#222", true});
  const char* const names[] = {"x", "y", "z", "w", "v", "u"};
  for (std::size_t a = 0; a < torus.shape.size(); ++a) {
    y += 18;
    canvas.text(kMargin, y,
                fmt::format("{}: {}{}", names[a], cables_of(view, names[a]), torus.wraps[a] ? "," : ", no wrap"),
                {11, "start", "#555"});
    if (!torus.wraps[a]) continue;
    y += 14;
    canvas.text(kMargin + 12, y,
                fmt::format("{} closed rings of {}", view.measures.devices / torus.shape[a], torus.shape[a]),
                {11, "start", kArc});
  }
  for (const cluster::GraphFact& fact : view.graph.facts) {
    y += 20;
    canvas.text(kMargin, y, fmt::format("{} {}", with_thousands(fact.value), fact.label), {11});
  }
  for (const cluster::PassiveSwitches& ocs : view.graph.passive) {
    y += 16;
    canvas.text(kMargin, y, fmt::format("{} circuit switches, {} ports used", ocs.count, ocs.ports_used), {11});
  }
}

double draw_flat(const TopologyView& view, double top, Canvas& canvas) {
  const ScaleUpRoutes& torus = view.graph.scale_up;
  const int rows = torus.shape[0];
  const int columns = torus.shape.size() > 1 ? torus.shape[1] : 1;
  const double step = std::min(34.0, 560.0 / std::max(rows, columns));
  const double left = kMargin + kNotesWidth + 120;
  const double first = top + 80;
  const auto x = [&](int c) { return left + c * step; };
  const auto y = [&](int r) { return first + r * step; };
  for (int r = 0; r < rows; ++r) canvas.line(x(0), y(r), x(columns - 1), y(r), kLine, 1.2);
  for (int c = 0; c < columns; ++c) canvas.line(x(c), y(0), x(c), y(rows - 1), kLine, 1.2);
  // Ends that are joined stick out; the first row and column show how.
  constexpr double kStub = 14;
  const bool along_y = torus.wraps.size() > 1 && torus.wraps[1];
  for (int r = 0; along_y && r < rows; ++r) {
    canvas.line(x(0) - kStub, y(r), x(0), y(r), kArc, 1.5);
    canvas.line(x(columns - 1), y(r), x(columns - 1) + kStub, y(r), kArc, 1.5);
  }
  for (int c = 0; torus.wraps[0] && c < columns; ++c) {
    canvas.line(x(c), y(0) - kStub, x(c), y(0), kArc, 1.5);
    canvas.line(x(c), y(rows - 1), x(c), y(rows - 1) + kStub, kArc, 1.5);
  }
  const double a = x(0) - kStub;
  const double b = x(columns - 1) + kStub;
  if (along_y) {
    canvas.path(fmt::format("M{0:.1f} {2:.1f}C{3:.1f} {4:.1f} {5:.1f} {4:.1f} {1:.1f} {2:.1f}", a, b, y(0), a - 60,
                            y(0) - 70, b + 60),
                kArc, 1.5);
    canvas.label((a + b) / 2, y(0) - 50, "each row closes to a ring", kArc);
  }
  if (torus.wraps[0]) {
    canvas.path(fmt::format("M{2:.1f} {0:.1f}C{4:.1f} {3:.1f} {4:.1f} {5:.1f} {2:.1f} {1:.1f}", y(0) - kStub,
                            y(rows - 1) + kStub, x(0), y(0) - kStub - 60, x(0) - 80, y(rows - 1) + kStub + 60),
                kArc, 1.5);
    canvas.label(x(0) - 62, (y(0) + y(rows - 1)) / 2 - 4, "columns", kArc);
    canvas.label(x(0) - 62, (y(0) + y(rows - 1)) / 2 + 10, "close too", kArc);
  }
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) canvas.circle(x(c), y(r), std::max(2.0, step / 5), "#e6f2e6", "#357a38");
  }
  canvas.text(x(columns - 1) + 30, y(rows - 1) + 4, "y →", {12, "start", "#555"});
  canvas.text(x(0) - 8, y(rows - 1) + 52, "x ↓", {12, "end", "#555"});
  return y(rows - 1) + 70;
}

// Seen from above and the right: x goes to the right, y upwards, z backwards.
struct Space {
  double left = 0, bottom = 0, step = 60;
  double x(double i, double k) const { return left + i * step + k * step * 0.42; }
  double y(double j, double k) const { return bottom - j * step - k * step * 0.34; }
};

void draw_cell(const Space& space, int i, int j, int k, bool is_cube, Canvas& canvas) {
  if (!is_cube) return canvas.circle(space.x(i, k), space.y(j, k), std::max(2.5, space.step / 9), "#e6f2e6", "#357a38");
  const double half = 0.17;
  const auto corner = [&](double a, double b, double c) {
    return fmt::format("{:.1f},{:.1f} ", space.x(i + a * half, k + c * half), space.y(j + b * half, k + c * half));
  };
  canvas.polygon(corner(-1, -1, -1) + corner(1, -1, -1) + corner(1, 1, -1) + corner(-1, 1, -1), "#e6f2e6", "#357a38");
  canvas.polygon(corner(-1, 1, -1) + corner(1, 1, -1) + corner(1, 1, 1) + corner(-1, 1, 1), "#f3faf3", "#357a38");
  canvas.polygon(corner(1, -1, -1) + corner(1, -1, 1) + corner(1, 1, 1) + corner(1, 1, -1), "#cfe3cf", "#357a38");
}

void draw_links(const Space& space, const Cells& cells, int i, int j, int k, Canvas& canvas) {
  if (i + 1 < cells.count[0])
    canvas.line(space.x(i, k), space.y(j, k), space.x(i + 1, k), space.y(j, k), kLine, 1.3, 0.7);
  if (j + 1 < cells.count[1])
    canvas.line(space.x(i, k), space.y(j, k), space.x(i, k), space.y(j + 1, k), kLine, 1.3, 0.7);
  if (k + 1 < cells.count[2]) {
    canvas.line(space.x(i, k), space.y(j, k), space.x(i, k + 1), space.y(j, k + 1), kLine, 1.3, 0.7);
  }
}

// One arc for each axis: the rows behind it close in the same way.
void draw_wraps(const ScaleUpRoutes& torus, const Space& space, const Cells& cells, Canvas& canvas) {
  const int ni = cells.count[0];
  const int nj = cells.count[1];
  const int nk = cells.count[2];
  const auto arc = [&](double x1, double y1, double x2, double y2, double dx, double dy, const std::string& text) {
    canvas.path(fmt::format("M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x1, y1, x1 + dx, y1 + dy,
                            x2 + dx, y2 + dy, x2, y2),
                kArc, 2.2, 0.9);
    canvas.label((x1 + x2) / 2 + dx * 0.75, (y1 + y2) / 2 + dy * 0.75 + 4, text, kArc);
  };
  for (int j = 0; torus.wraps[0] && j < 1; ++j) {
    arc(space.x(0, 0), space.y(0, 0), space.x(ni - 1, 0), space.y(0, 0), 0, 62, "x closes");
  }
  if (torus.wraps[1]) arc(space.x(0, 0), space.y(0, 0), space.x(0, 0), space.y(nj - 1, 0), -78, 0, "y closes");
  if (torus.wraps[2]) {
    arc(space.x(ni - 1, 0), space.y(0, 0), space.x(ni - 1, nk - 1), space.y(0, nk - 1), 62, 46, "z closes");
  }
}

double draw_space(const TopologyView& view, double top, Canvas& canvas) {
  const ScaleUpRoutes& torus = view.graph.scale_up;
  const Cells cells = cells_of(view);
  Space space;
  const double wide = cells.count[0] + 0.42 * cells.count[2];
  const double high = cells.count[1] + 0.34 * cells.count[2];
  space.step = std::min({100.0, 720 / wide, 560 / high});
  space.left = kMargin + kNotesWidth + 150;
  space.bottom = top + 20 + high * space.step;
  for (int k = cells.count[2] - 1; k >= 0; --k) {
    for (int j = 0; j < cells.count[1]; ++j) {
      for (int i = 0; i < cells.count[0]; ++i) draw_links(space, cells, i, j, k, canvas);
    }
    for (int j = 0; j < cells.count[1]; ++j) {
      for (int i = 0; i < cells.count[0]; ++i) draw_cell(space, i, j, k, cells.chips > 1, canvas);
    }
  }
  draw_wraps(torus, space, cells, canvas);
  double y = space.bottom + 84;
  if (cells.chips > 1) {
    canvas.text(space.left - 40, y,
                fmt::format("A box is a cube of {0}x{0}x{0} chips; a line between two boxes is {1} links, and "
                            "passes an optical circuit switch.",
                            cells.chips, cells.chips * cells.chips),
                {12});
    y += 18;
  }
  if (torus.twisted) {
    canvas.text(space.left - 40, y, "Twisted: closing along a short axis also moves half-way along the long ones.",
                {12});
    y += 18;
  }
  return y + 10;
}

}  // namespace

double draw_torus(const TopologyView& view, double top, Canvas& canvas) {
  note_axes(view, top + 14, canvas);
  const double least =
      top + 60 + 36.0 * static_cast<double>(view.graph.scale_up.shape.size() + view.graph.facts.size());
  const bool space = view.graph.scale_up.shape.size() == 3;
  return std::max(least, space ? draw_space(view, top, canvas) : draw_flat(view, top, canvas));
}

}  // namespace twinpod::report
