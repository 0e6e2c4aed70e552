// The pipeline in a terminal: stages as rows, slots as columns.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/thousands.hpp"
#include "report/pipeline_actions.hpp"
#include "report/program_text.hpp"

namespace twinpod::report {
namespace {

using program::Action;
using program::Phase;
using program::Slot;

constexpr std::size_t kMostColumns = 600;

struct Cell {
  std::string text = "·";
  int colour = 0;  // 0: none
};

// Of a terminal's 256: blue forward, green backward, orange weights; lighter for odd chunks.
int colour_of(Phase phase, int chunk) {
  const bool odd = chunk % 2 == 1;
  if (phase == Phase::forward) return odd ? 153 : 75;
  if (phase == Phase::backward_weight) return odd ? 223 : 215;
  return odd ? 157 : 78;
}

std::string label_of(const Action& action) {
  char letter = action_letter(action.phase);
  if (action.chunk % 2 == 1) letter = static_cast<char>(std::tolower(letter));
  return fmt::format("{}{}", letter, action.micro_batch);
}

// Slots are counted in the shortest pass.
double unit_of(const program::SlotWeights& weights) {
  double unit = 0;
  for (const double one : {weights.forward, weights.backward_input, weights.backward_weight}) {
    if (one > 0 && (unit <= 0 || one < unit)) unit = one;
  }
  return unit > 0 ? unit : 1;
}

struct Scale {
  double columns_of_time = 1;
  std::size_t columns = 0;
  std::size_t column(double time) const { return static_cast<std::size_t>(std::lround(time * columns_of_time)); }
};

void draw(std::vector<Cell>& row, std::size_t from, std::size_t to, const std::string& label, int colour) {
  for (std::size_t c = from; c < std::min(to, row.size()); ++c) {
    const std::size_t i = c - from;
    const bool gap = c + 1 == to && i >= label.size();  // so that neighbours can be told apart
    row[c].text = i < label.size() ? std::string(1, label[i]) : gap ? " " : "─";
    row[c].colour = colour;
  }
}

std::vector<Cell> row_of(const ProgramView& view, std::size_t stage, const Scale& scale) {
  std::vector<Cell> row(std::min(scale.columns, kMostColumns));
  const std::vector<Action>& actions = view.order.stages[stage];
  const std::vector<Slot>& slots = view.slots.stages[stage];
  for (std::size_t i = 0; i < actions.size(); ++i) {
    std::string label = label_of(actions[i]);
    const Slot slot = slots[i];
    const int colour = colour_of(actions[i].phase, actions[i].chunk);
    if (actions[i].beside && i + 1 < actions.size()) label += "&" + label_of(actions[++i]);
    draw(row, scale.column(slot.start), scale.column(slot.end), label, colour);
  }
  return row;
}

std::string text_of(const std::vector<Cell>& row, bool colours) {
  std::string text;
  int colour = 0;
  for (const Cell& cell : row) {
    if (colours && cell.colour != colour)
      text += cell.colour == 0 ? "\033[0m" : fmt::format("\033[30;48;5;{}m", cell.colour);
    colour = cell.colour;
    text += cell.text;
  }
  return text + (colours && colour != 0 ? "\033[0m" : "");
}

}  // namespace

std::string pipeline_text(const ProgramView& view, bool colours) {
  const std::size_t digits = fmt::format("{}", view.order.micro_batches - 1).size();
  Scale scale;
  scale.columns_of_time = static_cast<double>(digits + 2) / unit_of(view.weights);
  scale.columns = scale.column(view.slots.makespan);
  double busy = 0;
  for (int s = 0; s < view.order.num_stages(); ++s) busy += view.slots.busy(s);
  const double share = 1 - busy / (view.slots.makespan * view.order.num_stages());
  std::string text = fmt::format("{}, {}, {}: bubble {:.1f} % of the step, in slots of F {:g}, B {:g}, W {:g}\n\n",
                                 schedule_text(view), counted(view.order.num_stages(), "stage"),
                                 counted(view.order.micro_batches, "micro-batch", "micro-batches"), 100 * share,
                                 view.weights.forward, view.weights.backward_input, view.weights.backward_weight);
  for (std::size_t s = 0; s < view.order.stages.size(); ++s)
    text += fmt::format("  {:>3} │{}{}\n", s, text_of(row_of(view, s, scale), colours),
                        scale.columns > kMostColumns ? "…" : "│");
  text += "\n  F forward, B backward, W weight half of it; ";
  if (view.order.chunks > 1) text += "small letters: odd chunks; ";
  if (view.order.placement == program::Placement::mirror)
    text += fmt::format("micro-batches from {} on enter at the last stage; ", view.order.micro_batches / 2);
  text += "· idle\n";
  if (scale.columns > kMostColumns) text += "  the picture is longer than this: --svg FILE draws all of it\n";
  return text;
}

}  // namespace twinpod::report
