// Trees of switches: a row of boxes for each tier, a line for the cables between two boxes.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/thousands.hpp"
#include "report/topology_svg_parts.hpp"

namespace twinpod::report {
namespace {

using cluster::Graph;
using cluster::TreeRoutes;

constexpr double kRowGap = 120;
constexpr double kSquare = 9;
constexpr double kSquareStep = 11;
constexpr std::size_t kMostBoxes = 12;

struct Box {
  int number = 0;  // among those of its row
  std::vector<int> switches;
  bool rest = false;  // stands for boxes that are not drawn
  int hidden = 0;
  double x = 0, y = 0, width = 0, height = 0;
  double middle() const { return x + width / 2; }
};

struct Row {
  std::size_t tier = 0;
  std::vector<Box> boxes;             // as drawn
  std::map<int, std::size_t> box_of;  // of each switch that is drawn
  int total = 0;                      // boxes, drawn or not
};

int num_switches(const TreeRoutes& tree, std::size_t t) {
  const TreeRoutes::Tier& tier = tree.tiers[t];
  return static_cast<int>(tier.children.size()) * tier.per_group;
}

// Switches of a top tier that are joined to the same switches below belong together.
std::map<std::vector<int>, std::vector<int>> by_children(const Graph& graph, std::size_t t) {
  const TreeRoutes& tree = graph.tree;
  std::map<std::vector<int>, std::vector<int>> groups;
  for (int s = 0; s < num_switches(tree, t); ++s) {
    const int number = tree.tiers[t].first_switch + s;
    const int group = s / tree.tiers[t].per_group;
    const int first = tree.first_down[tree.down_table[number]];
    const int last = tree.first_down[tree.down_table[number] + tree.tiers[t].children[group]];
    std::vector<int> below;
    for (int i = first; i < last; ++i) below.push_back(graph.links[tree.down[i]].to);
    std::sort(below.begin(), below.end());
    below.erase(std::unique(below.begin(), below.end()), below.end());
    groups[below].push_back(number);
  }
  return groups;
}

std::vector<std::vector<int>> members(const Graph& graph, std::size_t t) {
  const TreeRoutes& tree = graph.tree;
  const TreeRoutes::Tier& tier = tree.tiers[t];
  std::vector<std::vector<int>> boxes;
  if (t > 0 && tier.children.size() == 1) {
    for (auto& [unused, switches] : by_children(graph, t)) boxes.push_back(switches);
    std::sort(boxes.begin(), boxes.end());
    return boxes;
  }
  for (int s = 0; s < num_switches(tree, t); ++s) {
    std::size_t box = static_cast<std::size_t>(s / tier.per_group);
    if (t == 0 && tree.unit_leaves > 0) box = static_cast<std::size_t>(s / tree.unit_leaves);
    const bool pods = t == 0 && tree.unit_leaves == 0 && tree.tiers.size() > 1 && tree.tiers[1].children.size() > 1;
    if (pods) box = static_cast<std::size_t>(tier.parent[s]);
    if (box >= boxes.size()) boxes.resize(box + 1);
    boxes[box].push_back(tier.first_switch + s);
  }
  return boxes;
}

Row row_of(const Graph& graph, std::size_t t) {
  Row row;
  row.tier = t;
  const std::vector<std::vector<int>> all = members(graph, t);
  row.total = static_cast<int>(all.size());
  const std::size_t most = t == 0 ? kMostBoxes - 4 : kMostBoxes;
  const bool cut = all.size() > most;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool hidden = cut && i + 3 > most && i + 1 < all.size();
    if (hidden) {
      if (!row.boxes.back().rest) row.boxes.push_back({0, {}, true, 0, 0, 0, 0, 0});
      ++row.boxes.back().hidden;
      continue;
    }
    Box box;
    box.number = static_cast<int>(i);
    box.switches = all[i];
    for (const int s : all[i]) row.box_of[s] = row.boxes.size();
    row.boxes.push_back(std::move(box));
  }
  return row;
}

void place(Row& row, double y, double height) {
  const double left = kMargin + kNotesWidth;
  const double room = kPictureWidth - kMargin - left;
  const auto count = static_cast<double>(row.boxes.size());
  const double step = room / count;
  for (std::size_t i = 0; i < row.boxes.size(); ++i) {
    Box& box = row.boxes[i];
    box.width = std::min(step - 12, row.boxes.size() <= 2 ? 300.0 : 200.0);
    box.height = height;
    box.x = left + step * (static_cast<double>(i) + 0.5) - box.width / 2;
    box.y = y;
  }
}

// Leaves need room for their squares only, three lines of them at most.
double row_height(const Row& row) { return row.tier == 0 && row.boxes[0].switches.size() > 1 ? 26 : 60; }

// The place of a switch in its box, and how many squares stand side by side.
struct Squares {
  int columns = 1;
  int shown = 0;  // 0: too many for squares
  double x(const Box& box, int i) const { return box.middle() + (i % columns - (columns - 1) / 2.0) * kSquareStep; }
  double y(const Box& box, int i) const {
    const int line = i / columns;
    return box.y + 8 + line * kSquareStep;
  }
};

Squares squares_of(const Box& box) {
  Squares squares;
  const int count = static_cast<int>(box.switches.size());
  const int room = std::max(1, static_cast<int>((box.width - 8) / kSquareStep));
  const int rows = (count + room - 1) / room;
  if (rows > 3) return squares;
  squares.columns = (count + rows - 1) / std::max(1, rows);
  squares.shown = count;
  return squares;
}

// Colour of the tier-1 box that a switch is part of, or is joined to.
const char* colour_of(const Graph& graph, const std::vector<Row>& rows, int number, std::size_t t) {
  if (rows.size() < 2 || rows[1].total < 2 || t > 1) return "#555";
  const TreeRoutes& tree = graph.tree;
  const int group =
      t == 0 ? tree.tiers[0].parent[number] : (number - tree.tiers[1].first_switch) / tree.tiers[1].per_group;
  return rail_colour(group);
}

std::string tier_text(const TopologyView& view, std::size_t t) {
  const int first = view.graph.tree.first_vertex + view.graph.tree.tiers[t].first_switch;
  return view.graph.vertex_tiers[view.graph.vertices[first].tier];
}

std::string plural(const TopologyView& view, std::size_t t) { return t == 0 ? "leaves" : tier_text(view, t) + "s"; }

// Groups of spines by pod, rail and plane, where there are several.
std::string group_title(const Graph& graph, std::size_t t, int group) {
  const TreeRoutes& tree = graph.tree;
  const int groups = static_cast<int>(tree.tiers[t].children.size());
  if (t != 1 || tree.unit_leaves == 0) return fmt::format("{} {}", t == 1 ? "pod" : "group", group);
  const int rails = graph.host.nics_per_node;
  const int planes = tree.unit_leaves / rails;
  if (groups == planes) return fmt::format("plane {}", group);
  const std::string rail = fmt::format("rail {}", group / planes % rails);
  const std::string pod = groups > tree.unit_leaves ? fmt::format("pod {}, ", group / tree.unit_leaves) : "";
  return pod + rail + (planes > 1 ? fmt::format(", plane {}", group % planes) : "");
}

std::string box_title(const TopologyView& view, const Row& row, const Box& box) {
  const TreeRoutes& tree = view.graph.tree;
  const std::size_t count = box.switches.size();
  const std::string switches =
      fmt::format("{} {}", count, count == 1 ? tier_text(view, row.tier) : plural(view, row.tier));
  if (row.tier == 0) return count == 1 ? fmt::format("leaf{}", box.switches[0]) : switches;
  if (row.total == 1) return switches;
  const TreeRoutes::Tier& tier = tree.tiers[row.tier];
  if (tier.children.size() == 1) return fmt::format("group {}: {}", box.number, switches);
  return fmt::format("{}: {}", group_title(view.graph, row.tier, box.number), switches);
}

// On two lines where the box is too narrow for one.
void draw_title(const std::string& title, const Box& box, Canvas& canvas) {
  const std::size_t colon = title.find(": ");
  const bool fits = 6.3 * static_cast<double>(title.size()) < box.width;
  if (fits || colon == std::string::npos) {
    return canvas.text(box.middle(), box.y + box.height - 7, title, {11, "middle"});
  }
  canvas.text(box.middle(), box.y + box.height - 18, title.substr(0, colon), {10, "middle"});
  canvas.text(box.middle(), box.y + box.height - 6, title.substr(colon + 2), {10, "middle"});
}

void draw_box(const TopologyView& view, const std::vector<Row>& rows, const Row& row, const Box& box, Canvas& canvas) {
  const Graph& graph = view.graph;
  if (box.rest) {
    canvas.text(box.middle(), box.y + box.height / 2, "· · ·", {18, "middle", "#888", true});
    canvas.text(box.middle(), box.y + box.height / 2 + 16, fmt::format("{} more", box.hidden), {11, "middle", "#888"});
    return;
  }
  canvas.rect(box.x, box.y, box.width, box.height, row.tier == 0 ? "#f6f6f6" : "#eef2f7", "#999");
  const Squares squares = squares_of(box);
  // Below the leaves stand their nodes, which carry the title.
  const bool titled = row.tier > 0 || squares.shown == 0 || box.switches.size() == 1;
  if (titled) draw_title(box_title(view, row, box), box, canvas);
  for (int i = 0; i < squares.shown; ++i) {
    const char* const colour = colour_of(graph, rows, box.switches[i], row.tier);
    canvas.rect(squares.x(box, i) - kSquare / 2, squares.y(box, i), kSquare, kSquare, colour, colour, 1);
  }
}

// Cables between two boxes; in the lowest row those of each leaf are kept apart.
struct Bundle {
  std::size_t lower = 0, upper = 0;
  int from = 0;  // the first switch of them
  int cables = 0;
  std::set<int> below, above;  // switches that it joins
};

std::vector<Bundle> bundles_of(const Graph& graph, const Row& lower, const Row& upper) {
  const TreeRoutes& tree = graph.tree;
  std::map<std::array<int, 3>, Bundle> found;
  for (const auto& [number, box] : lower.box_of) {
    const bool apart = lower.tier == 0 && squares_of(lower.boxes[box]).shown > 0;
    for (int i = tree.first_up[number]; i < tree.first_up[number + 1]; ++i) {
      const auto above = upper.box_of.find(graph.links[tree.up[i]].to - tree.first_vertex);
      if (above == upper.box_of.end()) continue;
      const std::array<int, 3> key = {static_cast<int>(box), static_cast<int>(above->second), apart ? number : -1};
      Bundle& bundle = found.try_emplace(key, Bundle{box, above->second, number, 0, {}, {}}).first->second;
      ++bundle.cables;
      bundle.below.insert(number);
      bundle.above.insert(above->first);
    }
  }
  std::vector<Bundle> bundles;
  for (const auto& [unused, bundle] : found) bundles.push_back(bundle);
  return bundles;
}

struct Line {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

Line line_of(const Row& lower, const Row& upper, const Bundle& bundle) {
  const Box& below = lower.boxes[bundle.lower];
  const Box& above = upper.boxes[bundle.upper];
  const auto boxes = static_cast<double>(lower.boxes.size());
  Line line;
  line.x1 =
      below.middle() + (static_cast<double>(bundle.upper) - (static_cast<double>(upper.boxes.size()) - 1) / 2) * 8;
  line.y1 = below.y;
  const Squares squares = squares_of(below);
  if (lower.tier == 0 && squares.shown > 0) {
    const auto at = std::find(below.switches.begin(), below.switches.end(), bundle.from) - below.switches.begin();
    line.x1 = squares.x(below, static_cast<int>(at));
  }
  const double spread = std::min(above.width - 16, 14 * boxes);
  const double share = boxes < 2 ? 0 : static_cast<double>(bundle.lower) / (boxes - 1) - 0.5;
  line.x2 = above.middle() + share * spread;
  line.y2 = above.y + above.height;
  return line;
}

// Draws them and says what one of them stands for.
std::string draw_bundles(const Graph& graph, const std::vector<Row>& rows, std::size_t t, Canvas& canvas) {
  const std::vector<Bundle> bundles = bundles_of(graph, rows[t], rows[t + 1]);
  if (bundles.empty()) return "";
  int least = bundles.front().cables;
  int most = least;
  for (const Bundle& bundle : bundles) {
    const Line line = line_of(rows[t], rows[t + 1], bundle);
    const double width = std::clamp(0.6 + 0.5 * std::log2(bundle.cables), 0.8, 4.0);
    canvas.line(line.x1, line.y1, line.x2, line.y2, colour_of(graph, rows, bundle.from, t), width, 0.6);
    least = std::min(least, bundle.cables);
    most = std::max(most, bundle.cables);
  }
  const Bundle& first = bundles.front();
  const Line line = line_of(rows[t], rows[t + 1], first);
  canvas.label((line.x1 + line.x2) / 2, (line.y1 + line.y2) / 2 + 4, fmt::format("{}", first.cables));
  if (least != most) return fmt::format("a line stands for {} to {}", least, most);
  const std::size_t pairs = first.below.size() * first.above.size();
  std::string text = fmt::format("a line is {}", most);
  if (most % static_cast<int>(pairs) == 0 && pairs > 1) {
    text +=
        fmt::format(": {} × {} switches × {}", first.below.size(), first.above.size(), most / static_cast<int>(pairs));
  }
  return text;
}

void note_row(const TopologyView& view, const Row& row, double y, Canvas& canvas) {
  const std::string tier = tier_text(view, row.tier);
  for (const cluster::SwitchCount& count : view.measures.switches) {
    if (count.tier != tier) continue;
    canvas.text(kMargin, y + 14, fmt::format("{} {} switches", with_thousands(static_cast<double>(count.count)), tier),
                {14, "start", "#222", true});
    canvas.text(kMargin, y + 31, fmt::format("{} of {} ports used", count.ports_used, count.radix), {11});
  }
}

void note_bundles(const TopologyView& view, const std::string& tier, const std::string& line, double y,
                  Canvas& canvas) {
  canvas.text(kMargin, y, cables_of(view, tier), {11, "start", "#555"});
  canvas.text(kMargin, y + 15, line, {11, "start", "#555"});
}

// Nodes below the leaves of one box.
double draw_nodes(const TopologyView& view, const std::vector<Row>& rows, const Box& box, Canvas& canvas) {
  const Graph& graph = view.graph;
  const int per_unit = graph.tree.unit_nodes;
  const double top = box.y + box.height + 66;
  if (box.rest) return top;
  std::map<int, int> nodes;  // of this box
  const int nics = std::max(1, graph.host.nics_per_node);
  for (std::size_t n = 0; n + 1 < graph.host.first_port.size(); ++n) {
    const int leaf = graph.host.ports[graph.host.first_port[n]].leaf;
    if (rows[0].box_of.contains(leaf) && box.switches.front() <= leaf && leaf <= box.switches.back()) {
      ++nodes[static_cast<int>(n) / nics];
    }
  }
  const int count = static_cast<int>(nodes.size());
  const int columns = std::max(1, std::min(count, static_cast<int>((box.width - 10) / 16)));
  const int shown_rows = std::min(4, (count + columns - 1) / columns);
  const double height = 22 + 12.0 * shown_rows;
  canvas.rect(box.x, top, box.width, height, "#fbfbf4", "#999");
  const std::string of = per_unit > 0              ? fmt::format("unit {}: ", box.number)
                         : box.switches.size() > 1 ? fmt::format("pod {}: ", box.number)
                                                   : "";
  canvas.text(box.middle(), top + height - 6,
              fmt::format("{}{} node{}", of, with_thousands(count), count == 1 ? "" : "s"), {11, "middle"});
  for (int i = 0; i < std::min(count, columns * shown_rows); ++i) {
    const double x = box.middle() + (i % columns - (columns - 1) / 2.0) * 16 - 6;
    const int line = i / columns;
    canvas.rect(x, top + 6 + line * 12.0, 12, 8, "#d8d5c4", "#999", 1, 0.5);
  }
  const Squares squares = squares_of(box);
  for (int i = 0; i < squares.shown; ++i) {
    const double x = squares.x(box, i);
    canvas.line(x, squares.y(box, i) + kSquare, x, top, colour_of(graph, rows, box.switches[i], 0), 2, 0.7);
  }
  if (squares.shown == 0) canvas.line(box.middle(), box.y + box.height, box.middle(), top, "#555", 3, 0.7);
  return top + height;
}

}  // namespace

double draw_tree(const TopologyView& view, double top, Canvas& canvas) {
  const Graph& graph = view.graph;
  std::vector<Row> rows;
  for (std::size_t t = 0; t < graph.tree.tiers.size(); ++t) rows.push_back(row_of(graph, t));
  double y = top;
  for (std::size_t t = rows.size(); t-- > 0;) {
    const double height = row_height(rows[t]);
    place(rows[t], y, height);
    y += height + (t > 0 ? kRowGap : 0);
  }
  for (std::size_t t = 0; t + 1 < rows.size(); ++t) {
    const std::string line = draw_bundles(graph, rows, t, canvas);
    note_bundles(view, tier_text(view, t) + "_" + tier_text(view, t + 1), line, rows[t].boxes[0].y - kRowGap / 2,
                 canvas);
  }
  double bottom = y;
  for (const Row& row : rows) {
    for (const Box& box : row.boxes) draw_box(view, rows, row, box, canvas);
    note_row(view, row, row.boxes[0].y, canvas);
  }
  for (const Box& box : rows[0].boxes) bottom = std::max(bottom, draw_nodes(view, rows, box, canvas));
  const bool railed = graph.tree.unit_leaves > 0;
  note_bundles(view, "node_leaf", railed ? "one from each node to each leaf of its unit" : "", y + 32, canvas);
  const int nodes = (view.measures.devices + view.cluster.devices_per_node - 1) / view.cluster.devices_per_node;
  canvas.text(kMargin, y + 82, counted(nodes, "node"), {14, "start", "#222", true});
  canvas.text(kMargin, y + 99, fmt::format("{} in each", counted(view.cluster.devices_per_node, "device")), {11});
  return bottom;
}

}  // namespace twinpod::report
