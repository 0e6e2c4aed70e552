// Pictures of kinds of graphs, one file each (topology_svg.cpp puts them together). Each draws below `top` and answers
// where it ended.
#pragma once

#include <array>
#include <string>

#include "report/svg_canvas.hpp"
#include "report/topology_report.hpp"

namespace twinpod::report {

inline constexpr double kPictureWidth = 1240;
inline constexpr double kNotesWidth = 225;  // the column at the left that says what is drawn
inline constexpr double kMargin = 24;

// Told apart by people who see few colours (Okabe and Ito), and one each for eight rails.
inline constexpr std::array kRailColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#56b4e9", "#a6761d", "#7570b3", "#666666"};
inline const char* rail_colour(int rail) { return kRailColours[static_cast<std::size_t>(rail) % kRailColours.size()]; }

double draw_tree(const TopologyView& view, double top, Canvas& canvas);
double draw_domain(const TopologyView& view, double top, Canvas& canvas);  // one node, or one scale-up domain
double draw_torus(const TopologyView& view, double top, Canvas& canvas);
double draw_dragonfly(const TopologyView& view, double top, Canvas& canvas);
double draw_custom(const TopologyView& view, double top, Canvas& canvas);

// "1,120 cables of 25.0 GB/s" of a tier; empty: there is no such tier.
std::string cables_of(const TopologyView& view, const std::string& tier);
// 200 Gbit/s, as cables are sold.
std::string in_gbit(double bytes_per_s);

}  // namespace twinpod::report
